package web

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
	"seemalloc/tool/report"
)

// Stacks is a profile in the format of the page: each distinct stack once, with a value for each sample type. The page
// builds trees, tables and searches from it.
type Stacks struct {
	Types   []SampleType `json:"types"`
	Default int          `json:"default"` // index of a type
	Period  int64        `json:"period"`
	Time    int64        `json:"t"` // ms since 1970; 0: unknown
	Frames  []Frame      `json:"frames"`
	// Stacks are lists of indices into Frames, the outermost first.
	Stacks [][]int32 `json:"stacks"`
	// Owned is the visible part of each stack if memory is charged to the program's functions: the number of frames that
	// are left out at its outer and its inner end. It is nil for values other than memory.
	Owned  [][2]int32 `json:"owned,omitempty"`
	Values [][]int64  `json:"values"` // of each stack, by type
	// Base holds the values of the moment to compare with; nil without a comparison.
	Base     [][]int64  `json:"base,omitzero"`
	Comments []string   `json:"comments"`
	Errors   []stdError `json:"errors"` // standard errors of the totals, by type
	// BaseErrors are those of the moment to compare with.
	BaseErrors []stdError `json:"base_errors,omitempty"`
	// ChangeErrors are those of the changes, if both profiles are of one process.
	ChangeErrors []stdError `json:"change_errors,omitempty"`
	// Labels describes the other filters for rows. It is nil in a report, which has no server to apply them.
	Labels *Labels `json:"labels,omitempty"`
}

// SampleType is the type of a value.
type SampleType struct {
	Name string `json:"name"` // inuse_space
	Unit string `json:"unit"`
	What string `json:"what"` // bytes in use
}

// stdError is null in JSON if it is NaN, that is, unknown.
type stdError float64

func (e stdError) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(e)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(e))
}

// Frame is a function, a location in it, and its module.
type Frame struct {
	Name   string `json:"n"`
	File   string `json:"f,omitempty"`
	Line   int64  `json:"l,omitempty"`
	Module string `json:"m,omitempty"`
	path   string // of the module
	// Plumbing is set for functions that are only intermediaries between the program and the allocator, such as those of a
	// standard library.
	Plumbing bool `json:"p,omitempty"`
	// Folded is set for native functions of an interpreter, which are left out between functions of its language.
	Folded bool `json:"i,omitempty"`
}

// NewStacks converts a symbolized profile. With a base the result has the sample types that both have. The allocator's
// own frames are removed. It modifies neither profile.
func NewStacks(p, base *profile.Profile) (*Stacks, error) {
	// Not nil even for an empty profile, because the page expects arrays.
	s := &Stacks{
		Period: p.Period, Time: p.TimeNanos / 1e6, Comments: append([]string{}, p.Comments...),
		Types: []SampleType{}, Frames: []Frame{}, Stacks: [][]int32{}, Values: [][]int64{},
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
		return nil, badRequest("the two profiles have no sample type in common: one is of %s, the other of %s", typeNames(p), typeNames(base))
	}
	defer startErrors(s, p, base).Wait()
	builder := newStackBuilder(s)
	if builder.ownsMemory = owner.OwnsMemory(p); builder.ownsMemory {
		builder.wrappers = owner.FindWrappers(p, base)
	}
	if err := builder.add(p, false); err != nil {
		return nil, err
	}
	if base != nil {
		if err := builder.add(base, true); err != nil {
			return nil, err
		}
	}
	builder.finish(base != nil)
	return s, nil
}

// startErrors computes the standard errors while the stacks are built.
func startErrors(s *Stacks, p, base *profile.Profile) *sync.WaitGroup {
	var all sync.WaitGroup
	s.Errors = make([]stdError, len(s.Types))
	if base != nil {
		s.BaseErrors = make([]stdError, len(s.Types))
	}
	const mostRows = 200_000 // pairing takes a microsecond a row and type
	if base != nil && len(p.Sample)+len(base.Sample) <= mostRows {
		all.Go(func() {
			var types []string
			for _, t := range s.Types {
				types = append(types, t.Name)
			}
			for _, e := range report.ChangeErrors(base, p, types) {
				s.ChangeErrors = append(s.ChangeErrors, stdError(e))
			}
		})
	}
	for i, t := range s.Types {
		byName := func(known *profile.ValueType) bool { return known.Type == t.Name }
		all.Go(func() {
			s.Errors[i] = standardError(p, slices.IndexFunc(p.SampleType, byName))
			if base != nil {
				s.BaseErrors[i] = standardError(base, slices.IndexFunc(base.SampleType, byName))
			}
		})
	}
	return &all
}

// indexOf finds a sample type in another profile. It returns -1 if that has none.
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
