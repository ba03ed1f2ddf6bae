package report

import (
	"fmt"
	"testing"

	"github.com/google/pprof/profile"
)

// Functions in Python are told apart by their files, and shown with the line that holds most.
func TestInterpretedFunctions(t *testing.T) {
	native := &profile.Mapping{ID: 1, File: "/usr/bin/python3.11"}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}, Mapping: []*profile.Mapping{native}}
	at := func(mapping *profile.Mapping, name, file string, line int64) *profile.Location {
		function := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: file}
		p.Function = append(p.Function, function)
		location := &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: mapping, Line: []profile.Line{{Function: function, Line: line}}}
		p.Location = append(p.Location, location)
		return location
	}
	add := func(value int64, stack ...*profile.Location) {
		p.Sample = append(p.Sample, &profile.Sample{Value: []int64{value}, Location: stack})
	}
	add(5, at(nil, "fill", "/srv/a.py", 7), at(nil, "<module>", "/srv/a.py", 30))
	add(6, at(nil, "fill", "/srv/a.py", 8), at(nil, "<module>", "/srv/a.py", 30))
	add(9, at(nil, "<module>", "/srv/b.py", 2), at(nil, "fill", "/srv/a.py", 9), at(native, "main", "main.c", 3))
	top, err := NewTop(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, row := range top.Rows {
		got += fmt.Sprintf("%d %d %s\n", row.Flat, row.Cum, row.Place())
	}
	if want := "11 20 fill a.py:8\n9 9 <module> b.py:2\n0 11 <module> a.py:30\n0 9 main\n"; got != want {
		t.Errorf("%s", got)
	}
}
