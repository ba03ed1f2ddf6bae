package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

type topFlags struct {
	by, unit, sort, names       string
	focus, ignore, hide, showRE string
	rows                        int
	asJSON                      bool
}

func (a *app) topCommand() *cobra.Command {
	var flags topFlags
	c := &cobra.Command{
		Use:   "top PID|FILE",
		Short: "Show which functions hold or allocate the memory",
		Long: `Show which functions hold (--by inuse) or have allocated (--by alloc) the memory of a process or a saved profile.
flat is what a function allocated itself, cum includes the functions that it called. Functions of the allocator
itself are left out. The numbers are estimated from samples; the header gives the standard error of the total.`,
		Example: `  seemalloc top 4242
  seemalloc top 4242 --by alloc --sort cum -n 40
  seemalloc top 4242 --hide '^z(m|c|re)alloc'      # charge Redis's wrappers to their callers
  seemalloc top seemalloc.redis-server.4242.heap.pb.gz --focus 'dictAdd|zset'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && a.socket == "" {
				return fmt.Errorf("which process or file? Give a process id (`seemalloc ps` lists them) or a profile's file")
			}
			return cobra.MaximumNArgs(1)(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.top(flags, args) },
	}
	f := c.Flags()
	f.StringVar(&flags.by, "by", "inuse", "inuse (held now), alloc (since the start), or a sample type of the profile")
	f.StringVar(&flags.unit, "unit", "bytes", "bytes or objects")
	f.StringVar(&flags.sort, "sort", "flat", "flat or cum")
	f.StringVar(&flags.names, "names", string(symbolize.Short), "how much of a name to show: short, templates or full")
	f.StringVar(&flags.focus, "focus", "", "only stacks with a function that matches this regular expression")
	f.StringVar(&flags.ignore, "ignore", "", "no stacks with a function that matches")
	f.StringVar(&flags.hide, "hide", "", "take matching functions out of the stacks")
	f.StringVar(&flags.showRE, "show", "", "leave only matching functions in the stacks")
	f.IntVarP(&flags.rows, "count", "n", 20, "number of functions; 0 shows all")
	f.BoolVar(&flags.asJSON, "json", false, "print JSON")
	a.targetFlags(c)
	return c
}

// topReport is what `top --json` prints.
type topReport struct {
	Source string `json:"source"`
	Time   string `json:"time,omitempty"`
	*report.Top
	Exact    *int64           `json:"exact_live,omitempty"` // of a live process: the bytes really held
	Sampling *attach.Sampling `json:"sampling,omitempty"`
}

func (a *app) top(flags topFlags, args []string) error {
	filters, err := flags.check()
	if err != nil {
		return err
	}
	var p *profile.Profile
	result := topReport{}
	if a.socket == "" && !isNumber(args[0]) {
		result.Source = args[0]
		if p, err = profileFile(args[0]); err != nil {
			return err
		}
	} else {
		t, _, err := a.dial(args)
		if err != nil {
			return err
		}
		defer t.Close()
		result.Source = t.name
		// Statistics first: naming the addresses takes time, and the two are shown side by side. An older library
		// without them still has its profile shown.
		if stats, err := attach.FetchStats(t.Client); err == nil {
			result.Sampling = &stats.Sampling
			if flags.by == "inuse" && flags.unit == "bytes" {
				result.Exact = &stats.Memory.LiveAllocated
			}
		}
		if p, err = t.heapProfile(false); err != nil {
			return err
		}
	}
	index, err := report.SampleIndex(p, flags.by, flags.unit)
	if err != nil {
		return fmt.Errorf("%s: %w", result.Source, err)
	}
	if flags.names != string(symbolize.Short) {
		symbolize.Rename(p, symbolize.Style(flags.names))
	}
	if err := filters.apply(p, result.Source); err != nil {
		return err
	}
	if result.Top, err = report.NewTop(p, index); err != nil {
		return fmt.Errorf("%s: %w", result.Source, err)
	}
	result.Top.Sort(flags.sort)
	if p.TimeNanos != 0 {
		result.Time = time.Unix(0, p.TimeNanos).Format(time.RFC3339)
	}
	if flags.asJSON {
		if flags.rows > 0 && len(result.Rows) > flags.rows {
			result.Rows = result.Rows[:flags.rows]
		}
		encoder := json.NewEncoder(a.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	fmt.Fprint(a.out, result.header(filters), result.Text(flags.rows))
	return nil
}

// header says what is shown, how sure it is and what is missing.
func (r *topReport) header(filters filters) string {
	var b strings.Builder
	what := map[string]string{
		"inuse_space": "bytes in use", "inuse_objects": "objects in use",
		"alloc_space": "bytes allocated", "alloc_objects": "objects allocated",
	}[r.Type]
	if what == "" {
		what = r.Type
	}
	fmt.Fprintf(&b, "%s: %s by function", r.Source, what)
	if r.Time != "" {
		fmt.Fprintf(&b, ", %s", r.Time)
	}
	b.WriteByte('\n')
	fmt.Fprintf(&b, "Total %s", r.Value(r.Total))
	if r.Error > 0 {
		fmt.Fprintf(&b, " ± %s (standard error; sampled once in %s on average)", r.Value(int64(r.Error)), report.Bytes(float64(r.Period)))
	}
	if r.Exact != nil && !filters.any() {
		fmt.Fprintf(&b, "; exactly %s are handed out", r.Value(*r.Exact))
	}
	b.WriteByte('\n')
	if r.Sampling != nil {
		if losses := report.Losses(*r.Sampling); losses != "" {
			fmt.Fprintf(&b, "Missing: %s\n", losses)
		}
		if r.Records == 0 && r.Sampling.Interval == 0 {
			b.WriteString("Sampling is off: `seemalloc set PID sample=512K` turns it on\n")
		} else if r.Records == 0 && !filters.any() {
			fmt.Fprintf(&b, "No samples: the heap is small against the interval of %s; `seemalloc run --sample 1` records everything\n",
				report.Bytes(float64(r.Sampling.Interval)))
		}
	}
	if filters.any() {
		b.WriteString("Filtered: " + filters.String() + "; percentages are of what is left\n")
	}
	return b.String()
}

// filters are the regular expressions of a report, by the name of their flag.
type filters map[string]*regexp.Regexp

func (f filters) any() bool { return len(f) > 0 }

func (f filters) String() string {
	var parts []string
	for _, name := range []string{"focus", "ignore", "hide", "show"} {
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
	focused, _, _, shown := p.FilterSamplesByName(f["focus"], f["ignore"], f["hide"], f["show"])
	if f["focus"] != nil && !focused {
		return fmt.Errorf("%s: no function matches --focus %s", source, f["focus"])
	}
	if f["show"] != nil && !shown {
		return fmt.Errorf("%s: no function matches --show %s", source, f["show"])
	}
	return nil
}

func (flags topFlags) check() (filters, error) {
	if flags.unit != "bytes" && flags.unit != "objects" {
		return nil, usageError("--unit %s: expected bytes or objects", flags.unit)
	}
	if flags.sort != "flat" && flags.sort != "cum" {
		return nil, usageError("--sort %s: expected flat or cum", flags.sort)
	}
	if flags.rows < 0 {
		return nil, usageError("-n %d: expected 0 or more", flags.rows)
	}
	if _, err := symbolize.ParseStyle(flags.names); err != nil {
		return nil, usageError("--names: %v", err)
	}
	result := filters{}
	for name, text := range map[string]string{"focus": flags.focus, "ignore": flags.ignore, "hide": flags.hide, "show": flags.showRE} {
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
