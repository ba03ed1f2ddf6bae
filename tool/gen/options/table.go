package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// row is one OPTION(…) of core/base/options_table.h.
type row struct {
	name, kind string
	fallback   uint64
	min, max   uint64
	when       string
	help       string
	words      []string // the names of a kChoice row's values, indexed by value
}

// parseTable parses the rows of the table. Unknown syntax is an error, because a silently skipped row would be an
// undocumented option.
func parseTable(header string) ([]row, error) {
	var rows []row
	text := stripComments(header)
	for {
		start := strings.Index(text, "OPTION(")
		if start < 0 {
			break
		}
		if before := strings.TrimSpace(text[:start]); before != "" {
			return nil, fmt.Errorf("not understood before an OPTION: %q", before)
		}
		arguments, rest, err := splitArguments(text[start+len("OPTION("):])
		if err != nil {
			return nil, err
		}
		r, err := parseRow(arguments)
		if err != nil {
			return nil, fmt.Errorf("OPTION(%s…): %w", strings.TrimSpace(arguments[0]), err)
		}
		rows = append(rows, r)
		text = rest
	}
	if rest := strings.TrimSpace(text); rest != "" {
		return nil, fmt.Errorf("not understood after the last OPTION: %q", rest)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no OPTION rows")
	}
	return rows, nil
}

// stripComments removes // comments, except inside strings.
func stripComments(text string) string {
	var b strings.Builder
	inString := false
	for i := 0; i < len(text); i++ {
		switch {
		case inString && text[i] == '\\' && i+1 < len(text):
			b.WriteByte(text[i])
			i++
		case text[i] == '"':
			inString = !inString
		case !inString && strings.HasPrefix(text[i:], "//"):
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// splitArguments splits the text after "OPTION(" at its commas, up to the closing parenthesis.
func splitArguments(text string) (arguments []string, rest string, err error) {
	depth, start, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == ',' && depth == 0:
			arguments = append(arguments, text[start:i])
			start = i + 1
		case c == ')':
			return append(arguments, text[start:i]), text[i+1:], nil
		}
	}
	return []string{text[:min(len(text), 20)]}, "", fmt.Errorf("an OPTION without its closing parenthesis: %.40q", text)
}

func parseRow(a []string) (row, error) {
	const columns = 7
	if len(a) != columns {
		return row{}, fmt.Errorf("%d columns instead of %d", len(a), columns)
	}
	for i := range a {
		a[i] = strings.TrimSpace(a[i])
	}
	r := row{name: a[0], kind: a[1], when: a[5]}
	if expectations[r.kind] == nil {
		return row{}, fmt.Errorf("a kind that this generator does not know: %s", r.kind)
	}
	if whenTexts[r.when] == "" {
		return row{}, fmt.Errorf("a time that this generator does not know: %s", r.when)
	}
	for i, number := range []*uint64{&r.fallback, &r.min, &r.max} {
		value, err := evaluate(a[2+i])
		if err != nil {
			return row{}, err
		}
		*number = value
	}
	for _, literal := range stringLiterals.FindAllString(a[6], -1) {
		part, err := strconv.Unquote(literal)
		if err != nil {
			return row{}, fmt.Errorf("help text %s: %w", literal, err)
		}
		r.help += part
	}
	if r.help == "" {
		return row{}, fmt.Errorf("no help text")
	}
	return r, nil
}

var (
	stringLiterals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	constants      = map[string]uint64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
)

// evaluate computes a product of numbers and units, each of which may be in parentheses: "512 * KiB".
func evaluate(expression string) (uint64, error) {
	product := uint64(1)
	for _, factor := range strings.Split(expression, "*") {
		factor = strings.Trim(strings.TrimSpace(factor), "()")
		value, known := constants[factor]
		if !known {
			var err error
			if value, err = strconv.ParseUint(strings.ReplaceAll(factor, "'", ""), 0, 64); err != nil {
				return 0, fmt.Errorf("not a number or unit: %q", factor)
			}
		}
		product *= value
	}
	return product, nil
}
