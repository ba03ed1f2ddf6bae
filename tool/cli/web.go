package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"seemalloc/tool/store"
	"seemalloc/tool/symbolize"
	"seemalloc/tool/web"
)

type webFlags struct {
	listen   string
	allowSet bool
	store    string
	size     string
	announce func(error) // called with data that is not stored, and the reason
	run      runFlags

	startTimeout         time.Duration // how long to wait until a started command answers
	sourcePath, trimPath string
}

func (a *app) webCommand() *cobra.Command {
	flags := webFlags{startTimeout: 10 * time.Second}
	c := &cobra.Command{
		Use:   "web PID | web FILE… | web DIR | web -- COMMAND [ARGUMENTS…]",
		Short: "Show a process's memory in the browser while it runs",
		Long: `Serve a page that shows a process live: the composition of its resident memory, the functions that hold it (flame graph,
functions, graph, callers, tree, source), the changes between any two moments, growth, size classes, calls into the
kernel, doctor's findings, and the options. The page is read-only unless --allow-set is given; it keeps working after the
process has ended. With saved profiles instead of a process, it shows those, from the first to the last.

--store also saves the data in a folder, once a second: figures, heap profiles, and the last answer of each other view. If
the process or the tool is killed, at most the last second is lost. The size of the folder is limited: old data is thinned
out.
` + "`seemalloc web DIR`" + ` shows it again, also after the process has ended; a folder can be used for one process after another.

The address contains a random token and is printed on standard output. Ctrl-C ends the server.`,
		Example: `  seemalloc web 4242
  seemalloc web --listen 127.0.0.1:8080 4242
  seemalloc web before.pb.gz after.pb.gz       # choose "compared with" on the page
  seemalloc web -- python3 job.py
  seemalloc web --store history --store-size 1G 4242
  seemalloc web history`,
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() < 0 && a.socket == "" && len(args) > 0 && !isNumber(args[0]) {
				return nil // arguments are files
			}
			return a.pidOrCommand(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return a.web(flags, args, c.ArgsLenAtDash() >= 0) },
	}
	c.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:0", "loopback address to listen on; port 0: any free port")
	c.Flags().BoolVar(&flags.allowSet, "allow-set", false, "let the page set options, purge free memory and profile CPU time")
	sourceFlags(c, &flags.sourcePath, &flags.trimPath)
	c.Flags().StringVar(&flags.store, "store", "", "also store the data in this folder")
	c.Flags().StringVar(&flags.size, "store-size", "256M", "maximum size of the folder, 16M or more")
	flags.run.register(c, "with a command: ")
	a.symbolFlags(c)
	a.targetFlags(c)
	return c
}

func (a *app) web(flags webFlags, args []string, isCommand bool) error {
	if err := flags.run.check(); err != nil {
		return err
	}
	size, err := parseSize(flags.size)
	if err != nil || size < store.MinSize {
		return usageError("--store-size %s: expected a size of 16M or more, such as 256M or 2G", flags.size)
	}
	flags.announce = func(err error) { a.warn("the data is not being stored at present: " + oneLine(err.Error())) }
	listener, err := listenHere(flags.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	history := &web.History{}
	dir, err := flags.openStore(args, isCommand || a.socket != "", size)
	if err != nil {
		return err
	}
	if dir != nil {
		defer dir.Close()
	}
	server, child, err := a.webServer(flags, args, isCommand, history, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "http://%s%s\n", listener.Addr(), server.Path())
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	served := make(chan error, 1)
	go func() { served <- (&http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}).Serve(listener) }()
	select {
	case err := <-served:
		if child != nil {
			child.end()
		}
		return fmt.Errorf("%s: %w", flags.listen, err)
	case received := <-interrupted:
		if child == nil {
			return nil
		}
		// Ctrl-C has already reached the command, and forwardSignals forwards the other signals. A second signal could
		// interrupt the command's handling of the first.
		if received == os.Interrupt && !inForegroundGroup() {
			_ = child.command.Process.Signal(syscall.SIGTERM)
		}
		return a.finish(child)
	}
}

// listenHere listens on an address that is reachable only from this machine.
func listenHere(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usageError("--listen %s: expected HOST:PORT, such as 127.0.0.1:8080", address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usageError("--listen %s: not a loopback address: expected 127.0.0.1:PORT, [::1]:PORT or localhost:PORT", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", address, errors.Unwrap(err))
	}
	return listener, nil
}

func (a *app) webServer(flags webFlags, args []string, isCommand bool, history *web.History, dir *store.Store) (*web.Server, *child, error) {
	if isCommand {
		return a.webOfCommand(flags, args, history, dir)
	}
	if a.socket == "" && !isNumber(args[0]) {
		if dir != nil {
			server, err := webOfStore(flags, history, dir)
			return server, nil, err
		}
		server, err := a.webOfFiles(flags, args, history)
		return server, nil, err
	}
	t, _, err := a.dial(args)
	if err != nil {
		return nil, nil, err
	}
	server, err := webOfProcess(flags, t, history, dir)
	return server, nil, err
}

// openStore opens the folder of --store, or the stored folder to show. It returns nil if there is neither.
func (flags *webFlags) openStore(args []string, isProcess bool, size int64) (*store.Store, error) {
	if !isProcess && len(args) > 0 && !isNumber(args[0]) {
		if flags.store != "" {
			return nil, usageError("--store %s: stores the data of a process; %s is not one: expected a process id, or a command after --", flags.store, args[0])
		}
		return openStoreDir(args)
	}
	if flags.store == "" {
		return nil, nil
	}
	return store.Create(flags.store, size)
}

// openStoreDir opens a folder written by --store. It returns nil if the arguments are files.
func openStoreDir(args []string) (*store.Store, error) {
	for _, arg := range args {
		if info, err := os.Stat(arg); err != nil || !info.IsDir() {
			continue
		}
		if len(args) > 1 {
			return nil, usageError("%s is a folder: expected a single folder of --store, or files", arg)
		}
		return store.Open(arg)
	}
	return nil, nil
}

func webOfStore(flags webFlags, history *web.History, dir *store.Store) (*web.Server, error) {
	run, err := history.Reopen(dir)
	if err != nil {
		return nil, err
	}
	options := flags.options(run.Title)
	options.PID = run.PID
	if options.Kinds, err = history.StoredKinds(kinds()); err != nil {
		return nil, err
	}
	return web.NewServer(options, history, nil, nil)
}

// parseSize reads 64K, 256M or 2G in the format of the library's options.
func parseSize(text string) (int64, error) {
	shift := 0
	if digits := strings.TrimRight(text, "KMGT"); len(digits) == len(text)-1 {
		shift = 10 * (1 + strings.IndexByte("KMGT", text[len(digits)]))
		text = digits
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, errors.New("expected a size")
	}
	return n << shift, nil
}

func webOfProcess(flags webFlags, t *target, history *web.History, dir *store.Store) (*web.Server, error) {
	process := webProcess(t)
	between := web.MomentInterval
	if dir != nil {
		if err := history.StoreIn(dir, time.Now().UnixMilli(), t.name, t.pid, flags.announce); err != nil {
			return nil, err
		}
		between = time.Second
	}
	options := flags.options(t.name)
	options.Kinds = kinds()
	return web.NewServer(options, history, process, web.Watch(process, history, between))
}

func (f *webFlags) options(title string) web.Options {
	return web.Options{Title: title, AllowSet: f.allowSet, SourcePath: f.sourcePath, TrimPath: f.trimPath}
}

func webProcess(t *target) *web.Process {
	process := web.NewProcess(t.Client, t.name, t.pid, func(p *profile.Profile) { symbolize.Profile(p, symbolize.Files{PID: t.pid}) })
	process.Dial = t.redial
	return process
}

// kinds lists the kinds that kindsHelp describes.
func kinds() []web.Kind {
	var list []web.Kind
	for _, line := range strings.Split(kindsHelp, "\n") {
		entry, ok := strings.CutPrefix(line, "  ")
		switch {
		case ok && !strings.HasPrefix(entry, " "):
			name, what, _ := strings.Cut(entry, " ")
			list = append(list, web.Kind{Name: name, What: strings.TrimSpace(what)})
		case ok && len(list) > 0 && list[len(list)-1].What == "": // a long name is on a line of its own
			list[len(list)-1].What = strings.TrimSpace(entry)
		}
	}
	return list
}

// delayGC delays the garbage collector until the browser shows the content of the files: nearly all data read is
// kept, and collecting the rest of a large profile takes a fifth of the time until then. The uncollected garbage is
// less than half of the data that is kept.
func delayGC(files []string) (collect func(after time.Duration)) {
	const limit = 256 << 20 // maximum size of the files for which collection is delayed
	size := int64(0)
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	percent := -1
	if size > limit {
		percent = 400
	}
	usual := debug.SetGCPercent(percent)
	return func(after time.Duration) {
		time.AfterFunc(after, func() { debug.SetGCPercent(usual) })
	}
}

func (a *app) webOfFiles(flags webFlags, files []string, history *web.History) (server *web.Server, err error) {
	const shown = 2 * time.Second // after the page has been built
	collect := delayGC(files)
	defer func() {
		if err != nil {
			collect(0)
		}
	}()
	type saved struct {
		name    string
		profile *profile.Profile
	}
	var all []saved
	timeless := ""
	for _, file := range files {
		p, err := readProfile(file)
		if err != nil {
			return nil, err
		}
		symbolize.Profile(p, symbolize.Files{})
		all = append(all, saved{filepath.Base(file), p})
		if p.TimeNanos == 0 {
			timeless = file
		}
	}
	if timeless == "" {
		slices.SortStableFunc(all, func(a, b saved) int { return cmp.Compare(a.profile.TimeNanos, b.profile.TimeNanos) })
	} else if len(all) > 1 {
		a.warn(timeless + " has no time: the files are shown in the given order, without growth")
	}
	var names []string
	for _, one := range all {
		history.AddFile(one.name, one.profile)
		names = append(names, one.name)
	}
	server, err = web.NewServer(flags.options(strings.Join(names, ", ")), history, nil, nil)
	if err == nil {
		server.Prepare(func() { collect(shown) })
	}
	return server, err
}

// webOfCommand starts the command and waits until it answers. If its page cannot be shown, the command is ended.
func (a *app) webOfCommand(flags webFlags, args []string, history *web.History, dir *store.Store) (*web.Server, *child, error) {
	started, err := a.startChild(flags.run, args)
	if err != nil {
		return nil, nil, err
	}
	server, err := a.webOfChild(flags, started, history, dir)
	if err != nil {
		started.end()
		return nil, nil, err
	}
	return server, started, nil
}

func (a *app) webOfChild(flags webFlags, started *child, history *web.History, dir *store.Store) (*web.Server, error) {
	pid := strconv.Itoa(started.command.Process.Pid)
	for deadline := time.Now().Add(flags.startTimeout); time.Now().Before(deadline); time.Sleep(doctorFirst) {
		select {
		case <-started.ended:
			return nil, fmt.Errorf("%s ended before it answered (%s)", started.name(), started.command.ProcessState)
		default:
		}
		if t, _, err := a.dial([]string{pid}); err == nil {
			return webOfProcess(flags, t, history, dir)
		}
	}
	return nil, fmt.Errorf("%s does not answer after %s: does it run on seemalloc?", started.name(), flags.startTimeout)
}

// inForegroundGroup reports whether Ctrl-C on the terminal reaches this process and the processes that it has started.
func inForegroundGroup() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// finish waits for the command and returns its exit status.
func (a *app) finish(r *child) error {
	const timeout = 2 * time.Second
	select {
	case <-r.ended:
	case <-time.After(timeout):
		a.warn(fmt.Sprintf("waiting for %s to end; `kill %d` ends it", r.name(), r.command.Process.Pid))
		<-r.ended
	}
	return exitError{nil, exitStatus(r.command.ProcessState)}
}

func (r *child) name() string {
	return fmt.Sprintf("%s (pid %d)", filepath.Base(r.command.Path), r.command.Process.Pid)
}
