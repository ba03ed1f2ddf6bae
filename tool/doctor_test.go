package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"seemalloc/tool/attach/fake"
)

// serveCopying makes this test process look like a program on seemalloc in which realloc copies this many bytes between
// two successive queries, which are a second apart.
func serveCopying(t *testing.T, bytes int) (pid string, server *fake.Server) {
	t.Helper()
	server = serve(t)
	asked := 0
	server.Answers["stats"] = func([]string) string {
		asked++
		return fmt.Sprintf(`{"pid":%d,"time_ns":%d000000000,"memory":{"rss":104857600,"live":104857600,"live_allocated":104857600},
			"sampling":{"interval":524288},"realloc":{"copies":%d,"copied_bytes":%d}}`, os.Getpid(), asked, asked, asked*bytes)
	}
	server.Answers["threads"] = func([]string) string {
		return fmt.Sprintf(`{"time_ns":%d,"threads":[{"tid":%d,"list_bytes":100}],"left_out":0}`, asked, os.Getpid())
	}
	return strconv.Itoa(os.Getpid()), server
}

func TestDoctor(t *testing.T) {
	pid, _ := serveCopying(t, 1<<30)
	got := tool(t, nil, "doctor", pid, "--for", "100ms")
	if got.status != 3 || got.err != "" {
		t.Errorf("status %d, %q", got.status, got.err)
	}
	for _, want := range []string{"(pid " + pid + "), checked for 1.0 s: 1 finding\n\n1. SEVERE: Growing blocks are copied  [realloc-copies]\n",
		"1.00 GiB/s copied by realloc", "\n  ?? blocks far larger than requested", "no heap profile could be taken: unknown command profile"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in\n%s", want, got.out)
		}
	}
	var answer struct {
		Source   string
		PID      int
		Seconds  float64
		Findings []struct{ ID, Severity string }
		Looks    []struct{ ID, Seen, Missing string } `json:"looked_at"`
	}
	if err := json.Unmarshal([]byte(tool(t, nil, "doctor", pid, "--for", "100ms", "--json").out), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.PID != os.Getpid() || answer.Seconds != 1 || len(answer.Findings) != 1 || answer.Findings[0].ID != "realloc-copies" ||
		answer.Findings[0].Severity != "severe" || len(answer.Looks) != 11 {
		t.Errorf("%+v", answer)
	}
}

func TestDoctorFindsNothing(t *testing.T) {
	pid, server := serveCopying(t, 1000)
	if out := tool(t, nil, "doctor", pid, "--for", "100ms").expectSuccess(t); !strings.Contains(out, ": nothing found\n") {
		t.Error(out)
	}
	delete(server.Answers, "threads") // an older library
	out := tool(t, nil, "doctor", pid, "--for", "100ms").expectSuccess(t)
	if strings.Count(out, "?? ") < 2 || !strings.Contains(out, "too old to report it") {
		t.Error(out)
	}
	server.Answers["threads"] = func([]string) string { return "[1" }
	tool(t, nil, "doctor", pid, "--for", "100ms").expectFailure(t, 1, "list of threads is not readable")
}
