// Package formats reads profiles in the formats that people have lying about and writes those that other viewers read.
//
// In memory a profile is pprof's profile.Profile, whatever file it came from. Read (read.go) tells a format by its
// content; pprof's own package parses all but jemalloc's text (jemalloc.go). Each writer is a file: heaptext.go,
// collapsed.go, speedscope.go, dhat.go, csv.go, json.go. docs/formats.md describes what each of them holds.
package formats

import (
	"io"
	"strings"

	"github.com/google/pprof/profile"
)

// Options of a writer.
type Options struct {
	// Index is the sample type that is wanted, for formats that hold one, or that open with one.
	Index int
	// Source is the file or process that the profile came from, for titles.
	Source string
	// Command and PID tell of the process, where they are known.
	Command string
	PID     int
}

// Left is what a format could not hold: the rows and the sum of negative values, which only differences have.
type Left struct {
	Rows int
	Sum  int64
}

func (l *Left) add(value int64) {
	if value < 0 {
		l.Rows++
		l.Sum += value
	}
}

// Format is one way to write a profile.
type Format struct {
	Name       string
	Extensions []string // of file names, the preferred one first
	Help       string
	// Named says that the format holds functions, so that they must have been found and the allocator's own frames
	// taken off the stacks; the others hold addresses, for readers that do both themselves.
	Named bool
	// Notes says that it holds what a profile says of itself: how it was sampled, what it could not see, its error.
	Notes bool
	write func(io.Writer, *profile.Profile, Options) (Left, error)
}

// All lists the formats in the order in which they are explained.
var All = []Format{
	{"proto", []string{".pb.gz", ".pb", ".prof"}, "profile.proto, for pprof, go tool pprof and most viewers (.pb: not compressed)", false, true, writeProto},
	{"heap", []string{".heap"}, "heap_v2, the older text of addresses, for jeprof and pprof", false, true, writeHeapText},
	{"collapsed", []string{".collapsed", ".folded"}, "a line per stack, for flamegraph.pl, inferno and speedscope", true, false, writeCollapsed},
	{"speedscope", []string{".speedscope.json"}, "speedscope's JSON, with a profile per sample type", true, true, writeSpeedscope},
	{"dhat", []string{".dhat.json"}, "DHAT's JSON, for dh_view.html and the Firefox Profiler", true, true, writeDHAT},
	{"csv", []string{".csv"}, "a table: a row per stack and block size", true, false, writeCSV},
	{"json", []string{".json"}, "everything, for scripts", true, true, writeJSON},
}

// ByName finds a format; nil when there is none of that name.
func ByName(name string) *Format {
	for i := range All {
		if All[i].Name == name {
			return &All[i]
		}
	}
	return nil
}

// ByExtension finds the format that a file's name asks for: the longest extension that fits.
func ByExtension(file string) *Format {
	var found *Format
	longest := 0
	for i := range All {
		for _, extension := range All[i].Extensions {
			if strings.HasSuffix(file, extension) && len(extension) > longest {
				found, longest = &All[i], len(extension)
			}
		}
	}
	return found
}

// Names lists the formats for messages: "proto, heap, …".
func Names() string {
	var names []string
	for _, f := range All {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// Extensions lists the extensions for messages.
func Extensions() string {
	var list []string
	for _, f := range All {
		list = append(list, f.Extensions...)
	}
	return strings.Join(list, ", ")
}

// Write writes p, which must be valid; the profile may be changed by it.
func (f *Format) Write(w io.Writer, p *profile.Profile, o Options) (Left, error) {
	if f.Named {
		if err := p.RemoveUninteresting(); err != nil {
			return Left{}, err
		}
	}
	return f.write(w, p, o)
}

func writeProto(w io.Writer, p *profile.Profile, _ Options) (Left, error) {
	return Left{}, p.Write(w)
}

// WriteUncompressed writes profile.proto as it is within the gzip file.
func WriteUncompressed(w io.Writer, p *profile.Profile) error { return p.WriteUncompressed(w) }
