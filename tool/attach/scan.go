package attach

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// SocketState says how far one gets with a process's control socket.
type SocketState string

// The states of a control socket.
const (
	SocketOpen   SocketState = "open"          // it answers
	SocketNone   SocketState = "no socket"     // not there: the heap was too small so far, or it is turned off
	SocketDenied SocketState = "not permitted" // there, but not for this user
	SocketSilent SocketState = "no answer"     // there, but nobody answered in time
)

// Found is one process that runs on seemalloc.
type Found struct {
	*Process
	Socket SocketState
	Stats  *Stats // nil unless the socket is open
}

// Scan lists the processes that run on seemalloc, by process id. What may not be read is passed over: without root,
// that is other users' processes. timeout bounds the question to each process.
func Scan(timeout time.Duration) []Found {
	entries, _ := os.ReadDir("/proc")
	var found []Found
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := Find(pid)
		if err != nil {
			continue
		}
		if mapped, _ := p.MapsLibrary(); mapped || p.hasSocketFile() {
			found = append(found, Found{Process: p, Socket: SocketNone})
			if !mapped {
				found[len(found)-1].Socket = "" // a static program, or a leftover of an earlier process: ask it below
			}
		}
	}
	slices.SortFunc(found, func(a, b Found) int { return a.PID - b.PID })
	ask(found, timeout)
	kept := found[:0]
	for _, f := range found {
		if f.Socket != "" {
			kept = append(kept, f)
		}
	}
	return kept
}

// ask fills in socket state and statistics, all processes at once: one that is stopped must not hold up the others.
func ask(found []Found, timeout time.Duration) {
	var wait sync.WaitGroup
	for i := range found {
		wait.Add(1)
		go func(f *Found) {
			defer wait.Done()
			if !f.hasSocketFile() {
				return
			}
			client, err := Dial(f.Process, timeout)
			if err != nil {
				if f.Socket != "" && isPermission(f.Process) {
					f.Socket = SocketDenied
				}
				return
			}
			defer client.Close()
			f.Socket = SocketSilent
			stats, err := FetchStats(client)
			var refused *ServerError
			switch {
			case err == nil:
				f.Socket, f.Stats = SocketOpen, stats
			case errors.As(err, &refused):
				f.Socket = SocketDenied
			}
		}(&found[i])
	}
	wait.Wait()
}

func isPermission(p *Process) bool {
	for _, path := range p.SocketPaths() {
		if err := unix.Access(path, unix.W_OK); errors.Is(err, unix.EACCES) {
			return true
		}
	}
	return false
}

func (p *Process) hasSocketFile() bool {
	for _, path := range p.SocketPaths() {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return true
		}
	}
	return false
}

// RemoveStale deletes the control sockets in dir whose process is gone, and returns how many. It touches nothing unless
// dir is a real folder that belongs to this user, and no socket that still answers: one of a process in another pid
// namespace that shares /tmp looks dead by its number alone.
func RemoveStale(dir string) int {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return 0
	}
	var stat unix.Stat_t
	if unix.Lstat(dir, &stat) != nil || int(stat.Uid) != os.Geteuid() {
		return 0
	}
	entries, _ := os.ReadDir(dir)
	removed := 0
	for _, entry := range entries {
		number, ok := strings.CutSuffix(entry.Name(), ".sock")
		if !ok { // the process was killed while it made its socket
			number, ok = strings.CutSuffix(entry.Name(), ".soc~")
		}
		pid, err := strconv.Atoi(number)
		if !ok || err != nil || pid <= 0 || entry.Type()&os.ModeSocket == 0 {
			continue
		}
		if !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		client, err := DialPath(path, path, time.Second)
		if err == nil {
			client.Close()
			continue
		}
		if errors.Is(err, unix.ECONNREFUSED) && os.Remove(path) == nil {
			removed++
		}
	}
	return removed
}
