package cli

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"seemalloc/tool/attach"
	"seemalloc/tool/compare"
	"seemalloc/tool/report"
)

// child is a command that runs on seemalloc and is observed by this tool.
type child struct {
	command *exec.Cmd
	began   time.Time
	ended   chan struct{}
}

// activityRun is a command that runs under `seemalloc activity`.
type activityRun struct {
	*child
	flags activityFlags
	lines activityLines
}

// startRun starts the command. Its processes write their statistics to folder when they end.
func (a *app) startRun(flags activityFlags, args []string, dir string) (*activityRun, error) {
	flags.run.add("stats_at_exit:" + filepath.Join(dir, "%p.json"))
	started, err := a.startChild(flags.run, args)
	if err != nil {
		return nil, err
	}
	return &activityRun{child: started, flags: flags, lines: activityLines{out: a.err, asJSON: flags.asJSON}}, nil
}

// startChild starts the command with this tool's standard files.
func (a *app) startChild(flags runFlags, args []string) (*child, error) {
	path, lib, err := a.find(flags, args)
	if err != nil {
		return nil, err
	}
	c := &child{ended: make(chan struct{})}
	c.command = &exec.Cmd{Path: path, Args: args, Env: environment(os.Environ(), lib, flags), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := c.start(); err != nil {
		return nil, executionError(path, err)
	}
	return c, nil
}

func (r *child) start() error {
	r.forwardSignals()
	r.began = time.Now()
	if err := r.command.Start(); err != nil {
		return err
	}
	go func() {
		_ = r.command.Wait()
		close(r.ended)
	}()
	return nil
}

// end terminates the command. It allows some time for cleanup before it kills it.
func (r *child) end() {
	const timeout = 5 * time.Second
	_ = r.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.ended:
	case <-time.After(timeout):
		_ = r.command.Process.Kill()
		<-r.ended
	}
}

// forwardSignals forwards signals that are sent to this process alone. Signals from the terminal reach the command
// directly.
func (r *child) forwardSignals() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			if (s == syscall.SIGTERM || s == syscall.SIGHUP) && r.command.Process != nil {
				_ = r.command.Process.Signal(s)
			}
		}
	}()
}

// watch queries the process at intervals until it ends. It returns the last answer, or nil if there was none.
func (r *activityRun) watch() *attach.Stats {
	const firstLook = 50 * time.Millisecond
	var client *attach.Client
	var last *attach.Stats
	wait := min(firstLook, r.flags.interval)
	for {
		select {
		case <-r.ended:
			if client != nil {
				client.Close()
			}
			return last
		case <-time.After(wait):
		}
		if client == nil {
			if client = r.dial(); client == nil {
				continue
			}
		}
		wait = r.flags.interval
		stats, err := attach.FetchBriefStats(client)
		if err != nil {
			client.Close()
			client = nil
			continue
		}
		last = stats
		if r.flags.watch {
			_ = r.lines.next(stats)
		}
	}
}

func (r *child) dial() *attach.Client {
	p, err := attach.Find(r.command.Process.Pid)
	if err != nil {
		return nil
	}
	client, err := attach.Dial(p, 5*time.Second)
	if err != nil {
		return nil
	}
	return client
}

func (r *activityRun) status() int { return exitStatus(r.command.ProcessState) }

// facts returns the system's data about the command, which has ended.
func (r *activityRun) facts() report.RunSummary {
	state := r.command.ProcessState
	facts := report.RunSummary{
		Command: filepath.Base(r.command.Path), Status: state.String(), Elapsed: time.Since(r.began),
		User: state.UserTime(), System: state.SystemTime(),
	}
	return facts
}

// peakRSS returns bytes, or 0 if unknown. stats is the command's last report.
func (r *activityRun) peakRSS(stats *attach.Stats) int64 {
	own := int64(0)
	if stats != nil {
		own = stats.Memory.PeakRSS
	}
	used, ok := r.command.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return own
	}
	return compare.PeakRSS(used, own)
}

// readExitStats reads the statistics that the command and its children wrote to folder.
func readExitStats(dir string, pid int) (own *attach.Stats, others []*attach.Stats) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		stats, err := attach.ParseStats(data, file)
		if err != nil {
			continue
		}
		if filepath.Base(file) == strconv.Itoa(pid)+".json" {
			own = stats
		} else {
			others = append(others, stats)
		}
	}
	return own, others
}
