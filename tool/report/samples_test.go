package report

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/testseed"
)

// randomSamples builds samples of all kinds that writers produce: with and without labels, without a stack, and with
// large location ids.
func randomSamples(random *rand.Rand, count int) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		Mapping:    []*profile.Mapping{{ID: 1, Start: 0x1000, Limit: 0x9000, File: "/bin/x"}},
		Comments:   []string{"one", "two"}, DropFrames: "malloc",
	}
	for i := range 200 {
		id := uint64(i + 1)
		if i >= 150 {
			id = random.Uint64() | 1<<20
		}
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("f%d", i)}
		p.Function = append(p.Function, f)
		p.Location = append(p.Location, &profile.Location{ID: id, Mapping: p.Mapping[0], Line: []profile.Line{{Function: f}}})
	}
	for range count {
		s := &profile.Sample{Value: []int64{random.Int63n(300), random.Int63() - random.Int63()}}
		for range random.Intn(12) {
			s.Location = append(s.Location, p.Location[random.Intn(200)])
		}
		if random.Intn(3) == 0 {
			s.Label = map[string][]string{"pool": []string{"a", "b"}[:1+random.Intn(2)], "lifetime": {"alive"}}
		}
		if random.Intn(3) == 0 {
			s.NumLabel = map[string][]int64{"bytes": {random.Int63n(1 << 40)}, "both": {0, 7, -7}}
			s.NumUnit = map[string][]string{"bytes": {"bytes"}, "both": {"s", "", "ms"}}
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func encoded(t testing.TB, p *profile.Profile) []byte {
	t.Helper()
	var plain bytes.Buffer
	if err := p.WriteUncompressed(&plain); err != nil {
		t.Fatal(err)
	}
	return plain.Bytes()
}

// differs describes the difference between two profiles, or returns "" if they are equal.
func differs(got, want *profile.Profile) string {
	if len(got.Sample) != len(want.Sample) {
		return fmt.Sprintf("%d samples instead of %d", len(got.Sample), len(want.Sample))
	}
	for i, w := range want.Sample {
		g := got.Sample[i]
		if !reflect.DeepEqual(g.Value, w.Value) || !reflect.DeepEqual(g.Label, w.Label) || !reflect.DeepEqual(g.NumLabel, w.NumLabel) ||
			!reflect.DeepEqual(g.NumUnit, w.NumUnit) || len(g.Location) != len(w.Location) {
			return fmt.Sprintf("sample %d: %+v instead of %+v", i, g, w)
		}
		for j := range w.Location {
			if g.Location[j].ID != w.Location[j].ID {
				return fmt.Sprintf("sample %d: location %d is %d instead of %d", i, j, g.Location[j].ID, w.Location[j].ID)
			}
		}
	}
	if got.String() != want.String() {
		return "\n" + got.String() + "\ninstead of\n" + want.String()
	}
	return ""
}

func TestSamplesAreReadAsPprofReadsThem(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	for _, count := range []int{1, 100, 3 * pieceSamples} {
		plain := encoded(t, randomSamples(random, count))
		want, err := profile.ParseData(plain)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := parseSamples(plain)
		if !ok {
			t.Fatalf("seed %d: %d samples are left to pprof", seed, count)
		}
		if difference := differs(got, want); difference != "" {
			t.Errorf("seed %d: %s", seed, difference)
		}
		if err := got.CheckValid(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// For arbitrary bytes: the result equals pprof's, and files that pprof rejects are left to pprof.
func TestDamagedSamplesFallBackToPprof(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	plain := encoded(t, randomSamples(random, 5))
	read, refused := 0, 0
	for range 1000 {
		damaged := bytes.Clone(plain)
		for range 1 + random.Intn(3) {
			damaged[random.Intn(len(damaged))] = byte(random.Intn(256))
		}
		if random.Intn(10) == 0 {
			damaged = damaged[:random.Intn(len(damaged))]
		}
		got, ok := parseSamples(damaged)
		want, err := profile.ParseData(damaged)
		switch {
		case err != nil:
			refused++
			if ok {
				t.Fatalf("seed %d: read, but pprof says %v: %x", seed, err, damaged)
			}
		case ok:
			read++
			if difference := differs(got, want); difference != "" {
				t.Fatalf("seed %d: %s: %x", seed, difference, damaged)
			}
		}
	}
	if read < 50 || refused < 50 {
		t.Errorf("seed %d: %d read and %d refused: too few of either", seed, read, refused)
	}
}

// Numbers may be unpacked, and if a field occurs twice both values count.
func TestSamplesOfOtherWriters(t *testing.T) {
	p := randomSamples(rand.New(rand.NewSource(testseed.Of(t))), 1)
	p.Sample[0].Location, p.Sample[0].Label, p.Sample[0].NumLabel, p.Sample[0].NumUnit = nil, nil, nil, nil
	p.Sample[0].Value = nil
	rest, _, _, ok := splitSamples(encoded(t, p))
	if !ok {
		t.Fatal("not a profile")
	}
	for name, sample := range map[string][]byte{
		"one by one":                  {0x08, 1, 0x08, 2, 0x10, 3, 0x10, 4},
		"in rows":                     {0x0a, 2, 1, 2, 0x12, 2, 3, 4},
		"both":                        {0x08, 1, 0x0a, 1, 2, 0x12, 1, 3, 0x10, 4},
		"with a field we do not know": {0x0a, 2, 1, 2, 0x12, 2, 3, 4, 0x28, 5, 0x31, 1, 2, 3, 4, 5, 6, 7, 8},
	} {
		plain := append(append(bytes.Clone(rest), 0x12, byte(len(sample))), sample...)
		got, ok := parseSamples(plain)
		if !ok {
			t.Errorf("%s: left to pprof", name)
			continue
		}
		want, err := profile.ParseData(plain)
		if err != nil {
			t.Fatal(err)
		}
		if difference := differs(got, want); difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
		if s := got.Sample[0]; len(s.Location) != 2 || s.Location[1].ID != 2 || !reflect.DeepEqual(s.Value, []int64{3, 4}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A compressed file ends with the size of its content, which can be damaged like any other byte.
func TestSizeOfACompressedFileIsNotBelieved(t *testing.T) {
	for _, data := range [][]byte{{}, {1, 2}, {0xff, 0xff, 0xff, 0xff}, append(make([]byte, 96), 0xff, 0xff, 0xff, 0xff)} {
		if size := plainSize(data); size > 30*len(data)+bytes.MinRead {
			t.Errorf("%d bytes: room for %d", len(data), size)
		}
	}
}

// A server keeps many profiles, most of which are small.
func TestSmallProfilesTakeLittle(t *testing.T) {
	plain := encoded(t, randomSamples(rand.New(rand.NewSource(testseed.Of(t))), 10))
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const many = 100
	kept := make([]*profile.Profile, 0, many)
	before := inUse()
	for range many {
		p, err := Parse(plain, "small")
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, p)
	}
	if each := (inUse() - before) / many; each > 100_000 {
		t.Errorf("%d bytes for a profile that was written with %d", each, len(plain))
	}
	runtime.KeepAlive(kept)
}
