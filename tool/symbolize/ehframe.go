package symbolize

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// EhFrame is a file's section .eh_frame, which describes how to unwind each of its functions.
type EhFrame struct {
	Data    []byte
	Order   binary.ByteOrder
	Address uint64 // in the file
	Bias    uint64 // run-time address minus address in the file
}

// EhFrameOf reads the file that the process has mapped as m. For pid 0 it reads the file with that name. The section
// stays mapped while this program runs; if the file is truncated in the meantime, an access faults. ok is false if the
// file has no such section or is not the mapped file any more.
func EhFrameOf(pid int, m *profile.Mapping) (section EhFrame, ok bool) {
	if m.File == vdsoName {
		return ehFrameIn(newObject(ownVdso(), vdsoName), m)
	}
	if !strings.HasPrefix(m.File, "/") || strings.HasPrefix(m.File, "//") {
		return EhFrame{}, false // memory without a file
	}
	if pid == 0 {
		return ehFrameIn(openObject(m.File), m)
	}
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	// The map_files entry is the mapped file itself, even if it was renamed or deleted. It requires privileges.
	if o := openObject(filepath.Join(proc, "map_files", fmt.Sprintf("%x-%x", m.Start, m.Limit))); o != nil {
		return ehFrameIn(o, m)
	}
	return ehFrameIn(openObject(filepath.Join(proc, "root", m.File)), m) // the name of a deleted file ends in " (deleted)", so it is not found
}

func ehFrameIn(o *object, m *profile.Mapping) (found EhFrame, ok bool) {
	if o == nil {
		return EhFrame{}, false
	}
	damaged := Safely(func() bool {
		section := o.elf.Section(".eh_frame")
		bias, known := o.segments().bias(m)
		if ok = section != nil && known; ok {
			found = EhFrame{Data: o.section(".eh_frame"), Order: o.elf.ByteOrder, Address: section.Addr, Bias: bias}
		}
		return false
	})
	return found, ok && !damaged
}
