package report

import (
	"testing"

	"github.com/google/pprof/profile"
)

func TestMissingOfPython(t *testing.T) {
	for comment, want := range map[string]string{
		"": "",
		"python: 3 functions met; 0 stacks with Python frames that could not be read, 0 frames of functions for which there was no space":        "",
		"python: blocks of 512 bytes and less are in memory that Python maps itself, and not in this profile; with PYTHONMALLOC=malloc they are": "Python's objects of 512 bytes and less (start it with PYTHONMALLOC=malloc)",
	} {
		if got := MissingOfPython(&profile.Profile{Comments: []string{"seemalloc: x", comment}}); got != want {
			t.Errorf("%q: %q, want %q", comment, got, want)
		}
	}
}
