package symbolize

import (
	"os"
	"strings"
	"sync"
)

const vdsoName = "[vdso]"

// ownVdso is the vDSO of this process: kernel code, an ELF file that exists only in memory. It is the same in all
// 64-bit processes of one kernel. The build id tells whether a profile's vDSO is the same.
var ownVdso = sync.OnceValue(func() []byte {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(maps)) {
		m := parseMapping(line)
		const limit = 1 << 20
		if m == nil || m.File != vdsoName || m.Limit-m.Start > limit {
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

// openVdso returns the vDSO with that build id. Without a build id it returns the vDSO only for a process that runs on
// this machine.
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
