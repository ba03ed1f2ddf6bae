package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

type topFlags struct {
	view
	sort    string
	rows    int
	asJSON  bool
	threads bool
	// live selects the full-screen view.
	live     bool
	interval time.Duration
}

func (a *app) topCommand() *cobra.Command {
	var flags topFlags
	c := &cobra.Command{
		Use:   "top PID|FILE",
		Short: "Show which functions hold or allocate the memory",
		Long: `Show which functions hold (--by inuse) or have allocated (--by alloc) the memory of a process or a saved profile.
flat is what a function allocated itself, cum includes the functions that it called. Memory is charged to the first
function of the program: functions of the allocator, of language runtimes and libraries (the C++ and Rust libraries, libc,
GLib, Qt …), wrappers of malloc (zmalloc, xstrdup …), native functions of an interpreter, and those that start the program
or a thread are passed over; --raw shows them. The numbers are estimated from samples; the header gives the standard error of the total.
--kind shows another kind of profile (see ` + "`seemalloc help profile`" + `), with its own values.
A file may have any format that ` + "`seemalloc convert`" + ` reads, including those of jemalloc and gperftools.
--live shows a full-screen view that is kept up to date; keys sort and filter, and show changes, callers and other kinds
of profiles (? lists them). It is refreshed less often if it would otherwise keep the process busy for more than 1 % of
the time.`,
		Example: `  seemalloc top 4242
  seemalloc top 4242 --live
  seemalloc top 4242 --by alloc --sort cum -n 40
  seemalloc top 4242 --kind peak
  seemalloc top 4242 --kind churn --seconds 10s
  seemalloc top 4242 --threads                     # which thread holds it?
  seemalloc top 4242 --thread '^worker'            # only memory allocated by these
  seemalloc top 4242 --raw                         # stacks as they are
  seemalloc top 4242 --hide '^createObject'        # charge a function's memory to its callers
  seemalloc top 4242 --base before.pb.gz           # changes since then
  seemalloc top seemalloc.redis-server.4242.heap.pb.gz --focus 'dictAdd|zset'`,
		Args: a.sourceArgs(0),
		RunE: func(c *cobra.Command, args []string) error {
			if flags.live {
				return a.topLive(flags, args)
			}
			if c.Flags().Changed("interval") {
				return usageError("--interval %s is for --live", flags.interval)
			}
			return a.top(flags, args)
		},
	}
	flags.view.flags(c)
	flags.view.baseFlag(c)
	flags.view.rawFlag(c)
	f := c.Flags()
	f.StringVar(&flags.sort, "sort", "flat", "flat or cum")
	f.IntVarP(&flags.rows, "count", "n", 20, "number of functions; 0 shows all")
	f.BoolVar(&flags.asJSON, "json", false, "print JSON")
	f.BoolVar(&flags.threads, "threads", false, "show threads with their memory (in a CPU profile: their time) instead of functions")
	f.BoolVar(&flags.live, "live", false, "full-screen live view")
	f.DurationVar(&flags.interval, "interval", 2*time.Second, "with --live: time between two updates")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

// topReport is the output of `top --json`.
type topReport struct {
	Source string `json:"source"`
	Base   string `json:"base,omitempty"`
	Time   string `json:"time,omitempty"`
	*report.Top
	Exact *int64 `json:"exact_live,omitempty"` // the exact value of the inuse_space total: live bytes by allocated size
	// Requested is the estimate of the live bytes by requested size.
	Requested      *float64 `json:"requested_live,omitempty"`
	RequestedError float64  `json:"requested_live_standard_error,omitempty"`
	// ExactMore is the exact growth of live bytes since the baseline, for a profile since a baseline.
	ExactMore *int64 `json:"exact_more,omitempty"`
	// ExactAllocated is the exact value of the alloc_space total, if the profile reports it.
	ExactAllocated *int64 `json:"exact_allocated,omitempty"`

	Sampling *attach.Sampling `json:"sampling,omitempty"`
	Comments []string         `json:"comments,omitempty"`
	// Only for a profile of lifetimes.
	Lifetimes []report.LifetimeRow `json:"lifetimes,omitempty"`
	// Only with --threads.
	Threads []report.ThreadRow `json:"threads,omitempty"`
}

func (a *app) top(flags topFlags, args []string) error {
	filters, err := flags.check()
	if err != nil {
		return err
	}
	if flags.threads {
		a.addThreadFlag(&flags.view, args)
	}
	s, index, top, err := a.loadTop(args, &flags.view, filters)
	if err != nil {
		return err
	}
	top.Sort(flags.sort)
	var threads []report.ThreadRow
	if flags.threads {
		if !report.HasThreads(s.profile) {
			return noThreads(s.source)
		}
		threads = report.Threads(s.profile, index)
		if !flags.asJSON {
			fmt.Fprint(a.out, a.wrapped(s.heading(top, filters, "thread")), top.ThreadText(threads, flags.rows))
			return nil
		}
	}
	var lifetimes []report.LifetimeRow
	if report.HasLifetimes(s.profile) && flags.by == "" && flags.base == "" {
		lifetimes = report.Lifetimes(s.profile)
	}
	if !flags.asJSON && lifetimes != nil {
		fmt.Fprint(a.out, a.wrapped(s.heading(top, filters, "function")), report.LifetimeText(lifetimes, flags.rows))
		return nil
	}
	if !flags.asJSON {
		fmt.Fprint(a.out, a.wrapped(s.heading(top, filters, "function")), top.Text(flags.rows))
		return nil
	}
	if flags.rows > 0 && len(top.Rows) > flags.rows {
		top.Rows = top.Rows[:flags.rows]
	}
	result := topReport{Source: s.source, Base: s.base, Time: s.timeText(), Top: top, Sampling: s.sampling, Comments: s.profile.Comments, Lifetimes: lifetimes, Threads: threads}
	switch top.Type {
	case "inuse_space":
		result.Exact, result.ExactMore = s.exact, report.ExactMore(s.profile)
		result.Requested, result.RequestedError = s.requested()
	case "alloc_space":
		result.ExactAllocated = report.ExactAllocated(s.profile)
	}
	return a.printJSON(result)
}

func (a *app) printJSON(value any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func (flags topFlags) check() (filters, error) {
	if flags.sort != "flat" && flags.sort != "cum" {
		return nil, usageError("--sort %s: expected flat or cum", flags.sort)
	}
	if flags.rows < 0 {
		return nil, usageError("-n %d: expected 0 or more", flags.rows)
	}
	return flags.view.check()
}
