package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/doctor"
	"seemalloc/tool/growth"
)

const (
	// exitFindings is the exit status if there are findings. It is distinct from a failure and from a usage error.
	exitFindings = 3

	minDoctorTime = 100 * time.Millisecond
	// A command is checked at this interval, beginning as soon as it answers.
	doctorInterval = 500 * time.Millisecond
	doctorFirst    = 10 * time.Millisecond
)

type doctorFlags struct {
	lookFlags
	run runFlags
}

func (a *app) doctorCommand() *cobra.Command {
	var flags doctorFlags
	c := &cobra.Command{
		Use:   "doctor PID | doctor -- COMMAND [ARGUMENTS…]",
		Short: "Find problems in a process's memory use, and suggest changes",
		Long: `Check all data that the allocator and the kernel report about a process, in two snapshots --for apart, with
more heap profiles in between, and report problems and remedies in plain words: each finding with its figure, the option to
change, and the places in the program, estimated from samples. The checked values are listed even if there are no findings.
Without --for the check ends as soon as it is clear what grows, after 15 seconds at the latest.

With a command instead of a process, run it on seemalloc and check it twice a second until it ends: the report shows the
worst state, and rates over windows of --for. It goes to standard error, because the command's own output is on standard
output.

Checks:
` + checkList() + `
Exit status: 0 no findings, 3 findings (of any severity), 1 failure, 2 usage error.`,
		Example: `  seemalloc doctor 4242
  seemalloc doctor 4242 --for 1m
  seemalloc doctor 4242 --hide '^z(m|c|re)alloc'     # charge Redis's wrappers to their callers
  seemalloc doctor 4242 --json | jq '.findings[] | {id, figure}'
  seemalloc doctor -- python3 job.py`,
		Args: a.pidOrCommand,
		RunE: func(c *cobra.Command, args []string) error {
			if err := flags.check(c, minDoctorTime); err != nil {
				return err
			}
			if err := flags.run.check(); err != nil {
				return err
			}
			if c.ArgsLenAtDash() >= 0 {
				return a.doctorRun(flags, args)
			}
			return a.doctorProcess(flags, args)
		},
	}
	flags.register(c, "time between the two snapshots; Ctrl-C ends it earlier")
	c.Flags().StringVar(&flags.run.sample, "sample", "", "with a command: mean bytes between two heap samples (512K)")
	flags.run.register(c, "with a command: ")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

func checkList() string {
	var b strings.Builder
	for _, check := range doctor.Checks() {
		fmt.Fprintf(&b, "  %-15s %s\n", check.ID, check.Title)
	}
	return b.String()
}

// snapshot takes a snapshot of the process.
func (f *doctorFlags) snapshot(c *attach.Client, pid int, name string) (*doctor.Snapshot, error) {
	snapshot, err := doctor.TakeSnapshot(c, pid, name)
	if err == nil {
		snapshot.Hide = f.hidden
	}
	return snapshot, err
}

// doctorReport is the output of `doctor --json`.
type doctorReport struct {
	Source string `json:"source"`
	PID    int    `json:"pid"`
	Status string `json:"status,omitempty"` // the command's exit status
	*doctor.Diagnosis
}

func (answer *doctorReport) print(out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(answer)
	}
	process := answer.Source
	if answer.Status != "" {
		process += ", " + answer.Status
	}
	_, err := io.WriteString(out, answer.Text(process))
	return err
}

// found returns the exit status as an error, or nil without findings.
func (answer *doctorReport) found() error {
	if len(answer.Findings) == 0 {
		return nil
	}
	return exitError{nil, exitFindings}
}

func (a *app) doctorProcess(flags doctorFlags, args []string) error {
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	defer t.Close()
	before, err := flags.snapshot(t.Client, t.pid, t.name)
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	grown, err := a.lookBetween(t, flags, before, interrupted)
	if err != nil {
		return err
	}
	after, err := flags.snapshot(t.Client, t.pid, t.name)
	if err != nil {
		var refused *attach.ServerError
		if !errors.As(err, &refused) && processExited(t.pid) {
			return fmt.Errorf("%s ended before the second snapshot: give a shorter --for, or its command line after --", t.name)
		}
		return err
	}
	pair := doctor.Pair{Before: before, After: after, Growth: grown}
	pair.Limit, _ = doctor.Room(t.pid)
	answer := doctorReport{Source: t.name, PID: t.pid, Diagnosis: doctor.Examine(pair, doctor.All)}
	if err := answer.print(a.out, flags.asJSON); err != nil {
		return err
	}
	return answer.found()
}

// lookBetween waits, and looks for growth meanwhile. It returns nil if the process has no heap profiles.
func (a *app) lookBetween(t *target, flags doctorFlags, before *doctor.Snapshot, interrupted <-chan os.Signal) (*growth.Result, error) {
	if before.Heap == nil {
		select {
		case <-time.After(flags.duration):
		case <-interrupted:
		}
		return nil, nil
	}
	look := growth.Look{Name: before.Name, Hide: flags.hidden}
	return a.lookAt(t, &look, flags.lookFlags, interrupted)
}

// ---- a whole run ----

func (a *app) doctorRun(flags doctorFlags, args []string) error {
	run, err := a.startChild(flags.run, args)
	if err != nil {
		return err
	}
	watch := doctor.Watch{Window: flags.duration}
	run.sampleUntilExit(flags, &watch)
	diagnosis := watch.Diagnosis()
	name := fmt.Sprintf("%s (pid %d)", filepath.Base(run.command.Path), run.command.Process.Pid)
	status := run.command.ProcessState.String()
	if diagnosis == nil {
		return fmt.Errorf("%s ended after %.1f s (%s), before the second snapshot: a longer run is needed", name,
			time.Since(run.began).Seconds(), status)
	}
	answer := doctorReport{Source: name, PID: run.command.Process.Pid, Status: status, Diagnosis: diagnosis}
	if err := answer.print(a.err, flags.asJSON); err != nil {
		return err
	}
	return answer.found()
}

// sampleUntilExit adds snapshots until the command ends.
func (r *child) sampleUntilExit(flags doctorFlags, watch *doctor.Watch) {
	var client *attach.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	wait := doctorFirst
	for {
		select {
		case <-r.ended:
			return
		case <-time.After(wait):
		}
		if client == nil {
			if client = r.dial(); client == nil {
				continue
			}
		}
		snapshot, err := flags.snapshot(client, r.command.Process.Pid, r.command.Path)
		if err != nil {
			client.Close()
			client = nil
			continue
		}
		wait = doctorInterval
		watch.Add(snapshot)
	}
}
