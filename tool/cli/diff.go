package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/owner"
	"seemalloc/tool/report"
)

type diffFlags struct {
	view
	rows   int
	asJSON bool
}

func (a *app) diffCommand() *cobra.Command {
	var flags diffFlags
	c := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Show the changes between two profiles",
		Long: `Show the changes between two profiles: by function, then by stack, the largest change first. Each profile is a file or a
process id, so that a saved profile can be compared with the present state of a process. Stacks that are only in the
second profile are marked as new, and those that are only in the first as gone. ± is an upper bound of the standard error
of a change due to sampling; blocks that are in both profiles of one process add nothing to it. A change below twice that
error is marked with ~. The profiles may be of different processes
and formats.`,
		Example: `  seemalloc diff before.pb.gz after.pb.gz
  seemalloc diff before.pb.gz 4242                 # what has grown since then?
  seemalloc diff jeprof.1.heap jeprof.2.heap --by alloc -n 5`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("which two? Give two files, or a file and a process id (`seemalloc ps` lists them)")
			}
			return cobra.ExactArgs(2)(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.diff(flags, args) },
	}
	flags.view.flags(c)
	flags.view.rawFlag(c)
	a.symbolFlags(c)
	c.Flags().IntVarP(&flags.rows, "count", "n", 10, "number of functions and of stacks; 0 shows all")
	c.Flags().BoolVar(&flags.asJSON, "json", false, "print JSON")
	c.Flags().DurationVar(&a.timeout, "timeout", 30*time.Second, "how long to wait for an answer")
	return c
}

// diffReport is the output of `diff --json`.
type diffReport struct {
	Before   string   `json:"before"`
	After    string   `json:"after"`
	Seconds  float64  `json:"seconds,omitempty"` // between the two profiles
	Comments []string `json:"comments,omitempty"`
	*report.Diff
}

func (a *app) diff(flags diffFlags, args []string) error {
	if flags.rows < 0 {
		return usageError("-n %d: expected 0 or more", flags.rows)
	}
	filters, err := flags.check()
	if err != nil {
		return err
	}
	var both [2]*viewedProfile
	var indexes [2]int
	for k := range both {
		of := flags.view
		of.raw = true                                          // charged below, when both are known
		if !a.isProcess(args[k:]) && a.isProcess(args[1-k:]) { // take the kind of the other profile, so that the two can be compared
			of.kind = defaultKind
		}
		if both[k], indexes[k], err = a.load(args[k:k+1], &of, nil); err != nil {
			return err
		}
	}
	before, i, after, j := both[0], indexes[0], both[1], indexes[1]
	if was, is := before.profile.SampleType[i].Type, after.profile.SampleType[j].Type; was != is {
		return fmt.Errorf("%s has %s, but %s has %s: choose a type that both have with --by", before.source, was, after.source, is)
	}
	var wrappers owner.Wrappers
	if !flags.raw {
		wrappers = owner.FindWrappers(before.profile, after.profile)
	}
	// --thread and the name filters each have to match at least once.
	missedNames, missedThread := filters["focus"] != nil || filters["show"] != nil, filters["thread"] != nil
	for _, s := range []*viewedProfile{before, after} {
		if wanted := filters["thread"]; wanted != nil {
			if !report.HasThreads(s.profile) {
				return noThreads(s.source)
			}
			if report.FilterThreads(s.profile, wanted) {
				missedThread = false
			}
		}
		// A function in only one of the profiles is not an error: it is new or gone.
		focused, _, _, shown := s.profile.FilterSamplesByName(filters["focus"], filters["ignore"], filters["hide"], filters["show"])
		if filters["focus"] != nil && focused || filters["show"] != nil && shown {
			missedNames = false
		}
	}
	if missedNames || missedThread {
		what := "no function"
		if filters["thread"] != nil {
			what = "nothing"
		}
		return fmt.Errorf("%s, %s: %s matches %s", before.source, after.source, what, filters)
	}
	if !flags.raw {
		for _, s := range []*viewedProfile{before, after} {
			if err := s.charge(wrappers); err != nil {
				return err
			}
		}
	}
	d, err := report.NewDiff(before.profile, i, after.profile, j)
	if err != nil {
		return err
	}
	seconds := float64(after.profile.TimeNanos-before.profile.TimeNanos) / 1e9
	if before.profile.TimeNanos == 0 || after.profile.TimeNanos == 0 {
		seconds = 0
	}
	if flags.asJSON {
		return a.printJSON(diffReport{before.source, after.source, seconds, append(before.profile.Comments, after.profile.Comments...), d})
	}
	fmt.Fprint(a.out, a.wrapped(diffHeading(before, after, d, seconds, filters)), d.Text(flags.rows))
	return nil
}

// diffHeading describes the compared profiles, the total change, and the limits of both profiles.
func diffHeading(before, after *viewedProfile, d *report.Diff, seconds float64, filters filters) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s → %s: %s", before.source, after.source, report.TypeName(d.Type))
	if seconds != 0 {
		order := "later"
		if seconds < 0 {
			seconds, order = -seconds, "EARLIER: are the two swapped?"
		}
		fmt.Fprintf(&b, ", %s %s", report.Duration(time.Duration(seconds*float64(time.Second))), order)
	}
	fmt.Fprintf(&b, "\nTotal %s → %s: %s", report.Amount(d.Total.Before, d.Unit), report.Amount(d.Total.After, d.Unit), report.Signed(d.Total.Change, d.Unit))
	switch {
	case !d.Total.Error.Known():
		b.WriteString(" (standard error unknown)")
	case d.Total.Error > 0:
		fmt.Fprintf(&b, " ± %s (upper bound of the standard error)", report.Amount(int64(d.Total.Error), d.Unit))
	}
	fmt.Fprintf(&b, "; %s new, %d gone\n", report.Plural(d.New, "stack"), d.Gone)
	if filters.any() {
		b.WriteString("Filtered: " + filters.String() + "\n")
	}
	for _, s := range []*viewedProfile{before, after} {
		var missing strings.Builder
		s.writePassedOver(&missing)
		s.writeMissing(&missing, false)
		for line := range strings.Lines(missing.String()) {
			b.WriteString(s.source + ": " + line)
		}
	}
	return b.String()
}
