package symbolize

import (
	"encoding/binary"

	"github.com/google/pprof/profile"
)

// EhFrame is a file's section .eh_frame: how to leave each of its functions.
type EhFrame struct {
	Data    []byte
	Order   binary.ByteOrder
	Address uint64 // in the file
	Bias    uint64 // of the addresses at which its code runs above the file's
}

// EhFrameOf reads the file that the process has mapped at `address`, which lies in m. The section stays mapped for as long as this
// program runs. False where it has none.
func EhFrameOf(pid int, m *profile.Mapping, address uint64) (EhFrame, bool) {
	f := Files{PID: pid}
	if m.File == vdsoName {
		return ehFrameIn(f.openVdso(m.BuildID), m, address)
	}
	asModule := &module{file: m.File, locations: []*profile.Location{{Mapping: m}}}
	for _, path := range f.candidates(asModule) {
		o := openObject(path)
		if o == nil {
			continue
		}
		if m.BuildID == "" || o.buildID() == m.BuildID {
			return ehFrameIn(o, m, address)
		}
		o.close()
	}
	return EhFrame{}, false
}

func ehFrameIn(o *object, m *profile.Mapping, address uint64) (EhFrame, bool) {
	if o == nil {
		return EhFrame{}, false
	}
	section := o.elf.Section(".eh_frame")
	inFile, ok := o.segments().translate(m, address)
	if section == nil || !ok {
		return EhFrame{}, false
	}
	return EhFrame{Data: o.section(".eh_frame"), Order: o.elf.ByteOrder, Address: section.Addr, Bias: address - inFile}, true
}
