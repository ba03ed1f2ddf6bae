package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) profileCommand() *cobra.Command {
	var output string
	var raw bool
	c := &cobra.Command{
		Use:   "profile PID",
		Short: "Save a heap profile of a process",
		Long: `Save a heap profile of a process as a gzip-compressed profile.proto, which ` + "`seemalloc top`" + `, pprof, ` + "`go tool pprof`" + `
and many viewers read. Names, files and lines are put in unless --raw is given; on another machine they could not be
found again. Prints the name of the file.`,
		Example: `  seemalloc profile 4242 -o heap.pb.gz
  seemalloc profile 4242 -o - | go tool pprof -top -`,
		Args: a.pidArgs(0, 0),
		RunE: func(_ *cobra.Command, args []string) error { return a.profile(args, output, raw) },
	}
	c.Flags().StringVarP(&output, "output", "o", "", "file to write, - for standard output (default seemalloc.NAME.PID.heap.pb.gz)")
	c.Flags().BoolVar(&raw, "raw", false, "leave out names, files and lines: addresses and build ids only")
	a.targetFlags(c)
	return c
}

func (a *app) profile(args []string, output string, raw bool) error {
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	defer t.Close()
	p, err := t.heapProfile(raw)
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
		output = fmt.Sprintf("seemalloc.%s.%d.heap.pb.gz", fileName(t.comm), t.pid)
	}
	if err := writeFile(output, compressed.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(a.out, output)
	return nil
}

// fileName makes a process's name usable in a file's: "kworker/0:1" has a slash.
func fileName(comm string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '/' || r == 0x7f {
			return '_'
		}
		return r
	}, comm)
}
