package cli

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// unreachable says why LD_PRELOAD will not reach the program at path, "" when it will. For a script it looks at the
// interpreter.
func unreachable(path string) string {
	for path = range interpreters(path) {
		if info, err := os.Stat(path); err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 && os.Geteuid() != 0 {
			return fmt.Sprintf("%s is set-uid or set-gid, where the system ignores LD_PRELOAD: it will run on its usual allocator", path)
		}
	}
	if loader, known := loaderOf(path); loader != "" || !known {
		return ""
	}
	return fmt.Sprintf("%s is statically linked, so LD_PRELOAD does not reach it: link it with libseemalloc.a instead", filepath.Base(path))
}

// otherLibc says why the library at lib cannot be loaded into the program at path, which is linked with musl; "" when it can. The loader
// itself would end the program with the name of the first symbol that musl has not.
func otherLibc(path, lib string) string {
	for path = range interpreters(path) { // to the last one
	}
	loader, _ := loaderOf(path)
	if !strings.HasPrefix(filepath.Base(loader), "ld-musl-") {
		return ""
	}
	file, err := elf.Open(lib)
	if err != nil {
		return ""
	}
	defer file.Close()
	if needed, _ := file.ImportedLibraries(); !slices.Contains(needed, "libc.so.6") {
		return ""
	}
	return fmt.Sprintf("%s is linked with musl, whose loader (%s) cannot load %s, which needs glibc: link it statically with libseemalloc.a instead",
		path, loader, lib)
}

// loaderOf reads the path of the dynamic loader that a program asks for; "" for a static one. known is false for what is no ELF file.
func loaderOf(path string) (loader string, known bool) {
	file, err := elf.Open(path)
	if err != nil {
		return "", false
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			text, err := io.ReadAll(segment.Open())
			return strings.TrimRight(string(text), "\x00"), err == nil
		}
	}
	return "", true
}

// interpreters goes through the program, what interprets it when it is a script, what interprets that, and so on.
func interpreters(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		const scriptDepth = 4 // the kernel's own limit for interpreters of interpreters
		for range scriptDepth + 1 {
			if path == "" || !yield(path) {
				return
			}
			path = interpreterOf(path)
		}
	}
}

// interpreterOf reads a script's first line; "" for other files. `env NAME` is followed to NAME.
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const longestLine = 256 // of a first line that the kernel reads
	line, _ := bufio.NewReaderSize(file, longestLine).ReadSlice('\n')
	rest, ok := strings.CutPrefix(string(line), "#!")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return ""
	}
	if filepath.Base(fields[0]) == "env" {
		for _, word := range fields[1:] {
			if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
				found, _ := exec.LookPath(word)
				return found
			}
		}
	}
	return fields[0]
}
