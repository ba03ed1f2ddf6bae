package compare

import (
	"context"
	"errors"
	"fmt"
)

// Session holds all rounds of a comparison.
type Session struct {
	Allocators []Allocator
	Rounds     int
	Seed       uint64
	Expected   string // the exit status of a successful run; "": any
	Run        func(ctx context.Context, a Allocator, round int) (Run, error)
	Progress   func(round int, a Allocator) // called before each run

	Runs     []Run // of all allocators, including those excluded later
	Excluded []Excluded
}

// Do runs every allocator once per round. An allocator with a failed run is excluded from then on. It stops early if
// the context ends, with the context's error, or if only one of several allocators is left. The measured runs are kept.
func (s *Session) Do(ctx context.Context) error {
	left := append([]Allocator(nil), s.Allocators...)
	for round := 1; round <= s.Rounds; round++ {
		for _, a := range Order(s.Seed, round, left) {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.Progress(round, a)
			reason, err := s.runOnce(ctx, a, round)
			if err != nil {
				return err
			}
			if reason != "" {
				s.Excluded = append(s.Excluded, Excluded{a.Name, round, reason})
				left = without(left, a)
			}
		}
		if len(left) < min(2, len(s.Allocators)) {
			break
		}
	}
	return nil
}

// runOnce runs an allocator once. It returns the reason why the run excludes the allocator, or "".
func (s *Session) runOnce(ctx context.Context, a Allocator, round int) (string, error) {
	run, err := s.Run(ctx, a, round)
	run.Round = round
	var failed Failed
	switch {
	case errors.As(err, &failed):
		return failed.Reason, nil
	case err != nil:
		return "", err
	}
	s.Runs = append(s.Runs, run)
	return s.rejectReason(a, run), nil
}

// rejectReason returns why a finished run excludes the allocator, or "".
func (s *Session) rejectReason(a Allocator, run Run) string {
	if s.Expected != "" && run.ExitStatus != s.Expected {
		reason := fmt.Sprintf("%s instead of %s", run.ExitStatus, s.Expected)
		if run.stderrTail != "" {
			reason += ": " + run.stderrTail
		}
		return reason
	}
	if a.Library != "" && run.Loaded == No {
		return fmt.Sprintf("%s was not in the program's memory: LD_PRELOAD does not reach it (static, set-uid, or started with its own environment)",
			a.Library)
	}
	return ""
}

func without(list []Allocator, one Allocator) []Allocator {
	var rest []Allocator
	for _, a := range list {
		if a != one {
			rest = append(rest, a)
		}
	}
	return rest
}
