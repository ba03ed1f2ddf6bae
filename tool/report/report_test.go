package report

import (
	"bytes"
	"compress/gzip"
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/testseed"
)

func TestUnits(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 B", 512: "512 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 102400: "100.0 KiB", 1047552: "1023.0 KiB",
		1048575: "1.00 MiB", 1 << 30: "1.00 GiB", 1 << 62: "4096.0 PiB", -2048: "-2.00 KiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%.0f) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		5 * time.Millisecond: "5ms", 1500 * time.Millisecond: "1.5s", 90 * time.Second: "1m30s", 3*time.Hour + 5*time.Minute: "3h05m",
		50 * time.Hour: "2d02h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%s) = %s, want %s", d, got, want)
		}
	}
}

// heap builds a heap profile with one row: the counted blocks of one size.
func heap(count, size float64, period int64) *profile.Profile {
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"},
		Period:     period,
		Sample:     []*profile.Sample{{Value: []int64{int64(math.Round(count)), int64(math.Round(count * size))}}},
	}
}

// The standard error in a report must equal the actual spread of the samples.
func TestStandardError(t *testing.T) {
	random := rand.New(rand.NewSource(testseed.Of(t)))
	const period, blocks, rounds = 4096, 3000, 900
	for _, size := range []float64{64, 1024, 16384} {
		q := -math.Expm1(-size / period)
		var totals, errors []float64
		for range rounds {
			recorded := recordedOf(random, blocks, q)
			top, err := NewTop(heap(float64(recorded)/q, size, period), 1)
			if err != nil {
				t.Fatal(err)
			}
			totals = append(totals, float64(top.Total))
			errors = append(errors, float64(top.Error))
		}
		mean, spread := moments(totals)
		promised, _ := moments(errors)
		if math.Abs(mean/(blocks*size)-1) > 6*spread/math.Sqrt(rounds)/mean {
			t.Errorf("size %g: mean %g, exactly %g", size, mean, blocks*size)
		}
		if ratio := promised / spread; ratio < 0.85 || ratio > 1.15 { // the measured spread of 900 rounds has an error of 2.4 %
			t.Errorf("size %g: promised %g, really %g", size, promised, spread)
		}
	}
	if top, _ := NewTop(heap(10, 64, 1), 1); top.Error != 0 {
		t.Errorf("everything recorded, and yet an error of %g", top.Error)
	}
}

// recordedOf returns how many of the blocks are recorded if each is recorded with probability q.
func recordedOf(random *rand.Rand, blocks int, q float64) (recorded int) {
	for range blocks {
		if random.Float64() < q {
			recorded++
		}
	}
	return recorded
}

func moments(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values)-1)
	}
	return mean, math.Sqrt(deviation)
}

func TestParseDamaged(t *testing.T) {
	p := heap(10, 64, 4096)
	p.Sample[0].Location = []*profile.Location{{ID: 1, Address: 0x1234}}
	p.Location = p.Sample[0].Location
	var plain bytes.Buffer
	if err := p.WriteUncompressed(&plain); err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(plain.Bytes())
	w.Close()
	for name, data := range map[string][]byte{"plain": plain.Bytes(), "zipped": zipped.Bytes()} {
		if _, err := Parse(data, "x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// For any truncation: no panic, a one-line error, and nearly always the correct one.
		for n := range data {
			_, err := Parse(data[:n], "x")
			if err == nil {
				continue // the missing field, such as the period, is optional
			}
			if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "x: ") {
				t.Errorf("%s cut to %d: %q", name, n, err)
			}
			if n > 20 && !strings.Contains(err.Error(), "truncated") {
				t.Errorf("%s cut to %d of %d: %v", name, n, len(data), err)
			}
		}
	}
}

func TestStatsTolerates(t *testing.T) {
	for name, text := range map[string]string{"nothing": "{}", "fields of the future": `{"memory":{"rss":1,"swapped":2},"new":[1]}`} {
		stats, err := attach.ParseStats([]byte(text), "x")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if out := Stats(stats, "x", nil); !strings.Contains(out, "of unknown version") || !strings.Contains(out, "Sampling is off") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if _, err := attach.ParseStats([]byte("<html>"), "x"); err == nil {
		t.Error("no error")
	}
}

// A valid profile may lack sample types, which is an error of its own.
func TestNoSampleTypes(t *testing.T) {
	if _, err := SampleIndex(&profile.Profile{}, "", ""); err == nil || !strings.Contains(err.Error(), "no sample types") {
		t.Errorf("%v", err)
	}
}
