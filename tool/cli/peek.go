package cli

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"seemalloc/tool/owner"
	"seemalloc/tool/report"
)

// peekFlags are the flags of peek and list, which print pprof's own reports under our heading.
type peekFlags struct {
	view
	sourcePath, trimPath string
}

func (a *app) peekCommand() *cobra.Command {
	var flags peekFlags
	c := &cobra.Command{
		Use:   "peek PID|FILE FUNCTION",
		Short: "Show the callers and callees of a function",
		Long: `Show the callers (above) and callees (below) of the functions that match the regular expression FUNCTION, each with the
memory that goes through the call. (This is pprof's report of the same name.)`,
		Example: `  seemalloc peek 4242 createStringObject
  seemalloc peek heap.pb.gz '^shop::' --by alloc`,
		Args: a.functionArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.pprofReport(flags, args, "peek", "callers and callees", nil)
		},
	}
	flags.view.flags(c)
	flags.view.baseFlag(c)
	flags.view.rawFlag(c)
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

func (a *app) listCommand() *cobra.Command {
	var flags peekFlags
	c := &cobra.Command{
		Use:   "list PID|FILE FUNCTION",
		Short: "Show a function's source with the memory of each line",
		Long: `Show the source of the functions that match the regular expression FUNCTION, each line with the memory that it
allocated itself (flat) and including its callees (cum). (This is pprof's report of the same name.) The source must be on
this machine; --source-path gives its location if that is not where it was compiled.`,
		Example: `  seemalloc list 4242 createStringObject
  seemalloc list heap.pb.gz '^shop::serve$' --source-path ~/src/shop --trim-path /build/shop`,
		Args: a.functionArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.pprofReport(flags, args, "list", "line", map[string]string{"source_path": flags.sourcePath, "trim_path": flags.trimPath})
		},
	}
	flags.view.flags(c)
	flags.view.baseFlag(c)
	flags.view.rawFlag(c)
	sourceFlags(c, &flags.sourcePath, &flags.trimPath)
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

// sourceFlags adds the flags for the location of source code.
func sourceFlags(c *cobra.Command, path, trim *string) {
	c.Flags().StringVar(path, "source-path", "", "folders to search for the source, separated by :")
	c.Flags().StringVar(trim, "trim-path", "", "prefixes to remove from the paths in the profile, separated by :")
}

// functionArgs checks for two arguments: a process or a file (optional with --socket), and a function.
func (a *app) functionArgs(c *cobra.Command, args []string) error {
	if a.socket != "" && len(args) == 1 {
		return nil
	}
	if len(args) < 2 {
		return fmt.Errorf("which function of which process or file? Give a process id or a profile's file, and a regular expression")
	}
	return cobra.ExactArgs(2)(c, args)
}

func (a *app) pprofReport(flags peekFlags, args []string, command, by string, further map[string]string) error {
	filters, err := flags.check()
	if err != nil {
		return err
	}
	functions := args[len(args)-1]
	if _, err := regexp.Compile(functions); err != nil {
		return usageError("%s: not a regular expression: %v", functions, err)
	}
	s, index, wrappers, err := a.loadRaw(args[:len(args)-1], &flags.view, filters)
	if err != nil {
		return err
	}
	note := ""
	if !flags.raw {
		if note, err = s.chargeFor(regexp.MustCompile(functions), wrappers); err != nil {
			return err
		}
	}
	top, err := s.top(index)
	if err != nil {
		return err
	}
	s.pprofPercentages = true
	text, err := report.Pprof(s.profile, index, command, functions, further)
	if err != nil {
		return fmt.Errorf("%s: %w", s.source, err)
	}
	fmt.Fprint(a.out, a.wrapped(s.heading(top, filters, by)+note), text)
	return nil
}

// chargeFor charges memory to the program's functions if that leaves a function that matches. If all that match are
// passed over, it leaves the stacks as they are, and returns a line that says so.
func (s *viewedProfile) chargeFor(functions *regexp.Regexp, wrappers owner.Wrappers) (string, error) {
	raw := s.profile
	s.profile = raw.Copy()
	if err := s.charge(wrappers); err != nil {
		return "", err
	}
	if hasFunction(s.profile, functions) || !hasFunction(raw, functions) {
		return "", nil
	}
	s.profile, s.passedOver = raw, owner.PassedOver{}
	return "Stacks are shown as they are, because other reports pass over this function\n", nil
}

func hasFunction(p *profile.Profile, functions *regexp.Regexp) bool {
	return slices.ContainsFunc(p.Sample, func(sample *profile.Sample) bool {
		return slices.ContainsFunc(report.Frames(sample), func(frame report.Frame) bool { return functions.MatchString(frame.Name) })
	})
}
