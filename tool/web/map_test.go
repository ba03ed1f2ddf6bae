package web

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"seemalloc/tool/attach/fake"
	"seemalloc/tool/symbolize"
)

// Several pages that request the map at the same time cause one query of the process. Their queries of single regions
// are passed on.
func TestHeapMapIsQueriedOnce(t *testing.T) {
	socket := fake.Start(t, filepath.Join(t.TempDir(), "s"))
	var asked []string
	socket.Answers["map"] = func(args []string) string {
		asked = append(asked, strings.Join(args, " "))
		return `{"region":"0xffff900000200000","used":256,"live_bytes":7,"most":64,"parts":[{"page":0,"pages":256,"is":"large","stack":"0x1"}]}
{"stack":"0x1","frames":["0x10"]}
{"end":1,"page_bytes":8192,"os_page_bytes":4096,"left_out":0}
`
	}
	base, _ := unwatched(t, socket)
	var sums mapSums
	for range 3 {
		if status, body := get(t, base+"api/map", &sums); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if len(asked) != 1 || asked[0] != "" {
		t.Errorf("asked %q", asked)
	}
	if len(sums.Addresses) != 1 || sums.Addresses[0] != "0xffff900000200000" || len(sums.Regions[0]) != len(sums.Columns) || sums.PollMillis < 1000 {
		t.Errorf("%+v", sums)
	}
	var parts mapParts
	if status, body := get(t, base+"api/map/parts?from=0xffff900000200000&to=0xffff900000400000", &parts); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if len(parts.Regions) != 1 || parts.Regions[0].Parts[0].Type != "large" || len(parts.Stacks["0x1"]) != 1 {
		t.Errorf("%+v", parts)
	}
	for _, wrong := range []string{"?from=1", "?from=x&to=2", "?from=5&to=5", "?from=5&to=4"} {
		if status, body := get(t, base+"api/map/parts"+wrong, nil); status != 400 || !strings.Contains(body, "expected") {
			t.Errorf("%s: %d %s", wrong, status, body)
		}
	}
	if len(asked) != 2 {
		t.Errorf("asked %q", asked)
	}
}

// A vector's memory belongs to the function that fills the vector.
func TestMapOfALibrary(t *testing.T) {
	_, got := namesOf(map[string][]symbolize.Place{
		"0x1": {{Function: "std::__new_allocator::allocate"}, {Function: "std::vector::push_back"}, {Function: "keep"}, {Function: "main"}},
		"0x2": {{Function: "keep"}, {Function: "std::for_each"}, {Function: "main"}},
		"0x3": {},
		"0x4": {{Function: "std::vector::push_back"}, {Function: "remember", File: "jobs.py"}},
	})
	if want := map[string]int{"0x1": 2, "0x4": 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}
