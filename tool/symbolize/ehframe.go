package symbolize

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// EhFrame is a file's section .eh_frame: how to leave each of its functions.
type EhFrame struct {
	Data    []byte
	Order   binary.ByteOrder
	Address uint64 // in the file
	Bias    uint64 // of the addresses at which its code runs above the file's
}

// EhFrameOf reads the file that the process has mapped as m; pid 0: the file of that name. The section stays mapped for as long as this
// program runs: a file that is cut short meanwhile is a fault. False where it has none, or is not the mapped one any more.
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
	// That is the mapped file itself, whatever has become of its name; it takes privileges.
	if o := openObject(filepath.Join(proc, "map_files", fmt.Sprintf("%x-%x", m.Start, m.Limit))); o != nil {
		return ehFrameIn(o, m)
	}
	return ehFrameIn(openObject(filepath.Join(proc, "root", m.File)), m) // one that is gone ends in " (deleted)": there is none of that name
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
