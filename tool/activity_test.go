package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"seemalloc/tool/attach/fake"
)

// serveCounting makes this test process look like a program on seemalloc. Between two successive queries one second
// passes and the counters change.
func serveCounting(t *testing.T) (pid string, server *fake.Server) {
	t.Helper()
	server = serve(t)
	asked := 0
	server.Answers["stats"] = func(args []string) string {
		if len(args) != 1 || args[0] != "brief" {
			return "error not asked briefly"
		}
		asked++
		return fmt.Sprintf(`{"pid":1,"time_ns":%d000000000,"memory":{"rss":104857600,"live_allocated":73400320,"dirty":1048576},
			"blocks":{"live_bytes":73400320,"cached_bytes":524288,"free_bytes":524288},
			"system":{"minor_faults":%d,"calls":[{"call":"mmap","reason":"growth","calls":%d,"bytes":1,"refused":0,"ns":%d0000000}]},
			"a_field_from_the_future":[1]}`, asked, asked*100, asked*3, asked)
	}
	return strconv.Itoa(os.Getpid()), server
}

func TestStat(t *testing.T) {
	pid, _ := serveCounting(t)
	out := lines(tool(t, nil, "activity", pid, "--interval", "10ms", "--count", "22").expectSuccess(t))
	if len(out) != 22+4 {
		t.Fatalf("%d lines:\n%s", len(out), strings.Join(out, "\n"))
	}
	for i, line := range out {
		header := i < 2 || i == 22 || i == 23
		if got := strings.Join(strings.Fields(line), " "); !header && got != "100.0 70.0 1.0 1.0 100 0 0 0.0 3 0.0 0 0 0 1.0" {
			t.Errorf("line %d: %s", i, line)
		}
	}
	for _, line := range lines(tool(t, nil, "activity", pid, "--interval", "10ms", "--count", "3", "--json").expectSuccess(t)) {
		var stat struct {
			Seconds, RSS float64
			Faults       float64 `json:"minor_faults_per_s"`
		}
		if err := json.Unmarshal([]byte(line), &stat); err != nil || stat.Seconds != 1 || stat.RSS != 104857600 || stat.Faults != 100 {
			t.Errorf("%v %+v in %s", err, stat, line)
		}
	}
}

func TestStatWhenTheLibraryRefuses(t *testing.T) {
	pid, server := serveCounting(t)
	server.Answers["stats"] = func([]string) string { return "error no memory for the statistics" }
	tool(t, nil, "activity", pid).expectFailure(t, 1, "no memory for the statistics")
}

// serveTrace answers `trace` with one event, and then with `then`.
func serveTrace(t *testing.T, then string) (pid string, commands *[]string) {
	t.Helper()
	pid, server := serveCounting(t)
	commands = new([]string)
	server.Answers["trace"] = func(args []string) string {
		*commands = append(*commands, args[0])
		switch {
		case args[0] == "start":
			return "5"
		case args[0] == "stop":
			return ""
		case len(*commands) == 2:
			return fmt.Sprintf("1000 mmap growth 2097152 7000 %s 4096 0 0x12,0x11\nlost 0 dropped 0 more 0\n", pid)
		}
		return then
	}
	return pid, commands
}

func TestTrace(t *testing.T) {
	pid, commands := serveTrace(t, "lost 1 dropped 0 more 0\n")
	out := tool(t, nil, "trace", pid, "--for", "350ms").expectSuccess(t)
	if !regexp.MustCompile(`(?m)^  0\.000000 mmap +growth +2\.00 MiB +7\.0 us +` + pid + ` +4,096  0x11$`).MatchString(out) {
		t.Errorf("no event in\n%s", out)
	}
	if !strings.Contains(out, "Events lost 1 ") {
		t.Errorf("no losses in\n%s", out)
	}
	if (*commands)[len(*commands)-1] != "stop" {
		t.Errorf("asked %v", *commands)
	}
}

func TestTraceHides(t *testing.T) {
	pid, _ := serveTrace(t, "lost 0 dropped 0 more 0\n")
	if out := tool(t, nil, "trace", pid, "--for", "150ms", "--hide", "^0x11$", "--stacks").expectSuccess(t); !strings.Contains(out, "4,096  0x10\n             0x10\n") {
		t.Errorf("got\n%s", out)
	}
}

func TestTraceThatIsEnded(t *testing.T) {
	pid, _ := serveTrace(t, "error this trace has ended: it was not read for 5 s")
	r := tool(t, nil, "trace", pid, "--for", "10s")
	if r.status != 1 || !strings.Contains(r.err, "not read for 5 s") || !strings.Contains(r.out, "mmap") {
		t.Errorf("status %d, %s\n%s", r.status, r.err, r.out)
	}
}
