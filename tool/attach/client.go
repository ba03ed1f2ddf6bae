package attach

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxPayload limits the size that a server may announce, so that a faulty server cannot exhaust the tool's memory.
const maxPayload = 1 << 30

// Client is one connection to a process's control socket. It is not safe for concurrent use.
type Client struct {
	conn          *net.UnixConn
	in            *bufio.Reader
	timeout       time.Duration
	path          string
	peer          string
	broken        error
	pid           int  // process at the other end, in this tool's pid namespace; 0 if the kernel does not report it
	authenticated bool // set once this user has shown that it may inspect the process
}

// ServerError is the text of an `error …` answer.
type ServerError struct {
	Peer string
	Text string
}

func (e *ServerError) Error() string { return e.Peer + ": " + e.Text }

// DialPath connects to the socket at path. peer is the name of the process in error texts; timeout bounds each later
// request.
func DialPath(path, peer string, timeout time.Duration) (*Client, error) {
	conn, err := net.DialTimeout("unix", path, timeout)
	for errors.Is(err, unix.ECONNREFUSED) && isNew(path) {
		time.Sleep(5 * time.Millisecond)
		conn, err = net.DialTimeout("unix", path, timeout)
	}
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn.(*net.UnixConn), in: bufio.NewReaderSize(conn, 64<<10), timeout: timeout, path: path, peer: peer}
	c.pid = PeerPID(c.conn)
	return c, nil
}

// crowded is the start of the answer of a process all of whose connections are busy. It ends the connection.
const crowded = "too many connections"

// crowdedTime is how long a request is repeated that the process refuses for this reason. An idle connection loses its
// place within half a second.
const crowdedTime = 5 * time.Second

func isCrowded(err error) bool {
	var refused *ServerError
	return errors.As(err, &refused) && strings.HasPrefix(refused.Text, crowded)
}

// exchangeInCrowd is exchange. If the process has no place for this connection, it connects again for a few seconds.
func (c *Client) exchangeInCrowd(command, line string) ([]byte, error) {
	payload, err := c.exchange(command, line)
	for began := time.Now(); isCrowded(err); payload, err = c.exchange(command, line) {
		if time.Since(began) > min(crowdedTime, c.timeout) {
			return nil, fmt.Errorf("%s: all connections of its control socket are busy, for %s: end other uses of seemalloc on this process, or try again",
				c.peer, time.Since(began).Round(time.Second))
		}
		time.Sleep(50 * time.Millisecond)
		next, dialErr := DialPath(c.path, c.peer, c.timeout)
		if dialErr != nil {
			return nil, dialErr
		}
		_ = c.conn.Close()
		if c.conn, c.in = next.conn, next.in; next.pid != c.pid {
			return nil, fmt.Errorf("%s: another process listens on its control socket: pid %d", c.peer, next.pid)
		}
	}
	return payload, err
}

// isNew reports whether the socket is younger than one second. Its process may not have called listen yet: the socket
// file appears at bind.
func isNew(path string) bool {
	file, err := os.Lstat(path)
	return err == nil && time.Since(file.ModTime()).Abs() < time.Second
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Lost returns the error that closed the connection, or nil while the connection is usable.
func (c *Client) Lost() error { return c.broken }

// Call sends one command line and returns the payload of the answer. Any error except a ServerError closes the
// connection, and all later calls return the same error: otherwise a late answer would be taken for the answer to the
// next command.
func (c *Client) Call(command string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{command}, args...), " ")
	if strings.ContainsAny(line, "\n\r\x00") {
		return nil, fmt.Errorf("%s: a command is one line, without control characters", c.peer)
	}
	if c.broken != nil {
		return nil, c.broken
	}
	payload, err := c.exchangeInCrowd(command, line)
	var refused *ServerError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Text, proofRequested) && !c.authenticated {
		if err = c.authenticate(); err == nil {
			payload, err = c.exchange(command, line)
		}
	}
	if err != nil && !errors.As(err, &refused) {
		c.broken = err
		_ = c.Close()
	}
	return payload, err
}

func (c *Client) exchange(command, line string) ([]byte, error) {
	deadline := time.Now().Add(c.timeout)
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	_, writeErr := io.WriteString(c.conn, line+"\n")
	if err := c.awaitAnswer(deadline); err != nil {
		return nil, err
	}
	// A server that refuses the peer answers and closes without reading. Its reason is more useful than EPIPE.
	answer, err := c.in.ReadString('\n')
	if err != nil {
		if writeErr != nil {
			err = writeErr
		}
		return nil, c.explain(command, err)
	}
	answer = strings.TrimSuffix(answer, "\n")
	if text, ok := strings.CutPrefix(answer, "error"); ok {
		return nil, &ServerError{Peer: c.peer, Text: strings.TrimSpace(text)}
	}
	number, ok := strings.CutPrefix(answer, "ok ")
	length, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if !ok || err != nil || length < 0 || length > maxPayload {
		return nil, fmt.Errorf("%s: its control socket does not speak this protocol (answered %q)", c.peer, truncate(answer))
	}
	// The stated length is not trusted: memory grows with the bytes that arrive.
	var payload bytes.Buffer
	payload.Grow(int(min(length, 1<<20)) + bytes.MinRead)
	if n, err := io.CopyN(&payload, c.in, length); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: the answer to %q is incomplete (%d of %d bytes): the process ended; try again if it is still running",
				c.peer, command, n, length)
		}
		return nil, c.explain(command, err)
	}
	return payload.Bytes(), nil
}

// awaitAnswer waits for the first byte of the answer. It fails immediately if the process is stopped. All other errors
// are left to the code that reads the answer.
func (c *Client) awaitAnswer(deadline time.Time) error {
	const checkInterval = time.Second
	for {
		if stopped := stopReason(c.pid); stopped != "" {
			return fmt.Errorf("%s: %s", c.peer, stopped)
		}
		slice := time.Now().Add(checkInterval)
		if slice.After(deadline) {
			slice = deadline
		}
		if err := c.conn.SetReadDeadline(slice); err != nil {
			return err
		}
		_, err := c.in.Peek(1)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(deadline) {
			return c.conn.SetReadDeadline(deadline)
		}
	}
}

// proofRequested is the start of the answer of a process that does not know yet whether this user may inspect it.
const proofRequested = "permission denied: prove first"

var secretName = regexp.MustCompile(`^/memfd:seemalloc:([0-9a-f]{32}) \(deleted\)$`)

// authenticate shows the process that this user may inspect it: it reads the name of a file that the process has open.
// It opens no file and sends nothing but that name, because the process at the other end may belong to any user.
func (c *Client) authenticate() error {
	number, err := c.exchange("prove", "prove")
	if err != nil {
		return err
	}
	fd, err := strconv.Atoi(string(number))
	if err != nil || fd < 0 {
		return fmt.Errorf("%s: its control socket does not speak this protocol (answered %q to prove)", c.peer, truncate(string(number)))
	}
	if c.pid == 0 {
		return &ServerError{Peer: c.peer, Text: "permission denied: the process is not visible here (another pid namespace), so the right of this user to inspect " +
			"it cannot be verified: run seemalloc where `ps` shows the process, in its container or on the host"}
	}
	if c.peerExited() {
		return &ServerError{Peer: c.peer, Text: fmt.Sprintf("the process %d that created this socket has ended, and another process listens on it: not trusted", c.pid)}
	}
	link, err := readDescriptor(c.pid, fd)
	name := secretName.FindStringSubmatch(link)
	if name == nil {
		return &ServerError{Peer: c.peer, Text: mayNotInspect(err)}
	}
	if _, err = c.exchange("prove", "prove "+name[1]); err == nil {
		c.authenticated = true
	}
	return err
}

// readDescriptor reads the link of a file descriptor. If the main thread has ended, it reads it from another thread's
// directory.
func readDescriptor(pid, fd int) (string, error) {
	link, err := os.Readlink(procPath(pid, "fd/"+strconv.Itoa(fd)))
	for _, tid := range threads(pid) {
		if link == "" && !errors.Is(err, fs.ErrPermission) {
			link, _ = os.Readlink(procPath(pid, "task/"+tid+"/fd/"+strconv.Itoa(fd)))
		}
	}
	return link, err
}

func mayNotInspect(err error) string {
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Sprintf("permission denied: the right of this user to inspect the process could not be verified: %v", err)
	}
	if os.Geteuid() == 0 {
		return "permission denied: the kernel does not let this root user inspect the process: the user lacks CAP_SYS_PTRACE, or capabilities that the process has"
	}
	return "permission denied: the kernel does not let this user inspect the process: the process has capabilities, has changed its user, or is protected (PR_SET_DUMPABLE); run as root"
}

// PeerPID returns the pid of the process at the other end, or 0 if the kernel does not report it.
func (c *Client) PeerPID() int { return c.pid }

// PeerPID returns the pid of the process that created the other end, or 0 if the kernel does not report it.
func PeerPID(conn *net.UnixConn) int {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// peerExited reports whether the process that created the other end has ended. Its pid may have been reused since,
// and then the proof would be requested from an unrelated process. It needs Linux 6.5 and returns false on older
// kernels.
func (c *Client) peerExited() bool {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	_ = raw.Control(func(fd uintptr) {
		pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err != nil {
			ended = errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH)
			return
		}
		ended = errors.Is(unix.PidfdSendSignal(pidfd, 0, nil, 0), unix.ESRCH)
		_ = unix.Close(pidfd)
	})
	return ended
}

func (c *Client) explain(command string, err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		if stopped := stopReason(c.pid); stopped != "" {
			return fmt.Errorf("%s: %s", c.peer, stopped)
		}
		return fmt.Errorf("%s: no answer to %q within %s: the process may be very busy; try again", c.peer, command, c.timeout)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return fmt.Errorf("%s: closed the connection without answering %q: the process ended, or refuses this user", c.peer, command)
	}
	return fmt.Errorf("%s: %w", c.peer, err)
}

func truncate(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
