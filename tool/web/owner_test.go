package web

import (
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
	"seemalloc/tool/report"
)

// The page charges memory to the same functions as `seemalloc top`.
func TestOwnersOnThePage(t *testing.T) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}}
	program := &profile.Mapping{ID: 1, Start: 1, Limit: 1 << 40, File: "/srv/shop"}
	libc := &profile.Mapping{ID: 2, Start: 1 << 41, Limit: 1 << 42, File: "/lib/x86_64-linux-gnu/libc.so.6"}
	p.Mapping = []*profile.Mapping{program, libc}
	locations := map[string]*profile.Location{}
	add := func(value, size int64, names ...string) {
		sample := &profile.Sample{Value: []int64{value}, NumLabel: map[string][]int64{"bytes": {size}}}
		for _, name := range names {
			if locations[name] == nil {
				id := uint64(len(locations) + 1)
				function := &profile.Function{ID: id, Name: name}
				locations[name] = &profile.Location{ID: id, Mapping: program, Line: []profile.Line{{Function: function}}}
				switch name {
				case "work", "<module>":
					locations[name].Mapping, function.Filename = nil, "/srv/app.py"
				case "strdup", "clone3", "start_thread":
					locations[name].Mapping = libc
				}
				p.Function, p.Location = append(p.Function, function), append(p.Location, locations[name])
			}
			sample.Location = append(sample.Location, locations[name])
		}
		p.Sample = append(p.Sample, sample)
	}
	add(1, 8, "std::vector::push_back", "fill", "main", "_start")
	add(2, 16, "xmalloc", "fill", "run", "std::thread::_Invoker::operator()", "start_thread", "clone3")
	add(4, 24, "xmalloc", "make", "main", "_start")
	add(8, 8, "strdup", "start_thread", "clone3")
	add(16, 8, "_PyObject_Malloc", "PyList_New", "work", "_PyEval_Vector", "<module>", "Py_BytesMain", "_start")
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	s, err := NewStacks(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]int64{}
	for i, stack := range s.Stacks {
		outer, inner := s.Owned[i][0], s.Owned[i][1]
		part := stack[outer : len(stack)-int(inner)]
		page[s.Frames[part[len(part)-1]].Name] += s.Values[i][0]
		for _, frame := range part[:len(part)-1] {
			if name := s.Frames[frame].Name; s.Frames[frame].Folded != (name == "_PyEval_Vector" || name == "Py_BytesMain") {
				t.Errorf("%s: folded is %t", name, s.Frames[frame].Folded)
			}
		}
	}
	owner.Charge(p, owner.FindWrappers(p))
	top, err := report.NewTop(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range top.Rows {
		if page[row.Name] != row.Flat {
			t.Errorf("%s: %d on the page, %d by top", row.Name, page[row.Name], row.Flat)
		}
		delete(page, row.Name)
	}
	if len(page) != 0 || top.Rows[0].Name != "work" {
		t.Errorf("only on the page: %v; first %s", page, top.Rows[0].Name)
	}
}
