package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// heapFile writes a heap profile in which each function has the given live bytes, for these threads if any.
func heapFile(t *testing.T, name string, held map[string]int64, threads ...string) string {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1,
	}
	for name, bytes := range held {
		function := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
		location := &profile.Location{ID: function.ID, Line: []profile.Line{{Function: function}}}
		p.Function, p.Location = append(p.Function, function), append(p.Location, location)
		sample := &profile.Sample{Location: []*profile.Location{location}, Value: []int64{1, bytes}}
		if len(threads) > 0 {
			sample.Label = map[string][]string{"thread": threads}
		}
		p.Sample = append(p.Sample, sample)
	}
	path := filepath.Join(t.TempDir(), name)
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func tool(t *testing.T, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	if status := Main(args, &out, &err); status != 0 {
		t.Fatalf("%v: %d %s", args, status, err.String())
	}
	return out.String()
}

// A filtered heap is compared with the filtered base, in the heading and in each percentage.
func TestFilterAppliesToBase(t *testing.T) {
	before := heapFile(t, "before.pb.gz", map[string]int64{"wanted": 1 << 20, "other": 7 << 20})
	after := heapFile(t, "after.pb.gz", map[string]int64{"wanted": 3 << 20, "other": 5 << 20})
	for _, filter := range [][]string{{"--focus", "wanted"}, {"--ignore", "other"}} {
		args := append([]string{"top", after, "--base", before}, filter...)
		out := tool(t, args...)
		for _, want := range []string{"Total +2.00 MiB; percentages are of the 1.00 MiB before\n", "+2.00 MiB 200.00%"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", filter, want, out)
			}
		}
		var report struct {
			Whole int64 `json:"percentages_of"`
		}
		if err := json.Unmarshal([]byte(tool(t, append(args, "--json")...)), &report); err != nil || report.Whole != 1<<20 {
			t.Errorf("%v: %+v, %v", filter, report, err)
		}
		args[0] = "tree"
		if out := tool(t, args...); !strings.Contains(out, "200.00%") {
			t.Errorf("%v:\n%s", filter, out)
		}
	}
	if out := tool(t, "top", after, "--base", before); !strings.Contains(out, "Total 0 B; percentages are of the 8.00 MiB before\n") {
		t.Errorf("unfiltered:\n%s", out)
	}
}

// A matching thread does not make up for a name without a match.
func TestEmptyDifferenceIsAnError(t *testing.T) {
	file := heapFile(t, "threads.pb.gz", map[string]int64{"wanted": 1 << 20}, "alpha")
	for _, filter := range [][]string{{"--thread", "alpha", "--focus", "typo"}, {"--thread", "typo"}, {"--thread", "typo", "--focus", "wanted"}} {
		var out, err bytes.Buffer
		args := append([]string{"diff", file, file}, filter...)
		if status := Main(args, &out, &err); status == 0 || !strings.Contains(err.String(), "nothing matches") {
			t.Errorf("%v: %d %s%s", filter, status, out.String(), err.String())
		}
	}
	tool(t, "diff", file, file, "--thread", "alpha", "--focus", "wanted")
}

// A thread that is in both profiles and has not changed is not unknown.
func TestUnchangedThreadIsZero(t *testing.T) {
	file := heapFile(t, "threads.pb.gz", map[string]int64{"wanted": 1 << 20}, "alpha")
	if out := tool(t, "top", file, "--base", file, "--thread", "alpha"); !strings.Contains(out, "percentages are of the 1.00 MiB before") {
		t.Error(out)
	}
	var out, err bytes.Buffer
	if status := Main([]string{"top", file, "--base", file, "--thread", "typo"}, &out, &err); status == 0 || !strings.Contains(err.String(), "no thread matches --thread typo: it has alpha") {
		t.Errorf("%d %s%s", status, out.String(), err.String())
	}
}

// While a thread is selected, `top --live` cycles through the kinds that carry threads.
func TestKindsWithThreads(t *testing.T) {
	var telling []string
	for _, kind := range kinds() {
		if hasThreadLabels(kind.Name) {
			telling = append(telling, kind.Name)
		}
	}
	if got := strings.Join(telling, " "); got != "lifetime threads" && got != "threads lifetime" {
		t.Errorf("%s", got)
	}
}
