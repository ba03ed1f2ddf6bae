package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach/fake"
)

// shopFile saves the shop's profile without symbols.
func shopFile(t *testing.T, s *shop, change func(*profile.Profile)) string {
	t.Helper()
	p := s.profile(t)
	if change != nil {
		change(p)
	}
	file := filepath.Join(t.TempDir(), "shop.pb")
	if err := os.WriteFile(file, uncompressed(t, p), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// After any conversion and back the table is the same, with the same symbols. For formats with addresses they are
// looked up again.
func TestConvert(t *testing.T) {
	shop := buildShop(t)
	in := shopFile(t, shop, func(p *profile.Profile) { p.Period = 1 }) // its rows are not the result of sampling
	dir := t.TempDir()
	table := func(file string, flags ...string) string {
		_, rows, _ := strings.Cut(tool(t, nil, append([]string{"top", file, "-n", "0"}, flags...)...).expectSuccess(t), "  function\n")
		return rows
	}
	want := table(in)
	if !strings.Contains(want, "shop::till") {
		t.Fatal(want)
	}
	for _, name := range []string{"out.pb.gz", "out.pb", "out.heap"} {
		file := filepath.Join(dir, name)
		if got := tool(t, nil, "convert", in, "-o", file).expectSuccess(t); got != file+"\n" {
			t.Errorf("printed %q", got)
		}
		hide := "none"
		if name == "out.heap" {
			hide = "^take_memory$" // this format cannot express the frames to drop
		}
		if got := table(file, "--hide", hide); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		// The reference pprof computes the same total.
		rows, _ := pprofTop(t, pprofs["reference pprof"], "inuse_space", file)
		if total := flatSum(t, rows); total != 3189936 {
			t.Errorf("%s: pprof says %d", name, total)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "out.pb")); err != nil || data[0] == 0x1f {
		t.Errorf("out.pb is compressed: %v", err)
	}
}

func TestConvertText(t *testing.T) {
	shop := buildShop(t)
	in := shopFile(t, shop, nil)
	collapsed := tool(t, nil, "convert", in, "--to", "collapsed").expectSuccess(t)
	want := "main 48\nmain;shop::serve;shop::basket 40960\nmain;shop::serve;shop::serve;shop::serve;shop::till 3200\nmain;shop::serve;shop::till 3145728\n"
	if collapsed != want {
		t.Errorf("got\n%s\nwant\n%s", collapsed, want)
	}
	if got := tool(t, nil, "convert", in, "--to", "collapsed", "--by", "alloc", "--unit", "objects", "--focus", "basket").expectSuccess(t); got != "main;shop::serve;shop::basket 100\n" {
		t.Errorf("got %s", got)
	}
	if got := tool(t, nil, "convert", in, "--to", "collapsed", "--raw").expectSuccess(t); strings.Contains(got, "till") || !strings.Contains(got, "0x5580") {
		t.Errorf("--raw: %s", got)
	}
	server := fake.Start(t, filepath.Join(t.TempDir(), "socket"))
	profile := shop.profileBytes(t)
	server.Answers["profile"] = func([]string) string { return string(profile) }
	if got := tool(t, nil, "convert", "--socket", server.Path, "--to", "collapsed").expectSuccess(t); got != want {
		t.Errorf("of a process: %s", got)
	}
}

// "-" is standard input.
func TestStandardInput(t *testing.T) {
	shop := buildShop(t)
	command := exec.Command(binary, "convert", "-", "--to", "collapsed", "--focus", "basket")
	command.Stdin = bytes.NewReader(shop.profileBytes(t))
	if out, err := command.CombinedOutput(); err != nil || string(out) != "main;shop::serve;shop::basket 40960\n" {
		t.Errorf("%v: %s", err, out)
	}
	command = exec.Command(binary, "top", "-")
	command.Stdin = strings.NewReader("hello")
	if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), "seemalloc: standard input: not a profile") {
		t.Errorf("%v: %s", err, out)
	}
}

// --base shows the difference.
func TestBase(t *testing.T) {
	shop := buildShop(t)
	now := shopFile(t, shop, func(p *profile.Profile) { p.Comments = []string{"2 dropped"} })
	before := shopFile(t, shop, func(p *profile.Profile) {
		p.Sample[0].Value = []int64{100, 102400, 50, 51200} // basket: 40 KiB now
		p.Sample[1].Value = []int64{1, 1048576, 1, 1048576} // till: 3 MiB now
	})
	out := tool(t, nil, "top", now, "--base", before).expectSuccess(t)
	for _, want := range []string{
		now + " since " + before + ": change of bytes in use by function",
		"Total +1.99 MiB ± ", "percentages are of the 1.05 MiB before", "Comment: 2 dropped\n",
		"   +2.00 MiB 190", "  shop::till\n", "  -10.00 KiB  -0.93%", "  shop::basket\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	top := parseTop(t, tool(t, nil, "top", now, "--base", before, "--json").expectSuccess(t))
	if top.Total != 2097152-10240 || top.Exact != nil || top.Error <= 0 {
		t.Errorf("%+v", top)
	}
	// The error is that of the remaining rows: all blocks belong to one function or the other. Each error allows for
	// one block that was missed.
	basket := parseTop(t, tool(t, nil, "top", now, "--base", before, "--focus", "shop::basket", "--json").expectSuccess(t))
	till := parseTop(t, tool(t, nil, "top", now, "--base", before, "--ignore", "shop::basket", "--json").expectSuccess(t))
	if sum := math.Hypot(basket.Error, till.Error); basket.Error <= 0 || basket.Error >= top.Error || sum < top.Error || sum > 1.1*top.Error {
		t.Errorf("errors %g of the one and %g of the other, together %g instead of %g", basket.Error, till.Error, sum, top.Error)
	}
	r := tool(t, nil, "convert", now, "--base", before, "--to", "collapsed")
	if r.out != "main;shop::serve;shop::till 2097152\n" || !strings.Contains(r.err, "cannot hold negative values: 1 row that shrank, by 10.00 KiB in total") {
		t.Errorf("%+v", r)
	}
}

// A profile that is not of memory opens with its own values.
func TestOtherKinds(t *testing.T) {
	shop := buildShop(t)
	file := filepath.Join(t.TempDir(), "cpu.pb")
	if err := os.WriteFile(file, shop.withTypes(t, "samples", "cpu"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := tool(t, nil, "top", file).expectSuccess(t)
	if !strings.Contains(out, "CPU time by function") || !strings.Contains(out, "7.34 ms") {
		t.Errorf("got %s", out)
	}
}

func flatSum(t *testing.T, rows []string) (sum int64) {
	t.Helper()
	for _, row := range rows {
		value, _, _ := strings.Cut(row, " ")
		n := int64(0)
		for _, digit := range strings.TrimPrefix(value, "-") {
			n = 10*n + int64(digit-'0')
		}
		if strings.HasPrefix(value, "-") {
			n = -n
		}
		sum += n
	}
	return sum
}

// earlier is the shop's profile one minute ago: less in till, more in basket, and no recursion yet.
func earlier(t *testing.T, shop *shop) string {
	return shopFile(t, shop, func(p *profile.Profile) {
		p.Sample[0].Value = []int64{100, 102400, 50, 51200}
		p.Sample[1].Value = []int64{1, 1048576, 1, 1048576}
		p.Sample[2].Value = []int64{0, 0, 0, 0}
		p.Sample[4].Location = p.Sample[1].Location[1:2] // main is gone, till is alone
		p.TimeNanos -= 61_000_000_000
		p.Comments = []string{"nothing missing"}
	})
}

func expectTexts(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestDiff(t *testing.T) {
	shop := buildShop(t)
	before, now := earlier(t, shop), shopFile(t, shop, nil)
	out := tool(t, nil, "diff", before, now).expectSuccess(t)
	expectTexts(t, out, before+" → "+now+": bytes in use, 1m01s later\n", "Total 1.05 MiB → 3.04 MiB: +1.99 MiB ± ",
		"; 2 stacks new, 1 gone\n", before+": Comment: nothing missing\n",
		"    1.00 MiB     3.00 MiB ~  +2.00 MiB ", "  shop::till\n", "   50.00 KiB    40.00 KiB ~ -10.00 KiB ", "  shop::basket < shop::serve < main\n",
		"  (new) shop::till < shop::serve < shop::serve < shop::serve < main\n", "  (new) main\n", "  (gone) shop::till\n", "~: within twice")
	expectTexts(t, tool(t, nil, "diff", now, before).expectSuccess(t), "EARLIER")
	var d struct {
		Total     struct{ Before, After, Change int64 }
		Functions []struct {
			Name   string
			Change int64
		}
		New int `json:"new_stacks"`
	}
	if err := json.Unmarshal([]byte(tool(t, nil, "diff", before, now, "--json").expectSuccess(t)), &d); err != nil {
		t.Fatal(err)
	}
	if d.Total.Change != 3189936-1048576-51200-48 || d.Functions[0].Name != "shop::till" || d.New != 2 {
		t.Errorf("%+v", d)
	}
	// A process, and a filter that matches only one of the two.
	pid := serveSelf(t, shop.profileBytes(t))
	expectTexts(t, tool(t, nil, "diff", before, pid, "--focus", "^main$").expectSuccess(t), "(pid "+pid+"): bytes in use", "Filtered: focus ^main$", "(new) main\n",
		"(pid "+pid+"): Missing: samples dropped")
	tool(t, nil, "diff", before, now, "--focus", "nosuch").expectFailure(t, 1, "no function matches focus nosuch")
}

func TestTree(t *testing.T) {
	shop := buildShop(t)
	now := shopFile(t, shop, func(p *profile.Profile) { p.Comments = []string{"2 dropped"} })
	out := tool(t, nil, "tree", now, "--min", "0").expectSuccess(t)
	expectTexts(t, out, "    3.12 KiB    0.10%     3.12 KiB  └─ shop::serve → shop::serve → shop::till\n")
	out = tool(t, nil, "tree", now, "--min", "0", "--unfold").expectSuccess(t)
	expectTexts(t, out, now+": bytes in use by call path", "Comment: 2 dropped\n", `
    3.04 MiB  100.00%         48 B  main
    3.04 MiB  100.00%               shop::serve
    3.00 MiB   98.61%     3.00 MiB  ├─ shop::till
   40.00 KiB    1.28%    40.00 KiB  ├─ shop::basket
    3.12 KiB    0.10%               └─ shop::serve
    3.12 KiB    0.10%                  shop::serve
    3.12 KiB    0.10%     3.12 KiB     shop::till
`)
	expectTexts(t, tool(t, nil, "tree", now, "--invert").expectSuccess(t), "    3.00 MiB   98.71%               shop::till ← shop::serve\n", "└─ (1 smaller: --min 0 shows more)\n")
	expectTexts(t, tool(t, nil, "tree", now, "--depth", "1").expectSuccess(t), "(1 deeper: --depth 0 shows more)\n")
	expectTexts(t, tool(t, nil, "tree", now, "--base", earlier(t, shop)).expectSuccess(t), "change of bytes in use by call path", "   +2.00 MiB ", "├─ shop::till\n")
	expectTexts(t, tool(t, nil, "tree", now, "--json").expectSuccess(t), `"name": "shop::basket",`, `"cum": 3189936,`)
}

func TestPeekAndList(t *testing.T) {
	shop := buildShop(t)
	now := shopFile(t, shop, func(p *profile.Profile) { p.Comments = []string{"2 dropped"} })
	out := tool(t, nil, "peek", now, "till|basket").expectSuccess(t)
	expectTexts(t, out, now+": bytes in use by callers and callees", "Comment: 2 dropped\n", "  3 MiB   100% |   shop::serve\n", "| shop::till\n", "   40 KiB  1.28%   100%     40 KiB  1.28%                | shop::basket\n")
	if strings.Contains(out, "Showing nodes") || strings.Contains(out, "MB") {
		t.Errorf("pprof's own heading:\n%s", out)
	}
	tool(t, nil, "peek", now, "nosuch").expectFailure(t, 1, now+": no function matches nosuch")

	out = tool(t, nil, "list", now, "shop::serve").expectSuccess(t)
	expectTexts(t, out, "bytes in use by line", "ROUTINE ======================== shop::serve in ", "   3.04 MiB (flat, cum)   100% of Total\n", "void* b = till(n);")
	// The source has moved.
	out = toolIn(t, "/", nil, "list", now, "shop::serve").expectSuccess(t)
	expectTexts(t, out, "ROUTINE", "Error:")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	out = toolIn(t, "/", nil, "list", now, "shop::serve", "--source-path", here).expectSuccess(t)
	expectTexts(t, out, "void* b = till(n);")
	pid := serveSelf(t, shop.profileBytes(t))
	expectTexts(t, tool(t, nil, "list", pid, "shop::basket").expectSuccess(t), "exact live bytes: 72.00 MiB", "ROUTINE ======================== shop::basket in ")
	// The kind applies to the process, so that the two are comparable.
	if got := tool(t, nil, "diff", now, pid, "--kind", "peak"); strings.Contains(got.err, "is a file") {
		t.Errorf("%+v", got)
	}
}

// pprof's percentages of a difference refer to all changes, gains and losses, and its own heading contains a minus
// sign.
func TestPeekAndListOfADifference(t *testing.T) {
	shop := buildShop(t)
	now := shopFile(t, shop, func(p *profile.Profile) {})
	before := shopFile(t, shop, func(p *profile.Profile) {
		p.Sample[1].Value = []int64{1, 1048576, 9, 9 * 1048576} // till: 3 MiB now
	})
	for command, first := range map[string]string{"peek": "----------", "list": "ROUTINE ="} {
		out := tool(t, nil, command, now, "shop::till", "--base", before).expectSuccess(t)
		got := lines(out)
		at := slices.IndexFunc(got, func(line string) bool { return strings.HasPrefix(line, first) })
		if at < 0 || !strings.HasPrefix(got[at-1], "Comment: ") && !strings.HasPrefix(got[at-1], "Total -6.00 MiB") || !strings.Contains(out, "-6 MiB") {
			t.Errorf("%s: its table does not follow our heading:\n%s", command, out)
		}
		if strings.Contains(out, "percentages are of") {
			t.Errorf("%s: pprof's percentages are not of that:\n%s", command, out)
		}
	}
}
