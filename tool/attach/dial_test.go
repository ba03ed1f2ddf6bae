package attach

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// The socket appears while Dial waits for it. The error that it belongs to this process and not to p shows that it was
// found. Before, there is none, or one that an ended process with the same pid has left.
func TestWaitForSocket(t *testing.T) {
	for name, isLeft := range map[string]bool{"missing": false, "left by another": true} {
		t.Run(name, func(t *testing.T) {
			process := exec.Command("sleep", "60")
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = process.Process.Kill(); _ = process.Wait() }()
			p, err := Find(process.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(Dir(os.Geteuid()), strconv.Itoa(p.PID)+".sock")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if isLeft {
				leaveSocket(t, path)
			}
			looks := 0
			_, err = dialWhile(p, time.Minute, time.Minute, func() bool {
				if looks++; looks == 3 {
					os.Remove(path)
					listener, err := net.Listen("unix", path)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { listener.Close() })
				}
				return true
			})
			var foreign *wrongPeerError
			if !errors.As(err, &foreign) || foreign.peer != os.Getpid() || looks != 3 {
				t.Errorf("after %d looks: %v", looks, err)
			}
		})
	}
}

// leaveSocket makes an old socket on which no process listens.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
	if err := os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
}

func TestQueriesAreBounded(t *testing.T) {
	self, err := Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	_, err = dialWhile(self, time.Minute, time.Minute, func() bool { looks++; return looks < 3 })
	if err == nil || looks != 3 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	// For machines on which every process seems new by the clock.
	if _, err := dialWhile(self, time.Minute, 30*time.Millisecond, func() bool { return true }); err == nil {
		t.Error("connected, but no process listens")
	}
}
