package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"
)

// Pprof runs one of pprof's own text reports (peek, list) on the values at index, for the matching functions. flags are
// additional pprof flags. The profile must be symbolized: pprof looks up no symbols and starts no program. Not safe for
// concurrent use, because pprof keeps its settings in globals.
func Pprof(p *profile.Profile, index int, command, functions string, flags map[string]string) (string, error) {
	set := map[string]string{command: functions, "sample_index": p.SampleType[index].Type, "output": "report", "compact_labels": "true", "unit": "auto"}
	for name, value := range flags {
		set[name] = value
	}
	ui, out := &pprofUI{}, &pprofWriter{}
	err := driver.PProf(&driver.Options{
		Flagset: pprofFlags(set), Fetch: pprofFetcher{p}, Sym: pprofNames{}, Obj: pprofNoFiles{}, UI: ui, Writer: out,
	})
	if err != nil {
		if strings.Contains(err.Error(), "no matches found") {
			return "", fmt.Errorf("no function matches %s", functions)
		}
		return "", fmt.Errorf("pprof: %w", err)
	}
	// The text before the table is in our own heading.
	text := out.String()
	if table := pprofTable.FindStringIndex(text); table != nil {
		text = text[table[0]:]
	}
	return binaryUnits(text), nil
}

var (
	// pprofColumns matches the columns before a function (peek) or a source line (list). Values occur only there and
	// not in the source text.
	pprofColumns = regexp.MustCompile(`^([^|:]*\||[^:]*\(flat, cum\)|[^:]*[0-9]:)`)
	// pprofTable matches the first line of pprof's table.
	pprofTable = regexp.MustCompile(`(?m)^(-{10}|ROUTINE )`)
	pprofBytes = regexp.MustCompile(`(^| ) {0,2}(-?[0-9.]+)([kMGTP])B`)
)

// binaryUnits replaces pprof's MB by MiB, as in our other reports. It keeps the alignment of the columns.
func binaryUnits(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		columns := pprofColumns.FindString(line)
		b.WriteString(strings.ReplaceAll(pprofBytes.ReplaceAllString(columns, "$1$2 ${3}iB"), " kiB", " KiB"))
		b.WriteString(line[len(columns):])
	}
	return b.String()
}

// pprofFlags supplies pprof's flags from a table, and their defaults for all others.
type pprofFlags map[string]string

func (f pprofFlags) Bool(name string, def bool, _ string) *bool {
	value := def
	if text, set := f[name]; set {
		value = text == "true"
	}
	return &value
}

func (f pprofFlags) Int(_ string, def int, _ string) *int               { return &def }
func (f pprofFlags) Float64(_ string, def float64, _ string) *float64   { return &def }
func (f pprofFlags) StringList(_ string, _ string, _ string) *[]*string { return &[]*string{} }
func (f pprofFlags) ExtraUsage() string                                 { return "" }
func (f pprofFlags) AddExtraUsage(string)                               {}
func (f pprofFlags) Parse(func()) []string                              { return []string{"profile"} }
func (f pprofFlags) String(name string, def string, _ string) *string {
	if text, set := f[name]; set {
		def = text
	}
	return &def
}

// pprofFetcher returns the profile that it holds.
type pprofFetcher struct{ p *profile.Profile }

func (f pprofFetcher) Fetch(string, time.Duration, time.Duration) (*profile.Profile, string, error) {
	return f.p, "", nil
}

// pprofNames does nothing: the profile is symbolized already.
type pprofNames struct{}

func (pprofNames) Symbolize(string, driver.MappingSources, *profile.Profile) error { return nil }

// pprofNoFiles opens no program or library.
type pprofNoFiles struct{}

var errNoFiles = errors.New("not looked for")

func (pprofNoFiles) Open(string, uint64, uint64, uint64, string) (driver.ObjFile, error) {
	return nil, errNoFiles
}

func (pprofNoFiles) Disasm(string, uint64, uint64, bool) ([]driver.Inst, error) {
	return nil, errNoFiles
}

// pprofUI discards pprof's messages, such as the name of the output file, and has no input.
type pprofUI struct{}

func (*pprofUI) ReadLine(string) (string, error)     { return "", io.EOF }
func (*pprofUI) Print(...any)                        {}
func (*pprofUI) PrintErr(...any)                     {}
func (*pprofUI) IsTerminal() bool                    { return false }
func (*pprofUI) WantBrowser() bool                   { return false }
func (*pprofUI) SetAutoComplete(func(string) string) {}

// pprofWriter captures the report.
type pprofWriter struct{ bytes.Buffer }

func (w *pprofWriter) Open(string) (io.WriteCloser, error) { return w, nil }
func (w *pprofWriter) Close() error                        { return nil }
