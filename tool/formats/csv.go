package formats

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// writeCSV writes one row per sample, the largest first: its values, its labels, the innermost function with its
// location, and the whole stack, outermost function first.
func writeCSV(w io.Writer, p *profile.Profile, o Options) (Omitted, error) {
	labels := labelKeys(p)
	header := append(strings.Split(typeNames(p), ", "), labels...)
	out := csv.NewWriter(w)
	if err := out.Write(append(header, "function", "file", "line", "module", "stack")); err != nil {
		return Omitted{}, err
	}
	type row struct {
		sample *profile.Sample
		stack  []frame
		text   string
	}
	var rows []row
	for _, sample := range p.Sample {
		stack := stackOf(sample)
		rows = append(rows, row{sample, stack, rootFirst(stack)})
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(-cmp.Compare(a.sample.Value[o.Index], b.sample.Value[o.Index]), strings.Compare(a.text, b.text))
	})
	for _, r := range rows {
		var fields []string
		for _, value := range r.sample.Value {
			fields = append(fields, strconv.FormatInt(value, 10))
		}
		for _, key := range labels {
			fields = append(fields, labelText(r.sample, key))
		}
		inner := r.stack[0]
		line := ""
		if inner.line > 0 {
			line = strconv.FormatInt(inner.line, 10)
		}
		if err := out.Write(append(fields, inner.function, inner.file, line, inner.module, r.text)); err != nil {
			return Omitted{}, err
		}
	}
	out.Flush()
	return Omitted{}, out.Error()
}

// labelKeys lists the keys of all labels, sorted.
func labelKeys(p *profile.Profile) []string {
	seen := map[string]bool{}
	for _, sample := range p.Sample {
		for key := range sample.NumLabel {
			seen[key] = true
		}
		for key := range sample.Label {
			seen[key] = true
		}
	}
	var keys []string
	for key := range seen {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// labelText formats a sample's label, with blanks between several values.
func labelText(sample *profile.Sample, key string) string {
	texts := slices.Clone(sample.Label[key])
	for _, value := range sample.NumLabel[key] {
		texts = append(texts, strconv.FormatInt(value, 10))
	}
	return strings.Join(texts, " ")
}
