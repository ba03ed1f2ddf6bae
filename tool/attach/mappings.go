package attach

import (
	"bytes"
	"os"
	"strconv"
)

// Mappings is how many mappings of the address space a process has, and how many the kernel lets one have.
type Mappings struct {
	Count, Limit int64
}

// ReadMappings is nil where the kernel does not tell.
func ReadMappings(pid int) *Mappings {
	maps, err := os.ReadFile(procPath(pid, "maps"))
	if err != nil || len(maps) == 0 {
		return nil
	}
	limit, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return nil
	}
	m := &Mappings{Count: int64(bytes.Count(maps, []byte{'\n'}))}
	if m.Limit, err = strconv.ParseInt(string(bytes.TrimSpace(limit)), 10, 64); err != nil || m.Limit <= 0 {
		return nil
	}
	return m
}

// Share is how much of the limit is used up.
func (m *Mappings) Share() float64 { return float64(m.Count) / float64(m.Limit) }
