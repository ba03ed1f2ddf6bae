package symbolize

import (
	"os"
	"strings"
	"sync"
)

const vdsoName = "[vdso]"

// ownVdso is the kernel's code that is mapped into this process, an ELF file that is in memory only. All 64-bit
// processes of one kernel have the same; whether a profile's is that one is told by the build id.
var ownVdso = sync.OnceValue(func() []byte {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(maps)) {
		m := parseMapping(line)
		const most = 1 << 20
		if m == nil || m.File != vdsoName || m.Limit-m.Start > most {
			continue
		}
		memory, err := os.Open("/proc/self/mem")
		if err != nil {
			return nil
		}
		defer memory.Close()
		data := make([]byte, m.Limit-m.Start)
		if _, err := memory.ReadAt(data, int64(m.Start)); err != nil {
			return nil
		}
		return data
	}
	return nil
})

// openVdso returns the vDSO of the process with that build id; without one, that of a process that runs here.
func (f Files) openVdso(buildID string) *object {
	if buildID == "" && f.PID == 0 {
		return nil
	}
	o := newObject(ownVdso(), vdsoName)
	if o != nil && buildID != "" && o.buildID() != strings.ToLower(buildID) {
		return nil
	}
	return o
}
