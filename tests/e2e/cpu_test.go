package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"seemalloc/tool/attach"
)

// cpuReport is the part of `cpu --json` that the tests read.
type cpuReport struct {
	Type      string
	Total     int64
	Functions []struct {
		Name      string
		Flat, Cum int64
	}
	CPU struct {
		Samples     int64
		ProcessCPU  int64  `json:"process_cpu_ns"`
		EndedEarly  string `json:"ended_early"`
		Lost        int64
		BrokenStack int64 `json:"broken"`
	}
	Kernel []struct {
		Name      string
		NS        int64
		Functions []struct {
			Name string
			Flat int64
		}
		From []struct {
			Name string
			Flat int64
		}
	}
}

// cum returns the time of the largest function with this name: each module in Python has a <module>.
func (r cpuReport) cum(name string) int64 {
	var most int64
	for _, f := range r.Functions {
		if f.Name == name {
			most = max(most, f.Cum)
		}
	}
	return most
}

// expectTwoToOne checks the ratio that burn.cc produces, within the error of this number of samples.
func (r cpuReport) expectTwoToOne(t *testing.T) {
	t.Helper()
	two, one := float64(r.cum("burn_two")), float64(r.cum("burn_one"))
	if two+one == 0 || r.CPU.Samples == 0 {
		t.Fatalf("nothing of burn_two and burn_one in %+v", r)
	}
	share, tolerance := two/(two+one), 6*math.Sqrt(2.0/9/float64(r.CPU.Samples))+0.02
	if math.Abs(share-2.0/3) > tolerance {
		t.Errorf("burn_two has %.3f of it, want 0.667 ± %.3f (%d samples)", share, tolerance, r.CPU.Samples)
	}
	if two+one < 0.9*float64(r.Total) {
		t.Errorf("burn_two and burn_one are %.0f of %d ns", two+one, r.Total)
	}
}

func TestCPUOfAProcess(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", burn, "for", "1e9")
	waitFor(t, socketOf(p.pid))
	file := filepath.Join(t.TempDir(), "cpu.pb.gz")
	var r cpuReport
	for seconds := 2; seconds < 200 && r.CPU.Samples < 100; seconds *= 2 { // on a busy machine it takes longer to see enough
		r = cpuReport{}
		parse(t, tool(t, "cpu", p.pid, "--for", strconv.Itoa(seconds)+"s", "--hz", "200", "--json", "-n", "0", "-o", file), &r)
	}
	if r.Type != "cpu" || r.CPU.BrokenStack != 0 || r.CPU.Lost != 0 || r.CPU.EndedEarly != "" {
		t.Errorf("%+v", r)
	}
	r.expectTwoToOne(t)
	want, share := 100*float64(r.cum("burn_two"))/float64(r.Total), 0.0
	table := tool(t, "top", file, "--sort", "cum")
	if row := regexp.MustCompile(`(?m)^ +\S+ (?:ns|us|ms|s) .* \d+\.\d+ (?:ms|s) +(\d+\.?\d*)%  burn_two$`).FindStringSubmatch(table); row != nil {
		share, _ = strconv.ParseFloat(row[1], 64)
	}
	if math.Abs(share-want) > 0.1 {
		t.Errorf("no burn_two with %.2f %% of the time in\n%s", want, table)
	}
	// Again, as a table; and stopped manually.
	out := tool(t, "cpu", p.pid, "--for", "2s")
	if !regexp.MustCompile(`(?s)CPU time by function\nTotal .* samples, one per 10\.00 ms.*burn_(two|one)`).MatchString(out) {
		t.Errorf("no table:\n%s", out)
	}
	_, complaint, status := try(t, "cpu", p.pid, "--hz", "5000")
	if status != 2 || !strings.Contains(complaint, "--hz 5000: expected 1 to 4000") {
		t.Errorf("%d %s", status, complaint)
	}
}

func TestCPUOfARun(t *testing.T) {
	need(t)
	_, complaint, status := try(t, "cpu", "--hz", "500", "--json", "-n", "0", "--", burn, "for", "1.5")
	if status != 0 {
		t.Fatalf("status %d: %s", status, complaint)
	}
	var r cpuReport
	parse(t, complaint, &r)
	r.expectTwoToOne(t)
	if share := float64(r.Total) / float64(r.CPU.ProcessCPU); share < 0.8 || share > 1.1 {
		t.Errorf("the samples stand for %.2f of the time used: %+v", share, r.CPU)
	}
	if _, complaint, status := try(t, "cpu", "--", burn, "nothing"); status != 2 || !strings.Contains(complaint, "exit status 2") {
		t.Errorf("%d %s", status, complaint)
	}
}

func TestCPUOfShortThreads(t *testing.T) {
	need(t)
	_, complaint, status := try(t, "cpu", "--hz", "500", "--json", "-n", "0", "--", burn, "threads", "40")
	if status != 0 {
		t.Fatalf("status %d: %s", status, complaint)
	}
	var r cpuReport
	parse(t, complaint, &r)
	r.expectTwoToOne(t)
	if r.Total < 40*60e6*6/10 {
		t.Errorf("of 40 threads of 60 ms %d ns were seen", r.Total)
	}
}

// profiled runs burn.cc on the library with gperftools' variables.
func profiled(t *testing.T, variables []string, args ...string) (complaint string, status int) {
	t.Helper()
	complaint, state := profiledTo(t, variables, args...)
	return complaint, state.ExitCode()
}

// profiledTo is the same; it also returns how the program ended.
func profiledTo(t *testing.T, variables []string, args ...string) (complaint string, state *os.ProcessState) {
	t.Helper()
	command := exec.Command(burn, args...)
	command.Env = append(environment("LD_PRELOAD="+library), variables...)
	_, complaint = finish(t, command, nil)
	return complaint, command.ProcessState
}

var lastLine = regexp.MustCompile(`^PROFILE: interrupts/evictions/bytes = (\d+)/(\d+)/(\d+)\n$`)

func TestCPUPROFILE(t *testing.T) {
	need(t)
	file := filepath.Join(t.TempDir(), "50%done.prof")
	complaint, state := profiledTo(t, []string{"CPUPROFILE=" + file, "CPUPROFILE_FREQUENCY=250"}, "for", "1")
	match := lastLine.FindStringSubmatch(complaint)
	if !state.Success() || match == nil {
		t.Fatalf("%s, %s", state, complaint)
	}
	used := (state.UserTime() + state.SystemTime()).Seconds() // start-up and exit use some CPU time, too
	if n, _ := strconv.Atoi(match[1]); n < 50 || float64(n) > 250*used+10 {
		t.Errorf("%d interrupts in %.2f s of 250 a second", n, used)
	}
	info, err := os.Stat(file)
	if err != nil || strconv.FormatInt(info.Size(), 10) != match[3] {
		t.Errorf("%v, %s bytes", err, match[3])
	}
	if out := tool(t, "top", file, "--sort", "cum"); !strings.Contains(out, "burn_two") {
		t.Errorf("no burn_two in\n%s", out)
	}
}

// An argument that is not entirely a number is an error.
func TestCPUStartOverTheSocketIsStrict(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", burn, "for", "1e9")
	waitFor(t, socketOf(p.pid))
	conn := connect(t, p.pid)
	for request, want := range map[string]string{
		"100 5s": "error expected", "100 x": "error expected", "100 5 5": "error expected", "x": "error expected", "0": "error expected",
		"4001": "error expected", "99999999999999999999": "error expected", "100 99999999999999999999": "error expected",
	} {
		if _, err := fmt.Fprintf(conn, "cpu start %s\n", request); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.in.ReadString('\n'); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("cpu start %s: %q, %v, expected %s", request, got, err, want)
		}
	}
}

// The client that started a profile can end it and gets its samples, even if another client has ended it meanwhile;
// another client's profile is left alone.
func TestCPUProfilesHaveNumbersOverTheSocket(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", burn, "for", "1e9")
	waitFor(t, socketOf(p.pid))
	client, err := attach.DialSocket(socketOf(p.pid), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	start := func() string {
		t.Helper()
		number, err := client.Call("cpu", "start", "200", "60000")
		if _, notANumber := strconv.Atoi(string(number)); err != nil || notANumber != nil {
			t.Fatalf("it began as %q, %v", number, err)
		}
		p.useCPU(t, 300*time.Millisecond)
		return string(number)
	}
	first := start()
	if _, err := client.Call("cpu", "stop"); err != nil { // by another client
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cpu.pb")
	for range 2 {
		data, err := client.Call("cpu", "stop", first)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if out := tool(t, "top", file, "--sort", "cum"); !strings.Contains(out, "burn_two") {
			t.Errorf("no burn_two in\n%s", out)
		}
	}
	second := start()
	for command, want := range map[string]string{
		"cpu stop " + first: "another one has started since", "cpu stop x": "expected the number", "cpu stop " + second + " 1": "expected the number", "cpu stop 999999": "no such CPU profile",
	} {
		if _, err := client.Call(command); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", command, err, want)
		}
	}
	if _, err := client.Call("cpu", "stop"); err != nil {
		t.Errorf("the second one did not run any more: %v", err)
	}
}

// A child writes to the file with its process id, whether it executes a program or not. A process that is not a child
// by fork is left alone.
func TestCPUPROFILEOfChildren(t *testing.T) {
	need(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "cpu.prof")
	complaint, status := profiled(t, []string{"CPUPROFILE=" + file}, "bare")
	if files, _ := filepath.Glob(file + "*"); status != 0 || !lastLine.MatchString(complaint) || len(files) != 1 {
		t.Errorf("status %d, %s, %v", status, complaint, files)
	}
	for _, args := range [][]string{{"fork", "0.5"}, {"exec"}} {
		complaint, status := profiled(t, []string{"CPUPROFILE=" + file}, args...)
		files, _ := filepath.Glob(file + "_*")
		if status != 0 || len(files) != 1 || strings.Count(complaint, "PROFILE: ") != 2 {
			t.Fatalf("%v: status %d, %s, %v", args, status, complaint, files)
		}
		if out := tool(t, "top", files[0], "--sort", "cum"); !strings.Contains(out, "burn_two") {
			t.Errorf("%v: no burn_two in\n%s", args, out)
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// useCPU waits until the main thread has used this much more CPU time: on a busy machine that takes a while.
func (p *program) useCPU(t *testing.T, duration time.Duration) {
	t.Helper()
	used := func() (ns time.Duration) {
		data, err := os.ReadFile("/proc/" + p.pid + "/schedstat")
		if _, scanned := fmt.Sscan(string(data), &ns); err != nil || scanned != nil {
			t.Fatalf("%v, %v", err, scanned)
		}
		return ns
	}
	for end := used() + duration; used() < end; time.Sleep(20 * time.Millisecond) {
	}
}

func TestCPUPROFILESIGNAL(t *testing.T) {
	need(t)
	file := filepath.Join(t.TempDir(), "cpu.prof")
	p := launch(t, []string{"LD_PRELOAD=" + library, "CPUPROFILE=" + file, "CPUPROFILESIGNAL=12"}, burn, "for", "1e9")
	waitFor(t, socketOf(p.pid))
	const line = "PROFILE: interrupts/evictions/bytes = "
	for i, name := range []string{file + ".0", file + ".1"} {
		for _, use := range []time.Duration{500 * time.Millisecond, 0} {
			if err := p.Process.Signal(syscall.SIGUSR2); err != nil {
				t.Fatal(err)
			}
			p.useCPU(t, use)
		}
		dumped(t, name)
		soon(t, "the line of "+name, func() bool { return strings.Count(p.err.String(), line) > i })
		if out := tool(t, "top", name, "--sort", "cum"); !strings.Contains(out, "burn_two") {
			t.Errorf("no burn_two in\n%s", out)
		}
	}
	_ = p.Process.Kill()
	_ = p.Wait()
	if got := strings.Count(p.err.String(), line); got != 2 {
		t.Errorf("%d last lines: %s", got, p.err)
	}
	p.err.Reset()
}

// Our option without a file name: the process id and a number make one.
func TestCPUSignalWithoutAName(t *testing.T) {
	need(t)
	p := launch(t, []string{"LD_PRELOAD=" + library, "SEEMALLOC_CONF=at_start:1,cpu_signal:12,cpu_frequency:500"}, burn, "for", "1e9")
	waitFor(t, socketOf(p.pid))
	for i := 1; i <= 2; i++ {
		name := filepath.Join(work, fmt.Sprintf("seemalloc.%s.%d.cpu.pb", p.pid, i))
		for _, use := range []time.Duration{500 * time.Millisecond, 0} {
			if err := p.Process.Signal(syscall.SIGUSR2); err != nil {
				t.Fatal(err)
			}
			p.useCPU(t, use)
		}
		dumped(t, name)
		var r cpuReport
		parse(t, tool(t, "top", name, "--json", "-n", "0"), &r)
		if r.cum("burn_two") == 0 { // the helper thread starts the profile when it is scheduled: its duration is unknown
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Bad values are reported once, and the program continues.
func TestCPUPROFILEWithBadValues(t *testing.T) {
	need(t)
	complaint, status := profiled(t, []string{"CPUPROFILE=/nowhere/at/all", "CPUPROFILE_FREQUENCY=often"}, "for", "0.1")
	for _, want := range []string{`CPUPROFILE_FREQUENCY: bad value "often" ignored; expected a number from 1`, "CPU profile /nowhere/at/all could not be written (errno 2)"} {
		if !strings.Contains(complaint, want) {
			t.Errorf("%q is not in %s", want, complaint)
		}
	}
	if status != 0 || strings.Contains(complaint, "PROFILE: int") {
		t.Errorf("status %d, %s", status, complaint)
	}
}

func TestCPUOfAProgramThatHandlesSIGPROF(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", burn, "handler")
	waitFor(t, socketOf(p.pid))
	soon(t, "it handles SIGPROF", func() bool {
		status, err := os.ReadFile("/proc/" + p.pid + "/status")
		_, caught, found := strings.Cut(string(status), "SigCgt:")
		if err != nil || !found {
			t.Fatalf("%v: %s", err, status)
		}
		mask, err := strconv.ParseUint(strings.Fields(caught)[0], 16, 64)
		return err == nil && mask&(1<<(syscall.SIGPROF-1)) != 0
	})
	_, complaint, status := try(t, "cpu", p.pid, "--for", "1s")
	if status != 1 || !strings.Contains(complaint, "the program handles SIGPROF itself") {
		t.Errorf("status %d, %s", status, complaint)
	}
}

// Samples by the kernel: where permitted, page faults and madvise are distinguished, and the program's function is
// named.
func TestCPUByTheKernel(t *testing.T) {
	need(t)
	p := launch(t, nil, binary, "run", "--", burn, "kernel")
	waitFor(t, socketOf(p.pid))
	var r cpuReport
	for seconds := 2; seconds < 100 && r.Total < 500e6; seconds *= 2 { // on a busy machine it takes longer to see enough
		out, complaint, status := try(t, "cpu", p.pid, "--kernel", "--for", strconv.Itoa(seconds)+"s", "--hz", "500", "--json", "-n", "0")
		if status != 0 && (strings.Contains(complaint, "requires root") || strings.Contains(complaint, "perf_event_open")) {
			t.Skip(complaint)
		}
		if status != 0 {
			t.Fatalf("status %d, %s", status, complaint)
		}
		r = cpuReport{}
		parse(t, out, &r)
	}
	entries := map[string]int64{}
	for _, entry := range r.Kernel {
		entries[entry.Name] = entry.NS
	}
	if entries["page faults"] < r.Total/5 || entries["madvise"] == 0 {
		t.Errorf("of %d ns: %v", r.Total, entries)
	}
	for _, entry := range r.Kernel {
		sums := [2]int64{}
		for i, rows := range [][]struct {
			Name string
			Flat int64
		}{entry.Functions, entry.From} {
			for _, row := range rows {
				sums[i] += row.Flat
			}
		}
		if sums != [2]int64{entry.NS, entry.NS} {
			t.Errorf("%s: %d ns, by function and by who entered %v", entry.Name, entry.NS, sums)
		}
	}
	if runtime.GOARCH != "amd64" { // the kernel walks frame pointers, which the program does not have
		return
	}
	// The functions that entered the kernel, by whole stacks.
	for entry, by := range map[string]string{"page faults": "memset", "madvise": "madvise"} {
		for _, one := range r.Kernel {
			from := one.From[0].Name
			if one.Name == entry && (!strings.HasPrefix(from, "take_and_give_back (by ") || !strings.Contains(from, by) || one.From[0].Flat < one.NS/2) {
				t.Errorf("%s: entered from %+v, expected take_and_give_back by %s", entry, one.From, by)
			}
		}
	}
	if of := r.cum("main"); float64(of) < 0.98*float64(r.Total) || r.CPU.BrokenStack > r.CPU.Samples/50 {
		t.Errorf("main has %d of %d ns, %d of %d stacks are broken", of, r.Total, r.CPU.BrokenStack, r.CPU.Samples)
	}
}

// A forked child is included, from a tenth of a second on. A child that ends by _exit has no profile: the report
// mentions its time.
func TestCPUOfARunThatForks(t *testing.T) {
	need(t)
	_, complaint, status := try(t, "cpu", "--json", "-n", "0", "--", burn, "fork", "1.5")
	if status != 0 {
		t.Fatalf("status %d: %s", status, complaint)
	}
	var r cpuReport
	parse(t, complaint, &r)
	if seen := r.cum("burn_with_memory"); seen < 1e9 || seen > 2e9 || r.CPU.ProcessCPU < 1.65e9 {
		t.Errorf("%d ns of the child's 1.5 s: %+v", seen, r.CPU)
	}
	_, complaint, status = try(t, "cpu", "--", burn, "leave", "0.8")
	match := regexp.MustCompile(`Missing: .*?(\d+)\.\d+ ms of CPU time of processes that left no profile`).FindStringSubmatch(complaint)
	if status != 0 || match == nil {
		t.Fatalf("status %d: %s", status, complaint)
	}
	if ms, _ := strconv.Atoi(match[1]); ms < 750 || ms > 1400 { // the time of start-up and exit
		t.Errorf("%d ms, and the child used 800", ms)
	}
	if _, complaint, _ := try(t, "cpu", "--", burn, "exec"); strings.Contains(complaint, "left no profile") {
		t.Errorf("all have executed:\n%s", complaint)
	}
}

func TestCPUByTheKernelWithoutPermission(t *testing.T) {
	need(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root to be another user")
	}
	command := exec.Command(binary, "cpu", strconv.Itoa(os.Getpid()), "--kernel", "--for", "1s")
	command.Env = environment()
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	_, complaint := finish(t, command, nil)
	if command.ProcessState.ExitCode() != 1 || !strings.Contains(complaint, "requires root") {
		t.Errorf("status %d, %s", command.ProcessState.ExitCode(), complaint)
	}
}
