// Package attach finds the processes that run on seemalloc and talks to their control sockets.
//
// A socket's place is part of the protocol: /tmp/seemalloc-UID/PID.sock, or one of those behind it, as the target sees it, with the
// uid and pid of its own namespaces. It is reached through /proc/PID/root, so that processes in containers are found from outside.
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

// Process is what /proc says of one process.
type Process struct {
	PID   int    // in this tool's pid namespace
	NSPID int    // in the process's own pid namespace
	UID   int    // effective, as this tool sees it
	Name  string // the kernel's short name
	// Defunct says that the first thread has ended while others, such as the allocator's helper, have not.
	Defunct bool
}

// Find reads /proc/pid. A thread's id leads to its process.
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
			p.Defunct = fields[0] == "Z"
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

// notFound says why /proc has nothing of a process: it is not there, or not shown to this user.
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

// HidesProcesses says whether /proc is mounted so that it shows other users' processes to root alone.
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
	return hides // of the last one: it covers the others
}

// String names the process in messages: "pid 12 (redis-server)".
func (p *Process) String() string { return fmt.Sprintf("pid %d (%s)", p.PID, p.Name) }

// User is the name of the process's owner, or the number where it has no name.
func (p *Process) User() string {
	if u, err := user.LookupId(strconv.Itoa(p.UID)); err == nil {
		return u.Username
	}
	return strconv.Itoa(p.UID)
}

// Command is the command line, arguments separated by blanks; the short name where there is none.
func (p *Process) Command() string {
	if p.Defunct {
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

// RSS is the resident memory in bytes, 0 when it cannot be read.
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

// startTicks is when the process began, in ticks since the machine did: it tells holders of the same number apart. "" when it
// cannot be read.
func (p *Process) startTicks() string {
	stat, err := os.ReadFile(procPath(p.PID, "stat"))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold blanks; count fields after it. starttime is field 22, the 20th after the name.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// Uptime is how long the process has run, 0 when it cannot be read.
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

// youth is the age up to which a process may not have come to open its control socket yet.
const youth = 500 * time.Millisecond

func (p *Process) isYoung() bool { return p.startTicks() != "" && p.Uptime() < youth }

var libraryLine = regexp.MustCompile(`/libseemalloc[^/]*\.so[^/ ]*( \(deleted\))?$`)

// MapsLibrary says whether the process has libseemalloc in its address space; an error means that it may not be read.
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

// conf returns the value of one option in the process's SEEMALLOC_CONF ("" when unset or unreadable); the last one wins,
// as in the core.
func (p *Process) conf(name string) string {
	found := ""
	for _, item := range strings.Split(p.variable("SEEMALLOC_CONF"), ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(item), name+":"); ok {
			found = value
		}
	}
	return found
}

// variable returns an environment variable that the process was started with, "" when unset or unreadable.
func (p *Process) variable(name string) string {
	env, _ := os.ReadFile(procPath(p.PID, "environ"))
	for _, variable := range strings.Split(string(env), "\x00") {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// SocketPaths lists where the process's control socket can be, most likely first: the places that the library tries
// (core/api/socket_place.h), as the process sees them.
func (p *Process) SocketPaths() []string {
	name := strconv.Itoa(p.NSPID) + ".sock"
	root := procPath(p.PID, "root")
	var paths []string
	if dir := p.conf("socket_dir"); strings.HasPrefix(dir, "/") {
		paths = append(paths, filepath.Join(root, dir, name), filepath.Join(dir, name))
	}
	bases := p.socketBases()
	for _, uid := range []int{p.insideUID(), p.UID} {
		for _, base := range bases {
			paths = append(paths, filepath.Join(root, base, folderOf(uid), name))
		}
	}
	// /proc/PID/root asks for more rights than a connect does, so the plain path stays as the last resort; it is the
	// same file only where the process shares our pid namespace.
	if p.NSPID == p.PID {
		for _, base := range bases {
			paths = append(paths, filepath.Join(base, folderOf(p.UID), name))
		}
	}
	return compact(paths)
}

func (p *Process) socketBases() []string {
	runtime := p.variable("XDG_RUNTIME_DIR")
	if !strings.HasPrefix(runtime, "/") {
		runtime = "/run/user/" + strconv.Itoa(p.UID) // this user may not read its environment
	}
	return []string{"/tmp", runtime, "/dev/shm"}
}

// firstPlace is where the process would have its control socket if nothing stood in the way.
func (p *Process) firstPlace() string {
	if dir := p.conf("socket_dir"); dir != "" {
		return dir
	}
	return Dir(p.insideUID())
}

func folderOf(uid int) string { return "seemalloc-" + strconv.Itoa(uid) }

// Dir is the folder of the control sockets of one user, where nothing stands in the way.
func Dir(uid int) string { return "/tmp/" + folderOf(uid) }

// Dirs are all folders of this user's own control sockets.
func Dirs() []string {
	uid := os.Geteuid()
	dirs := []string{Dir(uid), "/dev/shm/" + folderOf(uid)}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); strings.HasPrefix(runtime, "/") {
		dirs = append(dirs, filepath.Join(runtime, folderOf(uid)))
	}
	return dirs
}

// insideUID is the process's uid as it sees itself: in a user namespace of its own it differs from what we see.
func (p *Process) insideUID() int {
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

func compact(list []string) []string {
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
