package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/compare"
	"seemalloc/tool/library"
	"seemalloc/tool/report"
)

const (
	exitInterrupted = 130
	maxRounds       = 1000
)

type compareFlags struct {
	alloc, load, keep, lib string
	rounds                 int
	duration, upAfter      time.Duration
	seed                   uint64
	asJSON                 bool
}

func (a *app) compareCommand() *cobra.Command {
	var flags compareFlags
	c := &cobra.Command{
		Use:   "compare [flags] -- COMMAND [ARGUMENTS…]",
		Short: "Run a program with several allocators and compare time and memory",
		Long: `Run a program with each installed allocator (` + strings.Join(compare.Names(), ", ") + `), loaded by
LD_PRELOAD, in several rounds in random order, and compare wall and CPU time, peak and final resident memory, page
faults and context switches. Each figure is the median, with its ratio to the best and the smallest and the largest run.
A difference that is not significant is marked ~.

Standard input is empty. CPU time, page faults and context switches include the program and all children that it has
waited for. Peak RSS is that of the largest process, not the sum; final RSS is the last reading of the same process
before it ended (one every 20 ms). The first run uses glibc as a warm-up and is not counted; all other runs must end
with the same exit status. An allocator on which the program fails is reported and excluded.

For servers, which do not end on their own: --for ends the server with SIGTERM after that time (SIGKILL 5 s later) and
shows its usage up to then. --load runs a command against the server once it listens on a socket, shows how long that
takes, and ends the server. The load itself runs with the default allocator.

Allocator options in the environment (SEEMALLOC_CONF, MALLOC_CONF, GLIBC_TUNABLES …) take effect, and the result lists
them. Ctrl-C ends the program and shows the results so far.`,
		Example: `  seemalloc compare -- python3 job.py
  seemalloc compare --alloc glibc,seemalloc --rounds 9 -- sqlite3 -bail :memory: '.read job.sql'
  seemalloc compare --alloc glibc,new=/opt/libjemalloc.so.2 -- ./job
  seemalloc compare --for 30s -- ./server
  seemalloc compare --load 'redis-benchmark -p 7777 -q' -- redis-server --port 7777`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("which program? Give its command line")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("seed") {
				flags.seed = uint64(rand.Uint32())
			}
			if err := flags.check(c); err != nil {
				return err
			}
			return a.compare(flags, args)
		},
	}
	f := c.Flags()
	f.StringVar(&flags.alloc, "alloc", "", "allocators, as NAME,NAME=PATH,… (default: all that are installed)")
	f.IntVar(&flags.rounds, "rounds", compare.MinRuns, "number of runs of each; with fewer than 5 no difference is significant")
	f.Uint64Var(&flags.seed, "seed", 0, "repeat the order of a comparison that printed this seed")
	f.DurationVar(&flags.duration, "for", 0, "end the program after this time; with --load: time limit of the load")
	f.StringVar(&flags.load, "load", "", "a shell command that uses the server; its time is measured")
	f.DurationVar(&flags.upAfter, "up-after", 0, "start the load after this time, instead of when the server listens on a socket")
	f.StringVar(&flags.keep, "keep-output", "", "save the program's output in this folder, as NAME.ROUND.out and .err")
	f.StringVar(&flags.lib, "lib", "", "the seemalloc library to use, a file or a folder")
	f.BoolVar(&flags.asJSON, "json", false, "print JSON, with every run")
	f.SetInterspersed(false) // flags after the program's name belong to the program
	return c
}

func (flags compareFlags) check(c *cobra.Command) error {
	changed := c.Flags().Changed
	switch {
	case flags.rounds < 1 || flags.rounds > maxRounds:
		return usageError("--rounds %d: expected 1 to %d", flags.rounds, maxRounds)
	case changed("for") && flags.duration <= 0:
		return usageError("--for %s: expected a time, such as 30s", flags.duration)
	case changed("load") && strings.TrimSpace(flags.load) == "":
		return usageError("--load: expected a command of the shell")
	case changed("up-after") && flags.load == "":
		return usageError("--up-after sets the start of the load: it needs --load")
	case changed("up-after") && flags.upAfter <= 0:
		return usageError("--up-after %s: expected a time, such as 2s", flags.upAfter)
	case changed("alloc") && flags.alloc == "":
		return usageError("--alloc: expected names, such as %s", strings.Join(compare.Names(), ","))
	}
	return nil
}

func (a *app) compare(flags compareFlags, args []string) error {
	path, err := executable(args[0])
	if err != nil {
		return exitError{err, exitUsage}
	}
	if reason := unsupportedExecutable(path); reason != "" {
		return errors.New(reason)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	result, err := newComparison(ctx, flags, args)
	if err != nil {
		return err
	}
	command := &compare.Command{Path: path, Args: args, Env: os.Environ(), For: flags.duration, Load: flags.load, UpAfter: flags.upAfter}
	failure := a.measure(ctx, flags, command, result)
	if len(result.Runs) == 0 && len(result.Excluded) == 0 {
		return failure
	}
	result.Fill()
	if flags.asJSON {
		encoder := json.NewEncoder(a.out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(result); err != nil {
			return err
		}
	} else {
		fmt.Fprint(a.out, report.Compare(result))
	}
	return failure
}

// newComparison finds the allocators.
func newComparison(ctx context.Context, flags compareFlags, args []string) (*compare.Result, error) {
	finder := compare.Finder{
		Dirs:   compare.LibraryDirs(),
		Ours:   func() (string, error) { return library.Find(library.Full, flags.lib) },
		Usable: compare.SharedLibrary,
	}
	var wanted []string
	if flags.alloc != "" {
		wanted = strings.Split(flags.alloc, ",")
	}
	found, missing, err := finder.Find(wanted)
	if err != nil {
		return nil, usageError("--alloc: %v", err)
	}
	if flags.lib != "" && len(missing) > 0 && missing[len(missing)-1].Name == compare.Seemalloc {
		return nil, usageError("%s", missing[len(missing)-1].Reason)
	}
	result := &compare.Result{Command: args, ForSeconds: flags.duration.Seconds(), Load: flags.load, Rounds: flags.rounds, Seed: flags.seed,
		Missing: append([]compare.Missing{}, missing...), Excluded: []compare.Excluded{}, Options: append([]string{}, compare.Options(os.Environ())...),
		Notes: []string{}, Runs: []compare.Run{}}
	for _, one := range found {
		if err := compare.Loads(ctx, one.Library, os.Environ()); err != nil {
			result.Missing = append(result.Missing, compare.Missing{Name: one.Name, Reason: err.Error()})
			continue
		}
		result.Allocators = append(result.Allocators, one)
	}
	if len(result.Allocators) == 0 {
		var reasons []string
		for _, one := range result.Missing {
			reasons = append(reasons, one.String())
		}
		return nil, fmt.Errorf("nothing to compare: %s", strings.Join(reasons, "; "))
	}
	return result, nil
}

// measure adds the runs to result. Completed runs remain in it if a later one fails.
func (a *app) measure(ctx context.Context, flags compareFlags, command *compare.Command, result *compare.Result) error {
	outputs, err := newOutputs(flags.keep)
	if err != nil {
		return err
	}
	progress := a.progress()
	defer progress("")
	once := func(ctx context.Context, one compare.Allocator, round int) (compare.Run, error) {
		out, errs, err := outputs.open(one.Name, round)
		if err != nil {
			return compare.Run{}, err
		}
		defer out.Close()
		defer errs.Close()
		run, err := command.Run(ctx, one, out, errs)
		if errors.Is(err, syscall.ENOENT) {
			err = exitError{noLoader(command.Path), exitUsage}
		}
		return run, err
	}
	session := &compare.Session{Allocators: result.Allocators, Rounds: flags.rounds, Seed: flags.seed, Run: once,
		Progress: func(round int, one compare.Allocator) {
			progress(fmt.Sprintf("round %d of %d: %s", round, flags.rounds, one.Name))
		}}
	if flags.duration == 0 && flags.load == "" {
		progress("warming up: glibc")
		first, err := once(ctx, compare.Allocator{Name: compare.Glibc}, 0)
		if err != nil {
			return interrupted(err, "before the first round")
		}
		session.Expected = first.ExitStatus
		if first.ExitStatus != "exit 0" {
			result.Notes = append(result.Notes, fmt.Sprintf("On glibc the program ends with %s, so this is expected on the other allocators.", first.ExitStatus))
		}
	}
	err = session.Do(ctx)
	result.Runs = append(result.Runs, session.Runs...)
	result.Excluded = append(result.Excluded, session.Excluded...)
	result.Notes = append(result.Notes, allocatorNotes(result)...)
	if result.Interrupted = errors.Is(err, context.Canceled); err != nil {
		return interrupted(err, fmt.Sprintf("after %s of %d", report.Plural(len(result.Runs), "run"), len(result.Allocators)*flags.rounds))
	}
	return checkComparable(result)
}

// checkComparable returns an error if the command failed on so many allocators that there is nothing to compare.
func checkComparable(result *compare.Result) error {
	counted := result.Counted()
	switch {
	case len(counted) == 0:
		return fmt.Errorf("%s: it failed on every allocator", result.Command[0])
	case len(counted) == 1 && len(result.Allocators) > 1:
		return fmt.Errorf("%s: it failed on every allocator except %s", result.Command[0], counted[0])
	}
	return nil
}

func interrupted(err error, when string) error {
	if errors.Is(err, context.Canceled) {
		return exitError{fmt.Errorf("interrupted %s", when), exitInterrupted}
	}
	return err
}

// allocatorNotes names the allocators that the program may not have used: no run lasted long enough to check, or the
// program has an allocator of its own, which then ran in place of glibc's.
func allocatorNotes(result *compare.Result) []string {
	var notes []string
	for _, one := range result.Allocators {
		runs, seen, linked := 0, false, ""
		for _, run := range result.Runs {
			if run.Allocator == one.Name {
				runs++
				seen = seen || run.Loaded != compare.Unknown
				linked = max(linked, run.Linked)
			}
		}
		if one.Library != "" && runs > 0 && !seen {
			notes = append(notes, fmt.Sprintf("%s: the program ends too early to verify that it loads the library.", one.Name))
		}
		if linked != "" {
			notes = append(notes, fmt.Sprintf("%s: the program itself is linked with %s, which was measured instead.", one.Name, linked))
		}
	}
	return notes
}

// progress returns a function that shows one line on a terminal and replaces the previous line. If standard error is
// not a terminal, it shows nothing.
func (a *app) progress() func(text string) {
	file, ok := a.err.(*os.File)
	if !ok {
		return func(string) {}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(string) {}
	}
	const eraseLine = "\r\x1b[K"
	return func(text string) { io.WriteString(a.err, eraseLine+text) }
}

// outputs is the destination of a program's standard output and standard error.
type outputs struct{ dir string } // "": discarded, except for the end of standard error

func newOutputs(dir string) (outputs, error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return outputs{}, fileError(dir, err)
		}
	}
	return outputs{dir}, nil
}

func (o outputs) open(name string, round int) (out, errs *os.File, err error) {
	if o.dir == "" {
		if out, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return nil, nil, err
		}
		if errs, err = os.CreateTemp("", "seemalloc-compare"); err != nil {
			out.Close()
			return nil, nil, err
		}
		os.Remove(errs.Name())
		return out, errs, nil
	}
	path := filepath.Join(o.dir, fmt.Sprintf("%s.%d", name, round))
	if out, err = os.Create(path + ".out"); err != nil {
		return nil, nil, fileError(path+".out", err)
	}
	if errs, err = os.Create(path + ".err"); err != nil {
		out.Close()
		return nil, nil, fileError(path+".err", err)
	}
	return out, errs, nil
}
