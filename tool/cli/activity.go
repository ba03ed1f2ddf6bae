package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

const (
	minActivityInterval = 10 * time.Millisecond
	linesPerHeader      = 20
)

type activityFlags struct {
	interval time.Duration
	count    int
	asJSON   bool
	run      runFlags
	watch    bool // print lines while a command runs
}

func (a *app) activityCommand() *cobra.Command {
	var flags activityFlags
	c := &cobra.Command{
		Use:     "activity PID | activity -- COMMAND [ARGUMENTS…]",
		Aliases: []string{"stat"}, // its former name
		Short:   "Show the allocator's activity once a second, or a summary of a whole run",
		Long: `Show the state of a process's allocator and its activity since the previous line, one line per interval, like vmstat.
With a command instead of a process, run it on seemalloc and print a summary to standard error when it has ended; the
exit status is the command's. With --interval it also prints the lines, to standard error.

Memory, in MiB now:
  rss       resident memory of the process
  live      live blocks
  free      free blocks, in free lists of threads and in spans
  dirty     free pages that have not been purged
Per second:
  minor, major    page faults of the whole process; major ones waited for a disk
  madvise   calls of madvise: memory that the kernel may reclaim, and addresses that may have huge pages
  MB        free memory returned to the OS (1,000,000 bytes), by madvise or, for large blocks, munmap
  mmap      calls that map, unmap or move address space: mmap, munmap and mremap
  re-MB     refaults: memory that was purged and used again within twice the purge delay
  refills   how often a thread's free list was empty, and the thread refilled it from its heap
  remote    blocks that were freed by another thread and returned to the thread that owns their memory
  lockwait  how often a thread slept for a lock of the allocator, or near a memory limit until memory was returned; the
            observation causes some: mostly the helper thread waits for the program while it collects this line
  sys%      time in the calls counted here, in percent of one CPU`,
		Example: `  seemalloc activity 4242
  seemalloc activity 4242 --interval 200ms --count 50
  seemalloc activity 4242 --json | jq .rss
  seemalloc activity -- python3 job.py`,
		Args: a.pidOrCommand,
		RunE: func(c *cobra.Command, args []string) error {
			flags.watch = c.Flags().Changed("interval")
			isRun := c.ArgsLenAtDash() >= 0
			if err := flags.check(isRun); err != nil {
				return err
			}
			if isRun {
				return a.runActivity(flags, args)
			}
			return a.followActivity(flags, args)
		},
	}
	c.Flags().DurationVar(&flags.interval, "interval", time.Second, "time between two lines")
	c.Flags().IntVar(&flags.count, "count", 0, "number of lines; 0: until the process ends or Ctrl-C")
	c.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object per line")
	flags.run.register(c, "with a command: ")
	a.targetFlags(c)
	return c
}

func (f *activityFlags) check(isRun bool) error {
	if f.interval < minActivityInterval {
		return usageError("--interval %s: expected %s or more", f.interval, minActivityInterval)
	}
	if f.count < 0 {
		return usageError("--count %d: expected 0 or more", f.count)
	}
	if isRun && f.count != 0 {
		return usageError("--count: a command is observed until it ends; expected a process")
	}
	return f.run.check()
}

// activityLines prints lines about a process as they come.
type activityLines struct {
	out    io.Writer
	asJSON bool
	lines  int
	before *attach.Stats
}

// next prints the line for an answer. The first answer only serves as the base for the second.
func (s *activityLines) next(now *attach.Stats) error {
	before := s.before
	s.before = now
	if before == nil {
		return nil
	}
	line := report.NewActivity(before, now)
	defer func() { s.lines++ }()
	if s.asJSON {
		return json.NewEncoder(s.out).Encode(line)
	}
	text := line.Text()
	if s.lines%linesPerHeader == 0 {
		text = report.ActivityHeader() + text
	}
	_, err := fmt.Fprint(s.out, text)
	return err
}

func (a *app) followActivity(flags activityFlags, args []string) error {
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	defer t.Close()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	defer signal.Stop(interrupted)
	ticker := time.NewTicker(flags.interval)
	defer ticker.Stop()
	lines := activityLines{out: a.out, asJSON: flags.asJSON}
	for {
		stats, err := attach.FetchBriefStats(t.Client)
		if err != nil {
			var refused *attach.ServerError
			if lines.before == nil || errors.As(err, &refused) || !processExited(t.pid) {
				return err
			}
			a.warn(t.name + " has ended")
			return nil
		}
		if stats.TimeNS == 0 {
			return fmt.Errorf("%s: its library does not have the counters of activity: it is older than this tool", t.name)
		}
		if err := lines.next(stats); err != nil {
			return err
		}
		if flags.count != 0 && lines.lines >= flags.count {
			return nil
		}
		select {
		case <-ticker.C:
		case <-interrupted:
			return nil
		}
	}
}

// ---- a whole run ----

func (a *app) runActivity(flags activityFlags, args []string) error {
	dir, err := os.MkdirTemp("", "seemalloc-activity")
	if err != nil {
		return fmt.Errorf("no folder for the statistics: %w", err)
	}
	defer os.RemoveAll(dir)
	run, err := a.startRun(flags, args, dir)
	if err != nil {
		return err
	}
	last := run.watch()
	facts := run.facts()
	stats, others := readExitStats(dir, run.command.Process.Pid)
	facts.AtExit = stats != nil
	if stats == nil {
		stats = last
	}
	facts.PeakRSS = run.peakRSS(stats)
	facts.Processes = len(others)
	if stats != nil {
		facts.Processes++
	}
	if flags.asJSON {
		err = json.NewEncoder(a.err).Encode(runJSON(facts, stats, others))
	} else {
		_, err = fmt.Fprint(a.err, report.Run(facts, stats, others))
	}
	if err != nil {
		return err
	}
	return exitError{nil, run.status()}
}

// runJSON is the output of `activity --json -- COMMAND`: the system's data and the library's own statistics.
func runJSON(facts report.RunSummary, stats *attach.Stats, others []*attach.Stats) any {
	return struct {
		report.RunSummary
		Stats  *attach.Stats   `json:"stats"`
		Others []*attach.Stats `json:"other_processes,omitempty"`
	}{facts, stats, others}
}

// exitStatus returns the status that a shell would report.
func exitStatus(state *os.ProcessState) int {
	if wait, ok := state.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		const bySignal = 128
		return bySignal + int(wait.Signal())
	}
	return state.ExitCode()
}
