package web

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Stacks is a profile as the page reads it: each distinct stack once, with a value for each sample type. The page makes trees,
// tables and searches of it.
type Stacks struct {
	Types   []SampleType `json:"types"`
	Default int          `json:"default"` // index of a type
	Period  int64        `json:"period"`
	Time    int64        `json:"t"` // ms since 1970; 0: it does not say
	Frames  []Frame      `json:"frames"`
	// Stacks are indices into Frames, the outermost first.
	Stacks [][]int32 `json:"stacks"`
	Values [][]int64 `json:"values"` // of each stack, by type
	// Base holds the values of the moment that is compared with; nil where none was asked for.
	Base     [][]int64 `json:"base,omitzero"`
	Comments []string  `json:"comments"`
	Errors   []float64 `json:"errors"` // standard errors of the totals, by type
}

// SampleType is what a value counts.
type SampleType struct {
	Name string `json:"name"` // inuse_space
	Unit string `json:"unit"`
	What string `json:"what"` // bytes in use
}

// Frame is a function, a place in it and where it comes from.
type Frame struct {
	Name   string `json:"n"`
	File   string `json:"f,omitempty"`
	Line   int64  `json:"l,omitempty"`
	Module string `json:"m,omitempty"`
}

// NewStacks makes Stacks of a profile with names, and of a base of the same kind if there is one. The allocator's own frames are
// taken off. Both are left as they are.
func NewStacks(p, base *profile.Profile) (*Stacks, error) {
	// Not nil, even if a profile is empty: the page reads arrays.
	s := &Stacks{
		Period: p.Period, Time: p.TimeNanos / 1e6, Comments: append([]string{}, p.Comments...),
		Types: []SampleType{}, Frames: []Frame{}, Stacks: [][]int32{}, Values: [][]int64{}, Errors: []float64{},
	}
	for i, t := range p.SampleType {
		unit := t.Unit
		if strings.HasSuffix(t.Type, "_objects") {
			unit = "objects"
		}
		s.Types = append(s.Types, SampleType{Name: t.Type, Unit: unit, What: report.TypeName(t.Type)})
		if t.Type == p.DefaultSampleType || p.DefaultSampleType == "" {
			s.Default = i
		}
	}
	builder := &stackBuilder{stacks: s, frames: map[Frame]int32{}, known: map[string]int{}}
	trimmed, err := builder.add(p, func(index int) []int64 { return s.Values[index] })
	if err != nil {
		return nil, err
	}
	for i := range p.SampleType {
		s.Errors = append(s.Errors, standardError(trimmed, i))
	}
	if base == nil {
		return s, nil
	}
	builder.compares = true
	s.Base = make([][]int64, len(s.Stacks))
	for i := range s.Base {
		s.Base[i] = make([]int64, len(s.Types))
	}
	_, err = builder.add(base, func(index int) []int64 { return s.Base[index] })
	return s, err
}

type stackBuilder struct {
	stacks   *Stacks
	frames   map[Frame]int32
	known    map[string]int // stacks, by their frames' indices
	compares bool
}

func (b *stackBuilder) add(p *profile.Profile, values func(int) []int64) (*profile.Profile, error) {
	p = p.Copy()
	if err := p.RemoveUninteresting(); err != nil {
		return nil, err
	}
	for _, sample := range p.Sample {
		into := values(b.index(sample))
		for i, value := range sample.Value {
			if i < len(into) {
				into[i] += value
			}
		}
	}
	return p, nil
}

// index finds the sample's stack, or adds it.
func (b *stackBuilder) index(sample *profile.Sample) int {
	stack := []int32{} // not nil, which would be null: all of its frames may be the allocator's
	var key strings.Builder
	for i := len(sample.Location) - 1; i >= 0; i-- {
		location := sample.Location[i]
		module := ""
		if location.Mapping != nil {
			module = filepath.Base(location.Mapping.File)
		}
		if len(location.Line) == 0 {
			stack = append(stack, b.frame(Frame{Name: "0x" + strconv.FormatUint(location.Address, 16), Module: module}))
		}
		for j := len(location.Line) - 1; j >= 0; j-- {
			line := location.Line[j]
			frame := Frame{Name: "?", Line: line.Line, Module: module}
			if line.Function != nil {
				frame.Name, frame.File = line.Function.Name, line.Function.Filename
			}
			stack = append(stack, b.frame(frame))
		}
	}
	for _, frame := range stack {
		key.WriteString(strconv.Itoa(int(frame)))
		key.WriteByte(' ')
	}
	if index, ok := b.known[key.String()]; ok {
		return index
	}
	index := len(b.stacks.Stacks)
	b.known[key.String()] = index
	b.stacks.Stacks = append(b.stacks.Stacks, stack)
	b.stacks.Values = append(b.stacks.Values, make([]int64, len(b.stacks.Types)))
	if b.compares {
		b.stacks.Base = append(b.stacks.Base, make([]int64, len(b.stacks.Types)))
	}
	return index
}

func (b *stackBuilder) frame(f Frame) int32 {
	if index, ok := b.frames[f]; ok {
		return index
	}
	index := int32(len(b.stacks.Frames))
	b.frames[f] = index
	b.stacks.Frames = append(b.stacks.Frames, f)
	return index
}
