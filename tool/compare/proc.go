package compare

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

const (
	clockTicks = 100  // USER_HZ, the unit of times in /proc: 100 on every Linux architecture that Go supports
	kib        = 1024 // the unit kB in /proc
)

// status holds the required fields of /proc/PID/status. The sizes of a process that has ended are 0.
type status struct {
	peak, rss int64
	threads   int
}

func parseStatus(text []byte) status {
	var s status
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte{':'})
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		value, _ := strconv.ParseInt(string(fields[0]), 10, 64)
		switch string(name) {
		case "VmHWM":
			s.peak = value * kib
		case "VmRSS":
			s.rss = value * kib
		case "Threads":
			s.threads = int(value)
		}
	}
	return s
}

// usage is the resource usage of a process and of its children that it has waited for.
type usage struct {
	user, system float64 // seconds
	minor, major float64 // page faults
}

func (u usage) plus(v usage) usage {
	return usage{u.user + v.user, u.system + v.system, u.minor + v.minor, u.major + v.major}
}

// parseStat parses /proc/PID/stat. The name in parentheses may contain blanks, so fields are counted after it.
func parseStat(text []byte) (usage, bool) {
	const minor, major, user, system, fewest = 7, 9, 11, 12, 15 // each is followed by the children's value, or preceded by it by two fields
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < fewest {
		return usage{}, false
	}
	number := func(i int) float64 {
		value, _ := strconv.ParseFloat(string(fields[i]), 64)
		return value
	}
	return usage{
		user:   (number(user) + number(user+2)) / clockTicks,
		system: (number(system) + number(system+2)) / clockTicks,
		minor:  number(minor) + number(minor+1),
		major:  number(major) + number(major+1),
	}, true
}

// parseBusy reads the CPU seconds of all processes since boot from the first line of /proc/stat. They include the time
// stolen by the host.
func parseBusy(text []byte) float64 {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	fields := strings.Fields(string(line))
	busy := 0.0
	for i, field := range fields {
		switch i {
		case 1, 2, 3, 6, 7, 8: // user, nice, system, irq, softirq, steal
			value, _ := strconv.ParseFloat(field, 64)
			busy += value
		}
	}
	return busy / clockTicks
}

// children returns the children of a process, from the lists of its threads.
func children(pid int) []int {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var found []int
	for _, thread := range threads {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// controlSocket matches seemalloc's control socket, which is not a service of the program.
var controlSocket = regexp.MustCompile(`^[0-9]+\.soc[k~]$`)

// listening adds the inodes of listening sockets in a /proc/PID/net table: tcp, tcp6 or unix.
func listening(text []byte, unix bool, inodes map[string]bool) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		switch {
		case unix && len(fields) > 6:
			const accepts = 0x10000 // __SO_ACCEPTCON
			flags, _ := strconv.ParseUint(fields[3], 16, 64)
			if flags&accepts != 0 && !controlSocket.MatchString(path.Base(fields[len(fields)-1])) {
				inodes[fields[6]] = true
			}
		case !unix && len(fields) > 9 && fields[3] == "0A": // TCP_LISTEN
			inodes[fields[9]] = true
		}
	}
}

// listens reports whether the process has a listening socket.
func listens(pid int) bool {
	inodes := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6", "unix"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		listening(text, table == "unix", inodes)
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, _ := os.ReadDir(dir)
	for _, file := range files {
		link, _ := os.Readlink(path.Join(dir, file.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); ok && inodes[strings.TrimSuffix(inode, "]")] {
			return true
		}
	}
	return false
}
