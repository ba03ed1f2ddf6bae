package report

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/google/pprof/profile"
)

// TakesWindow says whether profiles of the kind can be subtracted: their rows are the same from one moment to the next, but for
// their values.
func TakesWindow(kind string) bool { return kind != "peak" && kind != "lifetime" && kind != "since" }

// Window is what happened between two profiles of one process; both are used up.
func Window(before, after *profile.Profile) (*profile.Profile, error) {
	return subtract(after, before, "window")
}

// Rate is the total of a profile whose values grow with time, over the time that it covers; "" for others.
func (t *Top) Rate() string {
	if !(t.Seconds > 0) {
		return ""
	}
	return fmt.Sprintf("%s a second over %s", Amount(int64(float64(t.Total)/t.Seconds), t.Unit), Duration(time.Duration(t.Seconds*1e9)))
}

var growing = regexp.MustCompile(`^(alloc|requested|moved|short|freed|remote_free)_`)

// As core/profile/heap_profile_writer.cc writes it.
var exactLine = regexp.MustCompile(`^in use: \d+ bytes estimated, standard error \d+ bytes; exactly (\d+) bytes are handed out`)

// Exact is what the profile's estimate of the bytes in use estimates, where the profile says it and shows all that is in use.
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

// As core/profile/heap_profile_writer.cc writes it.
var requestedLine = regexp.MustCompile(`^requested: (\d+) bytes of those in use estimated, standard error (\d+) bytes$`)

// Requested is what the program asked for of what the profile shows in use, and its standard error; nil where the profile does not say
// it, or is a difference.
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

// As core/profile/heap_profile_writer.cc writes it.
var exactMore = regexp.MustCompile(`^since: .*; exactly (-?\d+) bytes more are handed out(?:, by allocated size)?$`)

// ExactMore is what a profile of the kind since estimates of the bytes in use: how many more, or fewer, there are than at the baseline.
func ExactMore(p *profile.Profile) *int64 {
	for _, line := range p.Comments {
		if match := exactMore.FindStringSubmatch(line); match != nil {
			if n, err := strconv.ParseInt(match[1], 10, 64); err == nil {
				return &n
			}
		}
		if ofTwo.MatchString(line) { // what comes behind it is of one of the two
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

// ExactAllocated is what the profile's estimate of the bytes allocated estimates, where the profile says it: since the start or the
// baseline, in the window, or what the later of two profiles has more.
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
		if change { // what comes behind it is of the later one alone
			return exact
		}
	}
	return exact
}

var difference = regexp.MustCompile(`^(since|window|difference):`)
