package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestStatLines(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--conf", "purge_delay:60000", "--", caller)
	waitFor(t, socketOf(p.pid))
	stat := follow(t, "activity", p.pid, "--interval", "500ms", "--json")
	var lines []string
	in := bufio.NewScanner(stat.lines)
	next := func() {
		t.Helper()
		if !in.Scan() {
			t.Fatalf("it ended after %v", lines)
		}
		lines = append(lines, in.Text())
	}
	next() // one measurement
	p.tell(t, "gh")
	for range 2 { // the first may already have been under way
		next()
	}
	advice, maps := 0.0, 0.0
	for _, line := range lines {
		var stat struct {
			Seconds, RSS float64
			Madvise      float64 `json:"madvise_per_s"`
			Mmap         float64 `json:"mmap_per_s"`
		}
		if err := json.Unmarshal([]byte(line), &stat); err != nil || stat.RSS == 0 {
			t.Fatalf("%v in %s", err, line)
		}
		advice += stat.Madvise * stat.Seconds
		maps += stat.Mmap * stat.Seconds
	}
	// Each new region costs one advice.
	if advice < holes || advice > holes+10 || maps < 2 {
		t.Errorf("%.0f madvise, %.0f mmap in\n%s", advice, maps, strings.Join(lines, "\n"))
	}
}

func TestStatText(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", caller)
	waitFor(t, socketOf(p.pid))
	lines := strings.Split(strings.TrimSpace(tool(t, "activity", p.pid, "--interval", "10ms", "--count", "45")), "\n")
	if len(lines) != 45+3*2 {
		t.Fatalf("%d lines", len(lines))
	}
	columns := len(strings.Fields(lines[1]))
	for i, line := range lines {
		header := i%22 < 2
		if header != (strings.Contains(line, "madvise") || strings.Contains(line, "memory, MiB")) {
			t.Errorf("line %d: %s", i, line)
		}
		if !header && len(strings.Fields(line)) != columns {
			t.Errorf("%d columns in %q", columns, line)
		}
	}
}

func TestStatOfARun(t *testing.T) {
	need(t)
	out, summary, status := try(t, "activity", "--conf", "purge_delay:60000", "--", caller, "ghx")
	if status != 3 || out != "ready\n" {
		t.Errorf("status %d, standard output %q", status, out)
	}
	for _, want := range []string{
		`^caller: exit status 3 after \d+\.\d\d s; CPU `,
		fmt.Sprintf(`\nmadvise:dontneed +requested +%d +3\.1\d MiB +0 `, holes),
		`\nmmap +huge +2 +300\.\d MiB `, `\nmunmap +decay +1 +100\.\d MiB `,
		`\nall +\d+ `, `\nPage faults: `, `\nRefaults: `, `\nThreads: 1 heaps, `,
	} {
		if !regexp.MustCompile(want).MatchString(summary) {
			t.Errorf("%s is not in\n%s", want, summary)
		}
	}
	if strings.Contains(summary, "report") {
		t.Errorf("calls made for the tool itself are shown:\n%s", summary)
	}
}

// The program's own peak, not that of the tool that starts it, with which the kernel's figure begins.
func TestStatReportsPeakOfTheCommand(t *testing.T) {
	need(t)
	out, summary, _ := try(t, "activity", "--json", "--", "true")
	var said struct {
		PeakRSS int64 `json:"peak_rss"`
	}
	if err := json.Unmarshal([]byte(summary), &said); err != nil || said.PeakRSS <= 0 || said.PeakRSS > 6<<20 {
		t.Errorf("%v: %d bytes; %s%s", err, said.PeakRSS, out, summary)
	}
}

// A shell's children count, too.
func TestStatOfAShell(t *testing.T) {
	need(t)
	out, summary, status := try(t, "activity", "--", "sh", "-c", caller+" g; "+caller+" g")
	if status != 0 || out != "ready\nready\n" {
		t.Errorf("status %d, standard output %q", status, out)
	}
	// The shell itself provides statistics only if it lives long enough to be queried.
	if !regexp.MustCompile(fmt.Sprintf(`\nmadvise:dontneed +requested +%d `, 2*holes)).MatchString(summary) || !regexp.MustCompile(` of [23] processes `).MatchString(summary) {
		t.Errorf("not both in\n%s", summary)
	}
}

// Calls that a process made before it forks are not counted again in each child.
func TestStatOfARunThatForks(t *testing.T) {
	need(t)
	out, summary, status := try(t, "activity", "--", caller, "ghfff")
	if status != 0 || out != "ready\n" {
		t.Errorf("status %d, standard output %q", status, out)
	}
	if !regexp.MustCompile(fmt.Sprintf(`\nmadvise:dontneed +requested +%d `, holes)).MatchString(summary) || !strings.Contains(summary, " of 4 processes ") {
		t.Errorf("not once in\n%s", summary)
	}
}

func TestStatOfAKilledRun(t *testing.T) {
	need(t)
	out, summary, status := try(t, "activity", "--", caller, "gwwwwwk")
	if status != 128+9 || out != "ready\n" {
		t.Errorf("status %d, standard output %q", status, out)
	}
	for _, want := range []string{"signal: killed", "statistics of the last query", "madvise:dontneed"} {
		if !strings.Contains(summary, want) {
			t.Errorf("%q is not in\n%s", want, summary)
		}
	}
}

func TestStatOfASilentProgram(t *testing.T) {
	need(t)
	_, summary, status := try(t, "activity", "--", binary, "version") // ends without exit handlers
	// On a busy machine it lasts long enough to be asked.
	if status != 0 || !strings.Contains(summary, "No statistics") && !strings.Contains(summary, "without running its exit handlers") {
		t.Errorf("status %d\n%s", status, summary)
	}
}
