package compare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killDelay        = 5 * time.Second // from SIGTERM to SIGKILL
	startTimeout     = 30 * time.Second
	maxOtherCPUShare = 0.05 // share of one CPU: a run is disturbed if other processes used more
	resolution       = 0.03 // seconds: the kernel counts the machine's CPU time in ticks, but that of a process exactly
	parallel         = 1.1  // ratio of CPU time to wall time from which at least two threads must have run
)

// readable is the minimum run time of a program from which its memory can be read while it works and not while it
// starts.
const readable = 50 * time.Millisecond

// Failed is the reason why a run and its allocator are not counted.
type Failed struct{ Reason string }

func (f Failed) Error() string { return f.Reason }

// Command is the command to run, and how to run it.
type Command struct {
	Path string
	Args []string // the first is the name under which it was called
	Env  []string
	// A server is ended after For, or when the shell command Load is done; then For is the maximum time of Load.
	// Resource usage counts up to that moment.
	For     time.Duration
	Load    string
	UpAfter time.Duration // when the load starts; 0: when the server listens on a socket
}

func (c *Command) server() bool { return c.For > 0 || c.Load != "" }

// Run runs the command once, with its standard output and standard error redirected to these files. The error is a
// Failed, the context's error, or a system error.
func (c *Command) Run(ctx context.Context, a Allocator, out, errors *os.File) (Run, error) {
	busy, own, began := machineBusy(), ownCPU(), time.Now()
	run, err := c.measure(ctx, a, out, errors)
	run.Allocator = a.Name
	run.stderrTail = lastLine(errors)
	if failed, ok := err.(Failed); ok && run.stderrTail != "" {
		err = Failed{failed.Reason + ": " + run.stderrTail}
	}
	run.OtherCPUSeconds = max(0, (machineBusy()-busy)-(ownCPU()-own))
	run.Disturbed = run.OtherCPUSeconds > maxOtherCPUShare*time.Since(began).Seconds()+resolution
	return run, err
}

func (c *Command) measure(ctx context.Context, a Allocator, out, errors *os.File) (Run, error) {
	p, err := start(c.Path, c.Args, Environment(c.Env, a.Library), out, errors)
	if err != nil {
		return Run{}, err
	}
	t := newTree(p.cmd.Process.Pid, a.Library)
	if c.server() {
		return c.serve(ctx, p, t)
	}
	if t.watch(events{ended: p.ended, cancelled: ctx.Done()}) == cancelled {
		p.end()
		return Run{}, ctx.Err()
	}
	p.killGroup(0)
	return p.values(t), nil
}

// serve measures a server until its time is up or its load is done, and ends it.
func (c *Command) serve(ctx context.Context, p *process, t *tree) (Run, error) {
	load, err := c.runLoad(ctx, p, t)
	t.sample()
	used := t.used()
	elapsed := time.Since(p.began)
	p.end()
	if err != nil {
		return Run{}, err
	}
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() && status.Signal() != syscall.SIGTERM &&
		status.Signal() != syscall.SIGKILL {
		return Run{}, Failed{"after SIGTERM it was " + p.exitText()}
	}
	run := p.values(t)
	delete(run.Values, "wall_s")
	if c.Load != "" {
		run.Values["load_s"] = load.Seconds()
	}
	// These values exclude the shutdown. Only the context switches include it, because the kernel reports them
	// afterwards.
	run.Values["cpu_s"], run.Values["system_s"] = used.user+used.system, used.system
	run.Values["minor_faults"], run.Values["major_faults"] = used.minor, used.major
	run.Values["peak_rss"] = float64(t.largest().last.peak)
	run.Threads = t.parallel(used.user+used.system, elapsed)
	return run, nil
}

// runLoad lets a server run for its time, or until its load is done. It returns the duration of the load.
func (c *Command) runLoad(ctx context.Context, p *process, t *tree) (time.Duration, error) {
	watched := events{ended: p.ended, cancelled: ctx.Done()}
	if c.Load == "" {
		watched.timeUp = time.After(c.For)
		return 0, p.unexpected(ctx, t.watch(watched), timeUp, "")
	}
	if err := c.waitUntilUp(ctx, p, t); err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	load, err := start("/bin/sh", []string{"sh", "-c", c.Load}, Environment(c.Env, ""), null, null)
	if err != nil {
		return 0, err
	}
	watched.load = load.ended
	if c.For > 0 {
		watched.timeUp = time.After(c.For)
	}
	came := t.watch(watched)
	if came != loadEnded {
		load.end()
		return 0, p.unexpected(ctx, came, loadEnded, fmt.Sprintf("the load had not finished after %s", c.For))
	}
	load.killGroup(0)
	if !load.cmd.ProcessState.Success() {
		return 0, Failed{"the load failed: " + load.exitText()}
	}
	return load.elapsed, nil
}

func (c *Command) waitUntilUp(ctx context.Context, p *process, t *tree) error {
	watched := events{ended: p.ended, cancelled: ctx.Done()}
	if c.UpAfter > 0 {
		watched.timeUp = time.After(c.UpAfter)
		return p.unexpected(ctx, t.watch(watched), timeUp, "")
	}
	watched.timeUp, watched.ready = time.After(startTimeout), t.listens
	return p.unexpected(ctx, t.watch(watched), ready, fmt.Sprintf("it did not listen on a socket within %s: give its start-up time with --up-after", startTimeout))
}

// unexpected returns the error for any event except the wanted one. late is the message if the time is up.
func (p *process) unexpected(ctx context.Context, came, wanted event, late string) error {
	switch came {
	case wanted:
		return nil
	case cancelled:
		return ctx.Err()
	case ended:
		return Failed{fmt.Sprintf("it ended on its own after %.1f s: %s", p.elapsed.Seconds(), p.exitText())}
	}
	return Failed{late}
}

// process is a running program. It leads its own process group, so that signals of the terminal do not reach it and its
// descendants can be ended together with it.
type process struct {
	cmd     *exec.Cmd
	began   time.Time
	elapsed time.Duration // valid after ended is closed
	ended   chan struct{}
}

// adopt makes this process the parent of orphans, so that clear can wait for them. If the kernel refuses, clear waits
// for init to do that.
var adopt = sync.OnceFunc(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

func start(path string, args, env []string, out, errors *os.File) (*process, error) {
	adopt()
	p := &process{cmd: &exec.Cmd{Path: path, Args: args, Env: env, Stdout: out, Stderr: errors,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}, ended: make(chan struct{}), began: time.Now()}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the ProcessState describes how it ended
		p.elapsed = time.Since(p.began)
		close(p.ended)
	}()
	return p, nil
}

func (p *process) signal(which syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, which) }

// end asks the process group to terminate, and kills it after the grace period.
func (p *process) end() {
	deadline := time.Now().Add(killDelay)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(killDelay):
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
	p.killGroup(time.Until(deadline))
}

// killGroup kills the remaining processes in the group of an ended program after a wait, so that they do not disturb
// the next run or occupy its port.
func (p *process) killGroup(wait time.Duration) {
	const poll, limit = 5 * time.Millisecond, time.Second
	group := -p.cmd.Process.Pid
	gone := func() bool {
		for {
			if pid, err := syscall.Wait4(group, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
				return syscall.Kill(group, 0) == syscall.ESRCH
			}
		}
	}
	for deadline := time.Now().Add(wait); !gone() && time.Now().Before(deadline); {
		time.Sleep(poll)
	}
	p.signal(syscall.SIGKILL)
	for deadline := time.Now().Add(limit); !gone() && time.Now().Before(deadline); {
		time.Sleep(poll)
	}
}

// exitText describes how the process ended.
func (p *process) exitText() string {
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exit %d", p.cmd.ProcessState.ExitCode())
}

// values returns the results of a program that has ended.
func (p *process) values(t *tree) Run {
	used := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	user, system := seconds(used.Utime), seconds(used.Stime)
	largest := t.largest()
	run := Run{ExitStatus: p.exitText(), Loaded: largest.loaded, Linked: largest.linked, Threads: t.parallel(user+system, p.elapsed), Values: map[string]float64{
		"wall_s": p.elapsed.Seconds(), "cpu_s": user + system, "system_s": system,
		"minor_faults": float64(used.Minflt), "major_faults": float64(used.Majflt),
		"switches": float64(used.Nvcsw + used.Nivcsw),
	}}
	read := largest.last
	if p.elapsed < readable {
		read = status{}
	}
	if peak := PeakRSS(used, read.peak); peak > 0 {
		run.Values["peak_rss"] = float64(peak)
	}
	if read.rss > 0 {
		run.Values["final_rss"] = float64(read.rss)
	}
	return run
}

// PeakRSS returns the peak memory in bytes of a child that has ended, or 0 if unknown. read is the last value from
// /proc or from the child itself.
func PeakRSS(used *syscall.Rusage, read int64) int64 {
	return truePeak(used.Maxrss*kib, ownPeak(), read)
}

// truePeak corrects the kernel's value for a child, which is that of its largest process and starts with the size of
// the parent, this tool. A value above that size is correct; otherwise the last reading is better. 0: unknown.
func truePeak(kernels, own, read int64) int64 {
	if kernels > own {
		return max(kernels, read)
	}
	return read
}

// parallel returns the number of threads. It returns at least 2 if one thread cannot have used that much CPU time.
func (t *tree) parallel(cpu float64, wall time.Duration) int {
	if cpu > parallel*wall.Seconds() && t.threads < 2 {
		return 2
	}
	return t.threads
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func ownPeak() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	return parseStatus(text).peak
}

// ownCPU returns the CPU time of this process and of all its children that have ended.
func ownCPU() float64 {
	sum := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if syscall.Getrusage(who, &used) == nil {
			sum += seconds(used.Utime) + seconds(used.Stime)
		}
	}
	return sum
}

func machineBusy() float64 {
	text, _ := os.ReadFile("/proc/stat")
	return parseBusy(text)
}

// lastLine returns the last line of the file, shortened.
func lastLine(file *os.File) string {
	const tail, limit = 4096, 200
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text := make([]byte, tail)
	n, _ := file.ReadAt(text, max(0, info.Size()-tail))
	lines := bytes.Split(bytes.TrimSpace(text[:n]), []byte{'\n'})
	line := []rune(string(bytes.TrimSpace(lines[len(lines)-1])))
	return string(line[:min(len(line), limit)])
}
