package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var whenTexts = map[string]string{"kStart": "at start", "kAny": "at any time"}

// when tells when an option can be set. A client of the socket cannot set file names (core/api/service/commands.cc).
func when(r row) string {
	if r.kind == "kText" && r.when == "kAny" {
		return "at any time, by the program only"
	}
	return whenTexts[r.when]
}

// expectations describe the values of each kind.
var expectations = map[string]func(row) string{
	"kBytes": func(r row) string {
		return fmt.Sprintf("bytes, %s to %s (suffixes K M G T)", size(r.min), size(r.max))
	},
	"kMilliseconds":     func(r row) string { return fmt.Sprintf("milliseconds, %d to %d", r.min, r.max) },
	"kAutoMilliseconds": func(r row) string { return fmt.Sprintf("milliseconds, %d to %d, or auto", r.min, r.max) },
	"kCount":            func(r row) string { return fmt.Sprintf("number, %d to %d", r.min, r.max) },
	"kSwitch":           func(row) string { return "switch: 0/1, off/on, false/true" },
	"kText":             func(row) string { return "text without a comma" },
	"kChoice":           func(r row) string { return strings.Join(r.words, ", ") },
}

// markdown writes docs/options.md.
func markdown(rows []row) string {
	var b strings.Builder
	b.WriteString(`<!-- Made by "go run ./tool/gen/options" from core/base/options_table.h. Do not edit. -->
# Options

Set options in the environment variable ` + "`SEEMALLOC_CONF=\"name:value,…\"`" + ` or with ` + "`seemalloc run --conf name:value,…`" + `. Options
marked "at any time" can also be changed in a running process with ` + "`seemalloc set PID name=value`" + `; those marked "by the
program only" contain a file name, and the program changes them with ` + "`seemalloc_option_set`" + `. If an option is given twice,
the last value applies. Unknown names and invalid values are reported on standard error and ignored. Set-uid programs
ignore the variable.

| Option | Expected | Default | When | Meaning |
|---|---|---|---|---|
`)
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.name, expectations[r.kind](r), fallback(r), when(r),
			strings.ReplaceAll(r.help, "|", `\|`))
	}
	return b.String()
}

// fallback formats the default as it would be typed.
func fallback(r row) string {
	switch {
	case r.kind == "kBytes":
		return "`" + size(r.fallback) + "`"
	case r.kind == "kAutoMilliseconds":
		return "`auto`"
	case r.kind == "kText":
		return "empty"
	case r.kind == "kChoice" && r.fallback < uint64(len(r.words)):
		return "`" + r.words[r.fallback] + "`"
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

var choices = regexp.MustCompile(`\{Id::(\w+), \{((?:"\w+"(?:, )?)+)\}\}`)

// parseChoices reads the words of each kChoice option from core/base/options.cc, the only file that lists them in
// order.
func parseChoices(source string) (map[string][]string, error) {
	words := map[string][]string{}
	for _, match := range choices.FindAllStringSubmatch(source, -1) {
		for _, literal := range stringLiterals.FindAllString(match[2], -1) {
			word, err := strconv.Unquote(literal)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", literal, err)
			}
			words[match[1]] = append(words[match[1]], word)
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("no kChoices found")
	}
	return words, nil
}
