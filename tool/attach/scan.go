package attach

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// SocketState is the result of an attempt to connect to a process's control socket.
type SocketState string

// The states of a control socket.
const (
	SocketOpen   SocketState = "open"          // it answers
	SocketNone   SocketState = "no socket"     // missing: the heap is still too small, or the socket is turned off
	SocketDenied SocketState = "not permitted" // exists, but this user may not connect
	SocketSilent SocketState = "no answer"     // exists, but did not answer in time
)

// Found is one process that runs on seemalloc.
type Found struct {
	*Process
	Socket SocketState
	Stats  *Stats // nil unless the socket is open
}

// Scan lists the processes that run on seemalloc, sorted by pid. It skips processes that this user may not read:
// without root, those of other users. timeout limits the query of each process.
func Scan(timeout time.Duration) []Found {
	var found []Found
	for _, p := range processes() {
		if mapped, _ := p.MapsLibrary(); mapped || p.hasSocketFile() {
			found = append(found, Found{Process: p, Socket: SocketNone})
			if !mapped {
				found[len(found)-1].Socket = "" // a statically linked program, or a leftover socket of an earlier process: ask queries it
			}
		}
	}
	queryStats(found, timeout)
	kept := found[:0]
	for _, f := range found {
		if f.Socket != "" {
			kept = append(kept, f)
		}
	}
	return kept
}

// processes lists all processes that this user may see, sorted by pid.
func processes() []*Process {
	entries, _ := os.ReadDir("/proc")
	var all []*Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, err := Find(pid); err == nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Process) int { return a.PID - b.PID })
	return all
}

// queryStats fills in socket states and statistics. It queries all processes in parallel, so that a stopped process
// does not delay the others.
func queryStats(found []Found, timeout time.Duration) {
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

// listens reports whether the process may listen on its control socket. It does not if it has none, or one that an ended
// process with the same pid has left.
func (p *Process) listens() bool {
	if !p.hasSocketFile() {
		return false
	}
	client, err := dialNow(p, time.Second)
	if err == nil {
		client.Close()
		return true
	}
	var foreign *wrongPeerError
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED) && !errors.As(err, &foreign)
}

func (p *Process) hasSocketFile() bool {
	for _, path := range p.SocketPaths() {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return true
		}
	}
	return false
}

// RemoveStale deletes the control sockets of ended processes in dir, and returns their number. It does nothing
// unless dir is a real directory owned by this user. It keeps sockets that still answer: a process in another pid
// namespace that shares /tmp looks dead by its pid alone.
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
		if !ok { // the process was killed while it created its socket
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
