package cli

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"seemalloc/tool/formats"
	"seemalloc/tool/report"
)

type convertFlags struct {
	view
	to, output string
	raw        bool
}

func (a *app) convertCommand() *cobra.Command {
	var flags convertFlags
	c := &cobra.Command{
		Use:   "convert PID|FILE [--to FORMAT] [-o OUTPUT]",
		Short: "Convert a profile to another format",
		Long: `Convert a profile, written by seemalloc or by another tool, to another format. The input format is detected by content:
profile.proto; the heap profiles of gperftools, older Go and jemalloc (heap_v2); the CPU profiles of gperftools;
contention profiles. With a process id, take a profile of that process.

The output format comes from --to, or from the extension of OUTPUT:

` + formatTable() + `
collapsed holds one value per stack, selected by --by. Viewers of the other formats open with that value.`,
		Example: `  seemalloc convert jeprof.1234.0.f.heap -o heap.pb.gz
  seemalloc convert heap.pb.gz -o heap.speedscope.json
  seemalloc convert 4242 -o flamegraph.svg
  seemalloc convert 4242 --to collapsed --by alloc | flamegraph.pl > alloc.svg
  seemalloc convert 4242 --to heap -o app.heap && jeprof --text ./app app.heap`,
		Args: a.sourceArgs(0),
		RunE: func(_ *cobra.Command, args []string) error { return a.convert(flags, args) },
	}
	flags.view.flags(c)
	flags.view.baseFlag(c)
	f := c.Flags()
	f.StringVar(&flags.to, "to", "", "format: "+formats.Names())
	f.StringVarP(&flags.output, "output", "o", "-", "file to write, - for standard output")
	f.BoolVar(&flags.raw, "raw", false, "do not symbolize: keep the addresses")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

func formatTable() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, f := range formats.All {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", f.Name, f.Extensions[0], f.Help)
	}
	table.Flush()
	return b.String()
}

func (a *app) convert(flags convertFlags, args []string) error {
	filters, err := flags.view.check()
	if err != nil {
		return err
	}
	if flags.raw && flags.base != "" {
		return usageError("--raw: a difference requires names; give --raw or --base, not both")
	}
	format, err := flags.format()
	if err != nil {
		return err
	}
	s, err := a.open(args, flags.kind, flags.window, !flags.raw && (format.Named || format.Name == "proto" || filters.any() || flags.base != ""))
	if err != nil {
		return err
	}
	if flags.base != "" {
		if err := s.subtract(flags.base, &flags.view, filters); err != nil {
			return err
		}
	}
	index, err := report.SampleIndex(s.profile, flags.by, flags.unit)
	if err != nil {
		return fmt.Errorf("%s: %w", s.source, err)
	}
	if err := flags.applyFilters(s.profile, s.source, filters); err != nil {
		return err
	}
	var data bytes.Buffer
	options := formats.Options{Index: index, Source: s.source, Command: s.command, PID: s.pid}
	left, err := format.Write(&data, s.profile, options)
	if err == nil && format.Name == "proto" && strings.HasSuffix(flags.output, ".pb") {
		data.Reset()
		err = formats.WriteUncompressed(&data, s.profile)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.source, err)
	}
	if left.Rows > 0 {
		a.warn(fmt.Sprintf("%s cannot hold negative values: %s that shrank, by %s in total, are left out", format.Name,
			report.Plural(left.Rows, "row"), report.Amount(-left.Sum, s.profile.SampleType[index].Unit)))
	}
	if !format.Notes && len(s.profile.Comments) > 0 {
		a.warn(fmt.Sprintf("%s cannot hold the comments of %s: %s", format.Name, s.source, oneLine(strings.Join(s.profile.Comments, "; "))))
	}
	if flags.output == "-" {
		_, err := a.out.Write(data.Bytes())
		return err
	}
	if err := writeFile(flags.output, data.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(a.out, flags.output)
	return nil
}

// format returns the format named by --to, or else the one that the output's extension implies.
func (flags convertFlags) format() (*formats.Format, error) {
	if flags.to != "" {
		if format := formats.ByName(flags.to); format != nil {
			return format, nil
		}
		return nil, usageError("--to %s: expected one of %s", flags.to, formats.Names())
	}
	if flags.output == "-" {
		return nil, usageError("which format? Give --to %s, or a file with -o", strings.ReplaceAll(formats.Names(), ", ", "|"))
	}
	if format := formats.ByExtension(flags.output); format != nil {
		return format, nil
	}
	return nil, usageError("-o %s: no format has this extension: expected one of %s, or --to", flags.output, formats.Extensions())
}
