package report

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/testseed"
)

// typed builds a profile with one row.
func typed(period int64, types []string, values ...int64) *profile.Profile {
	p := &profile.Profile{PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: period, Sample: []*profile.Sample{{Value: values}}}
	for _, name := range types {
		unit := "bytes"
		if strings.HasSuffix(name, "_objects") {
			unit = "count"
		}
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: unit})
	}
	return p
}

func drawnAt(p *profile.Profile, interval int64) *profile.Profile {
	for _, s := range p.Sample {
		s.NumLabel = map[string][]int64{"bytes": {64}, "interval": {interval}}
		s.NumUnit = map[string][]string{"bytes": {"bytes"}, "interval": {"bytes"}}
	}
	return p
}

// Rows that were drawn at another interval than that of the option have the error of their own interval. Values that
// are not sizes, and values with an underscore in their name, have their own error too.
func TestStandardErrorOfOtherRows(t *testing.T) {
	random := rand.New(rand.NewSource(testseed.Of(t)))
	const interval, blocks, rounds, size, asked = 4096, 3000, 900, 512, 300
	q := -math.Expm1(-float64(size) / interval)
	for name, of := range map[string]struct {
		each  float64
		index int
		made  func(n float64) *profile.Profile
	}{
		"a finer interval now":  {size, 1, func(n float64) *profile.Profile { return drawnAt(heap(n, size, interval/8), interval) }},
		"a coarser one":         {size, 1, func(n float64) *profile.Profile { return drawnAt(heap(n, size, interval*8), interval) }},
		"sampling is off":       {size, 1, func(n float64) *profile.Profile { return drawnAt(heap(n, size, 0), interval) }},
		"all is recorded now":   {size, 1, func(n float64) *profile.Profile { return drawnAt(heap(n, size, 1), interval) }},
		"freed by others":       {size, 1, func(n float64) *profile.Profile { return remote(n, size, interval) }},
		"objects of those":      {1, 0, func(n float64) *profile.Profile { return remote(n, size, interval) }},
		"bytes asked for":       {asked, 2, func(n float64) *profile.Profile { return churn(n, size, asked, interval) }},
		"objects that go along": {1, 0, func(n float64) *profile.Profile { return churn(n, size, asked, interval) }},
	} {
		var totals, errors []float64
		for range rounds {
			recorded := recordedOf(random, blocks, q)
			top, err := NewTop(of.made(float64(recorded)/q), of.index)
			if err != nil {
				t.Fatal(err)
			}
			totals, errors = append(totals, float64(top.Total)), append(errors, float64(top.Error))
			if top.MinInterval != interval || top.MaxInterval != interval {
				t.Fatalf("%s: drawn at %d to %d", name, top.MinInterval, top.MaxInterval)
			}
		}
		mean, spread := moments(totals)
		promised, _ := moments(errors)
		if math.Abs(mean/(blocks*of.each)-1) > 6*spread/math.Sqrt(rounds)/mean {
			t.Errorf("%s: mean %g, exactly %g", name, mean, blocks*of.each)
		}
		if ratio := promised / spread; !(ratio > 0.85 && ratio < 1.15) {
			t.Errorf("%s: promised %g, really %g", name, promised, spread)
		}
	}
}

// The number of blocks that realloc has resized in place follows from the sampling probability of their old size, and
// their weight from their present size.
func TestStandardErrorOfResizedRows(t *testing.T) {
	random := rand.New(rand.NewSource(testseed.Of(t)))
	const interval, blocks, rounds, drawn, size = 4096, 3000, 900, 128, 8192
	q := -math.Expm1(-float64(drawn) / interval)
	var totals, errors []float64
	for range rounds {
		recorded := recordedOf(random, blocks, q)
		p := heap(float64(recorded)/q, size, interval)
		p.Sample[0].NumLabel = map[string][]int64{"bytes": {size}, "drawn": {drawn}}
		totals, errors = append(totals, float64(Total(p, 1))), append(errors, math.Sqrt(Variance(p, 1)))
	}
	_, spread := moments(totals)
	if promised, _ := moments(errors); promised < 0.85*spread || promised > 1.15*spread {
		t.Errorf("promised %g, really %g", promised, spread)
	}
}

func remote(n, size float64, period int64) *profile.Profile {
	return typed(period, []string{"remote_free_objects", "remote_free_space"}, int64(math.Round(n)), int64(math.Round(n*size)))
}

func churn(n, size, asked float64, period int64) *profile.Profile {
	return typed(period, []string{"alloc_objects", "alloc_space", "requested_space"}, int64(math.Round(n)), int64(math.Round(n*size)),
		int64(math.Round(n*asked)))
}

// An unknown error is neither 0 nor silently missing.
func TestUnknownErrors(t *testing.T) {
	for name, p := range map[string]*profile.Profile{
		"an unknown interval":   heap(10, 64, 0),
		"no number of blocks":   typed(4096, []string{"other_objects", "inuse_space"}, 1, 64),
		"what others left free": typed(4096, []string{"fragmentation_objects", "fragmentation_space"}, 1, 64),
	} {
		top, err := NewTop(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(top)
		if top.Error.Known() || !strings.Contains(top.ErrorText(), "unknown") || err != nil || !strings.Contains(string(text), `"standard_error":null`) {
			t.Errorf("%s: %q, %v\n%s", name, top.ErrorText(), err, text)
		}
	}
	if top, _ := NewTop(drawnAt(heap(10, 64, 4096), 1), 1); top.Error != 0 || top.ErrorText() != "" {
		t.Errorf("all of it was recorded, and yet %q", top.ErrorText())
	}
	mixed := heap(1000, 64, 4096)
	mixed.Sample = append(mixed.Sample, drawnAt(heap(1000, 64, 4096), 1<<20).Sample...)
	if top, _ := NewTop(mixed, 1); !strings.Contains(top.ErrorText(), "(standard error; sampled once in 4.00 KiB to 1.00 MiB on average)") {
		t.Error(top.ErrorText())
	}
}

// The error that a profile states is that of its total and of no other value.
func TestStatedErrorIsOfTheTotal(t *testing.T) {
	p := heap(1000, 64, 4096)
	p.Comments = []string{"in use: 64003 bytes estimated, standard error 777 bytes; exactly 65000 live bytes, by allocated size"}
	if value, found := StatedError(p, 1); !found || value != 777 {
		t.Errorf("got %g, %v", value, found)
	}
	if top, _ := NewTop(p, 1); top.Error != 777 {
		t.Errorf("got %g", top.Error)
	}
	p.Sample[0].Value[1] = 60000 // a sample has been filtered out
	if _, found := StatedError(p, 1); found {
		t.Error("taken for that of another total")
	}
	if _, found := StatedError(p, 0); found {
		t.Error("the error of the objects is not stated")
	}
}

func fragments(bytes, stated string, value int64) *profile.Profile {
	p := typed(4096, []string{"fragmentation_objects", "fragmentation_space"}, 10, value)
	p.Comments = []string{"fragmentation: 9999 bytes free in spans that live blocks keep, by the heap's books; " + bytes +
		" bytes charged to the stacks of such blocks, standard error " + stated + " bytes; the rest is kept by blocks that lie in threads' lists"}
	return p
}

func TestDiffOfFragmentation(t *testing.T) {
	d, err := NewDiff(fragments("5000", "300", 5000), 1, fragments("9000", "400", 9000), 1)
	if err != nil {
		t.Fatal(err)
	}
	if d.Total.Error != 500 {
		t.Errorf("the total's error is %g, want 500", d.Total.Error)
	}
	if d.Stacks[0].Error.Known() || d.Stacks[0].withinError() {
		t.Errorf("%+v", d.Stacks[0])
	}
	if text := d.Text(0); !strings.Contains(text, "± ?  (no stack)") || !strings.Contains(text, "\n± ?: standard error unknown\n") {
		t.Error(text)
	}
	if text, err := json.Marshal(d); err != nil || !strings.Contains(string(text), `"standard_error":null`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// The same rows have a different label after the option `sample` has changed. They are still the same rows.
func TestSubtractAtAnotherInterval(t *testing.T) {
	const before, after = 524288, 65536
	base := heap(1000, 64, before)
	base.Sample = append(base.Sample, drawnAt(heap(300, 128, before), after).Sample...)
	p := drawnAt(heap(1000, 64, after), before)
	p.Sample = append(p.Sample, heap(300, 128, after).Sample...)
	for _, q := range []*profile.Profile{base, p} {
		for i, s := range q.Sample {
			if s.NumLabel == nil {
				s.NumLabel, s.NumUnit = map[string][]int64{}, map[string][]string{}
			}
			s.NumLabel["bytes"], s.NumUnit["bytes"] = []int64{int64(64 << i)}, []string{"bytes"}
		}
	}
	p.Sample[1].Value[0] += 2
	p.Sample[1].Value[1] += 256
	change, err := Subtract(p, base)
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, s := range change.Sample {
		if s.Value[0] != 0 {
			left++
		}
	}
	if left != 1 || Total(change, 1) != 256 || intervalOf(change, change.Sample[0]) != after && intervalOf(change, change.Sample[1]) != after {
		t.Errorf("left: %v", change.Sample)
	}
	if variance, want := Variance(change, 1), Variance(heap(2, 128, after), 1); variance != want {
		t.Errorf("its error is %g, want %g", math.Sqrt(variance), math.Sqrt(want))
	}
}

// A difference that is saved and read again is not taken for a whole profile. Its duration is the time between the two
// profiles.
func TestDifferenceReadAgain(t *testing.T) {
	now := time.Now().UnixNano()
	made := func(at, took int64, n float64) *profile.Profile {
		p := typed(1, []string{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}, int64(n), int64(n)*64, int64(n), int64(n)*64)
		p.TimeNanos, p.DurationNanos = at, took
		p.Comments = []string{"in use: 640 bytes estimated, standard error 0 bytes; exactly 640 live bytes, by allocated size"}
		return p
	}
	for name, of := range map[string]struct {
		make                     func(p, base *profile.Profile) (*profile.Profile, error)
		before, after, wantNanos int64
		comment                  string
	}{
		"difference":    {Subtract, now - 3e9, now, 3e9, "difference: changes over 3.0s"},
		"exchanged":     {Subtract, now, now - 3e9, 0, "difference: changes between two profiles"},
		"times unknown": {Subtract, 0, now, 0, "difference: changes between two profiles"},
		"window":        {func(p, base *profile.Profile) (*profile.Profile, error) { return Window(base, p) }, now - 3e9, now, 3e9, "window: changes over 3.0s"},
	} {
		change, err := of.make(made(of.after, 60e9, 10), made(of.before, 57e9, 4))
		if err != nil {
			t.Fatal(err)
		}
		var file strings.Builder
		if err := change.Write(&file); err != nil {
			t.Fatal(err)
		}
		read, err := Parse([]byte(file.String()), "x")
		if err != nil {
			t.Fatal(err)
		}
		if read.DurationNanos != of.wantNanos || read.Comments[0] != of.comment || Exact(read) != nil {
			t.Errorf("%s: %d ns, %q, exactly %v", name, read.DurationNanos, read.Comments, Exact(read))
		}
		top, err := NewTop(read, 1)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{true: "128 B per second over 3.0s"}[of.wantNanos != 0]; top.Rate() != want {
			t.Errorf("%s: %q, want %q", name, top.Rate(), want)
		}
		for _, row := range top.Rows {
			perSecond, shown := 0.0, ""
			if of.wantNanos != 0 {
				perSecond, shown = float64(row.Flat)/3, " 128 B "
			}
			if math.Abs(row.PerSecond-perSecond) > 1e-6 || !strings.Contains(top.Text(0), shown) || strings.Contains(top.Text(0), "flat/s") != (shown != "") {
				t.Errorf("%s: %+v in\n%s", name, row, top.Text(0))
			}
		}
	}
}

// Profiles of older versions word the exact numbers differently; both wordings are read.
func TestExactLiveBytesInBothWordings(t *testing.T) {
	for comment, want := range map[string]int64{
		"in use: 640 bytes estimated, standard error 0 bytes; exactly 650 live bytes, by allocated size":           650,
		"in use: 640 bytes estimated, standard error 0 bytes; exactly 650 bytes are handed out, by allocated size": 650,
		"in use: 640 bytes estimated, standard error 0 bytes; exactly 650 bytes are handed out":                    650,
		"since: the baseline was set 3 ms before; live bytes changed by exactly -65, by allocated size":            -65,
		"since: the baseline was set 3 ms before; exactly -65 bytes more are handed out, by allocated size":        -65,
		"since: the baseline was set 3 ms before; exactly -65 bytes more are handed out":                           -65,
	} {
		p := typed(1, []string{"alloc_objects", "alloc_space"}, 10, 640)
		p.Comments = []string{comment}
		got := Exact(p)
		if strings.HasPrefix(comment, "since") {
			got = ExactMore(p)
		}
		if got == nil || *got != want {
			t.Errorf("%v instead of %d: %q", got, want, comment)
		}
	}
}

// The exact number of allocated bytes covers the same time as the estimate.
func TestExactAllocated(t *testing.T) {
	line := func(n int, since string) string {
		return fmt.Sprintf("allocated: 640 bytes estimated, standard error 7 bytes; exactly %d bytes since the %s", n, since)
	}
	said := func(comments ...string) *profile.Profile {
		p := typed(1, []string{"alloc_objects", "alloc_space"}, 10, 640)
		p.Comments = comments
		return p
	}
	change := func(make func(p, base *profile.Profile) (*profile.Profile, error), before, after *profile.Profile) *profile.Profile {
		p, err := make(after, before)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	window := func(p, base *profile.Profile) (*profile.Profile, error) { return Window(base, p) }
	const none = -1 << 62
	for name, of := range map[string]struct {
		p    *profile.Profile
		want int64
	}{
		"nothing said":            {said("allocated: 640 bytes estimated, standard error 7 bytes"), none},
		"since the start":         {said("of no use", line(700, "start")), 700},
		"since the baseline":      {said(line(70, "baseline"), "since: the baseline was set 3 ms before"), 70},
		"window":                  {change(window, said(line(700, "start")), said(line(950, "start"))), 250},
		"less":                    {change(Subtract, said(line(700, "start")), said(line(650, "start"))), -50},
		"one does not say":        {change(Subtract, said(), said(line(650, "start"))), none},
		"of a window and nothing": {change(Subtract, said(), change(window, said(line(1, "start")), said(line(5, "start")))), none},
		"two in one":              {said(line(700, "start"), line(800, "start")), none},
	} {
		got := ExactAllocated(of.p)
		if got == nil && of.want != none || got != nil && *got != of.want {
			t.Errorf("%s: %v instead of %d: %q", name, got, of.want, of.p.Comments)
		}
	}
}
