package attach

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// helperName is the name of the library's helper thread. If the control socket could not be created, the thread's name
// continues with the reason.
const helperName = "seemalloc"

// helper is the helper thread, which serves the control socket.
type helper struct {
	tid     string // "": no such thread
	problem string // ":30": an errno; ":other", ":file", ":open": a problem with the directory; "": none
}

// findHelper finds the thread that serves the control socket. Any user may read thread names.
func findHelper(pid int) helper {
	for _, tid := range threads(pid) {
		comm, err := os.ReadFile(procPath(pid, "task/"+tid+"/comm"))
		name := strings.TrimSpace(string(comm))
		rest, ours := strings.CutPrefix(name, helperName)
		if err == nil && ours && tid != strconv.Itoa(pid) && (rest == "" || rest[0] == ':') && blocksSignals(pid, tid) {
			return helper{tid: tid, problem: strings.TrimPrefix(rest, ":")}
		}
	}
	return helper{}
}

// blocksSignals distinguishes the library's helper thread from a thread of the program with the same name. The helper
// thread blocks all signals except those named by the options (at most two) and the two that the C library reserves.
func blocksSignals(pid int, tid string) bool {
	const limit, others = 64, 4
	mask, err := strconv.ParseUint(statusField(pid, tid, "SigBlk"), 16, 64)
	return err == nil && bits.OnesCount64(mask|1<<(unix.SIGKILL-1)|1<<(unix.SIGSTOP-1)) >= limit-others
}

// statusField returns one field of a thread's status file, or "" if it cannot be read.
func statusField(pid int, tid, name string) string {
	status, _ := os.ReadFile(procPath(pid, "task/"+tid+"/status"))
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// sandbox explains why the library may not make the system calls for a socket (core/os/process/sandbox.cc), and the
// remedy. It returns "" if they are allowed.
func (p *Process) sandbox() string {
	choice, tid := p.conf("sandbox"), strconv.Itoa(p.PID)
	if choice == "on" {
		return "has no control socket: sandbox:on in SEEMALLOC_CONF excludes the system calls for it"
	}
	mode := statusField(p.PID, tid, "Seccomp")
	if isOff(choice) || mode == "" || mode == "0" || statusField(p.PID, tid, "NoNewPrivs") != "1" {
		return ""
	}
	return "is in a sandbox (a seccomp filter, no_new_privs) and has no control socket: set sandbox:off in SEEMALLOC_CONF if the filter allows sockets"
}

// threads lists the ids of a process's threads.
func threads(pid int) []string {
	entries, _ := os.ReadDir(procPath(pid, "task"))
	ids := make([]string, 0, len(entries))
	for _, entry := range entries {
		ids = append(ids, entry.Name())
	}
	return ids
}

// problemText describes why the control socket could not be created. It returns "" if no reason is known.
func (h helper) problemText() string {
	switch h.problem {
	case "":
		return ""
	case "other":
		return "another user has created that folder"
	case "file":
		return "that is a file or a link, not a folder"
	case "open":
		return "that folder is open to other users"
	}
	number, err := strconv.Atoi(h.problem)
	if err != nil {
		return ""
	}
	return syscall.Errno(number).Error()
}

// stopReason explains why a process is stopped and cannot answer, and the remedy. It returns "" if the process runs or
// its state cannot be read.
func stopReason(pid int) string {
	if pid == 0 {
		return ""
	}
	tid := findHelper(pid).tid
	if tid == "" {
		tid = strconv.Itoa(pid)
	}
	switch state := threadState(pid, tid); {
	case state == "T":
		return fmt.Sprintf("the process is stopped (by SIGSTOP, Ctrl-Z or the like): `kill -CONT %d` resumes it", pid)
	case state == "t" && waitsForDebugger(pid, tid):
		return "the process is stopped by a debugger" + tracer(pid, tid) + ": resume it there"
	}
	if group := frozenGroup(pid); group != "" {
		return fmt.Sprintf("the process is frozen with its cgroup %s (by `docker pause`, `systemctl freeze` or the like): resume the cgroup", group)
	}
	return ""
}

// waitsForDebugger returns true for a process that waits for its debugger, and false for one that stops briefly at each
// system call.
func waitsForDebugger(pid int, tid string) bool {
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		if threadState(pid, tid) != "t" {
			return false
		}
	}
	return true
}

// threadState returns the kernel's state letter: R running, S sleeping, T stopped, t stopped by its tracer, or "" if
// the thread has ended.
func threadState(pid int, tid string) string {
	stat, err := os.ReadFile(procPath(pid, "task/"+tid+"/stat"))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err != nil || len(fields) == 0 {
		return ""
	}
	return fields[0]
}

func tracer(pid int, tid string) string {
	if by, err := Find(atoi(statusField(pid, tid, "TracerPid"))); err == nil {
		return ", " + by.String()
	}
	return ""
}

// frozenGroup returns the control group of the process if the group is frozen (the cgroup of version 2, or the freezer
// of version 1), else "".
func frozenGroup(pid int) string {
	groups, _ := os.ReadFile(procPath(pid, "cgroup"))
	for line := range strings.Lines(strings.TrimSpace(string(groups))) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		root, file, frozen := "/sys/fs/cgroup", "cgroup.events", "frozen 1"
		switch {
		case fields[1] == "freezer":
			root, file, frozen = "/sys/fs/cgroup/freezer", "freezer.state", "FROZEN"
		case fields[0] != "0":
			continue
		}
		if text, err := os.ReadFile(filepath.Join(root, fields[2], file)); err == nil && strings.Contains(string(text), frozen) {
			return fields[2]
		}
	}
	return ""
}

// untrustedDirError reports a socket directory that was not created by the process. Its sockets may belong to any user.
type untrustedDirError struct {
	dir string
	uid int
}

func (e *untrustedDirError) Error() string {
	return fmt.Sprintf("%s belongs to user %d and not to the user of the process: sockets in it are not trusted", e.dir, e.uid)
}

// trustsDir returns nil if sockets in this directory belong to the process, or the reason why they may not. A missing
// directory is not a reason.
func (p *Process) trustsDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return nil // connect returns a better error
		}
		return err
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if !info.IsDir() || (owner != p.UID && owner != 0) {
		return &untrustedDirError{dir, owner}
	}
	return nil
}
