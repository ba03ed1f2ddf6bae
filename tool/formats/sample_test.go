package formats

import (
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
	"seemalloc/tool/testseed"
)

var update = flag.Bool("update", false, "write the golden files anew")

// random returns a generator. Its seed is printed if the test fails.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewSource(testseed.Of(t)))
}

// builder builds a profile. It finds locations and functions by name.
type builder struct {
	p         *profile.Profile
	functions map[string]*profile.Function
	locations map[string]*profile.Location
}

func newBuilder(types ...string) *builder {
	b := &builder{&profile.Profile{}, map[string]*profile.Function{}, map[string]*profile.Location{}}
	for _, name := range types {
		unit := "count"
		switch {
		case strings.HasSuffix(name, "space"):
			unit = "bytes"
		case name == "cpu":
			unit = "nanoseconds"
		}
		b.p.SampleType = append(b.p.SampleType, &profile.ValueType{Type: name, Unit: unit})
	}
	b.p.DefaultSampleType = types[len(types)-1]
	return b
}

func (b *builder) mapping(start, limit, offset uint64, file string) *profile.Mapping {
	m := &profile.Mapping{ID: uint64(len(b.p.Mapping) + 1), Start: start, Limit: limit, Offset: offset, File: file}
	b.p.Mapping = append(b.p.Mapping, m)
	return m
}

// location returns the location at address, with `function file:line` for each function there, the innermost first.
func (b *builder) location(m *profile.Mapping, address uint64, lines ...string) *profile.Location {
	key := fmt.Sprint(address, lines)
	if loc := b.locations[key]; loc != nil {
		return loc
	}
	loc := &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: m, Address: address}
	for _, line := range lines {
		name, place, _ := strings.Cut(line, " ")
		file, number, _ := strings.Cut(place, ":")
		f := b.functions[name+file]
		if f == nil {
			f = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name, Filename: file}
			b.functions[name+file] = f
			b.p.Function = append(b.p.Function, f)
		}
		l := profile.Line{Function: f}
		fmt.Sscan(number, &l.Line)
		loc.Line = append(loc.Line, l)
	}
	b.locations[key] = loc
	b.p.Location = append(b.p.Location, loc)
	return loc
}

func (b *builder) sample(values []int64, size int64, stack ...*profile.Location) {
	s := &profile.Sample{Value: values, Location: stack}
	if size != 0 {
		s.NumLabel = map[string][]int64{"bytes": {size}}
		s.NumUnit = map[string][]string{"bytes": {"bytes"}}
	}
	b.p.Sample = append(b.p.Sample, s)
}

// shop is a small profile with all cases that a writer must handle: inlined frames, a library, an address without a
// symbol, recursion, an allocator frame, labels, names with special characters, and a stack that occurs twice.
func shop() *profile.Profile {
	b := newBuilder("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
	program := b.mapping(0x400000, 0x500000, 0, "/usr/bin/shop")
	library := b.mapping(0x7f0000000000, 0x7f0000100000, 0x1000, "/usr/lib/libbasket.so.1")
	main := b.location(program, 0x401000, "main /src/shop.cc:10")
	serve := b.location(program, 0x401100, "serve /src/shop.cc:20")
	till := b.location(program, 0x401200, "put_inlined /src/till.h:5", "till /src/shop.cc:31")
	lambda := b.location(program, 0x401300, "operator<;>(int,const*) /src/shop.cc:40")
	basket := b.location(library, 0x7f0000002000, "basket")
	unknown := b.location(library, 0x7f0000003000)
	malloc := b.location(program, 0x401400, "malloc")
	b.sample([]int64{1024, 65536, 512, 32768}, 64, malloc, till, serve, main)
	b.sample([]int64{3, 3145728, 2, 2097152}, 1048576, malloc, basket, unknown, main)
	b.sample([]int64{100, 3200, 0, 0}, 32, serve, serve, serve, main)
	b.sample([]int64{7, 700, 7, 700}, 100, lambda, main)
	b.sample([]int64{1, 128, 1, 128}, 128, malloc, till, serve, main)
	b.sample([]int64{1, 16, 1, 16}, 16)
	p := b.p
	p.PeriodType, p.Period = &profile.ValueType{Type: "space", Unit: "bytes"}, 1
	p.TimeNanos, p.DurationNanos = 1_790_000_000_123_456_789, 60_000_000_000
	p.DropFrames = "malloc"
	p.Comments = []string{"3 more dropped for lack of memory"}
	return p
}

// sampled builds a random heap profile like those of sampling: each row represents a number of recorded blocks of one
// size, and its values are rounded estimates.
func sampled(r *rand.Rand, period int64) *profile.Profile {
	b := newBuilder("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
	program := b.mapping(0x400000, 0x800000, 0, "/usr/bin/random")
	library := b.mapping(0x7f0000000000, 0x7f0000400000, 0x2000, "/usr/lib/librandom.so")
	estimate := func(recorded int, size int64) (int64, int64) {
		n := float64(recorded) / report.SampleProbability(float64(size), float64(period))
		return int64(math.Round(n)), int64(math.Round(n * float64(size)))
	}
	for range 1 + r.Intn(60) {
		var stack []*profile.Location
		for range 1 + r.Intn(20) {
			n := uint64(r.Intn(40))
			if r.Intn(2) == 0 {
				stack = append(stack, b.location(program, 0x400100+16*n, fmt.Sprintf("f%d random.cc:%d", n, n+1)))
			} else {
				stack = append(stack, b.location(library, 0x7f0000000100+16*n, fmt.Sprintf("lib%d", n)))
			}
		}
		size := int64(8 << r.Intn(20))
		size += r.Int63n(size) / 8 * 8
		recorded := 1 + r.Intn(30)
		objects, bytes := estimate(recorded, size)
		live, liveBytes := estimate(r.Intn(recorded+1), size)
		label := size
		if r.Intn(4) == 0 {
			label = 0
		}
		b.sample([]int64{objects, bytes, live, liveBytes}, label, stack...)
	}
	b.p.PeriodType, b.p.Period = &profile.ValueType{Type: "space", Unit: "bytes"}, period
	return b.p
}

// totals sums each sample type.
func totals(p *profile.Profile) map[string]int64 {
	sums := map[string]int64{}
	for _, s := range p.Sample {
		for i, v := range s.Value {
			sums[p.SampleType[i].Type] += v
		}
	}
	return sums
}

// pprofTestdata returns the directory of pprof's own test profiles, in all old formats.
func pprofTestdata(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/pprof").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "profile", "testdata")
	if _, err := os.Stat(dir); err != nil {
		t.Skip(err)
	}
	return dir
}
