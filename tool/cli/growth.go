package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/doctor"
	"seemalloc/tool/growth"
	"seemalloc/tool/symbolize"
)

const (
	// growthTime is the default duration of a look, which ends earlier if the result is clear.
	growthTime = 15 * time.Second
	// growthSteps is the number of intervals between profiles in a look.
	growthSteps   = 10
	minGrowthTime = time.Second
)

// lookFlags are the flags of commands that look at a process for a while.
type lookFlags struct {
	duration time.Duration
	fixed    bool // look for exactly this time
	asJSON   bool
	hide     string
	hidden   *regexp.Regexp
}

func (f *lookFlags) register(c *cobra.Command, forHelp string) {
	c.Flags().DurationVar(&f.duration, "for", growthTime, forHelp)
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&f.hide, "hide", "", "remove functions that match this regular expression from the stacks")
}

func (f *lookFlags) check(c *cobra.Command, least time.Duration) error {
	f.fixed = c.Flags().Changed("for")
	if f.duration < least {
		return usageError("--for %s: expected %s or more", f.duration, least)
	}
	if f.hide != "" {
		var err error
		if f.hidden, err = regexp.Compile(f.hide); err != nil {
			return usageError("--hide: %v", err)
		}
	}
	return nil
}

func (a *app) growthCommand() *cobra.Command {
	var flags lookFlags
	c := &cobra.Command{
		Use:   "growth PID",
		Short: "Find the functions whose memory grows, with rate and certainty",
		Long: `Take heap profiles of a process at several moments, and show the functions whose memory grows steadily: the rate with its
standard error, the memory that the function holds now, the sizes of the blocks, and the time until the limit of the
process's memory cgroup, or the machine's memory, is reached. One cause is one row: the smallest function that owns all
of the growth. The rows together are certain to 95 %; growth that may be chance or a single jump is not shown.

leak-like: none of the accumulating blocks is freed. cache-like: some of them are freed, but more are allocated.

Without --for the look ends as soon as the result is clear, after 15 seconds at the latest. A slow leak needs a longer
look: the output says which rate could not have been seen. Ctrl-C ends the look earlier.

Exit status: 0 nothing grows, 3 something grows, 1 failure, 2 usage error.`,
		Example: `  seemalloc growth 4242
  seemalloc growth 4242 --for 5m                   # for slow leaks
  seemalloc growth 4242 --json | jq '.growing[] | {name, bytes_per_s}'`,
		Args: a.pidArgs(0, 0),
		RunE: func(c *cobra.Command, args []string) error {
			if err := flags.check(c, minGrowthTime); err != nil {
				return err
			}
			return a.growth(flags, args)
		},
	}
	flags.register(c, "how long to look; without it, shorter if the result is clear")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

// growthReport is the output of `growth --json`.
type growthReport struct {
	Source string `json:"source"`
	PID    int    `json:"pid"`
	// Limit names the limit of seconds_to_limit.
	Limit      string `json:"limit,omitempty"`
	LimitBytes int64  `json:"bytes_to_limit,omitempty"`
	*growth.Result
}

func (a *app) growth(flags lookFlags, args []string) error {
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	defer t.Close()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	look := growth.Look{Name: func(p *profile.Profile) { symbolize.Profile(p, symbolize.Files{PID: t.pid}) }, Hide: flags.hidden}
	result, err := a.lookAt(t, &look, flags, interrupted)
	if err != nil {
		return err
	}
	report := growthReport{Source: t.name, PID: t.pid, Result: result}
	report.Limit, report.LimitBytes = doctor.Room(t.pid)
	if flags.asJSON {
		err = a.printJSON(report)
	} else {
		_, err = fmt.Fprintf(a.out, "%s: growth of live memory by function\n%s", t.name, result.Text(report.Limit))
	}
	if err == nil && result.Found() {
		return exitError{nil, exitFindings}
	}
	return err
}

// lookAt takes profiles until the time is over, the result is clear, or a signal arrives.
func (a *app) lookAt(t *target, look *growth.Look, flags lookFlags, interrupted <-chan os.Signal) (*growth.Result, error) {
	progress := newProgress(a.err, flags.duration)
	defer progress.end()
	_, room := doctor.Room(t.pid)
	began := time.Now()
	var result *growth.Result
	for step := 0; ; step++ {
		if err := addProfile(t, look); err != nil {
			var refused *attach.ServerError
			if errors.As(err, &refused) || !processExited(t.pid) {
				return nil, err
			}
			if result, _ = look.Find(float64(room)); result != nil {
				return result, nil
			}
			return nil, fmt.Errorf("%s ended before the second profile: give a shorter --for", t.name)
		}
		last := step == growthSteps
		if last || !flags.fixed && step == growthSteps/2 {
			var err error
			if result, err = look.Find(float64(room)); err != nil || last || result.Enough() {
				return result, err
			}
		}
		next := began.Add(flags.duration * time.Duration(step+1) / growthSteps)
		if !progress.wait(next, interrupted) {
			if err := addProfile(t, look); err != nil {
				return nil, err
			}
			return look.Find(float64(room))
		}
	}
}

// addProfile adds the present state of the process. The exact number of live bytes is optional.
func addProfile(t *target, look *growth.Look) error {
	p, err := t.rawProfile(defaultKind)
	if err != nil {
		return err
	}
	var live *int64
	if stats, err := attach.FetchStats(t.Client); err == nil {
		live = &stats.Memory.LiveAllocated
	}
	return look.Add(p, live)
}

// progress shows the remaining time on a terminal.
type progress struct {
	out   *os.File // nil: not a terminal
	until time.Time
}

func newProgress(out io.Writer, lasts time.Duration) *progress {
	p := &progress{until: time.Now().Add(lasts)}
	if file, ok := out.(*os.File); ok && term.IsTerminal(file.Fd()) {
		p.out = file
	}
	return p
}

// wait returns at that time, or false as soon as a signal arrives.
func (p *progress) wait(until time.Time, interrupted <-chan os.Signal) bool {
	const often = 250 * time.Millisecond
	for {
		if p.out != nil {
			fmt.Fprintf(p.out, "\rlooking: up to %.0f s more …\033[K", max(0, time.Until(p.until).Seconds()))
		}
		left := time.Until(until)
		select {
		case <-time.After(min(left, often)):
			if left <= often {
				return true
			}
		case <-interrupted:
			return false
		}
	}
}

func (p *progress) end() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r\033[K")
	}
}
