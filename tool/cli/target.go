package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

// target is a running process with an open control socket.
type target struct {
	*attach.Client
	pid  int    // 0 if only a socket was given and the kernel does not report its owner
	name string // for titles: "redis-server (pid 12)"
	comm string
	// redial opens another connection, for views that survive a lost connection. It returns attach.ErrExited if the
	// process has ended.
	redial func() (*attach.Client, error)
}

// targetFlags adds the flags of all commands that talk to a process.
func (a *app) targetFlags(c *cobra.Command) {
	c.Flags().StringVar(&a.socket, "socket", "", "use this control socket instead of that of PID")
	c.Flags().DurationVar(&a.timeout, "timeout", 30*time.Second, "how long to wait for an answer")
}

// pidArgs checks the arguments of a command that takes a process id (optional with --socket) followed by least to most
// other arguments.
func (a *app) pidArgs(minimum, limit int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		rest := args
		if len(args) > 0 && isNumber(args[0]) {
			rest = args[1:]
		} else if a.socket == "" {
			if len(args) == 0 {
				return fmt.Errorf("which process? Give its id or name; `seemalloc ps` lists those that run on seemalloc")
			}
			return fmt.Errorf("%q is neither a process id nor the name of a process that runs on seemalloc; `seemalloc ps` lists those that run on seemalloc", args[0])
		}
		switch {
		case len(rest) < minimum:
			return fmt.Errorf("an argument is missing")
		case len(rest) > limit:
			return fmt.Errorf("too many arguments: %q", rest[limit])
		}
		return nil
	}
}

// dial connects to the process in the first argument, or to --socket, and returns the remaining arguments.
func (a *app) dial(args []string) (*target, []string, error) {
	pid := 0
	if len(args) > 0 && isNumber(args[0]) {
		var err error
		if pid, err = strconv.Atoi(args[0]); err != nil || pid <= 0 {
			return nil, nil, usageError("%s is not a process id", args[0])
		}
		args = args[1:]
	}
	if a.socket != "" {
		client, err := attach.DialSocket(a.socket, a.timeout)
		if err != nil {
			return nil, nil, err
		}
		peer := client.PeerPID()
		if pid == 0 {
			pid = peer
		}
		t := &target{Client: client, pid: pid, name: a.socket, comm: "process", redial: attach.SocketRedialer(a.socket, peer, a.timeout)}
		if p, err := attach.Find(pid); pid != 0 && err == nil {
			t.describe(p)
		}
		return t, args, nil
	}
	p, err := attach.Find(pid)
	if err != nil {
		return nil, nil, err
	}
	client, err := attach.Dial(p, a.timeout)
	if err != nil {
		return nil, nil, err
	}
	t := &target{Client: client, pid: p.PID, redial: attach.Redialer(p, a.timeout)}
	t.describe(p)
	return t, args, nil
}

func (t *target) describe(p *attach.Process) {
	t.name = fmt.Sprintf("%s (pid %d)", p.Name, p.PID)
	t.comm = p.Name
}

// takeProfile takes a profile of the process, or of a window that begins now. It symbolizes the addresses unless raw is
// set.
func (t *target) takeProfile(kind string, window time.Duration, raw bool) (*profile.Profile, error) {
	p, err := t.rawProfile(kind)
	if err != nil {
		return nil, err
	}
	if window > 0 {
		time.Sleep(window)
		after, err := t.rawProfile(kind)
		if err != nil {
			return nil, err
		}
		if p, err = report.Window(p, after); err != nil {
			return nil, fmt.Errorf("%s: its two profiles are not compatible: %w", t.name, err)
		}
	}
	if !raw {
		symbolize.Profile(p, symbolize.Files{PID: t.pid})
	}
	return p, nil
}

func (t *target) rawProfile(kind string) (*profile.Profile, error) {
	data, err := t.Call("profile", kind)
	if err != nil {
		return nil, err
	}
	return report.Parse(data, t.name)
}

func isNumber(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return s != ""
}

// pidOrCommand checks the arguments of a subcommand that takes a process, or a command after the double dash.
func (a *app) pidOrCommand(c *cobra.Command, args []string) error {
	switch dash := c.ArgsLenAtDash(); {
	case dash < 0:
		return a.pidArgs(0, 0)(c, args)
	case dash != 0:
		return fmt.Errorf("%q before --: give either a process or a command", args[0])
	case len(args) == 0:
		return errors.New("which program? Give its command line after --")
	case a.socket != "":
		return errors.New("--socket names a running process; it cannot be given with a command")
	}
	return nil
}
