package formats

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func write(t *testing.T, format string, p *profile.Profile, index int) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := ByName(format).Write(&b, p, Options{Index: index, Source: "shop.pb.gz"}); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.Bytes()
}

// Each format is compared byte by byte with testdata/shop.*. `go test ./tool/formats -update` rewrites these files.
func TestGolden(t *testing.T) {
	for _, f := range All {
		got := write(t, f.Name, shop(), 3)
		if f.Name == "proto" {
			p, err := profile.ParseData(got)
			if err != nil {
				t.Fatal(err)
			}
			got = []byte(p.String()) // compressed bytes may change with the version of the library
		}
		golden := filepath.Join("testdata", "shop."+f.Name)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", f.Name, got, want)
		}
	}
}

func TestByExtension(t *testing.T) {
	for file, want := range map[string]string{
		"a.pb.gz": "proto", "a.pb": "proto", "x/a.heap": "heap", "a.folded": "collapsed", "a.collapsed": "collapsed", "a.json": "json",
		"a.speedscope.json": "speedscope", "dhat.json": "json", "a.dhat.json": "dhat", "a.csv": "csv",
	} {
		if f := ByExtension(file); f == nil || f.Name != want {
			t.Errorf("%s: %v", file, f)
		}
	}
	if f := ByExtension("a.txt"); f != nil {
		t.Errorf("%v", f)
	}
}

// profile.proto → heap_v2 → profile.proto: the result differs only by rounding, and pprof reads the same values.
func TestHeapTextRoundTrip(t *testing.T) {
	r := random(t)
	for range 25 {
		period := int64(1)
		if r.Intn(5) > 0 {
			period = 1 << (8 + r.Intn(14))
		}
		p := sampled(r, period)
		text := write(t, "heap", p.Copy(), 3)
		if want := fmt.Sprintf("@ heap_v2/%d\n", period); !strings.Contains(string(text), want) {
			t.Fatalf("the interval is not kept: %.80s, want %s", text, want)
		}
		back, err := Read(text, "x")
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		reference, err := profile.ParseData(text)
		if err != nil || fmt.Sprint(values(reference)) != fmt.Sprint(values(back)) {
			t.Fatalf("pprof reads something else: %v", err)
		}
		sums, want := totals(back), totals(p)
		if sums["alloc_space"] == 0 && want["alloc_space"] == want["inuse_space"] {
			delete(want, "alloc_space") // readers interpret equal totals as the absence of the second pair
			delete(want, "alloc_objects")
		}
		for name, sum := range want {
			// Readers truncate each row's number and bytes, both of which were rounded before.
			allowed := 3 * float64(len(p.Sample))
			if math.Abs(float64(sums[name]-sum)) > allowed {
				t.Fatalf("%s: %d instead of %d in\n%s", name, sums[name], sum, text)
			}
		}
		if got, want := stacks(back), stacks(p); got != want {
			t.Fatalf("stacks\n%s\ninstead of\n%s", got, want)
		}
	}
}

// stacks lists the addresses of each nonempty sample.
func stacks(p *profile.Profile) string {
	var b strings.Builder
	for _, s := range p.Sample {
		for _, loc := range s.Location {
			fmt.Fprintf(&b, "%#x in %s ", loc.Address, loc.Mapping.File)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A thread that samples too fast has some rows at a longer interval: they are converted to samples at the profile's
// interval. A row of a shorter interval represents less than one sample, so the whole profile is written unconverted.
func TestHeapTextOfRowsAtOtherIntervals(t *testing.T) {
	const period, size = 1 << 19, 256 << 10
	of := func(interval int64, blocks, size float64) *profile.Profile {
		b := newBuilder("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
		n, bytes := int64(blocks), int64(blocks*size)
		b.sample([]int64{n, bytes, n, bytes}, 0, b.location(b.mapping(0x1000, 0x9000, 0, "/x"), 0x1005, "f"))
		b.p.PeriodType, b.p.Period = &profile.ValueType{Type: "space", Unit: "bytes"}, period
		b.p.Sample[0].NumLabel = map[string][]int64{"bytes": {int64(size)}, "interval": {interval}}
		return b.p
	}
	text := write(t, "heap", of(16*period, 4000, size), 3)
	back, err := Read(text, "x")
	if err != nil || !strings.Contains(string(text), fmt.Sprintf("@ heap_v2/%d\n", period)) {
		t.Fatalf("%v %.80s", err, text)
	}
	if got := totals(back)["inuse_space"]; math.Abs(float64(got)/(4000*size)-1) > 0.001 {
		t.Errorf("%d bytes of %d in\n%s", got, 4000*size, text)
	}
	if text := string(write(t, "heap", of(1, 10, 64), 3)); !strings.HasPrefix(text, "heap profile: 10: 640 [10: 640] @ heap_v2/1\n") {
		t.Errorf("%.80s", text)
	}
}

// Rows that cannot come from sampling at the profile's interval are written unconverted.
func TestHeapTextOfOtherRows(t *testing.T) {
	p := shop()
	p.Period = 512 << 10 // the rows are exact
	text := string(write(t, "heap", p, 3))
	if !strings.HasPrefix(text, "heap profile: 523: 2130764 [1136: 3215308] @ heap_v2/1\n") {
		t.Errorf("%.80s", text)
	}
	b := newBuilder("samples", "cpu")
	b.sample([]int64{1, 10}, 0, b.location(b.mapping(1, 9, 0, "/x"), 5, "f"))
	for _, format := range []string{"heap", "dhat"} {
		if _, err := ByName(format).Write(&bytes.Buffer{}, b.p, Options{Index: 1}); err == nil || !strings.Contains(err.Error(), "this profile has samples, cpu") {
			t.Errorf("%s: %v", format, err)
		}
	}
	b = newBuilder("inuse_objects", "inuse_space")
	b.sample([]int64{1, 10}, 0, b.location(nil, 0, "f"))
	if _, err := ByName("heap").Write(&bytes.Buffer{}, b.p, Options{Index: 1}); err == nil || !strings.Contains(err.Error(), "holds addresses") {
		t.Errorf("%v", err)
	}
}

// Every format that holds a total holds that of the profile.
func TestTotals(t *testing.T) {
	r := random(t)
	for range 4 {
		p := sampled(r, 4096)
		for index, kind := range p.SampleType {
			want := totals(p)[kind.Type]
			for name, got := range map[string]int64{
				"collapsed":  collapsedTotal(t, write(t, "collapsed", p.Copy(), index)),
				"speedscope": speedscopeTotal(t, write(t, "speedscope", p.Copy(), index), index),
				"csv":        csvTotal(t, write(t, "csv", p.Copy(), index), index),
				"json":       jsonTotal(t, write(t, "json", p.Copy(), index), index),
				"dhat":       dhatTotal(t, write(t, "dhat", p.Copy(), index), index),
			} {
				if got != want {
					t.Errorf("%s of %s: %d instead of %d", kind.Type, name, got, want)
				}
			}
		}
	}
}

func collapsedTotal(t *testing.T, data []byte) (total int64) {
	for line := range strings.Lines(string(data)) {
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseInt(strings.TrimSpace(line[at+1:]), 10, 64)
		if err != nil || value <= 0 {
			t.Fatalf("%q", line)
		}
		total += value
	}
	return total
}

func csvTotal(t *testing.T, data []byte, index int) (total int64) {
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		value, err := strconv.ParseInt(row[index], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		total += value
	}
	return total
}

func jsonTotal(t *testing.T, data []byte, index int) (total int64) {
	var file jsonFile
	strictly(t, data, &file)
	for _, s := range file.Samples {
		total += s.Values[index]
		for _, f := range s.Stack {
			if f < 0 || f >= len(file.Frames) {
				t.Fatalf("frame %d of %d", f, len(file.Frames))
			}
		}
	}
	return total
}

func strictly(t *testing.T, data []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v in %.300s", err, data)
	}
}

// speedscopeTotal also checks the requirements of speedscope's schema.
func speedscopeTotal(t *testing.T, data []byte, index int) int64 {
	t.Helper()
	var file struct {
		Schema   string `json:"$schema"`
		Name     string
		Exporter string
		Active   *int `json:"activeProfileIndex"`
		Shared   struct {
			Frames []struct {
				Name *string
				File string
				Line int
				Col  int
			}
		}
		Profiles []struct {
			Type, Name, Unit     string
			StartValue, EndValue *int64
			Samples              [][]int
			Weights              []int64
		}
	}
	strictly(t, data, &file)
	if file.Schema != "https://www.speedscope.app/file-format-schema.json" || len(file.Profiles) != 4 || *file.Active != index {
		t.Fatalf("%.200s", data)
	}
	units := map[string]bool{"none": true, "nanoseconds": true, "microseconds": true, "milliseconds": true, "seconds": true, "bytes": true}
	for _, p := range file.Profiles {
		if p.Type != "sampled" || !units[p.Unit] || p.StartValue == nil || p.EndValue == nil || len(p.Samples) != len(p.Weights) {
			t.Fatalf("%+v", p)
		}
		sum := *p.StartValue
		seen := map[string]bool{}
		for i, stack := range p.Samples {
			for _, frame := range stack {
				if frame < 0 || frame >= len(file.Shared.Frames) || file.Shared.Frames[frame].Name == nil {
					t.Fatalf("frame %d of %d", frame, len(file.Shared.Frames))
				}
			}
			if key := fmt.Sprint(stack); seen[key] || p.Weights[i] <= 0 {
				t.Fatalf("%s twice, or weight %d", key, p.Weights[i])
			} else {
				seen[key] = true
			}
			sum += p.Weights[i]
		}
		if sum != *p.EndValue {
			t.Fatalf("%s ends at %d, its weights at %d", p.Name, *p.EndValue, sum)
		}
	}
	return *file.Profiles[index].EndValue
}

// dhatTotal also makes the checks that dh_view.js makes for files of version 2.
func dhatTotal(t *testing.T, data []byte, index int) (total int64) {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dhatFileVersion", "mode", "verb", "bklt", "bkacc", "tu", "Mtu", "cmd", "pid", "te", "tg", "tuth", "pps", "ftbl"} {
		if _, found := fields[name]; !found {
			t.Fatalf("no field %s", name)
		}
	}
	if fields["dhatFileVersion"] != 2.0 || fields["bklt"] != true || fields["bkacc"] != false || fields["ftbl"].([]any)[0] != "[root]" {
		t.Fatalf("%.200s", data)
	}
	seen := map[string]bool{}
	for _, point := range fields["pps"].([]any) {
		pp := point.(map[string]any)
		for _, name := range []string{"tb", "tbk", "tl", "mb", "mbk", "gb", "gbk", "eb", "ebk", "fs"} {
			if _, found := pp[name]; !found {
				t.Fatalf("no field %s in %v", name, pp)
			}
		}
		stack := pp["fs"].([]any)
		if key := fmt.Sprint(stack); seen[key] || len(stack) == 0 {
			t.Fatalf("the stack %s is there twice, or empty", key)
		} else {
			seen[key] = true
		}
		for _, frame := range stack {
			if n := int(frame.(float64)); n < 1 || n >= len(fields["ftbl"].([]any)) {
				t.Fatalf("frame %d", n)
			}
		}
		total += int64(pp[[]string{"tbk", "tb", "ebk", "eb"}[index]].(float64))
	}
	return total
}

// Differences have negative values, which some formats cannot hold. The omitted values are reported.
func TestNegative(t *testing.T) {
	for _, f := range All {
		p := shop()
		p.Sample[0].Value = []int64{-1024, -65536, -512, -32768}
		left, err := f.Write(&bytes.Buffer{}, p, Options{Index: 3})
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		want := Omitted{1, -32768}
		switch f.Name {
		case "proto", "csv", "json":
			want = Omitted{}
		case "dhat": // holds all allocated blocks
			want.Sum = -65536
		case "collapsed": // has one line for the two rows of the stack
			want.Sum += 128
		}
		if left != want {
			t.Errorf("%s: left out %+v, want %+v", f.Name, left, want)
		}
	}
}
