package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// page starts `seemalloc web` and returns its address.
func page(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	command := exec.Command(binary, append([]string{"web"}, args...)...)
	command.Env = append(os.Environ(), "XDG_CACHE_HOME="+cacheHome)
	command.Stderr = os.Stderr
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	address, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return command, strings.TrimSpace(address)
}

func ask(t *testing.T, address string, into any) {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", address, response.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
}

// The tool is killed while it observes a process: the directory holds everything that the page has shown, up to the
// second before the last one.
func TestKilledToolLosesAtMostOneSecond(t *testing.T) {
	pid := serveSelf(t, buildShop(t).profileBytes(t))
	dir := filepath.Join(t.TempDir(), "history")
	command, address := page(t, "--store", dir, pid)
	type timed struct {
		Time int64 `json:"t"`
		ID   int   `json:"id"`
	}
	var points, moments []timed
	for deadline := time.Now().Add(10 * time.Minute); len(points) < 4 || len(moments) < 3; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d points and %d moments in a minute", len(points), len(moments))
		}
		ask(t, address+"api/series?since=0", &points)
		ask(t, address+"api/moments", &moments)
	}
	tool(t, nil, "web", dir).expectFailure(t, 1, dir+": is in use by another seemalloc (pid "+fmt.Sprint(command.Process.Pid)+")")
	tool(t, nil, "web", "--store", dir, pid).expectFailure(t, 1, "is in use by another seemalloc")
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()

	_, again := page(t, dir)
	var kept, keptMoments []timed
	ask(t, again+"api/series?since=0", &kept)
	ask(t, again+"api/moments", &keptMoments)
	if len(kept) < len(points) || kept[len(points)-1] != points[len(points)-1] {
		t.Errorf("%d points were shown, %d are kept", len(points), len(kept))
	}
	if len(keptMoments) < len(moments) || keptMoments[len(moments)-1] != moments[len(moments)-1] {
		t.Errorf("%d moments were shown, %d are kept", len(moments), len(keptMoments))
	}
	var stacks struct {
		Values, Base [][]int64
		Frames       []struct{ N string }
	}
	ask(t, again+"api/profile?at=3&base=1", &stacks)
	if len(stacks.Base) == 0 || len(stacks.Base) != len(stacks.Values) || !strings.Contains(fmt.Sprint(stacks.Frames), "shop::till") {
		t.Errorf("%+v", stacks)
	}
}

func TestReportOfAStore(t *testing.T) {
	pid := serveSelf(t, buildShop(t).profileBytes(t))
	dir := filepath.Join(t.TempDir(), "history")
	command, address := page(t, "--store", dir, pid)
	var moments []any
	for deadline := time.Now().Add(10 * time.Minute); len(moments) == 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		ask(t, address+"api/moments", &moments)
	}
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatalf("interrupted: %v", err)
	}
	if out := tool(t, nil, "report", dir, "-o", "-").expectSuccess(t); !strings.Contains(out, `"shop::till"`) || !strings.Contains(out, `"rss":104857600`) {
		t.Errorf("%d bytes without what was seen", len(out))
	}
}

func TestStoreRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "letter.txt")
	if err := os.WriteFile(text, []byte("Dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"web", dir}, 1, "there is no history.db in it"},
		{[]string{"web", dir, text}, 2, dir + " is a folder"},
		{[]string{"web", "--store", dir, "1"}, 1, "holds other files"},
		{[]string{"web", "--store", dir, text}, 2, "stores the data of a process"},
		{[]string{"web", "--store", dir, "--store-size", "1M", "1"}, 2, "--store-size 1M: expected a size of 16M or more"},
		{[]string{"web", "--store", dir, "--store-size", "much", "1"}, 2, "--store-size much: expected"},
		{[]string{"report", dir}, 1, "there is no history.db in it"},
	} {
		tool(t, nil, test.args...).expectFailure(t, test.status, test.want)
	}
}
