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
	entries, _ := os.ReadDir("/proc")
	var found []*Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := Find(pid)
		if err != nil || !matches(p) {
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
