package symbolize

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// SymbolsFor returns where symbols for a stripped program or library come from: the distribution's package, and
// debuginfod if it is not set up. It returns "" if neither is known.
func SymbolsFor(path string) string {
	var sources []string
	if name := symbolPackage(path); name != "" {
		sources = append(sources, "the package "+name)
	}
	if os.Getenv("DEBUGINFOD_URLS") == "" {
		sources = append(sources, "debuginfod (DEBUGINFOD_URLS)")
	}
	return strings.Join(sources, " or ")
}

// symbolPackage returns Debian's package with the debug information of an installed file.
func symbolPackage(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	name := owningPackage(path)
	if short, found := strings.CutPrefix(path, "/usr"); name == "" && found {
		name = owningPackage(short) // installed when /lib was no link yet
	}
	switch name {
	case "":
		return ""
	case "libc6":
		return "libc6-dbg"
	}
	return name + "-dbgsym"
}

// owningPackage returns the installed package that a file belongs to.
func owningPackage(path string) string {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "dpkg-query", "-S", "--", path).Output() //nolint:gosec // a path of this machine
	if err != nil {
		return ""
	}
	return packageOf(string(out), path)
}

// packageOf reads the answer of dpkg-query: "libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6".
func packageOf(answer, path string) string {
	for line := range strings.Lines(answer) {
		names, file, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if file != path || strings.HasPrefix(names, "diversion ") {
			continue
		}
		name, _, _ := strings.Cut(names, ",")
		name, _, _ = strings.Cut(name, ":")
		return name
	}
	return ""
}
