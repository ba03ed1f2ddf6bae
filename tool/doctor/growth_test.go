package doctor

import (
	"strings"
	"testing"

	"seemalloc/tool/growth"
)

func grownPair(rows ...growth.Row) Pair {
	p := healthy()
	exact := 1e6
	p.Growth = &growth.Result{Seconds: 15, Moments: 11, Steady: true, Unseen: 400 * kib, Rows: rows, Exact: &exact}
	p.Limit = "the machine's memory"
	return p
}

func TestGrowthIsAFinding(t *testing.T) {
	left := 1800.0
	row := growth.Row{Frame: growth.Frame{Name: "put", File: "cache.cc", Line: 7}, Stack: []growth.Frame{{Name: "put", File: "cache.cc", Line: 7}, {Name: "main"}},
		PerS: 2 * mib, Error: 200 * kib, Live: 30 * mib, Class: growth.Leak, SecondsLeft: &left}
	seen, finding, err := growing(grownPair(row))
	if err != nil || finding == nil || finding.Severity != Severe || finding.Value != 2*mib || len(finding.Sites) != 1 || finding.Sites[0].Place != "put cache.cc:7" {
		t.Fatalf("%q %+v %v", seen, finding, err)
	}
	d := Examine(grownPair(row), All)
	text := d.Text("program")
	for _, want := range []string{"[growth]", "2.00 MiB/s ± 200.0 KiB in put cache.cc:7 (leak-like); it holds 30.00 MiB", "reaches the machine's memory in 30 min", "from main"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	left = 7200
	if _, finding, _ = growing(grownPair(row)); finding.Severity != Warning {
		t.Errorf("two hours to the limit are %s", finding.Severity)
	}
}

func TestGrowthWithoutFinding(t *testing.T) {
	seen, finding, err := growing(grownPair())
	if finding != nil || err != nil || !strings.Contains(seen, "a leak of less than 400.0 KiB/s may be unseen") {
		t.Errorf("%q %+v %v", seen, finding, err)
	}
	p := grownPair()
	p.Growth.Unattributed = true
	if _, finding, _ = growing(p); finding == nil || finding.Severity != Note || len(finding.Sites) != 0 {
		t.Errorf("%+v", finding)
	}
	p.Growth = nil
	if _, finding, err = growing(p); finding != nil || err == nil {
		t.Errorf("nothing was looked at: %+v, %v", finding, err)
	}
}

func TestAvailableMemory(t *testing.T) {
	if got := availableMemory("MemTotal:  100 kB\nMemAvailable:   2048 kB\n"); got != 2*mib {
		t.Error(got)
	}
	if got := availableMemory(""); got != 0 {
		t.Error(got)
	}
}
