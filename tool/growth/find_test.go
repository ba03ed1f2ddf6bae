package growth

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"seemalloc/tool/testseed"
)

const (
	testInterval = 512 << 10
	testSteps    = 10
	testSeconds  = 15.0
)

// site is a simulated stack that allocates blocks of one size.
type site struct {
	stack string // functions, innermost first, separated by spaces
	size  int64
	live  float64 // blocks at the start
	// rate returns the number of blocks allocated per second at a time.
	rate func(seconds float64) float64
	// life is the mean lifetime in seconds; 0: the blocks are never freed.
	life float64
	// freed is the time when all blocks are freed; 0: never.
	freed float64
}

func always(rate float64) func(float64) float64 { return func(float64) float64 { return rate } }

// simulate samples the sites as the library does: each block with the probability 1-exp(-size/interval), which then
// counts for the inverse.
func simulate(random *rand.Rand, sites []site, seconds float64) []Moment {
	moments := make([]Moment, testSteps+1)
	for k := range moments {
		moments[k] = Moment{TimeNS: int64(float64(k)*seconds/testSteps*1e9) + 1, Interval: testInterval, Rows: map[Key]Counts{}, allocations: true}
	}
	for _, s := range sites {
		var frames []Frame
		for name := range strings.FieldsSeq(s.stack) {
			frames = append(frames, Frame{Name: name})
		}
		key := Key{Stack: stackOf(frames), Size: s.size, Sampled: s.size, Interval: testInterval}
		q := -math.Expm1(-float64(s.size) / testInterval)
		end := func(at float64) float64 {
			switch {
			case s.freed != 0:
				return s.freed
			case s.life == 0:
				return math.Inf(1)
			}
			return at + random.ExpFloat64()*s.life
		}
		var ends, births []float64
		for range poisson(random, s.live*q) {
			births, ends = append(births, -1), append(ends, end(0))
		}
		const parts = 300
		for part := range parts {
			at := (float64(part) + random.Float64()) * seconds / parts
			for range poisson(random, s.rate(at)*q*seconds/parts) {
				births, ends = append(births, at), append(ends, end(at))
			}
		}
		for k := range moments {
			now, counts := float64(k)*seconds/testSteps, Counts{}
			for i := range births {
				if births[i] <= now {
					counts.Allocated += 1 / q
					if ends[i] > now {
						counts.Live += 1 / q
					}
				}
			}
			moments[k].Rows[key] = counts
		}
	}
	return moments
}

// poisson draws a Poisson variable.
func poisson(random *rand.Rand, mean float64) int {
	n := 0
	for at := random.ExpFloat64(); at < mean; at += random.ExpFloat64() {
		n++
	}
	return n
}

// noise is a program in a steady state: stacks that only hold memory, and stacks whose blocks come and go.
func noise(random *rand.Rand) []site {
	var sites []site
	for i := range 60 {
		name := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		sites = append(sites, site{stack: "std::vector::push_back hold_" + name + " main", size: 1 << (4 + i%12), live: 1e6 / float64(int(16)<<(i%12)), rate: always(0)})
		life := math.Exp(random.Float64()*math.Log(1000)) / 100 // 10 ms to 10 s
		bytes := math.Exp(random.Float64()*math.Log(100)) * 1e6 // 1 to 100 MB live
		size := int64(64) << (i % 8)
		sites = append(sites, site{stack: "churn_" + name + " handle main", size: size, live: bytes / float64(size), rate: always(bytes / float64(size) / life), life: life})
	}
	return sites
}

func find(t *testing.T, moments []Moment) *Result {
	t.Helper()
	result, err := Find(moments, Options{Frames: NamedFrames})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestSteadyProgramsStayClean(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 1))
	const looks, most = 30, 5 // 1.5 of 30 are expected at most; more than 5 in one of 200 runs
	wrong := 0
	for range looks {
		sites := noise(random)
		sites = append(sites,
			site{stack: "fill main", size: 1000, rate: func(at float64) float64 { // a burst that stays
				if at > 6 && at < 7.5 {
					return 50e3
				}
				return 0
			}})
		if result := find(t, simulate(random, sites, testSeconds)); len(result.Rows) > 0 {
			t.Logf("a steady program: %s at %.0f ± %.0f bytes/s, confidence %.4f", result.Rows[0].Name, result.Rows[0].PerS, result.Rows[0].Error, result.Rows[0].Confidence)
			wrong++
		}
	}
	if wrong > most {
		t.Errorf("%d of %d looks at a steady program found growth", wrong, looks)
	}
}

func TestRatesAreWithinTheirErrors(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 2))
	const looks = 30
	beyond, rows, squares := 0, 0, 0.0
	for range looks {
		size := int64(16) << random.IntN(14)
		rate := (1 + 4*random.Float64()) * (1 << 20) // bytes a second
		sites := append(noise(random), site{stack: "std::allocator::allocate leak caller main", size: size, live: random.Float64() * 1e7 / float64(size), rate: always(rate / float64(size))})
		result := find(t, simulate(random, sites, testSeconds))
		for _, row := range result.Rows {
			if row.Name != "leak" {
				continue
			}
			rows++
			off := (row.PerS - rate) / row.Error
			squares += off * off
			if math.Abs(off) > 3 {
				beyond++
			}
			if row.Class != Leak {
				t.Errorf("a leak is %s: %.2f freed", row.Class, row.Freed)
			}
		}
	}
	if rows < looks*9/10 || beyond > 2 {
		t.Errorf("%d of %d leaks found, %d of them beyond three errors", rows, looks, beyond)
	}
	if mean := squares / float64(max(rows, 1)); mean < 0.3 || mean > 2.2 {
		t.Errorf("the mean square of the deviations is %.2f of the stated variance; 1 expected", mean)
	}
}

func TestCacheThatGrowsIsNoLeak(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 3))
	// 8 MiB a second are stored, and blocks live for 20 s: after 15 s it still grows.
	sites := []site{{stack: "put main", size: 1000, rate: always(8e6 / 1000), life: 20}, {stack: "put main", size: 64, live: 100, rate: always(1e6), life: 0.01}}
	result := find(t, simulate(random, sites, testSeconds))
	if len(result.Rows) != 1 || result.Rows[0].Class != Cache {
		t.Errorf("got %+v; one cache-like row expected", result.Rows)
	}
}

func TestOneCauseIsOneRow(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 4))
	const mib = 1 << 20
	for name, c := range map[string]struct {
		sites []site
		want  []string
	}{
		"several callers and sizes": {[]site{
			{stack: "std::string::assign put get main", size: 100, rate: always(mib / 100)},
			{stack: "std::__new_allocator::allocate std::map::emplace put set main", size: 200, rate: always(mib / 200)},
			{stack: "put bulk main", size: 400, rate: always(mib / 400)}}, []string{"put"}},
		"a function and its callee": {[]site{
			{stack: "make_value put main", size: 1000, rate: always(2000)},
			{stack: "std::map::emplace put main", size: 400, rate: always(2000)}}, []string{"put"}},
		"keys and values of one caller": {[]site{
			{stack: "make_key put main", size: 500, rate: always(20000)},
			{stack: "make_value put main", size: 1000, rate: always(20000)}}, []string{"put"}},
		"two leaks through one wrapper of malloc": {[]site{
			{stack: "filled parser main", size: 100 << 10, rate: always(20)},
			{stack: "filled session main", size: 1024, rate: always(5000)},
			{stack: "filled base main", size: 1000, live: 30000, rate: always(0)}}, []string{"session", "parser"}},
		"a function with blocks of all sizes": {[]site{
			{stack: "put get main", size: 64, rate: always(mib / 100)}, {stack: "put set main", size: 64, rate: always(mib / 200)},
			{stack: "put get main", size: 1024, rate: always(mib / 1000)}, {stack: "put set main", size: 1024, rate: always(mib / 1000)}}, []string{"put"}},
		"two leaks": {[]site{
			{stack: "one main", size: 500, rate: always(30000)},
			{stack: "other main", size: 1000, rate: always(5000)}}, []string{"one", "other"}},
	} {
		result := find(t, simulate(random, append(noise(random), c.sites...), testSeconds))
		var got []string
		for _, row := range result.Rows {
			if !strings.HasPrefix(row.Name, "churn_") { // chance
				got = append(got, row.Name)
			}
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: got rows %v, want %v", name, got, c.want)
		}
	}
}

// Tables that double are a jump; what they refer to grows steadily.
func TestElementsOfTablesThatDoubleAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 7))
	const mib = 1 << 20
	for _, tables := range []float64{1, 16} {
		for _, size := range []int64{1 * mib, 16 * mib} {
			doubles := 3 + 9*random.Float64()
			burst := func(at float64) float64 {
				if at > doubles && at < doubles+0.1 {
					return 10 * tables
				}
				return 0
			}
			rate := (1 + random.Float64()) * mib
			sites := append(noise(random),
				site{stack: "std::string::assign add main", size: 40, rate: always(rate / 40)},
				site{stack: "std::vector::reserve add main", size: size, live: tables, rate: always(0), freed: doubles},
				site{stack: "std::vector::reserve add main", size: 2 * size, rate: burst})
			rows := find(t, simulate(random, sites, testSeconds)).Rows
			i := slices.IndexFunc(rows, func(row Row) bool { return row.Name == "add" })
			if i < 0 || math.Abs(rows[i].PerS-rate) > 5*rows[i].Error || rows[i].Class != Leak || tables*float64(size) > 100*mib && rows[i].Jump == 0 {
				t.Errorf("%g tables of %d bytes: got %+v; add expected, at %g bytes/s", tables, size, rows, rate)
			}
		}
	}
}

// Many small leaks of one caller, of which none is certain alone.
func TestSmallLeaksAreFoundAtTheirCaller(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 5))
	sites := []site{{stack: "steady main", size: 1000, live: 1e5, rate: always(0)}}
	for i := range 60 {
		sites = append(sites, site{stack: "small_" + string(rune('A'+i)) + " parse main", size: 100, rate: always(60e3 / 100)})
	}
	result := find(t, simulate(random, sites, testSeconds))
	if len(result.Rows) == 0 || result.Rows[0].Name != "parse" {
		t.Errorf("got %+v; parse expected", result.Rows)
	}
}

// The stated bound: of leaks at this rate, at least 95 % are seen.
func TestUnseenIsABound(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 6))
	const looks, least = 30, 24
	seen := 0
	for range looks {
		sites := noise(random)
		bound := find(t, simulate(random, sites, testSeconds)).Unseen
		sites = append(sites, site{stack: "leak main", size: 100, rate: always(bound / 100)})
		for _, row := range find(t, simulate(random, sites, testSeconds)).Rows {
			if row.Name == "leak" {
				seen++
			}
		}
	}
	if seen < least {
		t.Errorf("%d of %d leaks at the stated bound were seen", seen, looks)
	}
}

func TestTails(t *testing.T) {
	for _, c := range []struct{ got, want float64 }{
		{halves(5, 5), 1.0 / 32}, {halves(3, 4), 5.0 / 16}, {halves(60, 100), 0.028444}, {studentTail(2.262157, 9), 0.025}, {studentTail(6.313752, 1), 0.05},
	} {
		if math.Abs(c.got-c.want) > 1e-5 {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}
