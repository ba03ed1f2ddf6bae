package attach

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Mappings holds the number of memory mappings of a process and the kernel's limit for one process.
type Mappings struct {
	Count int64 `json:"count"`
	Limit int64 `json:"limit"` // vm.max_map_count
}

// ReadMappings returns nil if the kernel does not report the numbers.
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

// AddTo appends the mappings to a JSON object as the field "mappings". The rest of the object does not change.
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

// Share returns the used fraction of the limit.
func (m *Mappings) Share() float64 { return float64(m.Count) / float64(m.Limit) }
