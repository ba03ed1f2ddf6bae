package perf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func words(numbers ...uint64) []byte {
	var out []byte
	for _, n := range numbers {
		out = binary.NativeEndian.AppendUint64(out, n)
	}
	return out
}

func mark(n int64) uint64 { return uint64(n) }

func TestParseSample(t *testing.T) {
	const ids = 42<<32 | 17
	body := words(0xffff8000, ids, 99, 7, mark(unix.PERF_CONTEXT_KERNEL), 0xffff8000, 0xffff9000, mark(unix.PERF_CONTEXT_USER), 0x4000, 0x5000,
		mark(unix.PERF_CONTEXT_GUEST))
	sample, process, id, ok := parseSample(body, false)
	want := Sample{Thread: 42, Kernel: []uint64{0xffff8000, 0xffff9000}, User: []uint64{0x4000, 0x5000}}
	if !ok || process != 17 || id != 99 || !reflect.DeepEqual(sample, want) {
		t.Errorf("%v %d %+v", ok, process, sample)
	}
	for _, cut := range [][]byte{nil, body[:24], words(1, ids, 99, 5, 1, 2), words(1, ids, 99, 1<<60)} {
		if _, _, _, ok := parseSample(cut, false); ok {
			t.Errorf("taken: %v", cut)
		}
	}
}

func TestParseStack(t *testing.T) {
	if registerMask == 0 {
		t.Skip("no registers on this machine")
	}
	const ids = 42<<32 | 17
	before := words(0x4000, ids, 99, 2, mark(unix.PERF_CONTEXT_USER), 0x4000)
	var numbers []uint64
	for i := range registerNumbers {
		numbers = append(numbers, 1000+uint64(i))
	}
	registers := append(words(unix.PERF_SAMPLE_REGS_ABI_64), words(numbers...)...)
	whole := slices.Concat(before, registers, words(32, 0xa, 0xb, 0xc, 0xd, 16))
	sample, process, _, ok := parseSample(whole, true)
	if !ok || process != 17 || sample.Registers == nil || !bytes.Equal(sample.Stack, words(0xa, 0xb)) {
		t.Fatalf("%v %+v", ok, sample)
	}
	for i, number := range registerNumbers {
		if sample.Registers[number] != numbers[i] {
			t.Errorf("register %d of DWARF's is %d, expected %d", number, sample.Registers[number], numbers[i])
		}
	}
	// No stack, no registers (kernel threads, 32-bit programs), and truncated records.
	for _, rest := range [][]byte{nil, words(unix.PERF_SAMPLE_REGS_ABI_NONE, 0), words(unix.PERF_SAMPLE_REGS_ABI_32), registers,
		append(registers[:len(registers):len(registers)], words(0)...), append(registers[:len(registers):len(registers)], words(1<<40, 1)...)} {
		if sample, _, _, ok := parseSample(slices.Concat(before, rest), true); !ok || len(sample.Stack) != 0 {
			t.Errorf("%v %+v", ok, sample)
		}
	}
	for cut := range len(whole) / 8 {
		parseSample(whole[:8*cut], true)
	}
}

// Records wrap around the end of the memory and are read completely.
func TestRing(t *testing.T) {
	var head, tail uint64
	r := &ring{data: make([]byte, 64), head: &head, tail: &tail}
	put := func(kind uint32, body []byte) {
		record := binary.NativeEndian.AppendUint32(nil, kind)
		record = binary.NativeEndian.AppendUint16(record, 0)
		record = binary.NativeEndian.AppendUint16(record, uint16(8+len(body)))
		for _, b := range append(record, body...) {
			r.data[head%64] = b
			head++
		}
	}
	for round := range uint64(20) {
		put(unix.PERF_RECORD_SAMPLE, words(round, round+1))
		put(unix.PERF_RECORD_LOST, words(round))
		var got []uint64
		r.read(func(kind uint32, body []byte) {
			got = append(got, uint64(kind))
			for i := range len(body) / 8 {
				got = append(got, readUint64(body, i))
			}
		})
		if want := []uint64{unix.PERF_RECORD_SAMPLE, round, round + 1, unix.PERF_RECORD_LOST, round}; !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: %v", round, got)
		}
		if tail != head {
			t.Fatalf("room not given back: %d of %d", tail, head)
		}
	}
}

// A thread that was found has its own events. If it was created after its creator's events were opened, it has also
// inherited those.
func TestNoSampleTwice(t *testing.T) {
	r := &Recorder{pid: 17, threads: map[int]bool{17: true, 18: true}, opened: map[uint64]int{100: 17, 101: 17, 200: 18}}
	var got []int
	for _, s := range []struct{ thread, event uint64 }{
		{17, 100}, {17, 101}, {18, 200}, // each by its own events
		{18, 100}, {18, 101}, // inherited by a thread that has its own events
		{19, 100}, {19, 200}, // inherited by a thread created later
	} {
		r.record(unix.PERF_RECORD_SAMPLE, words(1, s.thread<<32|17, s.event, 0), func(sample Sample) { got = append(got, sample.Thread) })
	}
	if want := []int{17, 17, 18, 19, 19}; !reflect.DeepEqual(got, want) {
		t.Errorf("threads %v, expected %v", got, want)
	}
}

func TestExplainNoSocket(t *testing.T) {
	for err, want := range map[error]string{
		unix.ESRCH: "sleep has ended", unix.EACCES: "requires root or CAP_PERFMON", unix.ENOSYS: "has no performance events",
		unix.EMFILE: "too many threads", unix.ENOMEM: "perf_event_mlock_kb", errors.New("odd"): "perf_event_open: odd",
	} {
		if got := Explain(err, "sleep").Error(); !strings.Contains(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
}

// Samples this process, if the kernel permits it.
func TestRecord(t *testing.T) {
	r, err := Open(os.Getpid(), 1000)
	if err != nil {
		t.Skip(Explain(err, "this process"))
	}
	defer r.Close()
	samples, withUser := 0, 0
	for i := range 400_000_000 {
		if i%1_000_000 == 0 {
			r.Read(func(s Sample) {
				samples++
				if len(s.User) > 0 {
					withUser++
				}
			})
		}
	}
	if samples < 10 || withUser < samples/2 {
		t.Errorf("%d samples, %d with a stack of the program", samples, withUser)
	}
	if _, err := Open(1<<30, 100); !errors.Is(err, unix.ESRCH) {
		t.Errorf("of no process: %v", err)
	}
}
