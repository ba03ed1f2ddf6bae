package attach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrExited is in the error chain if the process has ended.
var ErrExited = errors.New("has ended")

// Redialer returns a function that connects to p again. It returns ErrExited if p has ended, even if its pid has been
// reused.
func Redialer(p *Process, timeout time.Duration) func() (*Client, error) {
	began := p.startTicks()
	return func() (*Client, error) {
		now, err := Find(p.PID)
		if err != nil || now.startTicks() != began {
			return nil, fmt.Errorf("%s %w", p, ErrExited)
		}
		client, err := Dial(now, timeout)
		if err != nil && now.Zombie {
			return nil, fmt.Errorf("%s %w", p, ErrExited)
		}
		return client, err
	}
}

// SocketRedialer is Redialer for a socket path. peer is the process at the other end (0: unknown).
func SocketRedialer(path string, peer int, timeout time.Duration) func() (*Client, error) {
	return func() (*Client, error) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: its socket is gone: the process %w", path, ErrExited)
		}
		client, err := DialSocket(path, timeout)
		if err == nil && client.PeerPID() != peer {
			client.Close()
			return nil, fmt.Errorf("%s: another process listens on it: pid %d %w", path, peer, ErrExited)
		}
		return client, err
	}
}

// Dial connects to the control socket of p. The error is one line with the problem and its remedy. For a process that
// has just started Dial waits: the socket appears shortly after the start, and until then the process may still run the
// program that started it.
func Dial(p *Process, timeout time.Duration) (*Client, error) {
	return dialWhile(p, timeout, min(timeout, socketRecreateTime), p.mayOpenSocket)
}

// socketRecreateTime is longer than the library needs to notice that its socket file is gone and to create it again.
const socketRecreateTime = 4 * time.Second

// mayOpenSocket reports whether a missing socket may appear soon: the process has just started, or its helper thread
// runs and has reported no problem.
func (p *Process) mayOpenSocket() bool {
	if p.isStarting() {
		return true
	}
	h := findHelper(p.PID)
	return h.tid != "" && h.problem == "" && !isOff(p.conf("socket")) && stopReason(p.PID) == ""
}

func dialWhile(p *Process, timeout, maximum time.Duration, mayAppear func() bool) (*Client, error) {
	began, ticks := time.Now(), p.startTicks()
	client, err := dialNow(p, timeout)
	// A refused connection: an earlier process with this pid has left its socket, which the library replaces.
	for (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)) && mayAppear() && time.Since(began) < maximum {
		time.Sleep(5 * time.Millisecond)
		now, findErr := Find(p.PID)
		if findErr != nil || now.startTicks() != ticks {
			break
		}
		*p = *now
		client, err = dialNow(p, timeout)
	}
	var foreign *wrongPeerError
	if err != nil && !errors.As(err, &foreign) {
		err = p.explain(err)
	}
	return client, err
}

// wrongPeerError reports a socket at p's path that was created by another process: the pid was reused, or another user
// created the directory. Symbols would come from the wrong program.
type wrongPeerError struct {
	p    *Process
	path string
	peer int
}

func (e *wrongPeerError) Error() string {
	return fmt.Sprintf("%s: its control socket %s belongs to pid %d: if that process is meant, give its id", e.p, e.path, e.peer)
}

func dialNow(p *Process, timeout time.Duration) (*Client, error) {
	var worst error
	for _, path := range p.SocketPaths() {
		if err := p.trustsDir(filepath.Dir(path)); err != nil {
			if worst == nil || errors.Is(worst, fs.ErrNotExist) {
				worst = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
			}
			continue
		}
		client, err := DialPath(path, p.String(), timeout)
		if err == nil {
			if peer := client.PeerPID(); peer != 0 && peer != p.PID {
				client.Close()
				return nil, &wrongPeerError{p, path, peer}
			}
			return client, nil
		}
		// A "not found" at one path must not replace a more specific error of another path.
		if worst == nil || errors.Is(worst, fs.ErrNotExist) {
			worst = err
		}
	}
	return nil, worst
}

// DialSocket connects to the socket at path.
func DialSocket(path string, timeout time.Duration) (*Client, error) {
	client, err := DialPath(path, path, timeout)
	switch {
	case err == nil:
		return client, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such socket: `seemalloc ps` lists the processes that have one", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: permission denied: run as the process's owner or as root", path)
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%s: no process listens on it: the process %w", path, ErrExited)
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// explain turns a failed connect into an error that describes the state of the process.
func (p *Process) explain(err error) error {
	mapped, mapsErr := p.MapsLibrary()
	h := findHelper(p.PID)
	mapped = mapped || h.tid != "" // a statically linked program
	// These processes have no socket. A socket file at their path is a leftover of an earlier process with the same
	// pid.
	if h.problem != "" || (mapped && h.tid == "" && p.sandbox() != "") {
		return p.explainNoSocket(err)
	}
	// The pid may have been reused since the process that created the socket ended.
	if errors.Is(err, unix.ECONNREFUSED) && (mapped || mapsErr != nil) {
		return fmt.Errorf("%s: no process listens on its control socket: the process is ending, or the socket is a leftover (`seemalloc ps` removes those)", p)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(mapsErr, fs.ErrPermission) {
		return p.explainDenied()
	}
	switch {
	case errors.Is(mapsErr, fs.ErrNotExist), errors.Is(mapsErr, unix.ESRCH):
		return fmt.Errorf("%s %w", p, ErrExited)
	case !mapped && (mapsErr != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)):
		return fmt.Errorf("%s does not run on seemalloc: start it with `seemalloc run -- %s …`", p, p.Name)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", p, err)
	}
	for _, option := range []string{"socket", "helper"} {
		if isOff(p.conf(option)) {
			return fmt.Errorf("%s runs on seemalloc, but its control socket was turned off by %s:0 in SEEMALLOC_CONF: start it without that", p, option)
		}
	}
	return p.explainNoSocket(err)
}

// explainNoSocket explains why a process that runs on seemalloc has no control socket.
func (p *Process) explainNoSocket(err error) error {
	if stopped := stopReason(p.PID); stopped != "" {
		return fmt.Errorf("%s: %s", p, stopped)
	}
	h := findHelper(p.PID)
	if why := h.problemText(); why != "" {
		return fmt.Errorf("%s runs on seemalloc, but its control socket could not be made in %s: %s; nor in $XDG_RUNTIME_DIR or /dev/shm: set socket_dir in SEEMALLOC_CONF",
			p, p.preferredSocketDir(), why)
	}
	var dir *untrustedDirError
	if errors.As(err, &dir) {
		return fmt.Errorf("%s: %w", p, dir)
	}
	if sandbox := p.sandbox(); sandbox != "" && h.tid == "" {
		return fmt.Errorf("%s runs on seemalloc, but %s", p, sandbox)
	}
	if h.tid != "" {
		return fmt.Errorf("%s runs on seemalloc, but has no control socket although its helper thread runs: it may be set-uid, or see a different file system than this tool", p)
	}
	return fmt.Errorf("%s runs on seemalloc, but has no control socket yet: it opens when the heap has grown, or at the start with SEEMALLOC_CONF=at_start:1 (`seemalloc run` sets it)", p)
}

func (p *Process) explainDenied() error {
	if os.Geteuid() == 0 {
		return fmt.Errorf("%s: permission denied even to root: its container or a security policy protects it", p)
	}
	if p.UID == os.Geteuid() {
		return fmt.Errorf("%s: permission denied although it is yours: it may be set-uid or otherwise protected; run as root", p)
	}
	process := p.User() + " or as root"
	if p.UID == 0 {
		process = p.User()
	}
	return fmt.Errorf("%s belongs to %s: permission denied; run as %s", p, p.User(), process)
}

func isOff(value string) bool { return value == "0" || value == "off" || value == "false" }
