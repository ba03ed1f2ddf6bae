package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// psRow is one process in `ps --json`.
type psRow struct {
	PID      int    `json:"pid"`
	User     string `json:"user"`
	RSS      int64  `json:"rss"`
	Live     *int64 `json:"live,omitempty"` // absent without an open socket
	UptimeMS int64  `json:"uptime_ms"`
	Socket   string `json:"socket"`
	Version  string `json:"version,omitempty"`
	Command  string `json:"command"`
}

func (a *app) psCommand() *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "ps",
		Short: "List the processes that run on seemalloc",
		Long: `List the processes that run on seemalloc and are visible to this user: RSS is their resident memory, LIVE their live
bytes. A process has no socket if its heap is still too small, or if the socket is turned off. Leftover control sockets
of this user's ended processes are removed.`,
		Example: `  seemalloc ps
  seemalloc ps --json | jq '.[].pid'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, dir := range attach.Dirs() {
				attach.RemoveStale(dir)
			}
			if os.Geteuid() != 0 && attach.HidesProcesses() {
				fmt.Fprintln(a.err, "seemalloc: /proc is mounted with hidepid: other users' processes are not listed")
			}
			return a.ps(attach.Scan(timeout), asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().DurationVar(&timeout, "timeout", time.Second, "how long to wait for the answer of each process")
	return c
}

func (a *app) ps(found []attach.Found, asJSON bool) error {
	rows := []psRow{}
	for _, f := range found {
		row := psRow{PID: f.PID, User: f.User(), RSS: f.RSS(), UptimeMS: f.Uptime().Milliseconds(), Socket: string(f.Socket), Command: f.Command()}
		if f.Stats != nil {
			row.Live, row.Version = &f.Stats.Memory.LiveAllocated, f.Stats.Version
			if row.RSS == 0 { // /proc reports no memory for a process after its main thread has ended
				row.RSS = f.Stats.Memory.RSS
			}
		}
		rows = append(rows, row)
	}
	if asJSON {
		encoder := json.NewEncoder(a.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rows)
	}
	table := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "PID\tUSER\tRSS\tLIVE\tUPTIME\tCOMMAND")
	for _, row := range rows {
		live := "(" + row.Socket + ")"
		if row.Live != nil {
			live = report.Bytes(float64(*row.Live))
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", row.PID, row.User, report.Bytes(float64(row.RSS)), live,
			report.Duration(time.Duration(row.UptimeMS)*time.Millisecond), shorten(row.Command))
	}
	return table.Flush()
}

// shorten keeps the table readable. --json has the whole command line.
func shorten(command string) string {
	const limit = 100
	if runes := []rune(command); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return command
}
