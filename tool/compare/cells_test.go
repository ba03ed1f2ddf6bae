package compare

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"seemalloc/tool/testseed"
)

var wall = Measure{"wall_s", "wall time", Seconds}

func around(middle, spread float64) []float64 {
	return []float64{middle - spread, middle - spread/2, middle, middle + spread/2, middle + spread}
}

func same(value float64, times int) []float64 {
	values := make([]float64, times)
	for i := range values {
		values[i] = value
	}
	return values
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{7: {7}, 2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 0: {0, 0, 9}} {
		if got := Median(values); got != want {
			t.Errorf("Median(%v) = %g, want %g", values, got, want)
		}
	}
	values := []float64{3, 1, 2}
	Median(values)
	if values[0] != 3 {
		t.Error("the values were put in order")
	}
}

func TestDiffer(t *testing.T) {
	for _, test := range []struct {
		name     string
		one, two []float64
		least    float64
		want     bool
	}{
		{"spreads that touch", []float64{1, 2, 3, 4, 5}, []float64{5, 6, 7, 8, 9}, 0.05, false},
		{"spreads that do not", []float64{1, 2, 3, 4, 4.9}, []float64{5, 6, 7, 8, 9}, 0.05, true},
		{"one inside of the other", []float64{1, 9, 5, 5, 5}, []float64{3, 3, 3, 3, 3}, 0, false},
		{"four runs", same(1, 4), same(2, 5), 0.05, false},
		{"five runs", same(1, 5), same(2, 5), 0.05, true},
		{"1 thread, 4 %", around(1, 0.001), around(1.04, 0.001), MinDifference(wall, 1), false},
		{"1 thread, 6 %", around(1, 0.001), around(1.06, 0.001), MinDifference(wall, 1), true},
		{"2 threads, 14 %", around(1, 0.001), around(1.14, 0.001), MinDifference(wall, 2), false},
		{"2 threads, 16 %", around(1, 0.001), around(1.16, 0.001), MinDifference(wall, 2), true},
		{"8 threads, 14 %", around(1, 0.001), around(1.14, 0.001), MinDifference(wall, 8), false},
		{"memory, 1 %", same(100, 5), same(101, 5), MinDifference(Measure{"peak_rss", "", Bytes}, 8), true},
	} {
		if got := SignificantlyDiffer(test.one, test.two, test.least); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
		if got := SignificantlyDiffer(test.two, test.one, test.least); got != test.want {
			t.Errorf("%s, the other way round: %v", test.name, got)
		}
	}
}

func TestCells(t *testing.T) {
	names := []string{"a", "b", "c", "none"}
	cells := Cells(names, map[string][]float64{"a": around(2, 0.01), "b": around(1, 0.01), "c": around(1.02, 0.05)}, 0.05)
	if len(cells) != 3 {
		t.Errorf("%d cells", len(cells))
	}
	if a := cells["a"]; math.Abs(a.Ratio-2) > 1e-9 || a.Best || a.Unclear || a.Low != 1.99 || a.High != 2.01 || a.Runs != 5 {
		t.Errorf("a: %+v", a)
	}
	if b := cells["b"]; !b.Best || b.Unclear || b.Ratio != 1 {
		t.Errorf("b: %+v", b)
	}
	if c := cells["c"]; c.Best || !c.Unclear {
		t.Errorf("c: %+v", c)
	}
	nothing := Cells(names, map[string][]float64{"a": same(0, 5), "b": same(0, 5), "c": same(3, 5)}, 0)
	if a, b, c := nothing["a"], nothing["b"], nothing["c"]; !a.Best || b.Best || !b.Unclear || b.Ratio != 1 || c.Ratio != 0 || c.Unclear {
		t.Errorf("of nothing: %+v", nothing)
	}
	if len(Cells(names, nil, 0)) != 0 {
		t.Error("cells from nothing")
	}
}

// Both implementations of the rules, here and in the benchmarks, must give the same results for random samples.
func TestCellsAgreeWithTheBenchmarks(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	type sample struct {
		Values map[string][]float64 `json:"values"`
		Least  float64              `json:"least"`
	}
	random := rand.New(rand.NewPCG(uint64(testseed.Of(t)), 2))
	var samples []sample
	for range 500 {
		one := sample{map[string][]float64{}, []float64{0, 0.05, 0.15}[random.IntN(3)]}
		for _, name := range []string{"a", "b", "c"} {
			middle := 1 + 0.3*random.Float64()
			for range 3 + random.IntN(5) {
				one.Values[name] = append(one.Values[name], middle*(1+0.05*random.Float64()))
			}
		}
		samples = append(samples, one)
	}
	input, _ := json.Marshal(samples)
	command := exec.Command(python, "-B", "-c", `
import dataclasses, json, sys
sys.path.insert(0, "../../bench")
from harness import compare
print(json.dumps([{name: dataclasses.asdict(cell) for name, cell in compare.compare(one["values"], one["least"]).items()}
                  for one in json.load(sys.stdin)]))
print(json.dumps([compare.least_difference(measure, threads) for measure in ("wall_s", "peak_mb") for threads in (1, 2, 8)]))`)
	command.Stdin = strings.NewReader(string(input))
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	cells, least, _ := strings.Cut(string(output), "\n")
	var theirs []map[string]struct {
		Median, Low, High, Ratio float64
		Best, Unclear            bool
	}
	if err := json.Unmarshal([]byte(cells), &theirs); err != nil {
		t.Fatal(err)
	}
	for i, one := range samples {
		for name, cell := range Cells([]string{"a", "b", "c"}, one.Values, one.Least) {
			want := theirs[i][name]
			if cell.Median != want.Median || cell.Low != want.Low || cell.High != want.High || math.Abs(cell.Ratio-want.Ratio) > 1e-12 ||
				cell.Best != want.Best || cell.Unclear != want.Unclear {
				t.Errorf("%s of %v: %+v, the benchmarks say %+v", name, one, cell, want)
			}
		}
	}
	var differences []float64
	if err := json.Unmarshal([]byte(least), &differences); err != nil {
		t.Fatal(err)
	}
	for i, want := range differences {
		measure := []Measure{wall, {"peak_rss", "", Bytes}}[i/3]
		threads := []int{1, 2, 8}[i%3]
		if got := MinDifference(measure, threads); got != want {
			t.Errorf("%s with %d threads: %g, the benchmarks say %g", measure.Key, threads, got, want)
		}
	}
}
