package attach

import (
	"os"
	"path/filepath"
	"strings"
)

// Named lists the processes with this name that run on seemalloc, sorted by pid. A process has the kernel's short name,
// the name of its executable, and the name that its command line begins with. A Python program also has the name of its
// script or module.
func Named(name string) []*Process {
	return where(func(p *Process) bool { return p.hasName(name) })
}

// Running lists the processes that run this program file on seemalloc, sorted by pid.
func Running(program string) []*Process {
	file, err := os.Stat(program)
	if err != nil {
		return nil
	}
	return where(func(p *Process) bool {
		exe, err := os.Stat(procPath(p.PID, "exe"))
		return err == nil && os.SameFile(exe, file)
	})
}

// where lists the processes on seemalloc that meet the condition, sorted by pid.
func where(matches func(*Process) bool) []*Process {
	var found []*Process
	for _, p := range processes() {
		if !matches(p) {
			continue
		}
		if mapped, _ := p.MapsLibrary(); mapped || p.listens() {
			found = append(found, p)
		}
	}
	return found
}

func (p *Process) hasName(name string) bool {
	if p.Name == name {
		return true
	}
	if exe, err := os.Readlink(procPath(p.PID, "exe")); err == nil && filepath.Base(exe) == name {
		return true
	}
	line, _ := os.ReadFile(procPath(p.PID, "cmdline"))
	words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	return isBase(words[0], name) || isBase(scriptOf(words), name)
}

func isBase(path, name string) bool { return path != "" && filepath.Base(path) == name }

// scriptOf returns the script or module of a command that runs Python. It returns "" for another program, and for Python
// that reads its program from the command line or from standard input.
func scriptOf(words []string) string {
	if !strings.HasPrefix(filepath.Base(words[0]), "python") {
		return ""
	}
	for i := 1; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "-":
			return ""
		case word == "--check-hash-based-pycs":
			i++
		case !strings.HasPrefix(word, "-"):
			return word
		case !strings.HasPrefix(word, "--"):
			// The first letter with a value ends a group of short options: -uWignore, -uW ignore, -Im module.
			at := strings.IndexAny(word, "cmWX")
			if at < 0 {
				continue
			}
			value := word[at+1:]
			if value == "" {
				i++
				if i < len(words) {
					value = words[i]
				}
			}
			switch word[at] {
			case 'c':
				return ""
			case 'm':
				return value
			}
		}
	}
	return ""
}
