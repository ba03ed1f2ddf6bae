package main

import "testing"

// A table of options is an error, or has rows with names that markdown can print.
func FuzzTable(f *testing.F) {
	f.Add(`OPTION(sample, kBytes, 512 * 1024, 0, 1ull << 40, kAny, "mean, of \"bytes\"") // comment`)
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := parseTable(text)
		if err == nil && len(rows) == 0 {
			t.Fatal("neither rows nor an error")
		}
	})
}
