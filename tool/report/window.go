package report

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/google/pprof/profile"
)

// TakesWindow reports whether profiles of this kind can be subtracted: their rows stay the same over time and only the
// values change.
func TakesWindow(kind string) bool { return kind != "peak" && kind != "lifetime" && kind != "since" }

// Window returns the events between two profiles of one process. It consumes both.
func Window(before, after *profile.Profile) (*profile.Profile, error) {
	return subtract(after, before, "window")
}

// Rate formats the total per second, for a profile with values that grow with time. It returns "" for other profiles.
func (t *Top) Rate() string {
	if !(t.Seconds > 0) {
		return ""
	}
	return fmt.Sprintf("%s per second over %s", Amount(int64(float64(t.Total)/t.Seconds), t.Unit), Duration(time.Duration(t.Seconds*1e9)))
}

var cumulativeTypes = regexp.MustCompile(`^(alloc|requested|moved|short|freed|remote_free)_`)

// The format of core/profile/heap/heap_profile_writer.cc, and its older wording.
var exactLine = regexp.MustCompile(`^in use: \d+ bytes estimated, standard error \d+ bytes; exactly (\d+) (?:live bytes|bytes are handed out)`)

// Exact returns the exact number of live bytes that the profile's total estimates, if the profile states it and shows
// all live blocks.
func Exact(p *profile.Profile) *int64 {
	var exact *int64
	for _, line := range p.Comments {
		switch match := exactLine.FindStringSubmatch(line); {
		case match != nil:
			if n, err := strconv.ParseInt(match[1], 10, 64); err == nil {
				exact = &n
			}
		case difference.MatchString(line):
			return nil
		}
	}
	return exact
}

// The format of core/profile/heap/heap_profile_writer.cc.
var requestedLine = regexp.MustCompile(`^requested: (\d+) bytes of those in use estimated, standard error (\d+) bytes$`)

// Requested returns the requested size of the live blocks in the profile, and its standard error. It returns nil if the
// profile does not state it or is a difference.
func Requested(p *profile.Profile) (bytes *float64, stderr float64) {
	for _, line := range p.Comments {
		switch match := requestedLine.FindStringSubmatch(line); {
		case match != nil:
			n, _ := strconv.ParseFloat(match[1], 64)
			stderr, _ = strconv.ParseFloat(match[2], 64)
			bytes = &n
		case difference.MatchString(line):
			return nil, 0
		}
	}
	return bytes, stderr
}

// The format of core/profile/heap/heap_profile_writer.cc, and its older wording.
var exactMore = regexp.MustCompile(`^since: .*; (?:live bytes changed by exactly (-?\d+)|exactly (-?\d+) bytes more are handed out)(?:, by allocated size)?$`)

// ExactMore returns the exact growth of live bytes since the baseline, for a profile of the kind since.
func ExactMore(p *profile.Profile) *int64 {
	for _, line := range p.Comments {
		if match := exactMore.FindStringSubmatch(line); match != nil {
			if n, err := strconv.ParseInt(match[1]+match[2], 10, 64); err == nil {
				return &n
			}
		}
		if ofTwo.MatchString(line) { // the following comments belong to one of the two profiles
			return nil
		}
	}
	return nil
}

var (
	exactAllocated = regexp.MustCompile(`^allocated: \d+ bytes estimated, standard error \d+ bytes; exactly (\d+) bytes since the (?:start|baseline)$`)
	exactChange    = regexp.MustCompile(`^(?:window|difference): .*; exactly (-?\d+) bytes were allocated$`)
	ofTwo          = regexp.MustCompile(`^(window|difference):`)
)

// ExactAllocated returns the exact number of allocated bytes that the profile's total estimates, if the profile states
// it: since the start or the baseline, in the window, or between two profiles.
func ExactAllocated(p *profile.Profile) *int64 {
	var exact *int64
	for _, line := range p.Comments {
		change := ofTwo.MatchString(line)
		pattern := exactAllocated
		if change {
			pattern = exactChange
		}
		if match := pattern.FindStringSubmatch(line); match != nil {
			n, err := strconv.ParseInt(match[1], 10, 64)
			if err != nil || exact != nil { // several profiles in one
				return nil
			}
			exact = &n
		}
		if change { // the following comments belong to the later profile
			return exact
		}
	}
	return exact
}

var difference = regexp.MustCompile(`^(since|window|difference):`)
