package compare

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestParseStatus(t *testing.T) {
	got := parseStatus([]byte("Name:\tx: VmRSS: 1\nVmPeak:\t  9999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t3\n"))
	if want := (status{2048 << 10, 1024 << 10, 3}); got != want {
		t.Errorf("%+v", got)
	}
	if got := parseStatus([]byte("Name:\tzombie\nState:\tZ (zombie)\nThreads:\t1\n")); got != (status{threads: 1}) {
		t.Errorf("a zombie: %+v", got)
	}
}

func TestParseStat(t *testing.T) {
	text := "12 (a b) c) S 1 12 12 0 -1 4194560 100 20 3 4 250 50 100 25 20 0 1 0 99"
	got, ok := parseStat([]byte(text))
	if want := (usage{user: 3.5, system: 0.75, minor: 120, major: 7}); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, text := range []string{"", "12 (x) S 1 2", "garbage"} {
		if _, ok := parseStat([]byte(text)); ok {
			t.Errorf("%q was read", text)
		}
	}
}

func TestParseBusy(t *testing.T) {
	if got := parseBusy([]byte("cpu  100 200 300 9999 9999 400 500 600 7 7\ncpu0 1 1 1 1\n")); got != 21 {
		t.Errorf("%g", got)
	}
}

func TestListening(t *testing.T) {
	inodes := map[string]bool{}
	listening([]byte(`  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1E6F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:1E6F 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 20 4 30 10 -1
`), false, inodes)
	listening([]byte(`Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 333 /run/service.sock
0000000000000000: 00000002 00000000 00010000 0001 01 444 /tmp/seemalloc-0/4242.sock
0000000000000000: 00000002 00000000 00010000 0001 01 445 /tmp/seemalloc-0/4243.soc~
0000000000000000: 00000003 00000000 00000000 0001 03 555 /run/service.sock
`), true, inodes)
	if want := map[string]bool{"111": true, "333": true}; !reflect.DeepEqual(inodes, want) {
		t.Errorf("%v", inodes)
	}
}

// The test process plays the server.
func TestListens(t *testing.T) {
	if listens(os.Getpid()) {
		t.Skip("listens already")
	}
	control, err := net.Listen("unix", filepath.Join(t.TempDir(), fmt.Sprintf("%d.sock", os.Getpid())))
	if err != nil {
		t.Skip(err)
	}
	defer control.Close()
	if listens(os.Getpid()) {
		t.Error("the control socket counts")
	}
	for _, where := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", filepath.Join(t.TempDir(), "service.sock")}} {
		listener, err := net.Listen(where[0], where[1])
		if err != nil {
			t.Skip(err)
		}
		if !listens(os.Getpid()) {
			t.Errorf("%s: not seen", where[0])
		}
		listener.Close()
	}
	if listens(os.Getpid()) {
		t.Error("closed, and still seen")
	}
}

func TestTruePeak(t *testing.T) {
	for _, test := range []struct{ kernels, own, read, want int64 }{
		{100, 12, 90, 100}, // the last reading was before the peak
		{12, 12, 5, 5},     // the kernel's value is the size of this tool
		{12, 12, 0, 0},     // and there was no reading
		{13, 12, 0, 13},    // larger than this tool, so it is exact
	} {
		if got := truePeak(test.kernels, test.own, test.read); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}

func TestParallel(t *testing.T) {
	for _, test := range []struct {
		threads int
		cpu     float64
		want    int
	}{{1, 1, 1}, {1, 1.9, 2}, {3, 0.5, 3}, {4, 3.9, 4}} {
		tree := &tree{threads: test.threads}
		if got := tree.parallel(test.cpu, 1e9); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}
