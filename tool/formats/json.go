package formats

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/google/pprof/profile"
)

// The output of `convert --to json`. docs/formats.md describes it.
type (
	jsonFile struct {
		Source     string       `json:"source"`
		Time       string       `json:"time,omitempty"`
		DurationNS int64        `json:"duration_ns,omitempty"`
		Period     jsonPeriod   `json:"period"`
		Types      []jsonType   `json:"sample_types"`
		Default    string       `json:"default_sample_type"`
		Comments   []string     `json:"comments,omitempty"`
		Frames     []jsonFrame  `json:"frames"`
		Samples    []jsonSample `json:"samples"`
	}
	jsonPeriod struct {
		Type  string `json:"type"`
		Unit  string `json:"unit"`
		Value int64  `json:"value"`
	}
	jsonType struct {
		Type string `json:"type"`
		Unit string `json:"unit"`
	}
	jsonFrame struct {
		Function string `json:"function"`
		File     string `json:"file,omitempty"`
		Line     int64  `json:"line,omitempty"`
		Module   string `json:"module,omitempty"`
		Address  string `json:"address,omitempty"`
	}
	jsonSample struct {
		Values []int64        `json:"values"`           // in the order of sample_types
		Labels map[string]any `json:"labels,omitempty"` // numbers, texts, or lists of them
		Stack  []int          `json:"stack"`            // indices of frames, the innermost first
	}
)

func writeJSON(w io.Writer, p *profile.Profile, o Options) (Omitted, error) {
	file := jsonFile{
		Source: o.Source, DurationNS: p.DurationNanos, Comments: p.Comments, Frames: []jsonFrame{}, Samples: []jsonSample{},
		Default: p.SampleType[defaultIndex(p)].Type,
	}
	if p.TimeNanos != 0 {
		file.Time = time.Unix(0, p.TimeNanos).UTC().Format(time.RFC3339Nano)
	}
	if p.PeriodType != nil {
		file.Period = jsonPeriod{p.PeriodType.Type, p.PeriodType.Unit, p.Period}
	}
	for _, t := range p.SampleType {
		file.Types = append(file.Types, jsonType{t.Type, t.Unit})
	}
	known := map[frame]int{}
	for _, sample := range p.Sample {
		row := jsonSample{Values: sample.Value, Labels: labelsOf(sample)}
		for _, f := range stackOf(sample) {
			index, found := known[f]
			if !found {
				index = len(file.Frames)
				known[f] = index
				file.Frames = append(file.Frames, f.json())
			}
			row.Stack = append(row.Stack, index)
		}
		file.Samples = append(file.Samples, row)
	}
	return Omitted{}, encode(w, file)
}

// encode writes value as one line. It does not escape <, > and &, because the output is not embedded in HTML.
func encode(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

func (f frame) json() jsonFrame {
	address := ""
	if f.address != 0 {
		address = fmt.Sprintf("%#x", f.address)
	}
	return jsonFrame{f.function, f.file, f.line, f.module, address}
}

// labelsOf returns the labels, with lists of one element as single values.
func labelsOf(sample *profile.Sample) map[string]any {
	labels := map[string]any{}
	for key, values := range sample.NumLabel {
		labels[key] = any(values)
		if len(values) == 1 {
			labels[key] = values[0]
		}
	}
	for key, values := range sample.Label {
		labels[key] = any(values)
		if len(values) == 1 {
			labels[key] = values[0]
		}
	}
	return labels
}
