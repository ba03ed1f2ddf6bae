// Package attach finds the processes that run on seemalloc and talks to their control sockets.
//
// The path of a socket is part of the protocol: /tmp/seemalloc-UID/PID.sock, or one of the fallback paths, as the
// target process sees it, with the uid and pid of its own namespaces. The tool reaches it through /proc/PID/root, so it
// also finds processes in containers from outside.
package attach

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process holds the data of one process from /proc.
type Process struct {
	PID   int    // in this tool's pid namespace
	NSPID int    // in the process's own pid namespace
	UID   int    // effective, in this tool's user namespace
	Name  string // the kernel's short name
	// Zombie is set if the main thread has ended while other threads, such as the allocator's helper thread, still
	// run.
	Zombie bool
}

// Find reads /proc/pid. The id of a thread finds its process.
func Find(pid int) (*Process, error) {
	data, err := os.ReadFile(procPath(pid, "status"))
	if err != nil {
		return nil, notFound(pid, err)
	}
	p := &Process{PID: pid, NSPID: pid}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "Name":
			p.Name = strings.TrimSpace(value)
		case "State":
			p.Zombie = fields[0] == "Z"
		case "Tgid":
			if tgid := atoi(fields[0]); tgid > 0 && tgid != pid {
				return Find(tgid)
			}
		case "Uid":
			if len(fields) > 1 {
				p.UID = atoi(fields[1])
			}
		case "NSpid":
			p.NSPID = atoi(fields[len(fields)-1])
		}
	}
	return p, nil
}

// notFound explains why /proc has no entry for a process: it does not exist, or it is hidden from this user.
func notFound(pid int, err error) error {
	hidden := errors.Is(err, fs.ErrPermission) || !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	switch {
	case hidden && HidesProcesses():
		return fmt.Errorf("the process %d is hidden from this user (/proc is mounted with hidepid): run as its user or as root", pid)
	case hidden:
		return fmt.Errorf("the process %d cannot be seen in /proc (%v): run as its user or as root, where /proc is mounted", pid, err)
	}
	return fmt.Errorf("no process has the id %d: `seemalloc ps` lists those that run on seemalloc", pid)
}

// HidesProcesses reports whether /proc is mounted so that only root sees the processes of other users.
func HidesProcesses() bool {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	hides := false
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] != "/proc" {
			continue
		}
		options := strings.Split(fields[len(fields)-1], ",")
		hides = slices.ContainsFunc(options, func(o string) bool {
			value, ok := strings.CutPrefix(o, "hidepid=")
			return ok && value != "0" && value != "off"
		})
	}
	return hides // of the last mount, which covers the others
}

// String names the process in messages: "pid 12 (redis-server)".
func (p *Process) String() string { return fmt.Sprintf("pid %d (%s)", p.PID, p.Name) }

// User returns the name of the process's owner, or the uid if it has no name.
func (p *Process) User() string {
	if u, err := user.LookupId(strconv.Itoa(p.UID)); err == nil {
		return u.Username
	}
	return strconv.Itoa(p.UID)
}

// Command returns the command line, with the arguments separated by blanks, or the short name if there is no command
// line.
func (p *Process) Command() string {
	if p.Zombie {
		return "[" + p.Name + "] <defunct>"
	}
	data, err := os.ReadFile(procPath(p.PID, "cmdline"))
	if err != nil || len(data) == 0 {
		return "[" + p.Name + "]"
	}
	line := string(bytes.TrimSpace(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, line)
}

// RSS returns the resident memory in bytes, or 0 if it cannot be read.
func (p *Process) RSS() int64 {
	data, err := os.ReadFile(procPath(p.PID, "statm"))
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// clockTicks is USER_HZ: the unit of /proc/PID/stat, 100 on every Linux architecture that Go runs on.
const clockTicks = 100

// startTicks returns the start time of the process in clock ticks since boot, or "" if it cannot be read. It
// distinguishes processes that have used the same pid.
func (p *Process) startTicks() string {
	stat, err := os.ReadFile(procPath(p.PID, "stat"))
	if err != nil {
		return ""
	}
	// The name in parentheses may contain blanks, so fields are counted after it. starttime is field 22, the 20th after
	// the name.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// Uptime returns how long the process has run, or 0 if it cannot be read.
func (p *Process) Uptime() time.Duration {
	start, err := strconv.ParseFloat(p.startTicks(), 64)
	uptime, readErr := os.ReadFile("/proc/uptime")
	if err != nil || readErr != nil {
		return 0
	}
	now, _ := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	if d := time.Duration((now - start/clockTicks) * float64(time.Second)); d > 0 {
		return d
	}
	return 0
}

// startupGrace is the age below which a process may not have opened its control socket yet.
const startupGrace = 500 * time.Millisecond

func (p *Process) isStarting() bool { return p.startTicks() != "" && p.Uptime() < startupGrace }

var libraryLine = regexp.MustCompile(`/libseemalloc[^/]*\.so[^/ ]*( \(deleted\))?$`)

// MapsLibrary reports whether the process has libseemalloc in its address space. It returns an error if this user may
// not read the mappings.
func (p *Process) MapsLibrary() (bool, error) {
	maps, err := os.ReadFile(procPath(p.PID, "maps"))
	if err != nil {
		return false, err
	}
	if !bytes.Contains(maps, []byte("/libseemalloc")) {
		return false, nil
	}
	for line := range strings.Lines(string(maps)) {
		if libraryLine.MatchString(strings.TrimSuffix(line, "\n")) {
			return true, nil
		}
	}
	return false, nil
}

// conf returns the value of one option in the process's SEEMALLOC_CONF, or "" if it is unset or unreadable. As in the
// core, the last value wins.
func (p *Process) conf(name string) string {
	found := ""
	for _, item := range strings.Split(p.variable("SEEMALLOC_CONF"), ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(item), name+":"); ok {
			found = value
		}
	}
	return found
}

// variable returns an environment variable from the start of the process, or "" if it is unset or unreadable.
func (p *Process) variable(name string) string {
	env, _ := os.ReadFile(procPath(p.PID, "environ"))
	for _, variable := range strings.Split(string(env), "\x00") {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// SocketPaths lists the possible paths of the process's control socket, the most likely first. They are the directories
// that the library tries (core/api/service/socket_directory.h), as the process sees them.
func (p *Process) SocketPaths() []string {
	name := strconv.Itoa(p.NSPID) + ".sock"
	root := procPath(p.PID, "root")
	var paths []string
	if dir := p.conf("socket_dir"); strings.HasPrefix(dir, "/") {
		paths = append(paths, filepath.Join(root, dir, name), filepath.Join(dir, name))
	}
	bases := p.socketBases()
	for _, uid := range []int{p.namespaceUID(), p.UID} {
		for _, base := range bases {
			paths = append(paths, filepath.Join(root, base, socketDirName(uid), name))
		}
	}
	// /proc/PID/root requires more privileges than connect, so the plain path remains as the last resort. It is the
	// same file only if the process shares our pid namespace.
	if p.NSPID == p.PID {
		for _, base := range bases {
			paths = append(paths, filepath.Join(base, socketDirName(p.UID), name))
		}
	}
	return dedupe(paths)
}

func (p *Process) socketBases() []string {
	runtime := p.variable("XDG_RUNTIME_DIR")
	if !strings.HasPrefix(runtime, "/") {
		runtime = "/run/user/" + strconv.Itoa(p.UID) // this user may not read the process's environment
	}
	return []string{"/tmp", runtime, "/dev/shm"}
}

// preferredSocketDir returns the directory in which the library tries to create the control socket first.
func (p *Process) preferredSocketDir() string {
	if dir := p.conf("socket_dir"); dir != "" {
		return dir
	}
	return Dir(p.namespaceUID())
}

func socketDirName(uid int) string { return "seemalloc-" + strconv.Itoa(uid) }

// Dir is the preferred directory for the control sockets of one user.
func Dir(uid int) string { return "/tmp/" + socketDirName(uid) }

// Dirs lists all directories that can hold this user's control sockets.
func Dirs() []string {
	uid := os.Geteuid()
	dirs := []string{Dir(uid), "/dev/shm/" + socketDirName(uid)}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); strings.HasPrefix(runtime, "/") {
		dirs = append(dirs, filepath.Join(runtime, socketDirName(uid)))
	}
	return dirs
}

// namespaceUID returns the uid of the process in its own user namespace, which can differ from the uid in ours.
func (p *Process) namespaceUID() int {
	own, err1 := os.Readlink("/proc/self/ns/user")
	its, err2 := os.Readlink(procPath(p.PID, "ns/user"))
	if err1 != nil || err2 != nil || own == its {
		return p.UID
	}
	data, err := os.ReadFile(procPath(p.PID, "uid_map"))
	if err != nil {
		return p.UID
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 {
			inside, outside, count := atoi(f[0]), atoi(f[1]), atoi(f[2])
			if p.UID >= outside && p.UID-outside < count {
				return inside + p.UID - outside
			}
		}
	}
	return p.UID
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func dedupe(list []string) []string {
	seen := map[string]bool{}
	out := list[:0]
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
