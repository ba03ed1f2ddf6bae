package cli

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/report"
)

func (a *app) profileCommand() *cobra.Command {
	var output, kind string
	var raw bool
	var window time.Duration
	c := &cobra.Command{
		Use:   "profile PID",
		Short: "Save a profile of a process's memory",
		Long: `Save a profile of a process's memory as a gzip-compressed profile.proto, which ` + "`seemalloc top`" + `, pprof,
` + "`go tool pprof`" + ` and many viewers read. Symbols, files and lines are included unless --raw is given, since they may not be
available on another machine. Prints the name of the file.

` + kindsHelp,
		Example: `  seemalloc profile 4242 -o heap.pb.gz
  seemalloc profile 4242 --kind peak
  seemalloc profile 4242 --kind allocs --seconds 10s
  seemalloc profile 4242 -o - | go tool pprof -top -`,
		Args: a.pidArgs(0, 0),
		RunE: func(_ *cobra.Command, args []string) error { return a.profile(args, kind, window, output, raw) },
	}
	c.Flags().StringVarP(&output, "output", "o", "", "file to write, - for standard output (default seemalloc.NAME.PID.KIND.pb.gz)")
	c.Flags().BoolVar(&raw, "raw", false, "leave out symbols, files and lines: addresses and build ids only")
	c.Flags().StringVar(&kind, "kind", "heap", "kind of profile, see above")
	a.symbolFlags(c)
	windowFlag(c, &window)
	a.targetFlags(c)
	return c
}

// kindsHelp describes the library's profile kinds (core/api/dumps/profile_kinds.cc).
const kindsHelp = `Kinds of profiles:
  heap      live blocks, and all allocations since the start
  allocs    all allocations since sampling began, or with --seconds, in that time
  peak      live blocks at the moment with the most live bytes
  since     changes since the baseline (` + "`seemalloc baseline`" + `)
  churn     allocations, requested bytes, copies by realloc, blocks freed within 10 ms; also with --seconds
  lifetime  lifetimes of blocks, where they were allocated, and whether another thread freed them
  deaths    freed blocks: the freeing stack below the allocating stack; also with --seconds
  threads   live blocks, by the thread that allocated them (labels thread and tid)
  remote    blocks freed by a thread other than the one that allocated them; also with --seconds
  cpu       CPU time, as far as it has been profiled (` + "`seemalloc cpu`" + `)
  expansion allocations for which the heap took memory from the OS; memory returned to it is not subtracted
  pools     blocks of memory pools that the program reports (seemalloc_pool_create), by pool
  fragmentation
            free memory in half-empty spans, by the stacks of the blocks that pin them
docs/profiles.md and docs/profiles-heap.md explain each with an example.`

func checkKind(kind string) error {
	if kind == "" || strings.ContainsFunc(kind, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && r != '-' }) {
		return usageError("--kind %q: expected the name of a kind of profile, such as heap", kind)
	}
	return nil
}

// windowFlag adds --seconds.
func windowFlag(c *cobra.Command, window *time.Duration) {
	c.Flags().DurationVar(window, "seconds", 0, "show only the events in this time from now: 10s, 2m")
}

// checkWindow requires a kind that can be subtracted.
func checkWindow(kind string, window time.Duration) error {
	switch {
	case window < 0:
		return usageError("--seconds %s: expected a duration, such as 10s", window)
	case window > 0 && !report.TakesWindow(kind):
		return usageError("--seconds: a %s profile cannot be limited to a time window; expected a kind that counts events, such as allocs or churn", kind)
	}
	return nil
}

func (a *app) profile(args []string, kind string, window time.Duration, output string, raw bool) error {
	if err := checkKind(kind); err != nil {
		return err
	}
	if err := checkWindow(kind, window); err != nil {
		return err
	}
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	defer t.Close()
	p, err := t.takeProfile(kind, window, raw)
	if err != nil {
		return err
	}
	var compressed bytes.Buffer
	if err := p.Write(&compressed); err != nil {
		return fmt.Errorf("%s: its profile cannot be written: %w", t.name, err)
	}
	if output == "-" {
		_, err := a.out.Write(compressed.Bytes())
		return err
	}
	if output == "" {
		output = fmt.Sprintf("seemalloc.%s.%d.%s.pb.gz", fileName(t.comm), t.pid, kind)
	}
	if err := writeFile(output, compressed.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(a.out, output)
	return nil
}

// fileName makes a process's name usable in a file name: "kworker/0:1" contains a slash.
func fileName(comm string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '/' || r == 0x7f {
			return '_'
		}
		return r
	}, comm)
}
