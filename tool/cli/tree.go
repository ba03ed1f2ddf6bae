package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"seemalloc/tool/report"
)

type treeFlags struct {
	view
	minShare float64
	depth    int
	inverted bool
	unfolded bool
	asJSON   bool
}

func (a *app) treeCommand() *cobra.Command {
	var flags treeFlags
	c := &cobra.Command{
		Use:   "tree PID|FILE",
		Short: "Show the memory as a call tree",
		Long: `Show the memory of a process or a saved profile as a call tree: callers above the functions that they call, with the
memory of the whole subtree (cum) and that of the function itself (flat). --invert starts with the functions that hold
the memory, with their callers below. A function that is the only child of another has the same indent. A chain of
functions that each only call the next one is one line, with the first and the last one; --unfold shows all.`,
		Example: `  seemalloc tree 4242
  seemalloc tree 4242 --invert --focus zslInsert
  seemalloc tree after.pb.gz --base before.pb.gz --min 5`,
		Args: a.sourceArgs(0),
		RunE: func(_ *cobra.Command, args []string) error { return a.tree(flags, args) },
	}
	flags.view.flags(c)
	flags.view.baseFlag(c)
	flags.view.rawFlag(c)
	f := c.Flags()
	f.Float64Var(&flags.minShare, "min", 1, "leave out branches below this percentage of the total")
	f.IntVar(&flags.depth, "depth", 0, "number of functions from the root; 0 is no limit")
	f.BoolVar(&flags.inverted, "invert", false, "start with the functions that hold the memory")
	f.BoolVar(&flags.unfolded, "unfold", false, "show each function of a chain of calls on a line of its own (as --raw does)")
	f.BoolVar(&flags.asJSON, "json", false, "print JSON, the whole tree")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

// treeReport is the output of `tree --json`.
type treeReport struct {
	Source string       `json:"source"`
	Base   string       `json:"base,omitempty"`
	Type   string       `json:"type"`
	Unit   string       `json:"unit"`
	Tree   *report.Node `json:"tree"`
}

func (a *app) tree(flags treeFlags, args []string) error {
	if flags.minShare < 0 || flags.minShare > 100 {
		return usageError("--min %g: expected 0 to 100", flags.minShare)
	}
	if flags.depth < 0 {
		return usageError("--depth %d: expected 0 or more", flags.depth)
	}
	filters, err := flags.check()
	if err != nil {
		return err
	}
	s, index, top, err := a.loadTop(args, &flags.view, filters)
	if err != nil {
		return err
	}
	root := report.NewTree(s.profile, index, flags.inverted)
	if flags.asJSON {
		return a.printJSON(treeReport{s.source, s.base, top.Type, top.Unit, root})
	}
	by, arrow := "call path", "→"
	if flags.inverted {
		by, arrow = "function and its callers", "←"
	}
	if flags.raw || flags.unfolded {
		arrow = ""
	}
	fmt.Fprint(a.out, a.wrapped(s.heading(top, filters, by)), top.TreeText(root, flags.minShare, flags.depth, arrow))
	return nil
}
