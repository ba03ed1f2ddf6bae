// Package perf samples the stacks of a process with the kernel's performance events: user and kernel side, by the kernel's own
// clock (no hardware counter is needed). It needs nothing of the process, and a permission of the kernel's.
package perf

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"seemalloc/tool/unwind"
)

const (
	// Of 4 KiB, for each CPU: as many as the kernel lets everybody have (kernel.perf_event_mlock_kb is 516), or fewer.
	ringPages, fewRingPages = 128, 64
	// StackBytes of a thread's stack come with each sample.
	StackBytes = 16 << 10
	// MaxFrames is how many frames of a stack the kernel takes, its own included.
	MaxFrames = 127
	// Of struct perf_event_attr, Linux 5.13: threads are inherited, processes are not.
	inheritThread = unix.CBitFieldMaskBit35
	readInterval  = 10 * time.Millisecond // at most
)

// Sample is one moment of one thread. Stacks are innermost first; addresses of callers are those that they return to.
type Sample struct {
	Thread       int
	Kernel, User []uint64
	// Registers that the program had when it was interrupted, or entered the kernel; nil where the kernel does not say.
	Registers *unwind.Registers
	// Stack is its memory from the stack pointer on, at most StackBytes; valid until the visit is over.
	Stack []byte
}

// Recorder samples one process.
type Recorder struct {
	events  []int
	rings   []*ring
	threads map[int]bool
	opened  map[uint64]int // the thread for which the event of that id was opened
	pid     int
	attr    unix.PerfEventAttr
	hz      int
	// Lost counts the samples that did not fit between two reads.
	Lost int64
}

// Open begins to sample each thread of the process hz times in a second of its CPU time.
func Open(pid, hz int) (*Recorder, error) {
	r := &Recorder{pid: pid, hz: hz, threads: map[int]bool{}, opened: map[uint64]int{}}
	r.attr = unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(time.Second) / uint64(hz),
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_ID | unix.PERF_SAMPLE_CALLCHAIN,
		Read_format: unix.PERF_FORMAT_ID,
		Bits:        unix.PerfBitDisabled | unix.PerfBitInherit | inheritThread | unix.PerfBitExcludeHv, Sample_max_stack: MaxFrames,
	}
	r.attr.Size = uint32(unsafe.Sizeof(r.attr))
	if registerMask != 0 {
		r.attr.Sample_type |= unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER
		r.attr.Sample_regs_user, r.attr.Sample_stack_user = registerMask, StackBytes
	}
	// A thread that is made while the others are opened is its maker's heir, or found by the next look, or both: see isTwice.
	for {
		fresh, err := r.openThreads()
		if err != nil {
			r.Close()
			return nil, err
		}
		if fresh == 0 {
			break
		}
	}
	for _, event := range r.events {
		if err := unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			r.Close()
			return nil, fmt.Errorf("performance events cannot be turned on: %w", err)
		}
	}
	return r, nil
}

// openThreads opens the threads that are new, and returns how many those were.
func (r *Recorder) openThreads() (int, error) {
	folders, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(r.pid), "task", "*"))
	if len(folders) == 0 {
		return 0, unix.ESRCH
	}
	fresh := 0
	for _, folder := range folders {
		thread, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || r.threads[thread] {
			continue
		}
		err = r.openThread(thread)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
			return fresh, err
		}
		r.threads[thread] = true
		fresh++
	}
	return fresh, nil
}

// openThread opens an event of the thread on each CPU: only such ones can be inherited and share a ring.
func (r *Recorder) openThread(thread int) error {
	for cpu := range cpus() {
		event, err := unix.PerfEventOpen(&r.attr, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.EINVAL) && r.attr.Bits&inheritThread != 0 {
			r.attr.Bits &^= inheritThread // an older kernel: child processes come too, and are left out below
			event, err = unix.PerfEventOpen(&r.attr, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		}
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // that CPU is off
		}
		if err != nil {
			return err
		}
		r.events = append(r.events, event)
		id, err := eventID(event)
		if err != nil {
			return err
		}
		r.opened[id] = thread
		for len(r.rings) <= cpu {
			r.rings = append(r.rings, nil)
		}
		if r.rings[cpu] == nil {
			if r.rings[cpu], err = newRing(event); err != nil {
				return err
			}
		} else if err := unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_SET_OUTPUT, r.rings[cpu].event); err != nil {
			return err
		}
	}
	return nil
}

// eventID reads the id that stands in the event's samples, and in those of the events that threads inherit from it.
func eventID(event int) (uint64, error) {
	var answer [16]byte // the count and, by Read_format, the id
	if n, err := unix.Read(event, answer[:]); err != nil || n != len(answer) {
		return 0, fmt.Errorf("a performance event that cannot be read (%d bytes): %w", n, cmp.Or[error](err, unix.EIO))
	}
	return word(answer[:], 1), nil
}

// isTwice: the thread has events of its own, and this is a sample of those that it has inherited besides.
func (r *Recorder) isTwice(thread int, id uint64) bool {
	of, known := r.opened[id]
	return known && of != thread && r.threads[thread]
}

// cpus is the number of CPUs that the system may have on.
func cpus() int {
	data, err := os.ReadFile("/sys/devices/system/cpu/possible")
	if err == nil {
		text := strings.TrimSpace(string(data))
		if i := strings.LastIndexAny(text, "-,"); i >= 0 {
			text = text[i+1:]
		}
		if last, err := strconv.Atoi(text); err == nil {
			return last + 1
		}
	}
	return runtime.NumCPU()
}

// Read hands on what has come since the last time.
func (r *Recorder) Read(visit func(Sample)) {
	for _, ring := range r.rings {
		if ring != nil {
			ring.read(func(kind uint32, body []byte) { r.record(kind, body, visit) })
		}
	}
}

func (r *Recorder) record(kind uint32, body []byte, visit func(Sample)) {
	switch kind {
	case unix.PERF_RECORD_LOST:
		if len(body) >= 16 {
			r.Lost += int64(word(body, 1))
		}
	case unix.PERF_RECORD_SAMPLE:
		sample, process, id, ok := parseSample(body, r.attr.Sample_type&unix.PERF_SAMPLE_REGS_USER != 0)
		if ok && process == r.pid && !r.isTwice(sample.Thread, id) {
			visit(sample)
		}
	}
}

// Follow reads until stop is closed or sends.
func (r *Recorder) Follow(stop <-chan struct{}, visit func(Sample)) {
	// Half of a ring is filled meanwhile.
	const halfOfIt = fewRingPages * 4096 / 2 / (StackBytes + 2<<10)
	ticker := time.NewTicker(min(readInterval, max(time.Millisecond, halfOfIt*time.Second/time.Duration(r.hz))))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.Read(visit)
		case <-stop:
			r.Read(visit)
			return
		}
	}
}

// Close ends the sampling.
func (r *Recorder) Close() {
	for _, ring := range r.rings {
		if ring != nil {
			_ = unix.Munmap(ring.memory)
		}
	}
	for _, event := range r.events {
		_ = unix.Close(event)
	}
	r.events, r.rings = nil, nil
}
