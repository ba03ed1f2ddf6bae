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
	grace       = 5 * time.Second // from SIGTERM to SIGKILL
	upLimit     = 30 * time.Second
	othersShare = 0.05 // of one CPU: a run during which others used more was disturbed
	resolution  = 0.03 // seconds: the kernel counts the machine's time in ticks, a process's exactly
	parallel    = 1.1  // CPU time per wall time from which two threads must have run
)

// readable is how long a program must last for its memory to be read while it does its work, not while it starts.
const readable = 50 * time.Millisecond

// Failed is why a run does not count, and its allocator with it.
type Failed struct{ Reason string }

func (f Failed) Error() string { return f.Reason }

// Command is what is run and how.
type Command struct {
	Path string
	Args []string // the first is the name it was called by
	Env  []string
	// A server is ended after For, or when Load (of the shell) is done; For is how long that may take then. What it used
	// until then counts.
	For     time.Duration
	Load    string
	UpAfter time.Duration // when the load begins; 0: when the server listens on a socket
}

func (c *Command) server() bool { return c.For > 0 || c.Load != "" }

// Run runs the command once, with its standard output and error going to these files. The error is Failed, the context's
// or the system's.
func (c *Command) Run(ctx context.Context, a Allocator, out, errors *os.File) (Run, error) {
	busy, own, began := machineBusy(), ownCPU(), time.Now()
	run, err := c.measure(ctx, a, out, errors)
	run.Allocator = a.Name
	run.said = lastLine(errors)
	if failed, ok := err.(Failed); ok && run.said != "" {
		err = Failed{failed.Reason + ": " + run.said}
	}
	run.Others = max(0, (machineBusy()-busy)-(ownCPU()-own))
	run.Disturbed = run.Others > othersShare*time.Since(began).Seconds()+resolution
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
	p.clear(0)
	return p.values(t), nil
}

// serve measures a server until its time is up or its load is done, and ends it.
func (c *Command) serve(ctx context.Context, p *process, t *tree) (Run, error) {
	load, err := c.drive(ctx, p, t)
	t.sample()
	used := t.used()
	took := time.Since(p.began)
	p.end()
	if err != nil {
		return Run{}, err
	}
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() && status.Signal() != syscall.SIGTERM &&
		status.Signal() != syscall.SIGKILL {
		return Run{}, Failed{"asked to end, it was " + p.ending()}
	}
	run := p.values(t)
	delete(run.Values, "wall_s")
	if c.Load != "" {
		run.Values["load_s"] = load.Seconds()
	}
	// Until then, without its ending: except for the context switches, which the kernel tells only afterwards.
	run.Values["cpu_s"], run.Values["system_s"] = used.user+used.system, used.system
	run.Values["minor_faults"], run.Values["major_faults"] = used.minor, used.major
	run.Values["peak_rss"] = float64(t.largest().last.peak)
	run.Threads = t.parallel(used.user+used.system, took)
	return run, nil
}

// drive lets a server run: for its time, or until its load is done, whose time it returns.
func (c *Command) drive(ctx context.Context, p *process, t *tree) (time.Duration, error) {
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
		return 0, p.unexpected(ctx, came, loadEnded, fmt.Sprintf("the load was not done after %s", c.For))
	}
	load.clear(0)
	if !load.cmd.ProcessState.Success() {
		return 0, Failed{"the load failed: " + load.ending()}
	}
	return load.took, nil
}

func (c *Command) waitUntilUp(ctx context.Context, p *process, t *tree) error {
	watched := events{ended: p.ended, cancelled: ctx.Done()}
	if c.UpAfter > 0 {
		watched.timeUp = time.After(c.UpAfter)
		return p.unexpected(ctx, t.watch(watched), timeUp, "")
	}
	watched.timeUp, watched.ready = time.After(upLimit), t.listens
	return p.unexpected(ctx, t.watch(watched), ready, fmt.Sprintf("it listened on no socket within %s: say with --up-after when it is up", upLimit))
}

// unexpected is the error of any event but the wanted one; late is what is to be said when the time is up.
func (p *process) unexpected(ctx context.Context, came, wanted event, late string) error {
	switch came {
	case wanted:
		return nil
	case cancelled:
		return ctx.Err()
	case ended:
		return Failed{fmt.Sprintf("it ended by itself after %.1f s: %s", p.took.Seconds(), p.ending())}
	}
	return Failed{late}
}

// process is a running program, leader of a process group of its own: signals of the terminal do not reach it, and
// what it leaves behind can be ended with it.
type process struct {
	cmd   *exec.Cmd
	began time.Time
	took  time.Duration // valid once ended is closed
	ended chan struct{}
}

// adopt makes this process the parent of orphans, so that it sees when they have ended (clear). Where the kernel refuses,
// clear waits for init.
var adopt = sync.OnceFunc(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

func start(path string, args, env []string, out, errors *os.File) (*process, error) {
	adopt()
	p := &process{cmd: &exec.Cmd{Path: path, Args: args, Env: env, Stdout: out, Stderr: errors,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}, ended: make(chan struct{}), began: time.Now()}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // its state says how it ended
		p.took = time.Since(p.began)
		close(p.ended)
	}()
	return p, nil
}

func (p *process) signal(which syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, which) }

// end asks the group to end, and no longer asks after the grace.
func (p *process) end() {
	deadline := time.Now().Add(grace)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(grace):
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
	p.clear(time.Until(deadline))
}

// clear ends what an ended program has left in its group after a wait, so that it does not disturb the next run or hold
// its port.
func (p *process) clear(wait time.Duration) {
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

// ending is how it ended, in words.
func (p *process) ending() string {
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exit %d", p.cmd.ProcessState.ExitCode())
}

// values of a program that has ended.
func (p *process) values(t *tree) Run {
	used := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	user, system := seconds(used.Utime), seconds(used.Stime)
	largest := t.largest()
	run := Run{Ending: p.ending(), Loaded: largest.loaded, Linked: largest.linked, Threads: t.parallel(user+system, p.took), Values: map[string]float64{
		"wall_s": p.took.Seconds(), "cpu_s": user + system, "system_s": system,
		"minor_faults": float64(used.Minflt), "major_faults": float64(used.Majflt),
		"switches": float64(used.Nvcsw + used.Nivcsw),
	}}
	read := largest.last
	if p.took < readable {
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

// PeakRSS of a child that has ended, in bytes; 0: nobody knows. read is the last that /proc or the child itself said.
func PeakRSS(used *syscall.Rusage, read int64) int64 {
	return truePeak(used.Maxrss*kib, ownPeak(), read)
}

// truePeak: the kernel's figure for a child (that of the largest process) begins with the size of its parent, this tool.
// Above that it is right; else what was read last is better. 0: nobody knows.
func truePeak(kernels, own, read int64) int64 {
	if kernels > own {
		return max(kernels, read)
	}
	return read
}

// parallel is the number of threads, at least 2 where less could not have used that much CPU time.
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

// ownCPU is what this process, and everything that it has started and that has ended, have used.
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

// lastLine of what was written to the file, shortened.
func lastLine(file *os.File) string {
	const tail, most = 4096, 200
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text := make([]byte, tail)
	n, _ := file.ReadAt(text, max(0, info.Size()-tail))
	lines := bytes.Split(bytes.TrimSpace(text[:n]), []byte{'\n'})
	line := []rune(string(bytes.TrimSpace(lines[len(lines)-1])))
	return string(line[:min(len(line), most)])
}
