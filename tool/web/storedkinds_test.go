package web

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach/fake"
	"seemalloc/tool/store"
)

const oneRegion = `{"region":"0xffff900000200000","used":256,"live_bytes":7,"most":64,"parts":[]}
{"end":1,"page_bytes":8192,"os_page_bytes":4096,"left_out":0}
`

// everyKind answers for a process that supports these kinds of profiles.
func everyKind(socket *fake.Server, kinds ...Kind) {
	socket.Answers["map"] = func([]string) string { return oneRegion }
	socket.Answers["profile"] = func(args []string) string {
		for _, kind := range kinds {
			if kind.Name != args[0] {
				continue
			}
			p := heapOf(time.Now(), map[string]int64{"of_" + kind.Name: 700})
			p.SampleType = []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}, {Type: "requested_space", Unit: "bytes"}}
			p.DefaultSampleType = "alloc_space"
			p.Sample[0].Value = []int64{7, 700, 600}
			p.Sample[0].NumLabel = map[string][]int64{"bytes": {100}}
			var data bytes.Buffer
			_ = p.WriteUncompressed(&data)
			return data.String()
		}
		return onlyHeap(args)
	}
}

// No page has requested these while the process ran.
func TestStoreHasLastProfilesAndMap(t *testing.T) {
	dir := t.TempDir()
	s := folder(t, dir)
	socket := fake.Start(t, filepath.Join(t.TempDir(), "process.sock"))
	kinds := []Kind{{Name: "heap"}, {Name: "growth"}, {Name: "peak"}, {Name: "churn"}, {Name: "deaths"}, {Name: "unknown to this library"}}
	everyKind(socket, kinds[1:5]...)
	server := watched(t, socket, false, s, kinds...)
	names := []string{"map", "profile growth", "profile peak", "profile churn", "profile deaths"}
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		missing := 0
		for _, name := range names {
			if !server.history.hasNote(name) {
				missing++
			}
		}
		if missing == 0 && len(server.history.Moments()) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %v are not kept", missing, names)
		}
	}
	s.Close()

	again, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	h := &History{}
	if _, err := h.Reopen(again); err != nil {
		t.Fatal(err)
	}
	has, err := h.StoredKinds(kinds)
	if err != nil || fmt.Sprint(has) != fmt.Sprint(kinds[:5]) {
		t.Errorf("%v, %v", has, err)
	}
	reopened, err := NewServer(Options{Kinds: has}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := listen(t, reopened)
	for path, want := range map[string]string{
		"profile?kind=growth&at=0":             "of_growth",
		"profile?kind=peak&at=0&size_from=50":  "of_peak",
		"download?kind=churn&format=collapsed": "main;of_churn 700",
		"requests":                             `"requested":600`,
		"map":                                  "0xffff900000200000",
		"state":                                `"map":true`,
		"profile?kind=lifetime&at=0":           "404 lifetime: no profile of this kind was stored",
		"lifetimes":                            "404 lifetime: no profile",
		"profile?kind=churn&at=0&seconds=5":    "400 saved profiles are shown",
		"map/parts?from=0x200000&to=0x400000":  "400 saved profiles are shown",
		"report":                               "of_deaths",
		"profile?kind=growth&at=0&base=1":      `400 kind="growth" is taken on request`,
	} {
		status, body := get(t, base+"api/"+path, nil)
		if got := fmt.Sprintf("%d %s", status, body); !strings.Contains(got, want) {
			t.Errorf("%s: %.300s instead of %s", path, got, want)
		}
	}
	if status, body := get(t, base+"pprof/growth/top", nil); status != http.StatusOK || !strings.Contains(body, "of_growth") {
		t.Errorf("pprof: %d %.300s", status, body)
	}
}

// The next process is not shown with profiles of the previous one.
func TestStoreOfAnotherProcessHasNoEarlierProfiles(t *testing.T) {
	dir := t.TempDir()
	s := folder(t, dir)
	h := &History{}
	if err := h.StoreIn(s, 1, "one", 1, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	h.StoreProfile("growth", heapOf(time.Unix(1e9, 0), map[string]int64{"f": 1}))
	if err := h.StoreIn(s, 2, "two", 2, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	if p, err := h.storedProfile("growth"); !isMissing(err) {
		t.Errorf("%v, %v", p, err)
	}
}

// However long a query takes, all of them together keep the process busy for a hundredth of its time.
func TestStoringOtherKindsIsCheap(t *testing.T) {
	socket := fake.Start(t, filepath.Join(t.TempDir(), "process.sock"))
	taken := atomic.Int64{}
	const took = 50 * time.Millisecond // the next one is taken 5 s later
	kinds := []Kind{{Name: "growth"}, {Name: "peak"}, {Name: "churn"}}
	socket.Answers["profile"] = func(args []string) string {
		if args[0] == "heap" {
			return onlyHeap(args)
		}
		taken.Add(1)
		time.Sleep(took)
		return onlyHeap([]string{"heap"})
	}
	began := time.Now()
	watched(t, socket, false, folder(t, t.TempDir()), kinds...)
	for deadline := time.Now().Add(10 * time.Minute); taken.Load() == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
	}
	time.Sleep(2 * time.Second)
	if n, passed := taken.Load(), time.Since(began); n == 0 || n > 1+int64(passed/(100*took)) {
		t.Errorf("%d profiles in %s", n, passed)
	}
}
