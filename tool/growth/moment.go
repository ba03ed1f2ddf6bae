// Package growth finds the functions whose memory grows, from heap profiles of one process at several moments.
//
// A profile is a sample of the live blocks. A row (one stack, one size) counts the live blocks and all blocks that were
// allocated so far. So two moments give the blocks that were allocated and freed between them, and blocks that are in
// both cancel exactly: only the others add to the error (newChange).
//
// Find (find.go) sums rows by owner, tests each sum (evidence.go), and merges the sums that are one leak. The package
// does no input or output. The owner of a stack is that of tool/owner.
package growth

import (
	"cmp"
	"fmt"
	"strings"
	"unique"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
	"seemalloc/tool/report"
)

// Frame is a function in a stack, with the line of the call.
type Frame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int64  `json:"line,omitempty"`

	module     string // of the program or library; "": unknown
	passedOver bool   // the function cannot own memory
}

func (f Frame) class() owner.Class {
	return owner.Classify(owner.Frame{Name: f.Name, Module: f.module, File: f.File})
}

// Stack is an interned stack: of names (NamedStack) or of addresses (AddressStack). Equal stacks of several profiles have
// the same value.
type Stack unique.Handle[string]

// String returns the encoded stack.
func (s Stack) String() string { return unique.Handle[string](s).Value() }

const betweenNames, betweenParts = "\x00", "\x01"

// NamedStack interns the functions of a sample that has symbols, without lines.
func NamedStack(sample *profile.Sample) Stack { return stackOf(framesOf(sample)) }

// stackOf keeps of a frame only what its class depends on, because a page keeps many stacks.
func stackOf(frames []Frame) Stack {
	parts := make([]string, len(frames))
	for i, frame := range frames {
		file, module := "", frame.module[strings.LastIndexByte(frame.module, '/')+1:]
		if owner.DependsOnFile(frame.File) {
			file = frame.File
		}
		parts[i] = frame.Name + betweenParts + file + betweenParts + module
	}
	return Stack(unique.Make(strings.Join(parts, betweenNames)))
}

// frames decodes a stack of NamedStack, innermost first.
func (s Stack) frames() []Frame {
	var frames []Frame
	for frame := range strings.SplitSeq(s.String(), betweenNames) {
		parts := strings.SplitN(frame, betweenParts, 3)
		frames = append(frames, Frame{Name: parts[0], File: parts[1], module: parts[2]})
	}
	return frames
}

// NamedFrames decodes stacks of NamedStack.
func NamedFrames(stacks []Stack) [][]Frame {
	frames := make([][]Frame, len(stacks))
	for i, stack := range stacks {
		frames[i] = stack.frames()
	}
	return frames
}

func framesOf(sample *profile.Sample) []Frame {
	var frames []Frame
	for _, place := range report.Places(sample) {
		frames = append(frames, Frame{Name: place.Name, File: place.File, Line: place.Line, module: place.Module})
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
	objects, bytes := report.Column(p, "inuse_objects"), report.Column(p, "inuse_space")
	allocated, allocatedBytes := report.Column(p, "alloc_objects"), report.Column(p, "alloc_space")
	if objects < 0 || bytes < 0 {
		return Moment{}, fmt.Errorf("the profile does not count live blocks: expected one of the kind heap")
	}
	m := Moment{TimeNS: p.TimeNanos, Live: live, Interval: p.Period, Rows: make(map[Key]Counts, len(p.Sample)), allocations: allocated >= 0}
	for _, sample := range p.Sample {
		key := Key{Stack: intern(sample), Size: report.Label(sample, "bytes"), asked: report.Label(sample, "asked"), moved: report.Label(sample, "moved"),
			Interval: cmp.Or(report.Label(sample, "interval"), p.Period)}
		key.Sampled = cmp.Or(report.Label(sample, "drawn"), key.Size)
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
