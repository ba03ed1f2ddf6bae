package attach

import (
	"os"
	"testing"
)

func TestMappingsAreAddedToStats(t *testing.T) {
	m := &Mappings{Count: 3, Limit: 65530}
	for _, test := range []struct {
		m        *Mappings
		in, want string
	}{
		{m, `{"version":"1","new":{"x":[1]}}` + "\n", `{"version":"1","new":{"x":[1]},"mappings":{"count":3,"limit":65530}}`},
		{m, "{ }", `{"mappings":{"count":3,"limit":65530}}`},
		{m, "", ""},
		{m, "<html>", "<html>"},
		{nil, `{"version":"1"}`, `{"version":"1"}`},
	} {
		in := append(make([]byte, 0, 200), test.in...) // with spare capacity
		if got := string(test.m.AddTo(in)); got != test.want {
			t.Errorf("%q: %q", test.in, got)
		}
		if string(in) != test.in {
			t.Errorf("%q was changed to %q", test.in, in)
		}
	}
}

func TestMappingsOfThisProcess(t *testing.T) {
	m := ReadMappings(os.Getpid())
	if m == nil {
		t.Skip("the kernel does not tell")
	}
	if m.Count < 5 || m.Limit < m.Count {
		t.Errorf("%+v", m)
	}
	if ReadMappings(1<<30) != nil {
		t.Error("mappings of no process")
	}
}
