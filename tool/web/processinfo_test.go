package web

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"seemalloc/tool/attach"
)

// The page, the folder and a report tell which process they show. A report leaves out the command line, because it is
// for others.
func TestProcessInfo(t *testing.T) {
	dir := t.TempDir()
	s := folder(t, dir)
	began := time.Now().UnixMilli()
	base, _, server := processIn(t, false, s)
	deadline := time.Now().Add(10 * time.Minute)
	for !server.history.hasNote("process") || len(server.history.Since(0)) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no request arrived")
		}
		time.Sleep(10 * time.Millisecond)
	}
	var live, stored, reported processInfo
	get(t, base+"api/process", &live)
	host, _ := os.Hostname()
	const uptime = 61500 // of fake.Stats, in ms
	if live.Host != host || live.Version != "0.1.0" || live.Started < began-uptime || live.Started > time.Now().UnixMilli()-uptime {
		t.Errorf("%+v", live)
	}
	status, page := get(t, base+"api/report", nil)
	if status != http.StatusOK {
		t.Fatal(status, page)
	}
	if err := json.Unmarshal(inlined(t, page).Answers["process"], &reported); err != nil || reported.Version != live.Version || reported.Command != "" {
		t.Errorf("in a report: %+v, %v", reported, err)
	}
	s.Close()
	base, _ = reopen(t, dir)
	if get(t, base+"api/process", &stored); stored != live {
		t.Errorf("in the folder: %+v instead of %+v", stored, live)
	}
}

func TestCommandOfProcessInfo(t *testing.T) {
	at := time.Now()
	known := (&Process{PID: os.Getpid()}).infoOf(&attach.Stats{UptimeMS: 1000}, at)
	if !strings.Contains(known.Command, os.Args[0]) || known.Started != at.UnixMilli()-1000 {
		t.Errorf("%+v", known)
	}
	if unknown := (&Process{}).infoOf(&attach.Stats{}, at); unknown.Command != "" {
		t.Errorf("a process of which only the socket is known: %+v", unknown)
	}
}

func TestNoProcessInfo(t *testing.T) {
	base, _ := serve(t)
	if status, body := get(t, base+"api/process", nil); status != http.StatusBadRequest || !strings.Contains(body, "there is no process") {
		t.Errorf("of files: %d %s", status, body)
	}
	dir := t.TempDir()
	s := folder(t, dir)
	h := &History{}
	if err := h.StoreIn(s, 1e12, "old", 1, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	h.Add(Point{Time: 1e12})
	s.Close()
	base, _ = reopen(t, dir)
	if status, body := get(t, base+"api/process", nil); status != http.StatusOK || strings.TrimSpace(body) != "null" {
		t.Errorf("of an older tool's folder: %d %s", status, body)
	}
}
