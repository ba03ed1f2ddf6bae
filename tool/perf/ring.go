package perf

import (
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"seemalloc/tool/unwind"
)

// ring is the ring buffer in which the kernel stores the records of one CPU: a page with its state, followed by the
// records.
type ring struct {
	event  int
	memory []byte
	data   []byte
	head   *uint64 // written by the kernel
	tail   *uint64 // written by this process
}

func newRing(event int) (*ring, error) {
	page := os.Getpagesize()
	memory, err := unix.Mmap(event, 0, page+ringPages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if errors.Is(err, unix.EPERM) {
		memory, err = unix.Mmap(event, 0, page+fewRingPages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, err
	}
	state := (*unix.PerfEventMmapPage)(unsafe.Pointer(&memory[0]))
	return &ring{event: event, memory: memory, data: memory[page:], head: &state.Data_head, tail: &state.Data_tail}, nil
}

// read visits the available records and frees their space. Records after a malformed one are dropped.
func (r *ring) read(visit func(kind uint32, body []byte)) {
	const header = 8 // type, flags and length
	head := atomic.LoadUint64(r.head)
	at := atomic.LoadUint64(r.tail)
	for head-at >= header {
		first := r.bytes(at, header)
		kind, length := binary.NativeEndian.Uint32(first), uint64(binary.NativeEndian.Uint16(first[6:]))
		if length < header || length > head-at {
			break
		}
		visit(kind, r.bytes(at+header, length-header))
		at += length
	}
	atomic.StoreUint64(r.tail, head)
}

// bytes copies data that may wrap around.
func (r *ring) bytes(at, length uint64) []byte {
	out := make([]byte, length)
	size := uint64(len(r.data))
	n := copy(out, r.data[at%size:])
	copy(out[n:], r.data)
	return out
}

// readUint64 returns the nth word of a record.
func readUint64(body []byte, n int) uint64 { return binary.NativeEndian.Uint64(body[8*n:]) }

// parseSample parses: ip, process and thread, event id, number of frames, frames. With withStack also: the
// register format and registers; the size of the stack area, the stack, and the valid size of the stack.
func parseSample(body []byte, withStack bool) (sample Sample, process int, id uint64, ok bool) {
	const before = 4
	if len(body) < 8*before {
		return sample, 0, 0, false
	}
	process = int(int32(readUint64(body, 1)))
	sample.Thread = int(int32(readUint64(body, 1) >> 32))
	id = readUint64(body, 2)
	count := readUint64(body, 3)
	if count > uint64(len(body)/8-before) {
		return sample, 0, 0, false
	}
	side := &sample.User
	for i := range int(count) {
		address := readUint64(body, before+i)
		switch int64(address) {
		case unix.PERF_CONTEXT_KERNEL:
			side = &sample.Kernel
		case unix.PERF_CONTEXT_USER:
			side = &sample.User
		default:
			// All other values in this range are markers too, such as for code in a guest.
			if int64(address) >= unix.PERF_CONTEXT_MAX && int64(address) < 0 {
				side = new([]uint64)
				continue
			}
			*side = append(*side, address)
		}
	}
	if withStack {
		sample.Registers, sample.Stack = parseStack(body[8*(before+int(count)):])
	}
	return sample, process, id, true
}

// parseStack returns nil for a thread without a user stack (a kernel thread) and for a 32-bit thread.
func parseStack(body []byte) (*unwind.Registers, []byte) {
	if len(body) < 8 || readUint64(body, 0) != unix.PERF_SAMPLE_REGS_ABI_64 {
		return nil, nil
	}
	body = body[8:]
	if len(body) < 8*(len(registerNumbers)+1) {
		return nil, nil
	}
	registers := new(unwind.Registers)
	for i, number := range registerNumbers {
		registers[number] = readUint64(body, i)
	}
	body = body[8*len(registerNumbers):]
	stackSize := readUint64(body, 0)
	if len(body) < 16 || stackSize%8 != 0 || stackSize > uint64(len(body)-16) {
		return registers, nil
	}
	dynSize := min(readUint64(body[8+stackSize:], 0), stackSize)
	return registers, body[8 : 8+dynSize]
}
