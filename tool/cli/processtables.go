package cli

import (
	"github.com/google/pprof/profile"

	"seemalloc/tool/symbolize"
	"seemalloc/tool/unwind"
)

// processTables holds the unwind tables of the process's mappings. Each table is read when it is first needed.
type processTables struct {
	mapped *processCode
	pid    int
	of     map[*profile.Mapping]*unwind.Tables // nil: the file has no table or cannot be read
}

func newProcessTables(mapped *processCode, pid int) *processTables {
	t := &processTables{mapped: mapped, pid: pid, of: map[*profile.Mapping]*unwind.Tables{}}
	// Reading the tables of a large program takes time in which samples would be lost, so they are read now.
	for _, m := range mapped.list {
		t.TablesOf(m.Start)
	}
	return t
}

func (t *processTables) IsCode(address uint64) bool { return t.mapped.find(address) != nil }

func (t *processTables) TablesOf(address uint64) *unwind.Tables {
	m := t.mapped.find(address)
	if m == nil {
		return nil
	}
	tables, known := t.of[m]
	if !known {
		if section, ok := symbolize.EhFrameOf(t.pid, m); ok {
			tables = unwind.NewTables(section.Data, section.Order, section.Address, section.Bias)
		}
		t.of[m] = tables
	}
	return tables
}
