package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"seemalloc/tool/attach"
	"seemalloc/tool/attach/fake"
)

// serve makes this test process look like a program on seemalloc, with the fake server's answers.
func serve(t *testing.T) *fake.Server {
	t.Helper()
	self, err := attach.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return fake.Start(t, self.SocketPaths()[0])
}

// serveSelf makes this test process look like a program on seemalloc.
func serveSelf(t *testing.T, profile []byte) (pid string) {
	t.Helper()
	server := serve(t)
	server.Answers["profile"] = func(args []string) string {
		if len(args) != 1 || args[0] != "heap" {
			return "error unknown profile"
		}
		return string(profile)
	}
	return strconv.Itoa(os.Getpid())
}

// The statistics are requested only where they are shown, beside the live bytes, because they cost the process some
// work.
func TestStatisticsAreQueriedOnlyWhenShown(t *testing.T) {
	profile := buildShop(t).profileBytes(t)
	server := serve(t)
	var asked atomic.Int64
	server.Answers["stats"] = func([]string) string {
		asked.Add(1)
		return fake.Stats
	}
	server.Answers["profile"] = func([]string) string { return string(profile) }
	pid := strconv.Itoa(os.Getpid())
	for _, of := range []struct {
		args []string
		want int64
	}{
		{[]string{"top", pid}, 1},
		{[]string{"top", pid, "--kind", "peak"}, 0},
		{[]string{"top", pid, "--by", "alloc", "--seconds", "10ms"}, 0},
	} {
		asked.Store(0)
		tool(t, nil, of.args...).expectSuccess(t)
		if got := asked.Load(); got != of.want {
			t.Errorf("%v: asked %d times, expected %d", of.args, got, of.want)
		}
	}
}

func TestTopOfProcess(t *testing.T) {
	pid := serveSelf(t, buildShop(t).profileBytes(t))
	out := tool(t, nil, "top", pid).expectSuccess(t)
	for _, want := range []string{
		"(pid " + pid + "): bytes in use by function",
		"Total 3.04 MiB ± ", "exact live bytes: 72.00 MiB by allocated size",
		"Missing: samples dropped for lack of space: 2; samples with a stack truncated at the depth limit (option stack_depth): 3\n",
		"flat   flat%    sum%          cum    cum%  function",
		"3.00 MiB  98.71%  98.71%     3.00 MiB  98.71%  shop::till",
		"48 B   0.00% 100.00%     3.04 MiB 100.00%  main",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "take_memory") {
		t.Errorf("a dropped frame is shown:\n%s", out)
	}
	top := parseTop(t, tool(t, nil, "top", pid, "--json").expectSuccess(t))
	if top.Total != 3189936 || top.Exact == nil || *top.Exact != 75497472 || top.Error <= 0 {
		t.Errorf("%+v", top)
	}
	cum := parseTop(t, tool(t, nil, "top", pid, "--json", "--sort", "cum", "-n", "2", "--by", "alloc").expectSuccess(t))
	if len(cum.Functions) != 2 || cum.Functions[0].Name != "main" || cum.Functions[1].Name != "shop::serve" || cum.Exact != nil {
		t.Errorf("%+v", cum)
	}
}

func TestTopFilters(t *testing.T) {
	pid := serveSelf(t, buildShop(t).profileBytes(t))
	for _, test := range []struct {
		flags []string
		total int64
		first string
	}{
		{[]string{"--focus", "basket"}, 40960, "shop::basket"},
		{[]string{"--ignore", "basket"}, 3145728 + 3200 + 48, "shop::till"},
		{[]string{"--hide", "till|basket"}, 3189936, "shop::serve"},
		{[]string{"--show", "serve"}, 3189888, "shop::serve"},
		{[]string{"--names", "full", "--focus", "basket"}, 40960, "shop::basket(int)"},
	} {
		top := parseTop(t, tool(t, nil, append([]string{"top", pid, "--json"}, test.flags...)...).expectSuccess(t))
		if top.Total != test.total || len(top.Functions) == 0 || top.Functions[0].Name != test.first {
			t.Errorf("%v: %+v", test.flags, top)
		}
	}
}

func TestProfileFiles(t *testing.T) {
	pid := serveSelf(t, buildShop(t).profileBytes(t))
	dir := t.TempDir()
	name := strings.TrimSpace(toolIn(t, dir, nil, "profile", pid).expectSuccess(t))
	if !strings.HasPrefix(name, "seemalloc.") || !strings.HasSuffix(name, "."+pid+".heap.pb.gz") {
		t.Errorf("default name %s", name)
	}
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil || info.Mode().Perm()&0o600 != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	// No temporary file is left behind.
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files", len(entries))
	}
	streamed := tool(t, nil, "profile", pid, "-o", "-").expectSuccess(t)
	if !strings.HasPrefix(streamed, "\x1f\x8b") {
		t.Error("standard output is not gzip")
	}
	tool(t, nil, "profile", pid, "-o", "/dev/null").expectSuccess(t)
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().IsRegular() {
		t.Fatal("/dev/null was replaced by a file")
	}
	tool(t, nil, "profile", pid, "-o", dir).expectFailure(t, 1, "folder")
	tool(t, nil, "profile", pid, "-o", "/nowhere/heap.pb.gz").expectFailure(t, 1, "/nowhere/heap.pb.gz", "no such")
}

func TestStats(t *testing.T) {
	pid := serveSelf(t, nil)
	out := tool(t, nil, "stats", pid).expectSuccess(t)
	for _, want := range []string{
		"seemalloc 0.1.0, up 1m01s, thread heaps 5 in use, 9 so far",
		"(RSS) 100.0 MiB, of which",
		"live              70.00 MiB  70.00%", "cached            10.00 MiB  10.00%", "fragmentation      5.00 MiB   5.00%",
		"metadata           2.00 MiB   2.00%", "not ours          13.00 MiB  13.00%",
		"1,234 samples so far", "71.53 MiB ± 5.96 MiB", "samples dropped for lack of space: 2",
		"madvise:dontneed    decay               7     7.00 MiB", "all                                     7     7.00 MiB", "25,600 minor",
		"1,024       40       60,000", "  97.66%          3\n",
		"after 2.0s (purge:balanced); of 6.00 MiB returned automatically, 1.50 MiB were reused soon (25.00%)\n" +
			"  reused soon after it was returned at free, on request or because memory was short: 512.0 KiB\n" +
			"  reused of purged holes in spans: 8.00 KiB\n",
		"threads'           12     3.00 MiB", "returned                  4.00 MiB",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "difference") || strings.Contains(out, "        32 ") {
		t.Errorf("a sum that is wrong, or an unused size class:\n%s", out)
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(tool(t, nil, "stats", pid, "--json").expectSuccess(t)), &all); err != nil {
		t.Fatal(err)
	}
	if all["a_field_from_the_future"] == nil {
		t.Error("--json drops fields that this tool does not know")
	}
}

func TestThinCommands(t *testing.T) {
	pid := serveSelf(t, nil)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"get", pid, "sample"}, "512K\n"},
		{[]string{"set", pid, "sample=64K"}, "sample=64K\n"},
		{[]string{"get", pid, "sample"}, "64K\n"},
		{[]string{"purge", pid}, "1.00 MiB returned to the OS\n"},
	} {
		if got := tool(t, nil, test.args...).expectSuccess(t); got != test.want {
			t.Errorf("%v: got %q, want %q", test.args, got, test.want)
		}
	}
	tool(t, nil, "set", pid, "colour=red").expectFailure(t, 1, "unknown option colour", "pid "+pid)
	all := lines(tool(t, nil, "get", pid).expectSuccess(t))
	if len(all) != 4 || strings.Fields(all[1])[0] != "sample" || strings.Join(strings.Fields(all[3]), " ") != "dump_prefix - - any text" {
		t.Errorf("%q", all)
	}
	if got := tool(t, nil, "version", pid).expectSuccess(t); !strings.Contains(got, "(pid "+pid+"): seemalloc 0.1.0") {
		t.Errorf("%q", got)
	}
}

func TestPs(t *testing.T) {
	pid := serveSelf(t, nil)
	out := tool(t, nil, "ps").expectSuccess(t)
	var mine string
	for _, line := range lines(out) {
		if strings.HasPrefix(line, pid+" ") {
			mine = line
		}
	}
	if !strings.HasPrefix(out, "PID ") || !strings.Contains(mine, "72.00 MiB") {
		t.Errorf("got %s", out)
	}
	var rows []struct {
		PID    int
		Live   int64
		Socket string
	}
	if err := json.Unmarshal([]byte(tool(t, nil, "ps", "--json").expectSuccess(t)), &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if fmt.Sprint(row.PID) == pid {
			if row.Live != 75497472 || row.Socket != "open" {
				t.Errorf("%+v", row)
			}
			return
		}
	}
	t.Error("not in ps --json")
}
