package formats

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// The names of Python functions survive the text format, and other readers accept the text.
func TestHeapTextHasPythonNames(t *testing.T) {
	c := &profile.Mapping{ID: 1, Start: 0x1000, Limit: 0x9000, File: "/usr/bin/python3"}
	hold := &profile.Function{ID: 1, Name: "Keeper.hold", SystemName: "Keeper.hold", Filename: "/srv/a at b.py", StartLine: 21}
	main := &profile.Function{ID: 2, Name: "<module>", SystemName: "<module>", Filename: "/srv/a at b.py", StartLine: 1}
	locations := []*profile.Location{
		{ID: 1, Mapping: c, Address: 0x2000},
		{ID: 2, Address: 0x7000000001000016, Line: []profile.Line{{Function: hold, Line: 22}}},
		{ID: 3, Address: 0x7000000002000063, Line: []profile.Line{{Function: main, Line: 99}}},
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}, {Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1, Comments: []string{"something to know"},
		Mapping: []*profile.Mapping{c}, Function: []*profile.Function{hold, main}, Location: locations,
		Sample: []*profile.Sample{{Location: locations, Value: []int64{2, 200, 1, 100}}},
	}
	var text bytes.Buffer
	if _, err := writeHeapText(&text, p, Options{Index: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := profile.ParseData(text.Bytes()); err != nil {
		t.Fatalf("pprof: %v in\n%s", err, text.String())
	}
	back, err := Read(text.Bytes(), "x.heap")
	if err != nil {
		t.Fatal(err)
	}
	if err := back.CheckValid(); err != nil {
		t.Fatal(err)
	}
	stack := stackOf(back.Sample[0])
	if len(stack) != 3 || stack[1].function != "Keeper.hold" || stack[1].file != "/srv/a at b.py" || stack[1].line != 22 || stack[1].start != 21 ||
		stack[2].function != "<module>" || stack[2].line != 99 || stack[1].address != 0x7000000001000016 {
		t.Errorf("%+v from\n%s", stack, text.String())
	}
	if got := strings.Join(back.Comments, "|"); got != "something to know" {
		t.Errorf("comments: %q", got)
	}
}
