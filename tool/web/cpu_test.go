package web

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach/fake"
)

// cpuSocket is the CPU profiler of an imaginary process: one profile at a time, each with a number.
type cpuSocket struct {
	mutex   sync.Mutex
	running int // number of the running profile; 0: none
	last    int
	refuses string // the error for a start
	asked   []string
	hangs   int // this many stop commands are not answered in time
}

func (c *cpuSocket) answer(args []string) string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.asked = append(c.asked, strings.Join(args, " "))
	switch {
	case args[0] == "start" && c.refuses != "":
		return "error " + c.refuses
	case args[0] == "start" && c.running != 0:
		return "error a CPU profile is running already"
	case args[0] == "start":
		c.last++
		c.running = c.last
		return fmt.Sprint(c.running)
	case len(args) != 2 || args[1] != fmt.Sprint(c.last):
		return "error no such CPU profile: another one has started since"
	}
	c.running = 0
	if c.hangs > 0 {
		c.hangs--
		time.Sleep(patience + time.Second) // longer than the client waits
	}
	return c.profile()
}

// profile returns the data of the last profile. It contains the profile's number.
func (c *cpuSocket) profile() string {
	p := heapOf(time.Now(), map[string]int64{fmt.Sprintf("spins_in_%d", c.last): 30})
	p.SampleType = []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}
	p.PeriodType, p.Period, p.DurationNanos, p.DefaultSampleType = p.SampleType[1], 10_000_000, 500_000_000, "cpu"
	p.Sample[0].Value = []int64{30, 300_000_000}
	p.Comments = []string{"cpu: the process used 310000000 ns; the samples stand for 300000000 ns"}
	var data bytes.Buffer
	_ = p.WriteUncompressed(&data)
	return data.String()
}

func (c *cpuSocket) wasAsked() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return append([]string{}, c.asked...)
}

// patience is the time-out in tests where an answer does not arrive. It is long enough for the other answers on a busy
// machine.
const patience = 5 * time.Second

func cpuProcess(t *testing.T, allowSet bool) (base string, cpu *cpuSocket, socket *fake.Server, server *Server) {
	t.Helper()
	return cpuProcessFor(t, time.Minute, allowSet)
}

func cpuProcessFor(t *testing.T, patience time.Duration, allowSet bool) (base string, cpu *cpuSocket, socket *fake.Server, server *Server) {
	t.Helper()
	socket = fake.Start(t, filepath.Join(t.TempDir(), "process.sock"))
	cpu = &cpuSocket{}
	socket.Answers["cpu"] = cpu.answer
	socket.Answers["profile"] = func(args []string) string {
		if args[0] != "cpu" {
			return onlyHeap(args)
		}
		cpu.mutex.Lock()
		defer cpu.mutex.Unlock()
		return cpu.profile()
	}
	server = watchedFor(t, patience, socket, allowSet, nil)
	return listen(t, server), cpu, socket, server
}

// cpuUntil waits until the state fulfils the condition.
func cpuUntil(t *testing.T, base, what string, is func(cpuState) bool) (state cpuState) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		state = cpuState{}
		get(t, base+"api/cpu", &state)
		if is(state) {
			return state
		}
		if time.Now().After(deadline) {
			t.Fatalf("never %s: %+v", what, state)
		}
	}
}

func TestPageProfilesCPUTime(t *testing.T) {
	base, cpu, _, _ := cpuProcess(t, true)
	if state := cpuUntil(t, base, "idle", func(s cpuState) bool { return !s.Running }); state.For != 10 || state.Hz != 100 || state.Rounds != 0 {
		t.Errorf("before: %+v", state)
	}
	for round := 1; round <= 2; round++ {
		began := time.Now()
		if status, body := send(t, base+"api/cpu", `{"for_s":2.5,"hz":250}`); status != http.StatusOK || !strings.Contains(body, `"running":true`) {
			t.Fatalf("%d %s", status, body)
		}
		cpuUntil(t, base, "on its way", func(s cpuState) bool { return s.Running && s.Elapsed > 0 && s.For == 2.5 && s.Hz == 250 })
		state := cpuUntil(t, base, "over", func(s cpuState) bool { return !s.Running })
		if took := time.Since(began); took < 2500*time.Millisecond {
			t.Errorf("it was over after %s", took)
		}
		if said := strings.Join(state.Said, "\n"); state.Rounds != round || state.Problem != "" || !strings.Contains(said, "30 samples") || !strings.Contains(said, "the process used 310.00 ms") {
			t.Errorf("afterwards: %+v", state)
		}
		// The profile of this round, even immediately after the previous one.
		if _, body := get(t, base+"api/profile?kind=cpu", nil); !strings.Contains(body, fmt.Sprintf(`"spins_in_%d"`, round)) {
			t.Errorf("round %d: %s", round, body)
		}
	}
	want := "start 250 32500, stop 1, start 250 32500, stop 2"
	if got := strings.Join(cpu.wasAsked(), ", "); got != want {
		t.Errorf("the process was asked %s, want %s", got, want)
	}
}

func TestCPUProfileStoppedEarly(t *testing.T) {
	base, _, _, _ := cpuProcess(t, true)
	began := time.Now()
	send(t, base+"api/cpu", `{"for_s":600,"hz":100}`)
	for range 2 { // a second click has no effect
		if status, body := send(t, base+"api/cpu/stop", `{}`); status != http.StatusOK && status != http.StatusConflict {
			t.Errorf("%d %s", status, body)
		}
	}
	if state := cpuUntil(t, base, "over", func(s cpuState) bool { return !s.Running }); state.Rounds != 1 || time.Since(began) > 9*time.Minute {
		t.Errorf("%+v after %s", state, time.Since(began))
	}
}

func TestCPUProfilesAreRejectedWithAReason(t *testing.T) {
	expect := func(base, path, request string, wantStatus int, want string) {
		t.Helper()
		if status, body := send(t, base+path, request); status != wantStatus || !strings.Contains(body, want) {
			t.Errorf("%s %s: %d %s instead of %d %s", path, request, status, body, wantStatus, want)
		}
	}
	base, cpu, _, _ := cpuProcess(t, false)
	expect(base, "api/cpu", `{"for_s":1,"hz":100}`, http.StatusForbidden, "--allow-set")
	expect(base, "api/cpu/stop", `{}`, http.StatusForbidden, "--allow-set")
	if asked := cpu.wasAsked(); len(asked) != 0 {
		t.Errorf("the process was asked %v", asked)
	}
	base, cpu, _, _ = cpuProcess(t, true)
	expect(base, "api/cpu", `{"for_s":0,"hz":100}`, http.StatusBadRequest, "0 s: expected more than 0 and at most 3600")
	expect(base, "api/cpu", `{"for_s":3601,"hz":100}`, http.StatusBadRequest, "3601 s: expected")
	expect(base, "api/cpu", `{"for_s":1,"hz":4001}`, http.StatusBadRequest, "4001 samples a second: expected 1 to 4000")
	expect(base, "api/cpu", `ten`, http.StatusBadRequest, "expected {")
	expect(base, "api/cpu/stop", `{}`, http.StatusConflict, "no CPU profile started on this page")
	cpu.refuses = "the program handles SIGPROF itself"
	expect(base, "api/cpu", `{"for_s":1,"hz":100}`, http.StatusBadRequest, "the program handles SIGPROF itself")
	cpu.refuses = ""
	cpu.answer([]string{"start"}) // by another client
	expect(base, "api/cpu", `{"for_s":1,"hz":100}`, http.StatusConflict, "it can only be stopped there")
	expect(base, "api/cpu/stop", `{}`, http.StatusConflict, "no CPU profile started on this page")
	if cpu.running != 1 {
		t.Error("another client's profile was ended")
	}
	cpu.answer([]string{"stop", "1"})
	expect(base, "api/cpu", `{"for_s":600,"hz":100}`, http.StatusOK, "true")
	expect(base, "api/cpu", `{"for_s":1,"hz":100}`, http.StatusConflict, "started on this page is already running")
	// Another client stops our profile and starts its own: the server does not touch that profile, and reports that
	// ours is lost.
	cpu.answer([]string{"stop", "2"})
	cpu.answer([]string{"start"})
	expect(base, "api/cpu/stop", `{}`, http.StatusOK, "")
	state := cpuUntil(t, base, "over", func(s cpuState) bool { return !s.Running })
	if !strings.Contains(state.Problem, "another one has started since") || cpu.running != 3 {
		t.Errorf("%+v, and %d runs", state, cpu.running)
	}
	files, _ := serve(t)
	expect(files, "api/cpu", `{"for_s":1,"hz":100}`, http.StatusBadRequest, "there is no process to query")
}

// A process that does not answer in time is queried again. If it ends, the data fetched so far is kept.
func TestCPUProfileSurvivesTimeoutAndExit(t *testing.T) {
	base, cpu, socket, _ := cpuProcessFor(t, patience, true)
	cpu.hangs = 1
	send(t, base+"api/cpu", `{"for_s":0.1,"hz":100}`)
	state := cpuUntil(t, base, "over", func(s cpuState) bool { return !s.Running })
	if asked := cpu.wasAsked(); state.Problem != "" || len(state.Said) == 0 || len(asked) < 3 {
		t.Errorf("%+v after %v", state, asked)
	}
	send(t, base+"api/cpu", `{"for_s":600,"hz":100}`)
	if _, body := get(t, base+"api/profile?kind=cpu", nil); !strings.Contains(body, "spins_in_2") {
		t.Errorf("while it runs: %s", body)
	}
	_ = os.Remove(socket.Path)
	for _, command := range []string{"stats", "ping", "profile"} { // the connection is lost
		socket.Raw[command] = ""
	}
	state = cpuUntil(t, base, "over", func(s cpuState) bool { return !s.Running })
	if !strings.Contains(state.Problem, "The process ended before the profile") {
		t.Errorf("%+v", state)
	}
	if status, body := get(t, base+"api/profile?kind=cpu", nil); status != http.StatusOK || !strings.Contains(body, "spins_in_2") {
		t.Errorf("after its end: %d %s", status, body)
	}
}
