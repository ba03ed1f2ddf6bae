package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/web"
)

// reportMoments is the number of heap profiles in a report of a process. Growth is visible from five on.
const reportMoments = 6

func (a *app) reportCommand() *cobra.Command {
	var output string
	var lasts time.Duration
	c := &cobra.Command{
		Use:   "report PID | report FILE… | report DIR",
		Short: "Save the page of a process as one self-contained HTML file",
		Long: `Save the page that ` + "`seemalloc web`" + ` shows, with its data, as one HTML file: the composition of resident memory over time,
flame graph, functions, callers, tree, changes between any two of its moments, growth, size classes, calls into the
kernel, doctor's findings and the options. It opens in a browser without seemalloc and without a network; it sends no
requests. A process is observed for some seconds; saved profiles, and a folder that ` + "`seemalloc web --store`" + ` has
written, are shown as they are. Prints the name of the file.

The page of ` + "`seemalloc web`" + ` can save the same in its settings, with all the data that it has collected.`,
		Example: `  seemalloc report 4242 -o report.html
  seemalloc report 4242 --for 1m
  seemalloc report before.pb.gz after.pb.gz -o change.html`,
		Args: func(c *cobra.Command, args []string) error {
			if a.socket == "" && len(args) > 0 && !isNumber(args[0]) {
				return nil // argument is a file
			}
			return a.sourceArgs(0)(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.report(args, output, lasts) },
	}
	c.Flags().StringVarP(&output, "output", "o", "", "file to write, - for standard output (default seemalloc.NAME.PID.html)")
	c.Flags().DurationVar(&lasts, "for", 5*time.Second, "how long to observe a process")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

func (a *app) report(args []string, output string, lasts time.Duration) error {
	if lasts < time.Second {
		return usageError("--for %s: expected 1s or more", lasts)
	}
	history := &web.History{}
	server, name, err := a.reportServer(args, history, lasts)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := server.Report(&page); err != nil {
		return fmt.Errorf("%s: %w", args0(args, a.socket), err)
	}
	if output == "-" {
		_, err := a.out.Write(page.Bytes())
		return err
	}
	if output == "" {
		output = name
	}
	if err := writeFile(output, page.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(a.out, output)
	return nil
}

func args0(args []string, otherwise string) string {
	if len(args) == 0 {
		return otherwise
	}
	return args[0]
}

// reportServer fills the history and returns a default file name for the report.
func (a *app) reportServer(args []string, history *web.History, lasts time.Duration) (*web.Server, string, error) {
	if a.socket == "" && !isNumber(args[0]) {
		server, err := a.webOfSaved(args, history)
		return server, "seemalloc." + strings.TrimSuffix(strings.TrimSuffix(filepath.Base(args[0]), ".gz"), ".pb") + ".html", err
	}
	t, _, err := a.dial(args)
	if err != nil {
		return nil, "", err
	}
	process := webProcess(t)
	watcher := web.Watch(process, history, lasts/reportMoments)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	select {
	case <-time.After(lasts):
	case <-watcher.Ended():
	case <-interrupted:
	}
	server, err := web.NewServer(web.Options{Title: t.name, Kinds: kinds()}, history, process, watcher)
	return server, fmt.Sprintf("seemalloc.%s.%d.html", fileName(t.comm), t.pid), err
}

func (a *app) webOfSaved(args []string, history *web.History) (*web.Server, error) {
	dir, err := openStoreDir(args)
	if err != nil {
		return nil, err
	}
	if dir != nil { // closed when the tool exits
		return webOfStore(webFlags{}, history, dir)
	}
	return a.webOfFiles(webFlags{}, args, history)
}
