package attach_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seemalloc/tool/attach"
	"seemalloc/tool/attach/fake"
)

// An older library does not number its profiles: stop ends any running profile, and a profile that has already ended is
// not an error.
func TestCPUProfileWithAndWithoutNumbers(t *testing.T) {
	for _, test := range []struct {
		name, number, stopped string
		want                  string
	}{
		{"now", "12", "profile 12", "start 50 40000, stop 12"},
		{"older", "", "", "start 50 40000, stop, profile cpu"},
		{"older, ended by itself", "", "error no CPU profile is running", "start 50 40000, stop, profile cpu"},
	} {
		server := fake.Start(t, filepath.Join(t.TempDir(), "s"))
		var asked []string
		server.Answers["cpu"] = func(args []string) string {
			asked = append(asked, strings.Join(args, " "))
			if args[0] == "start" {
				return test.number
			}
			return test.stopped
		}
		server.Answers["profile"] = func(args []string) string {
			asked = append(asked, "profile "+args[0])
			return "profile 12"
		}
		client, err := attach.DialSocket(server.Path, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		running, err := attach.StartCPU(client, 50, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		data, err := running.Stop(client)
		if err != nil || string(data) != "profile 12" {
			t.Errorf("%s: %q, %v", test.name, data, err)
		}
		if got := strings.Join(asked, ", "); got != test.want {
			t.Errorf("%s: it was asked %s, want %s", test.name, got, test.want)
		}
		client.Close()
	}
}

func TestCPUProfileIsRefused(t *testing.T) {
	server := fake.Start(t, filepath.Join(t.TempDir(), "s"))
	client, err := attach.DialSocket(server.Path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := attach.StartCPU(client, 100, time.Second); err == nil || !strings.Contains(err.Error(), "older than this tool") {
		t.Errorf("a library without a CPU profiler: %v", err)
	}
	server.Answers["cpu"] = func([]string) string { return "error the program handles SIGPROF itself" }
	var refused *attach.ServerError
	if _, err := attach.StartCPU(client, 100, time.Second); !errors.As(err, &refused) || refused.Text != "the program handles SIGPROF itself" {
		t.Errorf("%v", err)
	}
}
