package formats

import (
	"fmt"
	"io"

	"github.com/google/pprof/profile"
)

// The types of https://www.speedscope.app/file-format-schema.json that a sampled profile needs.
type (
	speedscopeFile struct {
		Schema   string              `json:"$schema"`
		Name     string              `json:"name"`
		Exporter string              `json:"exporter"`
		Notes    []string            `json:"notes,omitempty"` // our extension: the profile's comments
		Active   int                 `json:"activeProfileIndex"`
		Shared   speedscopeShared    `json:"shared"`
		Profiles []speedscopeProfile `json:"profiles"`
	}
	speedscopeShared struct {
		Frames []speedscopeFrame `json:"frames"`
	}
	speedscopeFrame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line int64  `json:"line,omitempty"`
	}
	speedscopeProfile struct {
		Type       string  `json:"type"`
		Name       string  `json:"name"`
		Unit       string  `json:"unit"`
		StartValue int64   `json:"startValue"`
		EndValue   int64   `json:"endValue"`
		Samples    [][]int `json:"samples"`
		Weights    []int64 `json:"weights"`
	}
)

// speedscopeUnits are speedscope's units, keyed by pprof's names.
var speedscopeUnits = map[string]string{
	"bytes": "bytes", "nanoseconds": "nanoseconds", "microseconds": "microseconds", "milliseconds": "milliseconds", "seconds": "seconds",
}

// writeSpeedscope writes one profile per sample type, with a shared table of functions. A frame is a function and not a
// line, so that all its calls are adjacent in the flame graph.
func writeSpeedscope(w io.Writer, p *profile.Profile, o Options) (Omitted, error) {
	file := speedscopeFile{
		Schema: "https://www.speedscope.app/file-format-schema.json", Name: o.Source, Exporter: "seemalloc", Notes: p.Comments, Active: o.Index,
	}
	type function struct{ name, file string }
	known := map[function]int{}
	stacks := make([][]int, len(p.Sample))
	for i, sample := range p.Sample {
		stack := stackOf(sample)
		stacks[i] = make([]int, len(stack))
		for depth, f := range stack {
			key := function{f.function, f.file}
			index, found := known[key]
			if !found {
				index = len(known)
				known[key] = index
				file.Shared.Frames = append(file.Shared.Frames, speedscopeFrame{f.function, f.file, f.start})
			}
			stacks[i][len(stack)-1-depth] = index // outermost first
		}
	}
	var left Omitted
	for t, kind := range p.SampleType {
		one := speedscopeProfile{Type: "sampled", Name: kind.Type, Unit: "none", Samples: [][]int{}, Weights: []int64{}}
		if unit := speedscopeUnits[kind.Unit]; unit != "" {
			one.Unit = unit
		}
		at := map[string]int{} // one sample per stack
		for i, sample := range p.Sample {
			value := sample.Value[t]
			if t == o.Index {
				left.add(value)
			}
			if value <= 0 {
				continue
			}
			one.EndValue += value
			key := fmt.Sprint(stacks[i])
			if j, found := at[key]; found {
				one.Weights[j] += value
				continue
			}
			at[key] = len(one.Samples)
			one.Samples = append(one.Samples, stacks[i])
			one.Weights = append(one.Weights, value)
		}
		file.Profiles = append(file.Profiles, one)
	}
	if file.Shared.Frames == nil {
		file.Shared.Frames = []speedscopeFrame{}
	}
	return left, encode(w, file)
}
