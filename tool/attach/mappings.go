package attach

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Mappings is how many mappings of the address space a process has, and how many the kernel lets one have.
type Mappings struct {
	Count int64 `json:"count"`
	Limit int64 `json:"limit"` // vm.max_map_count
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

// AddTo puts the mappings behind the other fields of a JSON object, as the field "mappings"; the rest stays as it is.
func (m *Mappings) AddTo(object []byte) []byte {
	object = bytes.TrimSpace(object)
	if m == nil || len(object) == 0 || object[len(object)-1] != '}' {
		return object
	}
	fields := bytes.TrimSpace(object[:len(object)-1])
	comma := ","
	if bytes.HasSuffix(fields, []byte("{")) {
		comma = ""
	}
	return fmt.Appendf(bytes.Clone(fields), `%s"mappings":{"count":%d,"limit":%d}}`, comma, m.Count, m.Limit)
}

// Share is how much of the limit is used up.
func (m *Mappings) Share() float64 { return float64(m.Count) / float64(m.Limit) }
