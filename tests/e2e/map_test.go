package e2e

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
)

// The map of a program that leaks: its parts cover its regions, its bytes are those of the statistics, and its leak is
// named.
func TestMap(t *testing.T) {
	need(t)
	p := leak(t, 20, "--sample", "64K")
	out := tool(t, "map", p.pid, "-n", "0")
	if !strings.Contains(out, ": heap map\n") || !regexp.MustCompile(`\n[0-9a-f]+ +\d+ .*\|.{64}\|`).MatchString(out) {
		t.Errorf("no map in\n%s", out)
	}
	var stats struct {
		Memory struct {
			LiveAllocated int64 `json:"live_allocated"`
		}
		Spans map[string]int64
	}
	parse(t, tool(t, "stats", p.pid, "--json"), &stats)
	var live, spans int64
	stacks := map[string]string{}
	named := false
	for _, line := range strings.Split(strings.TrimSpace(tool(t, "map", p.pid, "--json")), "\n") {
		var one struct {
			Region    string
			Stack     string
			Frames    []struct{ Function string }
			Block     string
			Bytes     int64
			LiveBytes int64 `json:"live_bytes"`
			Parts     []struct {
				Page, Pages, Size int64
				Is, Stack         string
			}
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if one.Frames != nil {
			for _, frame := range one.Frames {
				stacks[one.Stack] += frame.Function + " "
			}
		}
		live += one.LiveBytes
		if one.Block != "" {
			live += one.Bytes
		}
		next := int64(0)
		for _, part := range one.Parts {
			if part.Page != next {
				t.Fatalf("a part at %d, want %d, in %s", part.Page, next, line)
			}
			next += part.Pages
			if part.Is == "small" || part.Is == "sampled" {
				spans++
			}
			named = named || strings.Contains(stacks[part.Stack], "leak")
		}
		if one.Region != "" && next != 256 {
			t.Errorf("%d pages in %s", next, line)
		}
	}
	// Blocks in free lists of threads count as live in the map and as cached in the statistics.
	if live < stats.Memory.LiveAllocated || live > stats.Memory.LiveAllocated+stats.Memory.LiveAllocated/4+1<<20 {
		t.Errorf("%d bytes are live, by the statistics %d", live, stats.Memory.LiveAllocated)
	}
	if want := stats.Spans["owned"] + stats.Spans["central"] + stats.Spans["empty"] + stats.Spans["sampled"]; spans < want-5 || spans > want+5 {
		t.Errorf("%d spans, by the statistics %d", spans, want)
	}
	if !named {
		t.Errorf("no stack pins anything; stacks %v", stacks)
	}
}

func TestMapRejectsInvalidInput(t *testing.T) {
	need(t)
	p := leak(t, 1)
	for _, line := range []string{"map 1 2", "map 0x10", "map 0x20 0x10", "map 0x 0x10", "map 0x0 0x11111111111111111", "map 0x0 0x10 more"} {
		if answer := askSocket(t, p.pid, line); !strings.HasPrefix(answer, "error expected map or map 0xFROM 0xTO: ") {
			t.Errorf("%s: %q", line, answer)
		}
	}
	if answer := askSocket(t, p.pid, "map 0x0 0x10"); !strings.HasPrefix(answer, "ok ") {
		t.Errorf("%q", answer)
	}
	if _, complaint, status := try(t, "map", p.pid, "-n", "-3"); status != 2 || !strings.Contains(complaint, "-n -3: expected 0 or more") {
		t.Errorf("%d %s", status, complaint)
	}
}

// askSocket sends a line and returns the first line of the answer.
func askSocket(t *testing.T, pid, line string) string {
	t.Helper()
	conn := connect(t, pid)
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := conn.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
