// Package formats reads profiles in widespread formats and writes the formats of other viewers.
//
// In memory a profile is always a pprof profile.Profile. Read (read.go) recognizes a format by its content. The pprof
// package parses all formats except jemalloc's text (jemalloc.go). Each writer has its own file: heaptext.go,
// collapsed.go, speedscope.go, dhat.go, svg.go, csv.go, json.go. docs/formats.md describes the content of each format.
package formats

import (
	"errors"
	"io"
	"strings"

	"github.com/google/pprof/profile"
)

// Options configures a writer.
type Options struct {
	// Index is the selected sample type, for formats that hold one type or open with one.
	Index int
	// Source is the file or process of the profile, for titles.
	Source string
	// Command and PID describe the process, if known.
	Command string
	PID     int
}

// Omitted describes the data that a format cannot hold: the number of rows and the sum of negative values, which only
// differences have.
type Omitted struct {
	Rows int
	Sum  int64
}

func (l *Omitted) add(value int64) {
	if value < 0 {
		l.Rows++
		l.Sum += value
	}
}

// Format is one output format for profiles.
type Format struct {
	Name       string
	Extensions []string // of file names, the preferred one first
	Help       string
	// Named is set if the format holds functions: the profile must be symbolized, and the allocator's own frames
	// removed. The other formats hold addresses, and their readers do both themselves.
	Named bool
	// Notes is set if the format holds the profile's comments: how it was sampled, its losses, and its error.
	Notes bool
	write func(io.Writer, *profile.Profile, Options) (Omitted, error)
}

// All lists the formats in the order of the documentation.
var All = []Format{
	{"proto", []string{".pb.gz", ".pb", ".prof"}, "profile.proto, for pprof, go tool pprof and most viewers (.pb: not compressed)", false, true, writeProto},
	{"heap", []string{".heap"}, "heap_v2, the older text of addresses, for jeprof and pprof", false, true, writeHeapText},
	{"collapsed", []string{".collapsed", ".folded"}, "a line per stack, for flamegraph.pl, inferno and speedscope", true, false, writeCollapsed},
	{"speedscope", []string{".speedscope.json"}, "speedscope's JSON, with a profile per sample type", true, true, writeSpeedscope},
	{"dhat", []string{".dhat.json"}, "DHAT's JSON, for dh_view.html and the Firefox Profiler", true, true, writeDHAT},
	{"svg", []string{".svg"}, "a flame graph as a picture, without scripts", true, false, writeSVG},
	{"csv", []string{".csv"}, "a table: a row per stack and block size", true, false, writeCSV},
	{"json", []string{".json"}, "everything, for scripts", true, true, writeJSON},
}

// Register adds a format whose writer is in another package. It is called by init functions.
func Register(f Format, write func(io.Writer, *profile.Profile, Options) (Omitted, error)) {
	f.write = write
	All = append(All, f)
}

// ByName finds a format by its name, or returns nil.
func ByName(name string) *Format {
	for i := range All {
		if All[i].Name == name {
			return &All[i]
		}
	}
	return nil
}

// ByExtension finds the format for a file name, by the longest matching extension.
func ByExtension(file string) *Format {
	var found *Format
	maximum := 0
	for i := range All {
		for _, extension := range All[i].Extensions {
			if strings.HasSuffix(file, extension) && len(extension) > maximum {
				found, maximum = &All[i], len(extension)
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

// Write writes p, which must be valid. It may modify p.
func (f *Format) Write(w io.Writer, p *profile.Profile, o Options) (Omitted, error) {
	if len(p.SampleType) == 0 {
		return Omitted{}, errors.New("the profile has no sample types")
	}
	if f.Named {
		if err := p.RemoveUninteresting(); err != nil {
			return Omitted{}, err
		}
	}
	return f.write(w, p, o)
}

func writeProto(w io.Writer, p *profile.Profile, _ Options) (Omitted, error) {
	return Omitted{}, p.Write(w)
}

// WriteUncompressed writes profile.proto without gzip.
func WriteUncompressed(w io.Writer, p *profile.Profile) error { return p.WriteUncompressed(w) }
