// Package perf samples the user and kernel stacks of a process with the kernel's performance events. It uses the
// kernel's software clock, so no hardware counter is needed. It needs no cooperation of the process, but a permission
// from the kernel.
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
	// Pages of 4 KiB for each CPU: the maximum that the kernel allows to all users (kernel.perf_event_mlock_kb is 516),
	// or fewer.
	ringPages, fewRingPages = 128, 64
	// StackBytes is the size of the stack copy in each sample.
	StackBytes = 16 << 10
	// MaxFrames is the maximum number of frames in the kernel's call chain, including kernel frames.
	MaxFrames = 127
	// A bit of struct perf_event_attr since Linux 5.13: threads inherit the event, processes do not.
	inheritThread = unix.CBitFieldMaskBit35
	readInterval  = 10 * time.Millisecond // maximum
)

// Sample is the state of one thread at one moment. Stacks are innermost first. The addresses of callers are return
// addresses.
type Sample struct {
	Thread       int
	Kernel, User []uint64
	// Registers holds the program's registers when it was interrupted or entered the kernel; nil if the kernel does not
	// provide them.
	Registers *unwind.Registers
	// Stack is a copy of the memory above the stack pointer, at most StackBytes. It is valid only during the call of
	// visit.
	Stack []byte
}

// Recorder samples one process.
type Recorder struct {
	events  []int
	rings   []*ring
	threads map[int]bool
	opened  map[uint64]int // event id → thread for which the event was opened
	pid     int
	attr    unix.PerfEventAttr
	hz      int
	// Lost counts the samples that did not fit into the ring between two reads.
	Lost int64
}

// Open starts to sample each thread of the process, hz times per second of its CPU time.
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
	// A thread that is created in the meantime inherits its creator's events, or is found by the next scan, or both:
	// see isDuplicate.
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

// openThreads opens events for new threads and returns their number.
func (r *Recorder) openThreads() (int, error) {
	dirs, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(r.pid), "task", "*"))
	if len(dirs) == 0 {
		return 0, unix.ESRCH
	}
	fresh := 0
	for _, dir := range dirs {
		thread, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || r.threads[thread] {
			continue
		}
		err = r.openThread(thread)
		if err != nil && !errors.Is(err, unix.ESRCH) { // the thread may have ended
			return fresh, err
		}
		r.threads[thread] = true
		fresh++
	}
	return fresh, nil
}

// openThread opens one event per CPU for the thread. Only such events can be inherited and share a ring.
func (r *Recorder) openThread(thread int) error {
	for cpu := range cpus() {
		event, err := unix.PerfEventOpen(&r.attr, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.EINVAL) && r.attr.Bits&inheritThread != 0 {
			r.attr.Bits &^= inheritThread // an older kernel: child processes inherit the events too, and their samples are dropped later
			event, err = unix.PerfEventOpen(&r.attr, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		}
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // the CPU is offline
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

// eventID returns the id in the samples of the event, and of the events that other threads inherit from it.
func eventID(event int) (uint64, error) {
	var answer [16]byte // the count and, because of Read_format, the id
	if n, err := unix.Read(event, answer[:]); err != nil || n != len(answer) {
		return 0, fmt.Errorf("a performance event that cannot be read (%d bytes): %w", n, cmp.Or[error](err, unix.EIO))
	}
	return readUint64(answer[:], 1), nil
}

// isDuplicate reports whether the sample is a duplicate: the thread has its own events, and the sample is from an
// inherited event.
func (r *Recorder) isDuplicate(thread int, id uint64) bool {
	of, known := r.opened[id]
	return known && of != thread && r.threads[thread]
}

// cpus returns the number of possible CPUs.
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

// Read passes the samples since the last call to visit.
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
			r.Lost += int64(readUint64(body, 1))
		}
	case unix.PERF_RECORD_SAMPLE:
		sample, process, id, ok := parseSample(body, r.attr.Sample_type&unix.PERF_SAMPLE_REGS_USER != 0)
		if ok && process == r.pid && !r.isDuplicate(sample.Thread, id) {
			visit(sample)
		}
	}
}

// Follow reads until stop is closed or receives a value.
func (r *Recorder) Follow(stop <-chan struct{}, visit func(Sample)) {
	// In this time at most half of a ring is filled.
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
