package web

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
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
	Base     [][]int64  `json:"base,omitzero"`
	Comments []string   `json:"comments"`
	Errors   []stdError `json:"errors"` // standard errors of the totals, by type
	// BaseErrors are those of the moment that is compared with.
	BaseErrors []stdError `json:"base_errors,omitempty"`
	// Labels say what else the rows can be chosen by; nil in a report, where nobody can be asked for others.
	Labels *Labels `json:"labels,omitempty"`
}

// SampleType is what a value counts.
type SampleType struct {
	Name string `json:"name"` // inuse_space
	Unit string `json:"unit"`
	What string `json:"what"` // bytes in use
}

// stdError is null for the page where it is NaN: not known.
type stdError float64

func (e stdError) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(e)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(e))
}

// Frame is a function, a place in it and where it comes from.
type Frame struct {
	Name   string `json:"n"`
	File   string `json:"f,omitempty"`
	Line   int64  `json:"l,omitempty"`
	Module string `json:"m,omitempty"`
	// Plumbing is of a standard library, and only stands between the program and the allocator.
	Plumbing bool `json:"p,omitempty"`
}

// NewStacks makes Stacks of a profile with names, and of a base if there is one: then of the sample types that both have. The
// allocator's own frames are taken off. Both are left as they are.
func NewStacks(p, base *profile.Profile) (*Stacks, error) {
	// Not nil, even if a profile is empty: the page reads arrays.
	s := &Stacks{
		Period: p.Period, Time: p.TimeNanos / 1e6, Comments: append([]string{}, p.Comments...),
		Types: []SampleType{}, Frames: []Frame{}, Stacks: [][]int32{}, Values: [][]int64{}, Errors: []stdError{},
	}
	for _, t := range p.SampleType {
		if base != nil && indexOf(base, t) < 0 {
			continue
		}
		unit := t.Unit
		if strings.HasSuffix(t.Type, "_objects") {
			unit = "objects"
		}
		s.Types = append(s.Types, SampleType{Name: t.Type, Unit: unit, What: report.TypeName(t.Type)})
		if t.Type == p.DefaultSampleType || p.DefaultSampleType == "" {
			s.Default = len(s.Types) - 1
		}
	}
	if base != nil && len(s.Types) == 0 {
		return nil, badRequest("the two profiles have nothing in common: one is of %s, the other of %s", typeNames(p), typeNames(base))
	}
	builder := &stackBuilder{stacks: s, frames: map[Frame]int32{}, seed: rand.Uint64()}
	trimmed, err := builder.add(p, func(index int) []int64 { return s.Values[index] })
	if err != nil {
		return nil, err
	}
	for i, t := range trimmed.SampleType {
		if base == nil || indexOf(base, t) >= 0 {
			s.Errors = append(s.Errors, standardError(trimmed, i))
		}
	}
	if base == nil {
		s.fold()
		return s, nil
	}
	builder.compares = true
	s.Base = make([][]int64, len(s.Stacks))
	for i := range s.Base {
		s.Base[i] = make([]int64, len(s.Types))
	}
	if trimmed, err = builder.add(base, func(index int) []int64 { return s.Base[index] }); err != nil {
		return nil, err
	}
	for _, t := range p.SampleType {
		if index := indexOf(base, t); index >= 0 {
			s.BaseErrors = append(s.BaseErrors, standardError(trimmed, index))
		}
	}
	s.fold()
	return s, nil
}

// byID finds what belongs to a location by its id. Most writers count from 1: a million samples have twenty million locations, and
// looking them up in a map would take longer than all else.
type byID[T any] struct {
	near []T
	far  map[uint64]T // ids that are larger
}

func newByID[T any](locations int) byID[T] {
	return byID[T]{near: make([]T, locations+1), far: map[uint64]T{}}
}

func (b *byID[T]) get(id uint64) T {
	if id < uint64(len(b.near)) {
		return b.near[id]
	}
	return b.far[id]
}

func (b *byID[T]) set(id uint64, value T) {
	if id < uint64(len(b.near)) {
		b.near[id] = value
	} else {
		b.far[id] = value
	}
}

type stackBuilder struct {
	stacks   *Stacks
	frames   map[Frame]int32
	trimmed  byID[*profile.Location] // without the allocator's own lines
	places   byID[[]int32]           // the frames of each location, the outermost first
	seed     uint64
	known    map[uint64]int32 // the last stack with this hash
	earlier  []int32          // of each stack the one before it with the same hash, -1: none
	room     []int32          // for stacks
	zeros    []int64          // for values
	compares bool
}

func (b *stackBuilder) add(p *profile.Profile, values func(int) []int64) (*profile.Profile, error) {
	p = shallow(p)
	if err := p.RemoveUninteresting(); err != nil {
		return nil, err
	}
	b.expect(p)
	places := make([]int, len(p.SampleType))
	for i, t := range p.SampleType {
		places[i] = slices.IndexFunc(b.stacks.Types, func(known SampleType) bool { return known.Name == t.Type })
	}
	for _, sample := range p.Sample {
		into := values(b.index(sample))
		for i, value := range sample.Value {
			if places[i] >= 0 {
				into[places[i]] += value
			}
		}
	}
	return p, nil
}

// expect makes room for a profile: a million small pieces would take longer than all else.
func (b *stackBuilder) expect(p *profile.Profile) {
	b.trimmed, b.places = newByID[*profile.Location](len(p.Location)), newByID[[]int32](len(p.Location))
	for _, location := range p.Location {
		b.trimmed.set(location.ID, location)
	}
	if b.known == nil {
		b.known = make(map[uint64]int32, len(p.Sample))
	}
	b.stacks.Stacks = slices.Grow(b.stacks.Stacks, len(p.Sample))
	b.stacks.Values = slices.Grow(b.stacks.Values, len(p.Sample))
	b.earlier = slices.Grow(b.earlier, len(p.Sample))
	rows := len(p.Sample)
	if b.compares {
		rows *= 2
	}
	b.zeros = make([]int64, rows*len(b.stacks.Types))
	frames := 0
	for _, sample := range p.Sample {
		frames += len(sample.Location)
	}
	b.room = make([]int32, 0, frames)
}

// row is a new row of values.
func (b *stackBuilder) row() []int64 {
	n := len(b.stacks.Types)
	row := b.zeros[:n:n]
	b.zeros = b.zeros[n:]
	return row
}

// shallow copies what RemoveUninteresting changes: the lines of locations, and how far down samples go. The samples' locations are
// still those of p: their ids lead to the copies.
func shallow(p *profile.Profile) *profile.Profile {
	if p.DropFrames == "" {
		return p
	}
	copied := withoutSamples(p)
	locations, samples := make([]profile.Location, len(p.Location)), make([]profile.Sample, len(p.Sample))
	copied.Location, copied.Sample = make([]*profile.Location, len(p.Location)), make([]*profile.Sample, len(p.Sample))
	for i, location := range p.Location {
		locations[i] = *location
		copied.Location[i] = &locations[i]
	}
	for i, sample := range p.Sample {
		samples[i] = *sample
		copied.Sample[i] = &samples[i]
	}
	return copied
}

// indexOf finds a sample type in another profile, -1 if it has none.
func indexOf(p *profile.Profile, t *profile.ValueType) int {
	return slices.IndexFunc(p.SampleType, func(other *profile.ValueType) bool { return other.Type == t.Type && other.Unit == t.Unit })
}

func typeNames(p *profile.Profile) string {
	var names []string
	for _, t := range p.SampleType {
		names = append(names, t.Type+" in "+t.Unit)
	}
	return strings.Join(names, ", ")
}

// index finds the sample's stack, or adds it.
func (b *stackBuilder) index(sample *profile.Sample) int {
	begin := len(b.room)
	for i := len(sample.Location) - 1; i >= 0; i-- {
		b.room = append(b.room, b.place(sample.Location[i])...)
	}
	if len(b.room) == begin { // all of its frames may be the allocator's; as report.Frames has it
		b.room = append(b.room, b.frame(Frame{Name: "(no stack)"}))
	}
	stack := b.room[begin:len(b.room):len(b.room)]
	sum := b.seed
	for _, frame := range stack {
		sum = (sum ^ uint64(frame)) * 0x9e3779b97f4a7c15
		sum ^= sum >> 32
	}
	last, found := b.known[sum]
	if !found {
		last = -1
	}
	for at := last; at >= 0; at = b.earlier[at] {
		if slices.Equal(b.stacks.Stacks[at], stack) {
			b.room = b.room[:begin]
			return int(at)
		}
	}
	index := len(b.stacks.Stacks)
	b.known[sum] = int32(index)
	b.earlier = append(b.earlier, last)
	b.stacks.Stacks = append(b.stacks.Stacks, stack)
	b.stacks.Values = append(b.stacks.Values, b.row())
	if b.compares {
		b.stacks.Base = append(b.stacks.Base, b.row())
	}
	return index
}

// place is a location's frames.
func (b *stackBuilder) place(location *profile.Location) []int32 {
	frames := b.places.get(location.ID)
	if frames != nil {
		return frames
	}
	location = b.trimmed.get(location.ID)
	module := ""
	if location.Mapping != nil {
		module = filepath.Base(location.Mapping.File)
	}
	if len(location.Line) == 0 {
		frames = append(frames, b.frame(Frame{Name: "0x" + strconv.FormatUint(location.Address, 16), Module: module}))
	}
	for j := len(location.Line) - 1; j >= 0; j-- {
		line := location.Line[j]
		if line.Function != nil {
			frames = append(frames, b.frame(Frame{Name: line.Function.Name, File: line.Function.Filename, Line: line.Line, Module: module}))
		}
	}
	b.places.set(location.ID, frames)
	return frames
}

func (b *stackBuilder) frame(f Frame) int32 {
	if index, ok := b.frames[f]; ok {
		return index
	}
	index := int32(len(b.stacks.Frames))
	b.frames[f] = index
	f.Plumbing = report.Plumbing(f.Name)
	b.stacks.Frames = append(b.stacks.Frames, f)
	return index
}
