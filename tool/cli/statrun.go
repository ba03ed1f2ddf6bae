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

// child is a command that runs on seemalloc while this tool looks at it.
type child struct {
	command *exec.Cmd
	began   time.Time
	ended   chan struct{}
}

// statRun is a command that runs under `seemalloc stat`.
type statRun struct {
	*child
	flags statFlags
	lines statLines
}

// startRun starts the command, whose processes leave their statistics in folder when they end.
func (a *app) startRun(flags statFlags, args []string, folder string) (*statRun, error) {
	flags.run.add("stats_at_exit:" + filepath.Join(folder, "%p.json"))
	started, err := a.startChild(flags.run, args)
	if err != nil {
		return nil, err
	}
	return &statRun{child: started, flags: flags, lines: statLines{out: a.err, asJSON: flags.asJSON}}, nil
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

// end makes an end of the command, which may tidy up for a while.
func (r *child) end() {
	const patience = 5 * time.Second
	_ = r.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.ended:
	case <-time.After(patience):
		_ = r.command.Process.Kill()
		<-r.ended
	}
}

// forwardSignals leaves what the terminal sends to all to the command, and passes on what comes to this process alone.
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

// watch asks the process now and then until it ends; returns the last answer, nil when there was none.
func (r *statRun) watch() *attach.Stats {
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

func (r *statRun) status() int { return exitStatus(r.command.ProcessState) }

// facts is what the system says about the command, which has ended.
func (r *statRun) facts() report.RunFacts {
	state := r.command.ProcessState
	facts := report.RunFacts{
		Command: filepath.Base(r.command.Path), Status: state.String(), Elapsed: time.Since(r.began),
		User: state.UserTime(), System: state.SystemTime(),
	}
	return facts
}

// peakRSS in bytes, 0 when nobody knows. stats is the command's own last word.
func (r *statRun) peakRSS(stats *attach.Stats) int64 {
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

// readExitStats reads what the command and its children left in folder.
func readExitStats(folder string, pid int) (own *attach.Stats, others []*attach.Stats) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
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
