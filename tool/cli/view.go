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
	"seemalloc/tool/owner"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

// view holds the options that all profile reports share: the selected values, the selected stacks, and the style of
// names.
type view struct {
	kind, by, unit, names       string
	focus, ignore, hide, showRE string
	base, thread                string
	window                      time.Duration
	// raw shows the stacks as they are, instead of charging memory to the program's functions.
	raw bool
}

const (
	defaultKind  = "heap"
	threadsKind  = "threads"
	lifetimeKind = "lifetime"
)

// hasThreadLabels reports whether the samples of a profile of this kind carry their thread.
func hasThreadLabels(kind string) bool { return kind == threadsKind || kind == lifetimeKind }

// flags adds the flags of a view to a command.
func (v *view) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&v.kind, "kind", defaultKind, "kind of profile to take of a process")
	windowFlag(c, &v.window)
	f.StringVar(&v.by, "by", "", "inuse (live now), alloc (since the start), or a sample type of the profile (default: that of the profile)")
	f.StringVar(&v.unit, "unit", "bytes", "bytes or objects")
	f.StringVar(&v.names, "names", string(symbolize.Short), "how much of a name to show: short, templates or full")
	f.StringVar(&v.focus, "focus", "", "only stacks with a function that matches this regular expression")
	f.StringVar(&v.ignore, "ignore", "", "no stacks with a function that matches")
	f.StringVar(&v.hide, "hide", "", "remove matching functions from the stacks")
	f.StringVar(&v.showRE, "show", "", "keep only matching functions in the stacks")
	f.StringVar(&v.thread, "thread", "", "only memory (in a CPU profile: time) of threads whose name matches, or that have this id")
}

// addThreadFlag selects the heap profile by thread if the source is a process.
func (a *app) addThreadFlag(v *view, args []string) {
	if a.isProcess(args) && v.kind == defaultKind {
		v.kind = threadsKind
	}
}

// rawFlag adds the flag of commands that charge memory to the program's functions.
func (v *view) rawFlag(c *cobra.Command) {
	c.Flags().BoolVar(&v.raw, "raw", false, "show stacks as they are: do not charge memory of libraries and wrappers of malloc to their callers")
}

func (v *view) baseFlag(c *cobra.Command) {
	c.Flags().StringVar(&v.base, "base", "", "subtract this earlier profile: show the changes since then")
}

// check validates the values of the flags and compiles the filters.
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

// viewedProfile is the profile of a report, with the data about its source.
type viewedProfile struct {
	source  string // a file name, or the process: "redis-server (pid 12)"
	profile *profile.Profile
	command string // of a process
	pid     int    // 0 for a file
	// For a live process, if its library reports them:
	sampling *attach.Sampling
	exact    *int64 // live bytes, exact
	// For a difference:
	base       string
	baseTotal  int64            // after filtering
	variance   float64          // of both totals, after filtering
	paired     bool             // both are of one process: the difference has the error of the blocks that differ
	passedOver owner.PassedOver // frames that do not own memory and were removed
	// Set if the table is pprof's. Its percentages refer to the sum of all changes, gains and losses alike.
	pprofPercentages bool
}

// sourceArgs checks for one argument, a process or a file, which --socket makes optional.
func (a *app) sourceArgs(rest int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 && a.socket == "" {
			return fmt.Errorf("which process or file? Give a process id (`seemalloc ps` lists them) or a profile's file")
		}
		return cobra.MaximumNArgs(1+rest)(c, args)
	}
}

// isProcess reports whether args begin with a process and not with a file.
func (a *app) isProcess(args []string) bool { return a.socket != "" || isNumber(args[0]) }

// open takes a profile of this kind of the process in args, or reads the file in args. If named is set, it symbolizes
// the addresses. A window requires a process.
func (a *app) open(args []string, kind string, window time.Duration, named bool) (*viewedProfile, error) {
	if !a.isProcess(args) {
		switch {
		case window > 0:
			return nil, usageError("--seconds: %s is a file; expected a process", args[0])
		case kind != defaultKind:
			return nil, usageError("--kind %s: %s is a file, whose kind is fixed; expected a process", kind, args[0])
		}
		p, err := readProfile(args[0])
		if err != nil {
			return nil, err
		}
		if named {
			symbolize.Profile(p, symbolize.Files{})
		}
		return &viewedProfile{source: args[0], profile: p, exact: report.Exact(p)}, nil
	}
	t, _, err := a.dial(args)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	s := &viewedProfile{source: t.name, command: t.comm, pid: t.pid}
	// The statistics come first: symbolizing takes time, and the two are shown side by side. The profile of an older
	// library without statistics is still shown.
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

// subtract replaces the profile of s by its change since the profile in the file base. The variance and the base total
// include only the samples of both that pass the filters.
func (s *viewedProfile) subtract(base string, v *view, filters filters) error {
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
		// Filtered before subtraction: a thread that has not changed would disappear from the difference.
		have := append(report.ThreadNames(earlier), report.ThreadNames(s.profile)...)
		slices.Sort(have)
		was, is := report.FilterThreads(earlier, wanted), report.FilterThreads(s.profile, wanted)
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
		left := v.filteredCopy(of.p, filters)
		s.variance += report.Variance(left, index)
		if of.p == earlier {
			s.baseTotal = report.Total(left, index)
		}
	}
	s.paired = report.Paired(earlier, s.profile)
	if s.profile, err = report.Subtract(s.profile, earlier); err != nil {
		return fmt.Errorf("%s and %s cannot be compared: %w", base, s.source, err)
	}
	s.base = base
	s.exact = nil
	return nil
}

// load opens the profile in args, subtracts the base, applies the filters of the view, and charges memory to the
// program's functions. It returns the index of the selected sample type.
func (a *app) load(args []string, v *view, filters filters) (*viewedProfile, int, error) {
	s, index, wrappers, err := a.loadRaw(args, v, filters)
	if err == nil && !v.raw {
		err = s.charge(wrappers)
	}
	return s, index, err
}

// loadRaw is load without the last step, for which it returns the wrappers of malloc.
func (a *app) loadRaw(args []string, v *view, filters filters) (*viewedProfile, int, owner.Wrappers, error) {
	if v.thread != "" {
		a.addThreadFlag(v, args)
	}
	s, err := a.open(args, v.kind, v.window, true)
	if err != nil {
		return nil, 0, nil, err
	}
	if v.base != "" {
		if err := s.subtract(v.base, v, filters); err != nil {
			return nil, 0, nil, err
		}
		filters = maps.Clone(filters)
		delete(filters, "thread")
	}
	index, err := report.SampleIndex(s.profile, v.by, v.unit)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("%s: %w", s.source, err)
	}
	var wrappers owner.Wrappers
	if !v.raw {
		wrappers = owner.FindWrappers(s.profile) // of all stacks, whatever the filters select
	}
	return s, index, wrappers, v.applyFilters(s.profile, s.source, filters)
}

// charge removes the frames that do not own memory.
func (s *viewedProfile) charge(wrappers owner.Wrappers) error {
	if err := s.profile.RemoveUninteresting(); err != nil {
		return fmt.Errorf("%s: the profile's drop_frames cannot be read: %w", s.source, err)
	}
	s.passedOver = owner.Charge(s.profile, wrappers)
	return nil
}

// loadTop loads a profile and sums it up by function.
func (a *app) loadTop(args []string, v *view, filters filters) (*viewedProfile, int, *report.Top, error) {
	s, index, err := a.load(args, v, filters)
	if err != nil {
		return nil, 0, nil, err
	}
	top, err := s.top(index)
	return s, index, top, err
}

// filteredCopy returns the samples of p that pass the filters, possibly none. It does not modify p.
func (v *view) filteredCopy(p *profile.Profile, filters filters) *profile.Profile {
	if filters.any() {
		p = p.Copy()
		_ = v.applyFilters(p, "", filters) // a function in only one of two profiles is not an error
	}
	return p
}

// applyFilters applies the style of names and the filters to p.
func (v *view) applyFilters(p *profile.Profile, source string, filters filters) error {
	if v.names != string(symbolize.Short) {
		symbolize.Rename(p, symbolize.Style(v.names))
	}
	return filters.apply(p, source)
}

// heading describes the report, its accuracy and missing data. The first line ends with "by WHAT".
func (s *viewedProfile) heading(t *report.Top, filters filters, by string) string {
	var b strings.Builder
	if s.base != "" {
		fmt.Fprintf(&b, "%s since %s: change of %s by %s", s.source, s.base, report.TypeName(t.Type), by)
	} else {
		fmt.Fprintf(&b, "%s: %s by %s", s.source, report.TypeName(t.Type), by)
	}
	if taken := s.timeText(); taken != "" {
		fmt.Fprintf(&b, ", %s", taken)
	}
	fmt.Fprintf(&b, "\nTotal %s%s", t.Value(t.Total), t.ErrorText())
	if s.exact != nil && t.Type == "inuse_space" && !filters.any() {
		fmt.Fprintf(&b, "; exact live bytes: %s by allocated size", report.Bytes(float64(*s.exact)))
		if bytes, stderr := s.requested(); bytes != nil {
			fmt.Fprintf(&b, ", %s by requested size", report.Bytes(*bytes))
			if stderr > 0 {
				fmt.Fprintf(&b, " ± %s", report.Bytes(stderr))
			}
		}
	}
	if more := report.ExactMore(s.profile); more != nil && t.Type == "inuse_space" && !filters.any() {
		fmt.Fprintf(&b, "; exact change of live bytes: %s by allocated size", report.Amount(*more, t.Unit))
	}
	if exact := report.ExactAllocated(s.profile); exact != nil && t.Type == "alloc_space" && !filters.any() {
		name := "change"
		if s.base == "" {
			name = "allocated bytes"
		}
		fmt.Fprintf(&b, "; exact %s: %s", name, report.Amount(*exact, t.Unit))
	}
	if rate := t.Rate(); rate != "" && s.base == "" {
		fmt.Fprintf(&b, "; %s", rate)
	}
	if s.base != "" && !s.pprofPercentages {
		fmt.Fprintf(&b, "; percentages are of the %s before", report.Amount(s.baseTotal, t.Unit))
	}
	b.WriteByte('\n')
	s.pools(&b, t)
	s.writeMissing(&b, t.Records == 0 && !filters.any())
	if filters.any() {
		b.WriteString("Filtered: " + filters.String())
		if s.base == "" {
			b.WriteString("; percentages are of the filtered total")
		}
		b.WriteByte('\n')
	}
	s.writePassedOver(&b)
	if index := slices.IndexFunc(s.profile.SampleType, func(v *profile.ValueType) bool { return v.Type == t.Type }); index >= 0 && len(t.Rows) > 0 {
		s.writeNoSymbols(&b, index)
	}
	return b.String()
}

// writePassedOver names the frames that were removed.
func (s *viewedProfile) writePassedOver(b *strings.Builder) {
	if text := s.passedOver.Text(); text != "" {
		fmt.Fprintf(b, "Passed over: %s (--raw shows their functions)\n", text)
	}
}

// requested returns the estimate of the live bytes by requested size, and its standard error; nil if unknown.
func (s *viewedProfile) requested() (bytes *float64, stderr float64) {
	if s.base != "" {
		return nil, 0
	}
	if s.sampling != nil && s.sampling.Requested != nil {
		return s.sampling.Requested, s.sampling.RequestedStderr
	}
	return report.Requested(s.profile)
}

// pools lists the largest of the program's memory pools if the profile has any.
func (s *viewedProfile) pools(b *strings.Builder, t *report.Top) {
	pools := report.Pools(s.profile, t.Type)
	if len(pools) == 0 {
		return
	}
	const limit = 8
	var parts []string
	for _, pool := range pools[:min(limit, len(pools))] {
		parts = append(parts, pool.Name+" "+t.Value(pool.Value))
	}
	if len(pools) > limit {
		parts = append(parts, fmt.Sprintf("%d more", len(pools)-limit))
	}
	fmt.Fprintf(b, "Pools: %s\n", oneLine(strings.Join(parts, ", ")))
}

// timeText returns the time of the profile, or "" if the profile has none.
func (s *viewedProfile) timeText() string {
	if s.profile.TimeNanos == 0 {
		return ""
	}
	return time.Unix(0, s.profile.TimeNanos).Format(time.RFC3339)
}

// writeMissing reports the data that the profile lacks: for a process from its statistics, for a file from its
// comments.
func (s *viewedProfile) writeMissing(b *strings.Builder, empty bool) {
	if s.sampling == nil {
		for _, comment := range s.profile.Comments {
			fmt.Fprintf(b, "Comment: %s\n", oneLine(comment))
		}
		return
	}
	losses := []string{report.MissingData(*s.sampling), report.MissingOfPython(s.profile)}
	if losses = slices.DeleteFunc(losses, func(text string) bool { return text == "" }); len(losses) > 0 {
		fmt.Fprintf(b, "Missing: %s\n", strings.Join(losses, "; "))
	}
	if empty && s.sampling.Interval == 0 {
		b.WriteString("Sampling is off: `seemalloc set PID sample=512K` turns it on\n")
	} else if empty && s.base == "" {
		fmt.Fprintf(b, "No samples: the heap is small compared with the sampling interval of %s; `seemalloc run --sample 1` records everything\n",
			report.Bytes(float64(s.sampling.Interval)))
	}
}

// top sums the profile up by function.
func (s *viewedProfile) top(index int) (*report.Top, error) {
	t, err := report.NewTop(s.profile, index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.source, err)
	}
	switch {
	case s.paired:
		t.ConvertToChange(s.baseTotal, t.Error)
	case s.base != "":
		t.ConvertToChange(s.baseTotal, report.StandardError(math.Sqrt(s.variance)))
	}
	return t, nil
}

// filters are the regular expressions of a report, keyed by the name of their flag.
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

// apply keeps only the samples of p that pass the filters. A focus without a match is an error: it is nearly always a
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
		if !report.FilterThreads(p, wanted) {
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

// noThread returns the error for a filter that matches none of the profile's threads.
func noThread(source string, wanted *regexp.Regexp, have []string) error {
	return fmt.Errorf("%s: no thread matches --thread %s: it has %s", source, wanted, oneLine(listSome(have)))
}

// noThreads returns the error for a profile that cannot be split by thread.
func noThreads(source string) error {
	return fmt.Errorf("%s: its samples have no threads: expected a profile of `seemalloc profile PID` with --kind threads or --kind lifetime, or of `seemalloc cpu`", source)
}

// listSome lists the first few of many names.
func listSome(names []string) string {
	const limit = 8
	if len(names) > limit {
		return strings.Join(names[:limit], ", ") + fmt.Sprintf(" and %d more", len(names)-limit)
	}
	return strings.Join(names, ", ")
}
