package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var whenTexts = map[string]string{"kStart": "at start", "kAny": "at any time"}

// expectations say what a value of each kind looks like.
var expectations = map[string]func(row) string{
	"kBytes": func(r row) string {
		return fmt.Sprintf("bytes, %s to %s (suffixes K M G T)", size(r.least), size(r.most))
	},
	"kMilliseconds": func(r row) string { return fmt.Sprintf("milliseconds, %d to %d", r.least, r.most) },
	"kCount":        func(r row) string { return fmt.Sprintf("number, %d to %d", r.least, r.most) },
	"kSwitch":       func(row) string { return "switch: 0/1, off/on, false/true" },
	"kText":         func(row) string { return "text without a comma" },
	"kForeign":      func(r row) string { return strings.Join(r.foreignMeaning, ", ") },
}

// markdown writes docs/options.md.
func markdown(rows []row) string {
	var b strings.Builder
	b.WriteString(`<!-- Made by "go run ./tool/gen/options" from core/base/options_table.h. Do not edit. -->
# Options

Options are given in the environment variable ` + "`SEEMALLOC_CONF=\"name:value,…\"`" + `, by ` + "`seemalloc run --conf name:value,…`" + `, and
those that may be set at any time also by ` + "`seemalloc set PID name=value`" + `. Of a name given twice the last counts. An unknown
name or a bad value is reported on standard error and ignored. Set-uid programs ignore the variable.

| Option | Expected | Default | When | Meaning |
|---|---|---|---|---|
`)
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.name, expectations[r.kind](r), fallback(r), whenTexts[r.when],
			strings.ReplaceAll(r.help, "|", `\|`))
	}
	return b.String()
}

// fallback writes the default the way one would type it.
func fallback(r row) string {
	switch {
	case r.kind == "kBytes":
		return "`" + size(r.fallback) + "`"
	case r.kind == "kText":
		return "empty"
	case r.kind == "kForeign" && r.fallback < uint64(len(r.foreignMeaning)):
		return "`" + r.foreignMeaning[r.fallback] + "`"
	}
	return "`" + strconv.FormatUint(r.fallback, 10) + "`"
}

func size(n uint64) string {
	for _, unit := range []struct {
		letter string
		shift  uint
	}{{"T", 40}, {"G", 30}, {"M", 20}, {"K", 10}} {
		if n != 0 && n&(1<<unit.shift-1) == 0 {
			return strconv.FormatUint(n>>unit.shift, 10) + unit.letter
		}
	}
	return strconv.FormatUint(n, 10)
}

var foreignWords = regexp.MustCompile(`kForeignWords\[\]\s*=\s*\{([^}]*)\}`)

// parseForeignWords reads the words of kForeign values from core/base/options.cc, the one place that has them in order.
func parseForeignWords(source string) ([]string, error) {
	match := foreignWords.FindStringSubmatch(source)
	if match == nil {
		return nil, fmt.Errorf("kForeignWords not found")
	}
	var words []string
	for _, literal := range stringLiterals.FindAllString(match[1], -1) {
		words = append(words, strings.Trim(literal, `"`))
	}
	return words, nil
}
