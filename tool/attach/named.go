package attach

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Named lists the processes with this name that run on seemalloc, sorted by pid. A process has the kernel's short name,
// the name of its executable, and the name that its command line begins with.
func Named(name string) []*Process {
	entries, _ := os.ReadDir("/proc")
	var found []*Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := Find(pid)
		if err != nil || !p.hasName(name) {
			continue
		}
		if mapped, _ := p.MapsLibrary(); mapped || p.hasSocketFile() {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *Process) int { return a.PID - b.PID })
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
	first, _, _ := bytes.Cut(line, []byte{0})
	return len(first) > 0 && filepath.Base(string(first)) == name
}
