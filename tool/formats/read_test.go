package formats

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Every file that pprof reads gives the same result as in pprof.
func TestReadsPprofFormats(t *testing.T) {
	dir := pprofTestdata(t)
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	read := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".string") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := profile.ParseData(data)
		if err != nil {
			continue
		}
		for _, zipped := range []bool{false, true} {
			if zipped {
				data = compressed(t, data)
			}
			got, err := Read(data, file)
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			if len(got.Sample) != len(want.Sample) || len(got.Mapping) != len(want.Mapping) || fmt.Sprint(values(got)) != fmt.Sprint(values(want)) {
				t.Errorf("%s: not what pprof reads", file)
			}
			read++
		}
	}
	if read < 20 {
		t.Errorf("only %d files could be read", read)
	}
}

func values(p *profile.Profile) (all [][]int64) {
	for _, s := range p.Sample {
		all = append(all, s.Value)
	}
	return all
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return b.Bytes()
}

// A compressed profile is unpacked only once: unpacking takes as much memory as parsing.
func TestDecompressedOnce(t *testing.T) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}, Comments: []string{strings.Repeat("many words, ", 1<<19)}}
	var plain bytes.Buffer
	if err := p.WriteUncompressed(&plain); err != nil {
		t.Fatal(err)
	}
	zipped := compressed(t, plain.Bytes())
	allocated := func(work func() error) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := work()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	unzip := allocated(func() error { _, err := report.Unzip(zipped, "x"); return err })
	parse := allocated(func() error { _, err := Read(plain.Bytes(), "x"); return err })
	both := allocated(func() error { _, err := Read(zipped, "x"); return err })
	if unzip < float64(plain.Len()) || both > parse+1.5*unzip {
		t.Errorf("unpacking takes %.0f bytes, parsing %.0f, both %.0f", unzip, parse, both)
	}
}

// Heap profiles without allocations since the start hold live values, under the usual name.
func TestHeapTextNames(t *testing.T) {
	maps := "\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 0 /usr/bin/x\n"
	for text, want := range map[string]string{
		"heap profile: 1: 100 [ 1: 100] @ heapprofile\n 1: 100 [ 1: 100] @ 0x400010 0x400020\n" + maps: "map[inuse_objects:1 inuse_space:100]",
		"heap profile: 1: 100 [ 2: 300] @ heapprofile\n 1: 100 [ 2: 300] @ 0x400010\n" + maps:          "map[alloc_objects:2 alloc_space:300 inuse_objects:1 inuse_space:100]",
		"heap profile: 1: 100 [ 1: 100] @ growthz\n 1: 100 [ 1: 100] @ 0x400010\n" + maps:              "map[objects:1 space:100]",
		// Recorded once: 1/(1-exp(-100/1000)) blocks of 100 bytes. pprof truncates fractions.
		"heap profile: 1: 100 [ 0: 0] @ heap_v2/1000\n1: 100 [0: 0] @ 0x400010\n" + maps: "map[inuse_objects:10 inuse_space:1050]",
	} {
		p, err := Read([]byte(text), "x")
		if err != nil {
			t.Errorf("%v in %s", err, text)
			continue
		}
		if got := fmt.Sprint(totals(p)); got != want {
			t.Errorf("%s instead of %s in %s", got, want, text)
		}
	}
}

const jemallocText = `heap_v2/1000
  t*: 4: 3100 [10: 10000]
  t0: 3: 3000 [10: 10000]
  t7: 1: 100 [0: 0] worker: 1
@ 0x400011 0x400021
  t*: 3: 3000 [10: 10000]
  t0: 3: 3000 [10: 10000]
@ 0x400011 0x7f0000000031
  t*: 1: 100 [0: 0]
  t7: 1: 100 [0: 0]

MAPPED_LIBRARIES:
00400000-00500000 r--p 00000000 00:00 0      /usr/bin/x
00400000-00500000 r-xp 00000000 00:00 0      /usr/bin/x
7f0000000000-7f0000001000 r-xp 00001000 00:00 0  /usr/lib/liby.so
`

func TestJemalloc(t *testing.T) {
	p, err := Read([]byte(jemallocText), "x")
	if err != nil {
		t.Fatal(err)
	}
	q1000, q100 := 1-math.Exp(-1), 1-math.Exp(-0.1)
	for name, want := range map[string]float64{
		"inuse_objects": 3/q1000 + 1/q100, "inuse_space": 3000/q1000 + 100/q100, "alloc_objects": 10 / q1000, "alloc_space": 10000 / q1000,
	} {
		if got := totals(p)[name]; math.Abs(float64(got)-want) > 1 {
			t.Errorf("%s %d instead of %g", name, got, want)
		}
	}
	if p.Period != 1000 || p.DefaultSampleType != "inuse_space" || len(p.Sample) != 2 || len(p.Mapping) != 2 {
		t.Errorf("%v", p)
	}
	second := p.Sample[1].Location
	if second[0].Address != 0x400010 || second[0].Mapping.File != "/usr/bin/x" || second[1].Mapping.File != "/usr/lib/liby.so" {
		t.Errorf("%+v %+v", second[0], second[1])
	}
	if p.Sample[1].NumLabel["bytes"][0] != 100 {
		t.Errorf("labels %v", p.Sample[1].NumLabel)
	}
	if label := p.Sample[0].Label["thread"]; len(label) != 1 || label[0] != "t0" || p.Sample[1].Label["thread"][0] != "worker: 1" {
		t.Errorf("threads %v and %v", label, p.Sample[1].Label)
	}
	// Frames in the allocator's own library are removed, whatever their names.
	p, err = Read([]byte(strings.ReplaceAll(strings.ReplaceAll(jemallocText, "/usr/lib/liby.so", "/usr/lib/libjemalloc.so.2"), "@ 0x400011 0x7f", "@ 0x7f0000000041 0x400011 0x7f")), "x")
	if err != nil || len(p.Sample[1].Location) != 2 || p.Sample[1].Location[0].Address != 0x400010 || len(p.Sample[0].Location) != 2 {
		t.Errorf("%v %v", err, p)
	}
	// Without prof_accum there are no values since the start.
	p, err = Read([]byte(strings.ReplaceAll(jemallocText, "[10: 10000]", "[0: 0]")), "x")
	if err != nil || len(p.SampleType) != 2 || p.SampleType[1].Type != "inuse_space" {
		t.Errorf("%v %v", err, p)
	}
	// With an interval of 1 everything is recorded, so nothing is estimated.
	p, err = Read([]byte(strings.Replace(jemallocText, "heap_v2/1000", "heap_v2/1", 1)), "x")
	if err != nil || totals(p)["inuse_space"] != 3100 {
		t.Errorf("%v %v", err, totals(p))
	}
}

// The comments of libseemalloc_compat between jemalloc's lines, and the explanation of rows with Python functions.
func TestJemallocComments(t *testing.T) {
	lines := strings.SplitAfter(jemallocText, "\n")
	text := lines[0] + "# 3 more dropped for lack of memory\n" + strings.Join(lines[1:3], "") + "#in use: 7 bytes\n" + strings.Join(lines[3:], "")
	p, err := Read([]byte(text), "x")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Comments, "|"); got != "3 more dropped for lack of memory|in use: 7 bytes" {
		t.Errorf("comments %q", got)
	}
	plain, err := Read([]byte(jemallocText), "x")
	if err != nil || totals(p)["inuse_space"] != totals(plain)["inuse_space"] || len(p.Sample) != len(plain.Sample) {
		t.Errorf("%v: %v instead of %v", err, p, plain)
	}
	text = "heap_v2/1\n# 0x7000000001000017 is Keeper.hold at /srv/app.py:22 from 21\n@ 0x7000000001000017\n  t*: 1: 8 [0: 0]\n"
	if p, err = Read([]byte(text), "x"); err != nil || len(p.Location[0].Line) != 1 || p.Location[0].Line[0].Function.Name != "Keeper.hold" {
		t.Errorf("%v %v", err, p)
	}
}

// The values of the threads add up to those of all threads, which are estimated by the mean size over all threads.
func TestJemallocThreads(t *testing.T) {
	text := "heap_v2/1000\n  t*: 9: 4000 [0: 0]\n  t1: 8: 1000 [0: 0] small ones\n  t2: 1: 3000 [0: 0] large one\n" +
		"@ 0x400011\n  t*: 6: 3602 [0: 0]\n  t1: 5: 601 [0: 0]\n  t2: 1: 3001 [0: 0]\n" +
		"@ 0x400021\n  t*: 3: 398 [0: 0]\n  t1: 3: 398 [0: 0]\n" +
		"@ 0x400031\n  t*: 5: 500 [0: 0]\n  t1: 3: 300 [0: 0]\n"
	p, err := Read([]byte(text), "x")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string][2]int64{}
	for _, sample := range p.Sample {
		name := strings.Join(sample.Label["thread"], "")
		sum := sums[name]
		sum[0] += sample.Value[0]
		sum[1] += sample.Value[1]
		sums[name] = sum
	}
	first := 1 / (1 - math.Exp(-3602.0/6/1000))
	second, third := 1/(1-math.Exp(-398.0/3/1000)), 1/(1-math.Exp(-0.1))
	for name, want := range map[string][2]float64{
		"small ones": {5*first + 3*second, 601*first + 398*second}, "large one": {first, 3001 * first},
		"": {5 * third, 500 * third}, // a line is missing, so the owner of the remainder is unknown
	} {
		if got := sums[name]; math.Abs(float64(got[0])-want[0]) > 1 || math.Abs(float64(got[1])-want[1]) > 2 {
			t.Errorf("%q: %v instead of %v", name, got, want)
		}
	}
	if all := totals(p); all["inuse_space"] != rounded(3602*first)+rounded(398*second)+rounded(500*third) {
		t.Errorf("together %v", all)
	}
}

// jemallocOf writes jemalloc's output for the recorded blocks, t* before the threads.
func jemallocOf(r *rand.Rand, period int64, rows int) (text string, inuse, alloc float64) {
	var b strings.Builder
	fmt.Fprintf(&b, "heap_v2/%d\n  t*: 1: 1 [1: 1]\n  t3: 1: 1 [1: 1]\n", period)
	for range rows {
		b.WriteString("@")
		for range 1 + r.Intn(30) {
			fmt.Fprintf(&b, " %#x", 0x400000+r.Intn(1<<20))
		}
		size := int64(8 << r.Intn(18))
		live, all := int64(r.Intn(5)), int64(5+r.Intn(50))
		fmt.Fprintf(&b, "\n  t*: %d: %d [%d: %d]\n  t3: %d: %d [%d: %d] a name\n", live, live*size, all, all*size, live, live*size, all, all*size)
		factor := 1.0
		if period > 1 {
			factor = 1 / (1 - math.Exp(-float64(size)/float64(period)))
		}
		inuse += float64(live*size) * factor
		alloc += float64(all*size) * factor
	}
	b.WriteString("\nMAPPED_LIBRARIES:\n00400000-00600000 r-xp 00000000 08:01 17   /usr/bin/x\n")
	return b.String(), inuse, alloc
}

func TestJemallocRandom(t *testing.T) {
	r := random(t)
	for range 20 {
		rows, period := 1+r.Intn(50), int64(1)<<r.Intn(24)
		text, inuse, alloc := jemallocOf(r, period, rows)
		p, err := Read([]byte(text), "x")
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		sums := totals(p)
		// Each row is rounded to whole bytes.
		if math.Abs(float64(sums["inuse_space"])-inuse) > float64(rows) || math.Abs(float64(sums["alloc_space"])-alloc) > float64(rows) {
			t.Fatalf("%v instead of %g and %g in\n%s", sums, inuse, alloc, text)
		}
	}
}

// cpuFile writes a gperftools CPU profile: the stacks, each once, and the end mark.
func cpuFile(size int, order binary.ByteOrder, stacks [][]uint64) []byte {
	var b bytes.Buffer
	word := func(values ...uint64) {
		for _, v := range values {
			if size == 4 {
				_ = binary.Write(&b, order, uint32(v))
			} else {
				_ = binary.Write(&b, order, v)
			}
		}
	}
	word(0, 3, 0, 10000, 0)
	for i, stack := range stacks {
		word(uint64(i+1), uint64(len(stack)))
		word(stack...)
	}
	word(0, 1, 0)
	return append(b.Bytes(), "00400000-00600000 r-xp 00000000 08:01 17   /usr/bin/x\n"...)
}

func TestCPU(t *testing.T) {
	stacks := [][]uint64{{0x400100, 0x400200, 0x400300}, {0x400101, 0x400201}, {0x400102, 0x400202, 0x400302, 0x400402}}
	for _, kind := range cpuWords {
		data := cpuFile(kind.bytes, kind.order, stacks)
		p, err := Read(data, "x")
		if err != nil {
			t.Fatal(err)
		}
		if sums := totals(p); sums["samples"] != 6 || sums["cpu"] != 6*10_000_000 || p.Period != 10_000_000 || len(p.Comments) != 0 {
			t.Errorf("%v: %v", kind, p)
		}
		if p.Sample[0].Location[1].Address != 0x4001ff || p.Sample[0].Location[1].Mapping.File != "/usr/bin/x" {
			t.Errorf("%+v", p.Sample[0].Location[1])
		}
		end := bytes.Index(data, []byte("00400000-"))
		for n := range end {
			p, err := Read(data[:n], "x")
			record := n >= 5*kind.bytes // otherwise it is not recognizable as a CPU profile
			switch {
			case err == nil && (len(p.Comments) == 0 || len(p.Sample) > len(stacks)):
				t.Errorf("cut to %d: read as if it were whole", n)
			case err != nil && record && !strings.Contains(err.Error(), "x: a CPU profile: offset "):
				t.Errorf("cut to %d: %v", n, err)
			}
		}
	}
}

// Errors contain the line and what was expected there.
func TestErrors(t *testing.T) {
	jemalloc := func(old, new string) string {
		changed := strings.Replace(jemallocText, old, new, 1)
		if changed == jemallocText {
			t.Fatalf("%q is not in the text", old)
		}
		return changed
	}
	const heap = "heap profile: 1: 100 [ 1: 100] @ heap_v2/1000\n 1: 100 [ 1: 100] @ 0x400010\n"
	for _, test := range []struct{ text, want string }{
		{"heap_v2/x\n", "jemalloc: line 1: expected heap_v2/INTERVAL, but it is \"heap_v2/x\""},
		{"heap_v2/99999999999999999999\n", "line 1: expected an interval below"},
		{jemalloc("@ 0x400011 0x400021", "@ 0x400011 main"), `line 5: expected an address, 0x…, but it is "main"`},
		{jemalloc("@ 0x400011 0x400021", "@ 0x400011 400021"), `line 5: expected an address, 0x…, but it is "400021"`},
		{jemalloc("@ 0x400011 0x400021", "0x400011"), `line 5: expected @ 0xADDRESS …, t*:`},
		{jemalloc("  t*: 3: 3000 [10: 10000]\n", ""), "line 7: expected t*:"},
		{jemalloc("  t*: 3: 3000 [10: 10000]", "  t*: 3: 3000"), "line 6: expected t*: OBJECTS"},
		{jemalloc("  t*: 3: 3000 [", "  t*: 0: 3000 ["), "line 6: expected no bytes where there are no objects"},
		{jemalloc("  t*: 3: 3000 [", "  t*: 99999999999999999999: 3000 ["), "line 6: expected a number below 2^63"},
		{jemallocText[:strings.Index(jemallocText, "31\n")], "line 8: cut off in the middle"},
		{jemallocText[:strings.Index(jemallocText, "31\n")+3], "line 8: no line `t*: OBJECTS"},
		{"heap profile: many\n", "a heap profile: line 1: expected heap profile: OBJECTS"},
		{"heap profile: 1: 100 [ 1: 100]\n1: 2 [1: 2] @ 0x1\n", "line 1: expected `@ heapprofile` or `@ heap_v2/INTERVAL`"},
		{"heap profile: 1: 1", "line 1: cut off"},
		{heap + " 1: 100 @ 0x400010\n", "line 3: expected OBJECTS: BYTES [OBJECTS: BYTES] @ 0xADDRESS …"},
		{heap + " 1: 100 [ 1: 100] @ 0x40001", "line 3: cut off"},
		{"--- contentionz 1 ---\ncycles/second = 1000\nsampling period = 1\n 1 2 @ 0x1\n twice\n", "contention profile: line 5: expected TIME COUNT @"},
		{"goroutine profile: total 2\n1 @ 0x1\n1 at 0x2\n", "line 3: expected COUNT @"},
		{"--- something 1 ---\n", "a text profile that pprof cannot read"},
		{"hello, world\n", `not a profile: it begins with "hello, world\n"; expected profile.proto`},
		{"\x7fELF\x02\x01", `not a profile: it begins with "\x7fELF`},
		{"", "empty"},
	} {
		_, err := Read([]byte(test.text), "x")
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "x: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v", test.want, err)
		}
	}
}

// For any truncation of a text, the result is contained in the original: no panic, no truncated number or address.
func TestTruncatedTexts(t *testing.T) {
	r := random(t)
	jemalloc, _, _ := jemallocOf(r, 4096, 5)
	var heap bytes.Buffer
	p := sampled(r, 4096)
	if _, err := ByName("heap").Write(&heap, p, Options{Index: 3}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"jemalloc": jemalloc, "heap": heap.String()} {
		whole, err := Read([]byte(text), "x")
		if err != nil {
			t.Fatal(err)
		}
		known := map[uint64]bool{}
		for _, loc := range whole.Location {
			known[loc.Address] = true
		}
		sums := totals(whole)
		const cuts = 200
		for range cuts {
			n := r.Intn(len(text))
			part, err := Read([]byte(text[:n]), "x")
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%s cut to %d: %v", name, n, err)
				}
				continue
			}
			for _, loc := range part.Location {
				if !known[loc.Address] {
					t.Fatalf("%s cut to %d: an address %#x", name, n, loc.Address)
				}
			}
			for kind, sum := range totals(part) {
				if sum > sums[kind] {
					t.Fatalf("%s cut to %d: %s is %d of %d", name, n, kind, sum, sums[kind])
				}
			}
		}
	}
}

// Files may contain arbitrary bytes.
func TestReadRandom(t *testing.T) {
	r := random(t)
	jemalloc, _, _ := jemallocOf(r, 4096, 5)
	seeds := [][]byte{[]byte(jemalloc), []byte(jemallocText), cpuFile(8, binary.LittleEndian, [][]uint64{{1, 2, 3}, {4, 5}})}
	for range 500 {
		data := bytes.Clone(seeds[r.Intn(len(seeds))])
		for range 1 + r.Intn(4) {
			data[r.Intn(len(data))] = byte(r.Intn(256))
		}
		if _, err := Read(data, "x"); err != nil && (strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "x: ")) {
			t.Fatalf("%q from\n%q", err, data)
		}
	}
}
