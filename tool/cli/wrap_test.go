package cli

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"short", "short"},
		{"one two three four five six", "one two three\n  four five six"},
		{"averyveryverylongname is one word", "averyveryverylongname\n  is one word"},
	} {
		if got := wrap(c.text, "  ", 18); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	for line := range strings.Lines(wrap(strings.Repeat("a word ± more ", 50), "    ", 40)) {
		if len([]rune(strings.TrimRight(line, "\n"))) > 40 {
			t.Errorf("too long: %q", line)
		}
	}
}
