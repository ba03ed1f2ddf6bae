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

// unsupportedExecutable explains why LD_PRELOAD has no effect on the program at path, or returns "" if it works. For a
// script it checks the interpreter.
func unsupportedExecutable(path string) string {
	for path = range interpreters(path) {
		if info, err := os.Stat(path); err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 && os.Geteuid() != 0 {
			return fmt.Sprintf("%s is set-uid or set-gid, where the system ignores LD_PRELOAD: it will run on its default allocator", path)
		}
	}
	if loader, known := loaderOf(path); loader != "" || !known {
		return ""
	}
	return fmt.Sprintf("%s is statically linked, so LD_PRELOAD does not reach it: link it with libseemalloc.a instead", filepath.Base(path))
}

// otherLibc explains why the library at lib cannot be loaded into the program at path, which is linked with musl, or
// returns "" if it can. Without this check the loader ends the program with the name of the first symbol that musl
// lacks.
func otherLibc(path, lib string) string {
	for path = range interpreters(path) { // continues with the last one
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

// loaderOf reads the path of a program's dynamic loader, or "" for a static program. known is false if path is not an
// ELF file.
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

// interpreters yields the program, its interpreter if it is a script, the interpreter's interpreter, and so on.
func interpreters(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		const scriptDepth = 4 // the kernel's limit for nested interpreters
		for range scriptDepth + 1 {
			if path == "" || !yield(path) {
				return
			}
			path = interpreterOf(path)
		}
	}
}

// interpreterOf returns the interpreter from a script's first line, or "" for other files. It resolves `env NAME` to
// NAME.
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const longestLine = 256 // the kernel reads this much of the first line
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
