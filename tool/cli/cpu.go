package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

type cpuFlags struct {
	duration       time.Duration
	hz, rows       int
	output, sort   string
	thread         string
	threads        bool
	asJSON, kernel bool
	run            runFlags
}

func (a *app) cpuCommand() *cobra.Command {
	var flags cpuFlags
	c := &cobra.Command{
		Use:   "cpu PID | cpu -- COMMAND [ARGUMENTS…]",
		Short: "Show which functions use the CPU time, of a process or of a whole run",
		Long: `Profile a process's CPU time for --for and show which functions used it: flat is a function's own time, cum includes the
functions that it called. SIGPROF interrupts each thread --hz times per second of its CPU time; a program that uses
SIGPROF or ITIMER_PROF itself is not profiled. Ctrl-C ends the profile earlier. -o saves it for ` + "`seemalloc top`" + ` and pprof.

With a command instead of a process, run it on seemalloc and profile it from start to end, including the programs that
it starts; the table goes to standard error, and the exit status is the command's. The profile of a forked child begins
a tenth of a second after the fork. A process that is killed, or ends with _exit, leaves no profile; the CPU time of such
processes is reported.

--kernel lets the kernel take the samples (perf_event_open): the table then includes kernel functions, and below it the
time in the kernel is broken down into page faults, madvise and other system calls. It requires root, or
kernel.perf_event_paranoid of 1 or less; the program need not run on seemalloc.`,
		Example: `  seemalloc cpu 4242
  seemalloc cpu 4242 --for 30s --hz 500 -o cpu.pb.gz
  seemalloc cpu 4242 --kernel
  seemalloc cpu 4242 --threads                     # which thread ran?
  seemalloc cpu --sort cum -- python3 job.py`,
		Args: a.pidOrCommand,
		RunE: func(c *cobra.Command, args []string) error {
			isRun := c.ArgsLenAtDash() >= 0
			if err := flags.check(isRun, c.Flags().Changed("for")); err != nil {
				return err
			}
			switch {
			case isRun:
				return a.cpuRun(flags, args)
			case flags.kernel:
				return a.cpuKernel(flags, args)
			}
			return a.cpuProcess(flags, args)
		},
	}
	f := c.Flags()
	f.DurationVar(&flags.duration, "for", attach.DefaultCPUTime, "how long to profile a process")
	f.IntVar(&flags.hz, "hz", attach.DefaultCPUHz, "samples per second of each thread's CPU time, 1 to "+strconv.Itoa(attach.MaxCPUHz))
	f.StringVarP(&flags.output, "output", "o", "", "also save the profile to this file")
	f.StringVar(&flags.sort, "sort", "flat", "flat or cum")
	f.IntVarP(&flags.rows, "count", "n", 20, "number of functions; 0 shows all")
	f.BoolVar(&flags.threads, "threads", false, "show threads with their CPU time instead of functions")
	f.StringVar(&flags.thread, "thread", "", "only threads whose name matches this regular expression, or that have this id")
	f.BoolVar(&flags.asJSON, "json", false, "print JSON")
	f.BoolVar(&flags.kernel, "kernel", false, "let the kernel take the samples, and show kernel functions")
	flags.run.register(c, "with a command: ")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

func (f *cpuFlags) check(isRun, forGiven bool) error {
	switch {
	case f.hz < 1 || f.hz > attach.MaxCPUHz:
		return usageError("--hz %d: expected 1 to %d", f.hz, attach.MaxCPUHz)
	case f.duration <= 0:
		return usageError("--for %s: expected more than 0", f.duration)
	case f.sort != "flat" && f.sort != "cum":
		return usageError("--sort %s: expected flat or cum", f.sort)
	case f.rows < 0:
		return usageError("-n %d: expected 0 or more", f.rows)
	case isRun && forGiven:
		return usageError("--for: a command is profiled until it ends")
	case isRun && f.kernel:
		return usageError("--kernel: only for a running process; give its id")
	}
	if _, err := regexp.Compile(f.thread); err != nil {
		return usageError("--thread: %v", err)
	}
	return f.run.check()
}

// cpuReport is the output of `cpu --json`.
type cpuReport struct {
	Source string `json:"source"`
	*report.Top
	CPU    report.CPU           `json:"cpu"`
	Kernel []report.KernelEntry `json:"kernel,omitempty"`
	// Only with --threads.
	Threads []report.ThreadRow `json:"threads,omitempty"`
}

// showCPU prints a symbolized profile, and saves it if requested.
func (a *app) showCPU(p *profile.Profile, source string, flags cpuFlags, out io.Writer) error {
	index := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Unit == "nanoseconds" })
	if index < 0 {
		return fmt.Errorf("%s: not a profile of time", source)
	}
	if flags.output != "" {
		var compressed bytes.Buffer
		if err := p.Write(&compressed); err != nil {
			return fmt.Errorf("%s: its profile cannot be written: %w", source, err)
		}
		if err := writeFile(flags.output, compressed.Bytes()); err != nil {
			return err
		}
	}
	if flags.thread != "" {
		if err := (filters{"thread": regexp.MustCompile(flags.thread)}).apply(p, source); err != nil {
			return err
		}
		source += ", thread " + flags.thread
	}
	r := cpuReport{Source: source, CPU: report.NewCPU(p)}
	r.CPU.Part = flags.thread != ""
	if flags.kernel {
		r.Kernel = report.KernelEntries(p, index)
	}
	var err error
	if r.Top, err = report.NewTop(p, index); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	r.Top.Sort(flags.sort)
	by, table := "function", r.Text(flags.rows)
	if flags.threads {
		if !report.HasThreads(p) {
			return noThreads(source)
		}
		r.Threads = report.Threads(p, index)
		by, table = "thread", r.ThreadText(r.Threads, flags.rows)
	}
	if flags.asJSON {
		if flags.rows > 0 && len(r.Rows) > flags.rows {
			r.Rows = r.Rows[:flags.rows]
		}
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	text := fmt.Sprintf("%s: %s time by %s\n%s", source, strings.ToUpper(p.SampleType[index].Type), by, r.CPU.Text(r.Total)) + table
	if flags.kernel {
		text += report.KernelText(r.Kernel, r.Total)
	}
	_, err = fmt.Fprint(out, text)
	return err
}

// ---- a process, by its library ----

func (a *app) cpuProcess(flags cpuFlags, args []string) error {
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	defer t.Close()
	running, err := attach.StartCPU(t.Client, flags.hz, flags.duration)
	if err != nil {
		return err
	}
	if a.waitFor(flags.duration, t.pid) {
		return fmt.Errorf("%s has ended, and its profile is lost: `seemalloc cpu -- COMMAND` profiles a whole run", t.name)
	}
	data, err := running.Stop(t.Client)
	if err != nil {
		return err
	}
	p, err := report.Parse(data, t.name)
	if err != nil {
		return err
	}
	symbolize.Profile(p, symbolize.Files{PID: t.pid})
	return a.showCPU(p, t.name, flags, a.out)
}

// waitFor waits for the duration or for Ctrl-C. It returns true if the process ends in the meantime.
func (a *app) waitFor(duration time.Duration, pid int) (ended bool) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	over := time.After(duration)
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return false
		case <-interrupted:
			return false
		case <-ticker.C:
			if p, err := attach.Find(pid); pid != 0 && (err != nil || p.Zombie) {
				return true
			}
		}
	}
}

// ---- a whole run ----

func (a *app) cpuRun(flags cpuFlags, args []string) error {
	dir, err := os.MkdirTemp("", "seemalloc-cpu")
	if err != nil {
		return fmt.Errorf("no folder for the profiles: %w", err)
	}
	defer os.RemoveAll(dir)
	flags.run.add(fmt.Sprintf("cpu_profile:%s,cpu_frequency:%d", filepath.Join(dir, "%p.pb"), flags.hz))
	run, err := a.startChild(flags.run, args)
	if err != nil {
		return err
	}
	<-run.ended
	name := filepath.Base(run.command.Path)
	p, processes := readCPUProfiles(dir)
	if p == nil {
		a.warn(name + ": no profile: it did not run on seemalloc, was killed, or could not be profiled")
		return exitError{nil, exitStatus(run.command.ProcessState)}
	}
	p.Comments = append(p.Comments, report.Unprofiled(p, run.command.ProcessState.UserTime()+run.command.ProcessState.SystemTime())...)
	source := fmt.Sprintf("%s: %s after %s", name, run.command.ProcessState, report.FormatNanos(time.Since(run.began).Nanoseconds()))
	if processes > 1 {
		source += fmt.Sprintf(", %d processes", processes)
	}
	if err := a.showCPU(p, source, flags, a.err); err != nil {
		return err
	}
	return exitError{nil, exitStatus(run.command.ProcessState)}
}

// readCPUProfiles reads and symbolizes the profiles that the command and its children wrote to folder. It returns nil
// if there are none.
func readCPUProfiles(dir string) (*profile.Profile, int) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.pb"))
	var all []*profile.Profile
	for _, file := range files {
		if p, err := readProfile(file); err == nil && len(p.SampleType) == 2 {
			symbolize.Profile(p, symbolize.Files{})
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, 0
	}
	// The longest profile is the command's own. Merging adds up durations that overlap.
	duration := int64(0)
	var comments []string
	for _, p := range all {
		duration = max(duration, p.DurationNanos)
		comments = append(comments, p.Comments...)
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return all[0], 1
	}
	merged.DurationNanos, merged.Comments = duration, comments
	return merged, len(all)
}

// ---- by the kernel ----

func (a *app) cpuKernel(flags cpuFlags, args []string) error {
	if a.socket != "" {
		return usageError("--kernel: give the process's id, not its socket")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid <= 0 {
		return usageError("%s is not a process id", args[0])
	}
	process, err := attach.Find(pid)
	if err != nil {
		return err
	}
	p, err := recordKernel(process, flags, func() { a.waitFor(flags.duration, pid) })
	if err != nil {
		return err
	}
	symbolize.Profile(p, symbolize.Files{PID: pid})
	return a.showCPU(p, process.String(), flags, a.out)
}
