package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/formats"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

// view is what the reports of a profile have in common: which of its values, which stacks, and how names are shown.
type view struct {
	kind, by, unit, names       string
	focus, ignore, hide, showRE string
	base, thread                string
	window                      time.Duration
}

const (
	defaultKind  = "heap"
	threadsKind  = "threads"
	lifetimeKind = "lifetime"
)

// tellsThreads says whether the samples of a profile that a process takes say their thread.
func tellsThreads(kind string) bool { return kind == threadsKind || kind == lifetimeKind }

// flags adds the flags of a view to a command.
func (v *view) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&v.kind, "kind", defaultKind, "kind of profile to take of a process")
	windowFlag(c, &v.window)
	f.StringVar(&v.by, "by", "", "inuse (held now), alloc (since the start), or a sample type of the profile (default: what the profile is for)")
	f.StringVar(&v.unit, "unit", "bytes", "bytes or objects")
	f.StringVar(&v.names, "names", string(symbolize.Short), "how much of a name to show: short, templates or full")
	f.StringVar(&v.focus, "focus", "", "only stacks with a function that matches this regular expression")
	f.StringVar(&v.ignore, "ignore", "", "no stacks with a function that matches")
	f.StringVar(&v.hide, "hide", "", "take matching functions out of the stacks")
	f.StringVar(&v.showRE, "show", "", "leave only matching functions in the stacks")
	f.StringVar(&v.thread, "thread", "", "only what threads have allocated (in a CPU profile: used) whose name matches, or that have this id")
}

// byThread has a process asked for the heap by thread.
func (a *app) byThread(v *view, args []string) {
	if a.isProcess(args) && v.kind == defaultKind {
		v.kind = threadsKind
	}
}

func (v *view) baseFlag(c *cobra.Command) {
	c.Flags().StringVar(&v.base, "base", "", "take this earlier profile off: what is left is the change since then")
}

// check looks at the values of the flags and compiles the filters.
func (v *view) check() (filters, error) {
	if err := checkKind(v.kind); err != nil {
		return nil, err
	}
	if err := checkWindow(v.kind, v.window); err != nil {
		return nil, err
	}
	if v.unit != "bytes" && v.unit != "objects" {
		return nil, usageError("--unit %s: expected bytes or objects", v.unit)
	}
	if _, err := symbolize.ParseStyle(v.names); err != nil {
		return nil, usageError("--names: %v", err)
	}
	result := filters{}
	for name, text := range map[string]string{"focus": v.focus, "ignore": v.ignore, "hide": v.hide, "show": v.showRE, "thread": v.thread} {
		if text == "" {
			continue
		}
		compiled, err := regexp.Compile(text)
		if err != nil {
			return nil, usageError("--%s: %v", name, err)
		}
		result[name] = compiled
	}
	return result, nil
}

// subject is a profile that a report is made of, and what is known of where it comes from.
type subject struct {
	source  string // a file's name, or the process: "redis-server (pid 12)"
	profile *profile.Profile
	command string // of a process
	pid     int    // 0 for a file
	// Of a live process whose library knows them:
	sampling *attach.Sampling
	exact    *int64 // bytes that are really handed out
	// Of a difference:
	base      string
	baseTotal int64   // of what the filters let through
	variance  float64 // of both totals, likewise
	// The table is pprof's, whose percentages are of the sum of all changes, gains and losses alike.
	byPprof bool
}

// sourceArgs checks for one argument that is a process or a file, or none with --socket.
func (a *app) sourceArgs(rest int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 && a.socket == "" {
			return fmt.Errorf("which process or file? Give a process id (`seemalloc ps` lists them) or a profile's file")
		}
		return cobra.MaximumNArgs(1+rest)(c, args)
	}
}

// isProcess says whether args begin with a process, not with a file.
func (a *app) isProcess(args []string) bool { return a.socket != "" || isNumber(args[0]) }

// open takes a profile of this kind of the process, or reads the file, that args begin with, and names its addresses if named is
// set. A window, if any, is one of a process.
func (a *app) open(args []string, kind string, window time.Duration, named bool) (*subject, error) {
	if !a.isProcess(args) {
		switch {
		case window > 0:
			return nil, usageError("--seconds: %s is a file; expected a process", args[0])
		case kind != defaultKind:
			return nil, usageError("--kind %s: %s is a file, which has a kind of its own; expected a process", kind, args[0])
		}
		p, err := readProfile(args[0])
		if err != nil {
			return nil, err
		}
		if named {
			symbolize.Profile(p, symbolize.Files{})
		}
		return &subject{source: args[0], profile: p, exact: report.Exact(p)}, nil
	}
	t, _, err := a.dial(args)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	s := &subject{source: t.name, command: t.comm, pid: t.pid}
	// Statistics first: naming the addresses takes time, and the two are shown side by side. An older library
	// without them still has its profile shown.
	if (kind == defaultKind || kind == threadsKind) && window == 0 {
		stats, err := attach.FetchStats(t.Client)
		var refused *attach.ServerError
		switch {
		case err != nil && !errors.As(err, &refused):
			return nil, err
		case err == nil:
			s.sampling = &stats.Sampling
			s.exact = &stats.Memory.LiveAllocated
		}
	}
	s.profile, err = t.takeProfile(kind, window, !named)
	return s, err
}

// readProfile reads a profile of any format from a file; - is standard input.
func readProfile(path string) (*profile.Profile, error) {
	if path == "-" {
		data, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, fileError("standard input", err)
		}
		return formats.Read(data, "standard input")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	return formats.Read(data, path)
}

// subtract leaves in s what has changed since the profile in the file base. What the filters let through of both is in the variance
// and the base's total alone.
func (s *subject) subtract(base string, v *view, filters filters) error {
	earlier, err := readProfile(base)
	if err != nil {
		return err
	}
	if wanted := filters["thread"]; wanted != nil {
		switch {
		case !report.HasThreads(earlier):
			return noThreads(base)
		case !report.HasThreads(s.profile):
			return noThreads(s.source)
		}
		// Before they are subtracted: of a thread that has not changed nothing is left.
		have := append(report.ThreadNames(earlier), report.ThreadNames(s.profile)...)
		slices.Sort(have)
		was, is := report.KeepThreads(earlier, wanted), report.KeepThreads(s.profile, wanted)
		if !was && !is {
			return noThread(base+", "+s.source, wanted, slices.Compact(have))
		}
	}
	symbolize.Profile(earlier, symbolize.Files{})
	for _, of := range []struct {
		p    *profile.Profile
		name string
	}{{earlier, base}, {s.profile, s.source}} {
		index, err := report.SampleIndex(of.p, v.by, v.unit)
		if err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		left := v.left(of.p, filters)
		s.variance += report.Variance(left, index)
		if of.p == earlier {
			s.baseTotal = report.Total(left, index)
		}
	}
	if s.profile, err = report.Subtract(s.profile, earlier); err != nil {
		return fmt.Errorf("%s and %s cannot be compared: %w", base, s.source, err)
	}
	s.base = base
	s.exact = nil
	return nil
}

// load opens the profile that args name, takes the base off, and lets the filters of the view work. It returns the
// index of the sample type that is wanted.
func (a *app) load(args []string, v *view, filters filters) (*subject, int, error) {
	if v.thread != "" {
		a.byThread(v, args)
	}
	s, err := a.open(args, v.kind, v.window, true)
	if err != nil {
		return nil, 0, err
	}
	if v.base != "" {
		if err := s.subtract(v.base, v, filters); err != nil {
			return nil, 0, err
		}
		filters = maps.Clone(filters)
		delete(filters, "thread")
	}
	index, err := report.SampleIndex(s.profile, v.by, v.unit)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", s.source, err)
	}
	return s, index, v.narrow(s.profile, s.source, filters)
}

// loadTop loads a profile and adds it up by function.
func (a *app) loadTop(args []string, v *view, filters filters) (*subject, int, *report.Top, error) {
	s, index, err := a.load(args, v, filters)
	if err != nil {
		return nil, 0, nil, err
	}
	top, err := s.top(index)
	return s, index, top, err
}

// left is what the filters let through of p, which may be nothing. It leaves p as it is.
func (v *view) left(p *profile.Profile, filters filters) *profile.Profile {
	if filters.any() {
		p = p.Copy()
		_ = v.narrow(p, "", filters) // what is only in one of two profiles is no error
	}
	return p
}

// narrow chooses the style of the names, and leaves in p what the filters let through.
func (v *view) narrow(p *profile.Profile, source string, filters filters) error {
	if v.names != string(symbolize.Short) {
		symbolize.Rename(p, symbolize.Style(v.names))
	}
	return filters.apply(p, source)
}

// heading says what a report shows, how sure it is and what is missing; the first line ends with "by WHAT".
func (s *subject) heading(t *report.Top, filters filters, by string) string {
	var b strings.Builder
	if s.base != "" {
		fmt.Fprintf(&b, "%s since %s: change of %s by %s", s.source, s.base, report.TypeName(t.Type), by)
	} else {
		fmt.Fprintf(&b, "%s: %s by %s", s.source, report.TypeName(t.Type), by)
	}
	if taken := s.taken(); taken != "" {
		fmt.Fprintf(&b, ", %s", taken)
	}
	fmt.Fprintf(&b, "\nTotal %s%s", t.Value(t.Total), t.Plus())
	if s.exact != nil && t.Type == "inuse_space" && !filters.any() {
		fmt.Fprintf(&b, "; exactly %s are handed out, by allocated size", report.Bytes(float64(*s.exact)))
		if bytes, stderr := s.requested(); bytes != nil {
			fmt.Fprintf(&b, ", for requests of %s", report.Bytes(*bytes))
			if stderr > 0 {
				fmt.Fprintf(&b, " ± %s", report.Bytes(stderr))
			}
		}
	}
	if more := report.ExactMore(s.profile); more != nil && t.Type == "inuse_space" && !filters.any() {
		fmt.Fprintf(&b, "; exactly %s more are handed out, by allocated size", report.Amount(*more, t.Unit))
	}
	if exact := report.ExactAllocated(s.profile); exact != nil && t.Type == "alloc_space" && !filters.any() {
		fmt.Fprintf(&b, "; exactly %s", report.Amount(*exact, t.Unit))
		if s.base == "" {
			b.WriteString(" were allocated")
		}
	}
	if rate := t.Rate(); rate != "" && s.base == "" {
		fmt.Fprintf(&b, "; %s", rate)
	}
	if s.base != "" && !s.byPprof {
		fmt.Fprintf(&b, "; percentages are of the %s before", report.Amount(s.baseTotal, t.Unit))
	}
	b.WriteByte('\n')
	s.pools(&b, t)
	s.missing(&b, t.Records == 0 && !filters.any())
	if filters.any() {
		b.WriteString("Filtered: " + filters.String())
		if s.base == "" {
			b.WriteString("; percentages are of what is left")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// requested is what the program asked for of what it has in use, as far as samples tell, and its standard error; nil where it is not known.
func (s *subject) requested() (bytes *float64, stderr float64) {
	if s.base != "" {
		return nil, 0
	}
	if s.sampling != nil && s.sampling.Requested != nil {
		return s.sampling.Requested, s.sampling.RequestedStderr
	}
	return report.Requested(s.profile)
}

// pools lists the largest of the program's memory pools, if the profile is of them.
func (s *subject) pools(b *strings.Builder, t *report.Top) {
	pools := report.Pools(s.profile, t.Type)
	if len(pools) == 0 {
		return
	}
	const most = 8
	var parts []string
	for _, pool := range pools[:min(most, len(pools))] {
		parts = append(parts, pool.Name+" "+t.Value(pool.Value))
	}
	if len(pools) > most {
		parts = append(parts, fmt.Sprintf("%d more", len(pools)-most))
	}
	fmt.Fprintf(b, "Pools: %s\n", oneLine(strings.Join(parts, ", ")))
}

// taken is the moment of the profile, "" when it does not say.
func (s *subject) taken() string {
	if s.profile.TimeNanos == 0 {
		return ""
	}
	return time.Unix(0, s.profile.TimeNanos).Format(time.RFC3339)
}

// missing says what the profile could not see: of a process from its statistics, of a file from its own comments.
func (s *subject) missing(b *strings.Builder, empty bool) {
	if s.sampling == nil {
		for _, comment := range s.profile.Comments {
			fmt.Fprintf(b, "Says: %s\n", oneLine(comment))
		}
		return
	}
	if losses := report.Losses(*s.sampling); losses != "" {
		fmt.Fprintf(b, "Missing: %s\n", losses)
	}
	if empty && s.sampling.Interval == 0 {
		b.WriteString("Sampling is off: `seemalloc set PID sample=512K` turns it on\n")
	} else if empty && s.base == "" {
		fmt.Fprintf(b, "No samples: the heap is small against the interval of %s; `seemalloc run --sample 1` records everything\n",
			report.Bytes(float64(s.sampling.Interval)))
	}
}

// top adds the profile up by function.
func (s *subject) top(index int) (*report.Top, error) {
	t, err := report.NewTop(s.profile, index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.source, err)
	}
	if s.base != "" {
		t.BecomeChange(s.baseTotal, report.StandardError(math.Sqrt(s.variance)))
	}
	return t, nil
}

// filters are the regular expressions of a report, by the name of their flag.
type filters map[string]*regexp.Regexp

func (f filters) any() bool { return len(f) > 0 }

func (f filters) String() string {
	var parts []string
	for _, name := range []string{"focus", "ignore", "hide", "show", "thread"} {
		if f[name] != nil {
			parts = append(parts, name+" "+f[name].String())
		}
	}
	return strings.Join(parts, ", ")
}

// apply leaves in p what the filters let through. A focus that nothing matches is an error: it is nearly always a
// mistyped name, and an empty table would look like an answer.
func (f filters) apply(p *profile.Profile, source string) error {
	if !f.any() {
		return nil
	}
	if wanted := f["thread"]; wanted != nil {
		if !report.HasThreads(p) {
			return noThreads(source)
		}
		have := report.ThreadNames(p)
		if !report.KeepThreads(p, wanted) {
			return noThread(source, wanted, have)
		}
	}
	focused, _, _, shown := p.FilterSamplesByName(f["focus"], f["ignore"], f["hide"], f["show"])
	if f["focus"] != nil && !focused {
		return fmt.Errorf("%s: no function matches --focus %s", source, f["focus"])
	}
	if f["show"] != nil && !shown {
		return fmt.Errorf("%s: no function matches --show %s", source, f["show"])
	}
	return nil
}

// noThread: none of those that a profile has matches.
func noThread(source string, wanted *regexp.Regexp, have []string) error {
	return fmt.Errorf("%s: no thread matches --thread %s: it has %s", source, wanted, oneLine(some(have)))
}

// noThreads: a profile cannot be taken apart by thread.
func noThreads(source string) error {
	return fmt.Errorf("%s: its samples do not say which thread they are of: expected a profile as `seemalloc profile PID` takes it with --kind threads or --kind lifetime, or as `seemalloc cpu` does", source)
}

// some lists the first of many names.
func some(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
