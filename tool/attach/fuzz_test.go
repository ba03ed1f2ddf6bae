package attach

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// socketPair returns two connected sockets.
func socketPair(t *testing.T) (ours, theirs *net.UnixConn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "socket")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ends[i] = conn.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// A reply of any bytes is an error, or a payload that is exactly the bytes behind its first line.
func FuzzReply(f *testing.F) {
	f.Add([]byte("ok 3\nabc"))
	f.Add([]byte("ok 4\nabc"))
	f.Add([]byte("error no such command\n"))
	f.Add([]byte("ok 1073741824\nabc"))
	f.Add([]byte("ok -1\n"))
	f.Add([]byte("prove 3\n"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if len(reply) > 64<<10 {
			return // more than the socket takes without a reader
		}
		ours, theirs := socketPair(t)
		if _, err := theirs.Write(reply); err != nil {
			t.Fatal(err)
		}
		theirs.CloseWrite()
		c := &Client{conn: ours, in: bufio.NewReader(ours), timeout: 10 * time.Second, peer: "pid 1", authenticated: true}
		payload, err := c.Call("stats")
		if err != nil {
			return
		}
		line, rest, _ := bytes.Cut(reply, []byte("\n"))
		var length int
		if n, err := fmt.Sscanf(string(line), "ok %d", &length); n != 1 || err != nil || length != len(payload) || !bytes.HasPrefix(rest, payload) {
			t.Fatalf("%q was read as the payload %q", reply, payload)
		}
	})
}

// A heap map of any bytes is an error, or a map in the order of addresses.
func FuzzMap(f *testing.F) {
	f.Add([]byte(`{"memory":{"rss":1}}
{"region":"0x200000","spans":[]}
{"block":"0x400000","bytes":8192,"stack":"0x1"}
{"kept":"0x600000","bytes":4096}
{"stack":"0x1","frames":["0x401000"]}
{"end":true,"page_bytes":8192,"os_page_bytes":4096,"left_out":0}
`))
	f.Add([]byte(`{"end":true}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := parseMap(payload)
		if err != nil {
			return
		}
		for i := 1; i < len(m.Regions); i++ {
			if m.Regions[i-1].Address > m.Regions[i].Address {
				t.Fatal("the regions are not in order")
			}
		}
	})
}

func FuzzStats(f *testing.F) {
	f.Add([]byte(`{"pid":1,"memory":{"rss":4096,"live":0},"threads":[{"id":1,"name":"main"}],"socket":{"path":"/run/x","refused":[]}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		stats, err := ParseStats(payload, "pid 1")
		if err != nil {
			return
		}
		if text, err := stats.MarshalJSON(); err != nil || !bytes.Equal(text, payload) {
			t.Fatalf("the answer %q is passed on as %q (%v)", payload, text, err)
		}
	})
}

// The number of events is the number of lines before the last one.
func FuzzTrace(f *testing.F) {
	f.Add("1 mmap grow 2097152 900 7 -1 0 0x401000,0x402000\nlost 0 dropped 0 more 0\n")
	f.Add("1 madvise purge 4096 900 7 3 1 -\nlost 2 dropped 1 more 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace := &Trace{}
		var events []Event
		if _, err := trace.parse(text, &events); err != nil {
			return
		}
		for _, event := range events {
			if event.Call == "" || event.Reason == "" {
				t.Fatalf("%+v has no name", event)
			}
		}
	})
}
