// Package growth finds the functions whose memory grows, from heap profiles of one process at several moments.
//
// A profile is a sample of the live blocks. A row (one stack, one size) counts the live blocks and all blocks that were
// allocated so far. So two moments give the blocks that were allocated and freed between them, and blocks that are in
// both cancel exactly: only the others add to the error (newChange).
//
// Find (find.go) sums rows by owner, tests each sum (evidence.go), and merges the sums that are one leak. The package
// does no input or output, and knows the owner of a stack only from Options.Owner.
package growth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unique"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Frame is a function in a stack, with the line of the call.
type Frame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int64  `json:"line,omitempty"`
}

// Stack is an interned stack: of names (NamedStack) or of addresses (AddressStack). Equal stacks of several profiles have
// the same value.
type Stack unique.Handle[string]

// String returns the encoded stack.
func (s Stack) String() string { return unique.Handle[string](s).Value() }

const betweenNames = "\x00"

// NamedStack interns the functions of a sample that has symbols, without files and lines.
func NamedStack(sample *profile.Sample) Stack { return stackOf(framesOf(sample)) }

func stackOf(frames []Frame) Stack { return Stack(unique.Make(nameOf(frames))) }

// Frames decodes a stack of NamedStack, innermost first.
func (s Stack) Frames() []Frame {
	var frames []Frame
	for name := range strings.SplitSeq(s.String(), betweenNames) {
		frames = append(frames, Frame{Name: name})
	}
	return frames
}

func framesOf(sample *profile.Sample) []Frame {
	var frames []Frame
	for _, loc := range sample.Location {
		for _, line := range loc.Line {
			if line.Function != nil {
				frames = append(frames, Frame{line.Function.Name, line.Function.Filename, line.Line})
			}
		}
		if len(loc.Line) == 0 {
			frames = append(frames, Frame{Name: fmt.Sprintf("%#x", loc.Address)})
		}
	}
	if len(frames) == 0 {
		frames = []Frame{{Name: "(no stack)"}}
	}
	return frames
}

// AddressStack interns the addresses of a sample.
func AddressStack(sample *profile.Sample) Stack { return Stack(unique.Make(report.StackKey(sample))) }

// Key identifies a row in profiles of one process: its stack and the labels that determine its blocks.
type Key struct {
	Stack Stack
	// Size is the size of the blocks, and Sampled their size when they were sampled; 0: the profile does not state them.
	Size, Sampled int64
	// Interval is the mean number of bytes between two samples; 1: all blocks are recorded.
	Interval     int64
	asked, moved int64
}

// Counts are the values of a row: estimated numbers of blocks, and the bytes of those that are live.
type Counts struct {
	Live, Allocated, Bytes float64
}

// Moment is a heap profile in the form that Find needs.
type Moment struct {
	TimeNS int64
	// Live is the exact number of live bytes, or nil if it is unknown.
	Live     *int64
	Interval int64 // the present interval of sampling
	Rows     map[Key]Counts
	// allocations is set if the profile counts allocations, not only live blocks.
	allocations bool
}

// NewMoment reads a profile of the kinds heap or threads. intern is NamedStack or AddressStack.
func NewMoment(p *profile.Profile, live *int64, intern func(*profile.Sample) Stack) (Moment, error) {
	column := func(name string) int {
		return slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == name })
	}
	objects, bytes, allocated, allocatedBytes := column("inuse_objects"), column("inuse_space"), column("alloc_objects"), column("alloc_space")
	if objects < 0 || bytes < 0 {
		return Moment{}, fmt.Errorf("the profile does not count live blocks: expected one of the kind heap")
	}
	m := Moment{TimeNS: p.TimeNanos, Live: live, Interval: p.Period, Rows: make(map[Key]Counts, len(p.Sample)), allocations: allocated >= 0}
	for _, sample := range p.Sample {
		key := Key{Stack: intern(sample), Size: label(sample, "bytes"), asked: label(sample, "asked"), moved: label(sample, "moved"),
			Interval: cmp.Or(label(sample, "interval"), p.Period)}
		key.Sampled = cmp.Or(label(sample, "drawn"), key.Size)
		counts := m.Rows[key]
		// The numbers of blocks are rounded, so those of large blocks follow from the bytes.
		count := func(objects, bytes int) float64 {
			if key.Size == 0 || bytes < 0 {
				return float64(sample.Value[objects])
			}
			return float64(sample.Value[bytes]) / float64(key.Size)
		}
		counts.Live += count(objects, bytes)
		counts.Bytes += float64(sample.Value[bytes])
		if allocated >= 0 {
			counts.Allocated += count(allocated, allocatedBytes)
		}
		m.Rows[key] = counts
	}
	return m, nil
}

func label(sample *profile.Sample, name string) int64 {
	if values := sample.NumLabel[name]; len(values) != 0 {
		return values[0]
	}
	return 0
}
