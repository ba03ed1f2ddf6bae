package cli

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unreachable says why LD_PRELOAD will not reach the program at path, "" when it will. For a script it looks at the
// interpreter.
func unreachable(path string) string {
	const scriptDepth = 4 // the kernel's own limit for interpreters of interpreters
	for range scriptDepth {
		if info, err := os.Stat(path); err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 && os.Geteuid() != 0 {
			return fmt.Sprintf("%s is set-uid or set-gid, where the system ignores LD_PRELOAD: it will run on its usual allocator", path)
		}
		interpreter := interpreterOf(path)
		if interpreter == "" {
			break
		}
		path = interpreter
	}
	file, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return ""
		}
	}
	return fmt.Sprintf("%s is statically linked, so LD_PRELOAD does not reach it: link it with libseemalloc.a instead", filepath.Base(path))
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
