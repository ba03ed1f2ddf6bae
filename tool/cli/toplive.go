package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"seemalloc/tool/attach"
	"seemalloc/tool/live"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

const minLiveInterval = 250 * time.Millisecond

// topLive shows the table on the whole terminal and refreshes it.
func (a *app) topLive(flags topFlags, args []string) error {
	filters, err := flags.check()
	if err != nil {
		return err
	}
	switch {
	case a.socket == "" && !isNumber(args[0]):
		return usageError("--live: %s is a file; expected a process", args[0])
	case flags.asJSON:
		return usageError("--live and --json: a screen is not JSON; leave one out")
	case flags.threads:
		return usageError("--live and --threads: the screen shows functions; --thread selects a thread")
	case flags.base != "":
		return usageError("--live and --base: on the screen, b shows changes; leave --base out")
	case flags.window != 0:
		return usageError("--live and --seconds: on the screen, b shows changes; leave --seconds out")
	case flags.interval < minLiveInterval:
		return usageError("--interval %s: expected %s or more", flags.interval, minLiveInterval)
	case !term.IsTerminal(os.Stdout.Fd()) || !term.IsTerminal(os.Stdin.Fd()):
		return errors.New("--live needs a terminal; without it, top prints the table once")
	}
	if flags.thread != "" {
		a.addThreadFlag(&flags.view, args)
	}
	t, _, err := a.dial(args)
	if err != nil {
		return err
	}
	t.Close() // each refresh uses its own connection, so a failed one has no effect on the next
	options := live.Options{Title: t.name, By: flags.by, Unit: flags.unit, Sort: flags.sort, Interval: flags.interval, Filters: filters, Raw: flags.raw, Kinds: []string{flags.kind}}
	for _, kind := range kinds() {
		if kind.Name != flags.kind && (flags.thread == "" || hasThreadLabels(kind.Name)) {
			options.Kinds = append(options.Kinds, kind.Name)
		}
	}
	// Messages in the meantime would corrupt the screen, so they are printed afterwards.
	var said bytes.Buffer
	terminal := a.err
	a.err = &said
	err = live.Run(&liveProcess{a, args, t.pid, symbolize.Style(flags.names)}, options)
	a.err = terminal
	fmt.Fprint(a.err, said.String())
	return err
}

// liveProcess makes a process a live.Source.
type liveProcess struct {
	app   *app
	args  []string
	pid   int
	names symbolize.Style
}

func (l *liveProcess) Sample(kind string) (*profile.Profile, *attach.Stats, time.Duration, error) {
	p, stats, busy, err := l.look(kind)
	if err != nil && l.pid != 0 && errors.Is(unix.Kill(l.pid, 0), unix.ESRCH) {
		err = live.ProcessExited{Err: fmt.Errorf("the process has ended; this is its last profile")}
	}
	return p, stats, busy, err
}

func (l *liveProcess) look(kind string) (*profile.Profile, *attach.Stats, time.Duration, error) {
	t, _, err := l.app.dial(l.args)
	if err != nil {
		return nil, nil, 0, err
	}
	defer t.Close()
	meter := attach.StartMeter(t.pid)
	stats, err := attach.FetchStats(t.Client)
	if refused := (*attach.ServerError)(nil); err != nil && !errors.As(err, &refused) { // an older library has no CPU profile
		return nil, nil, meter.Busy(), err
	}
	data, err := t.Call("profile", kind)
	busy := meter.Busy()
	if err != nil {
		return nil, nil, busy, err
	}
	p, err := report.Parse(data, t.name)
	if err != nil {
		return nil, nil, busy, err
	}
	symbolize.Profile(p, symbolize.Files{PID: t.pid})
	if l.names != symbolize.Short {
		symbolize.Rename(p, l.names)
	}
	return p, stats, busy, nil
}
