package web

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"seemalloc/tool/report"
	"seemalloc/tool/store"
)

func folder(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Create(dir, store.MinSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// reopen serves the data of a folder.
func reopen(t *testing.T, dir string) (base string, h *History) {
	t.Helper()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h = &History{}
	run, err := h.Reopen(s)
	if err != nil {
		t.Fatal(err)
	}
	server, err := NewServer(Options{Title: run.Title, PID: run.PID}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, server), h
}

// Moments that are no longer in memory are in the folder: they are listed by time and found by id, and any two can be
// compared, also after a restart.
func TestEvictedMomentsAreReadFromDisk(t *testing.T) {
	dir := t.TempDir()
	s := folder(t, dir)
	h := &History{}
	const begin, count = int64(1e9), 300
	if err := h.StoreIn(s, 1000*begin, "made-up (pid 7)", 7, func(error) {}); err != nil {
		t.Fatal(err)
	}
	for i := range int64(count) {
		h.Add(Point{Time: 1000 * (begin + i), RSS: i})
		addToHistory(h, heapOf(time.Unix(begin+i, 0), map[string]int64{"leak": 1000 * (i + 1), "steady": 5000}), false)
	}
	if err := h.Failure(); err != nil {
		t.Fatal(err)
	}
	if n := len(h.Moments()); n > maxMoments {
		t.Errorf("%d moments in memory", n)
	}
	inMemory := map[int]bool{}
	for _, m := range h.Moments() {
		inMemory[m.ID] = true
	}
	gone := 2
	for inMemory[gone] {
		gone++
	}
	check := func(base string) {
		t.Helper()
		var stacks Stacks
		if status, body := get(t, base+"api/profile?at="+strconv.Itoa(count)+"&base="+strconv.Itoa(gone), nil); status != http.StatusOK {
			t.Fatal(status, body)
		} else if err := json.Unmarshal([]byte(body), &stacks); err != nil {
			t.Fatal(err)
		}
		index := stacks.Default
		for i, stack := range stacks.Stacks {
			if stacks.Frames[stack[len(stack)-1]].Name == "leak" && (stacks.Values[i][index] != 1000*count || stacks.Base[i][index] != int64(1000*gone)) {
				t.Errorf("leak had %d and has %d", stacks.Base[i][index], stacks.Values[i][index])
			}
		}
		var listed []Moment
		get(t, base+"api/moments?from="+strconv.FormatInt(1000*(begin+100), 10)+"&until="+strconv.FormatInt(1000*(begin+149), 10), &listed)
		if len(listed) != 50 || listed[0].ID != 101 || listed[49].ID != 150 {
			t.Errorf("%d moments of 50 seconds", len(listed))
		}
		get(t, base+"api/moments", &listed)
		if len(listed) < maxListed || len(listed) > maxListed+maxMoments || listed[0].ID != 1 {
			t.Errorf("%d moments of all", len(listed))
		}
		for i := 1; i < len(listed); i++ {
			if listed[i].ID <= listed[i-1].ID {
				t.Fatal("a moment is listed twice")
			}
		}
		var points []Point
		get(t, base+"api/series?from="+strconv.FormatInt(1000*(begin+10), 10)+"&until="+strconv.FormatInt(1000*(begin+19), 10), &points)
		if len(points) != 10 || points[0].RSS != 10 || points[9].RSS != 19 {
			t.Errorf("%+v", points)
		}
		var suspects []Suspect
		get(t, base+"api/suspects?from="+strconv.FormatInt(1000*(begin+10), 10)+"&until="+strconv.FormatInt(1000*(begin+29), 10), &suspects)
		if len(suspects) != 1 || suspects[0].Stack[0] != "leak" || len(suspects[0].Values) != 20 || math.Abs(suspects[0].PerS-1000) > 1 {
			t.Errorf("%+v", suspects)
		}
	}
	server, err := NewServer(Options{}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	check(listen(t, server))
	s.Close()

	base, again := reopen(t, dir)
	check(base)
	if n := len(again.Since(0)); n != count {
		t.Errorf("%d points", n)
	}
	moments := again.Moments()
	if last := moments[len(moments)-1]; len(moments) > maxMoments || last.ID != count || last.InUse != 1000*count+5000 {
		t.Errorf("%d moments, the last one %+v", len(moments), last)
	}
	p, err := moments[0].Profile()
	if err != nil {
		t.Fatal(err)
	}
	if index, err := report.SampleIndex(p, "inuse", "bytes"); err != nil || report.Total(p, index) != moments[0].InUse {
		t.Errorf("the profile of %+v has another total (%v)", moments[0], err)
	}
	var now state
	get(t, base+"api/state", &now)
	if now.Title != "made-up (pid 7)" || now.PID != 7 || now.Live || now.Stored == nil || now.Stored.Dir != dir {
		t.Errorf("%+v", now)
	}
}

// A second process in the same folder continues where the first one ended.
func TestStoreContinues(t *testing.T) {
	dir := t.TempDir()
	for run := range int64(2) {
		s := folder(t, dir)
		h := &History{}
		if err := h.StoreIn(s, 1e12+1000*run, "run "+strconv.FormatInt(run, 10), int(run), func(error) {}); err != nil {
			t.Fatal(err)
		}
		if n := len(h.Since(0)); n != int(run) {
			t.Errorf("run %d begins with %d points", run, n)
		}
		h.Add(Point{Time: 1e12 + 1000*run})
		if m := addToHistory(h, heapOf(time.Unix(1e9+run, 0), map[string]int64{"f": 100}), false); m.ID != int(run)+1 {
			t.Errorf("run %d begins with moment %d", run, m.ID)
		}
		s.Close()
	}
	_, h := reopen(t, dir)
	if all := h.Moments(); len(all) != 1 || all[0].ID != 2 {
		t.Errorf("of the last run: %+v", all)
	}
	if all := h.Listed(0, noEnd, 10); len(all) != 2 {
		t.Errorf("of both: %+v", all)
	}
	// Growth is computed for one process: the last one that was observed in that time.
	for until, want := range map[int64]int{noEnd: 2, 1e12: 1} {
		if all := h.ListedOfOne(0, until, 10); len(all) != 1 || all[0].ID != want {
			t.Errorf("of one until %d: %+v", until, all)
		}
	}
	if points := h.Since(0); len(points) != 2 || points[0].Run != 1 || points[1].Run != 2 {
		t.Errorf("points of both: %+v", points)
	}
}

// A process that ended before its first profile has no profiles: neither those of the previous process nor its answers.
func TestNoDataOfThePreviousProcess(t *testing.T) {
	dir := t.TempDir()
	s := folder(t, dir)
	for run := range int64(2) {
		h := &History{}
		if err := h.StoreIn(s, 1e12+1000*run, "run "+strconv.FormatInt(run, 10), int(run), func(err error) { t.Error(err) }); err != nil {
			t.Fatal(err)
		}
		h.Add(Point{Time: 1e12 + 1000*run})
		if run == 0 {
			addToHistory(h, heapOf(time.Unix(2e9, 0), map[string]int64{"f": 100}), false) // with a clock that has been set back since
			h.StoreAnswer("doctor", "ill")
		}
	}
	s.Close()
	base, h := reopen(t, dir)
	if all := h.Moments(); len(all) != 0 {
		t.Errorf("moments of the process before: %+v", all)
	}
	if status, body := get(t, base+"api/doctor", nil); status != http.StatusNotFound {
		t.Errorf("doctor: %d %s", status, body)
	}
	if all := h.Listed(0, noEnd, 10); len(all) != 1 {
		t.Errorf("in the folder: %+v", all)
	}
}

func TestLastAnswersAreStored(t *testing.T) {
	dir := t.TempDir()
	s := folder(t, dir)
	base, _, server := processIn(t, false, s)
	deadline := time.Now().Add(10 * time.Minute)
	for len(server.history.Since(0)) == 0 || len(server.history.Moments()) == 0 || !server.history.hasNote("stats") || !server.history.hasNote("settings") {
		if time.Now().After(deadline) {
			t.Fatal("no request arrived")
		}
		time.Sleep(10 * time.Millisecond)
	}
	views := []string{"stats", "settings", "state", "moments", "series?since=0", "suspects?last=0", "profile?at=0"}
	live := map[string]string{}
	for _, name := range views {
		status, body := get(t, base+"api/"+name, nil)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
		}
		live[name] = body
	}
	s.Close()
	base, _ = reopen(t, dir)
	for _, name := range views {
		status, body := get(t, base+"api/"+name, nil)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if (name == "stats" || name == "settings") && strings.TrimSpace(body) != strings.TrimSpace(live[name]) {
			t.Errorf("%s:\n%s\ninstead of\n%s", name, body, live[name])
		}
	}
	if status, body := get(t, base+"api/doctor", nil); status != http.StatusNotFound || !strings.Contains(body, "it was not requested") {
		t.Errorf("doctor: %d %s", status, body)
	}
	if status, body := get(t, base+"api/report", nil); status != http.StatusOK || len(inlined(t, body).Profiles) == 0 {
		t.Errorf("report: %d", status)
	}
}

// A folder that cannot be written any more is reported, and the page continues to work.
func TestStoreFailureIsReported(t *testing.T) {
	s := folder(t, t.TempDir())
	h := &History{}
	told := 0
	if err := h.StoreIn(s, 1, "x", 1, func(error) { told++ }); err != nil {
		t.Fatal(err)
	}
	s.Close()
	h.Add(Point{Time: 5})
	h.Add(Point{Time: 6})
	server, err := NewServer(Options{}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var now state
	get(t, listen(t, server)+"api/state", &now)
	if now.Stored == nil || now.Stored.Problem == "" || len(h.Since(0)) != 2 || told != 1 {
		t.Errorf("%+v, told %d times", now.Stored, told)
	}
}

// Successful writes of points do not hide failed writes of profiles. A failure is reported once and not every second.
func TestWriteFailuresAreReportedByKind(t *testing.T) {
	s := folder(t, t.TempDir())
	h := &History{}
	var told []error
	if err := h.StoreIn(s, 1, "x", 1, func(err error) { told = append(told, err) }); err != nil {
		t.Fatal(err)
	}
	small := addToHistory(h, heapOf(time.Unix(1e9, 0), map[string]int64{"f": 100}), false)
	random := make([]byte, store.MinSize/8)
	for i := range int64(5) {
		p := heapOf(time.Unix(1e9+i, 0), map[string]int64{"f": 100})
		rand.New(rand.NewSource(i)).Read(random)
		p.Comments = []string{hex.EncodeToString(random)}
		addToHistory(h, p, false)
		h.Add(Point{Time: 1e12 + i})
		h.StoreAnswer("stats", i)
		h.Keep(small.ID)
		h.Keep(99)
		if err := h.Failure(); err == nil || !strings.Contains(err.Error(), "--store-size") {
			t.Fatalf("while profiles are too large: %v", err)
		}
	}
	if len(told) != 1 {
		t.Errorf("told %d times: %v", len(told), told)
	}
	addToHistory(h, heapOf(time.Unix(2e9, 0), map[string]int64{"f": 100}), false)
	if err := h.Failure(); err != nil {
		t.Errorf("after one that has room: %v", err)
	}
	s.Close()
	h.Add(Point{Time: 2e12})
	h.StoreAnswer("stats", 1)
	if len(told) != 2 {
		t.Errorf("of one cause, told %d times: %v", len(told)-1, told)
	}
}

// With a folder, memory holds only one profile, whatever is requested. Viewed moments are kept in both.
func TestProfilesAreStoredOnce(t *testing.T) {
	s := folder(t, t.TempDir())
	h := &History{}
	if err := h.StoreIn(s, 1, "x", 1, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // a page that sends requests in the meantime
		defer close(done)
		for range 50 {
			if _, err := GrowthSuspects(h.Moments(), 10); err != nil {
				t.Error(err)
			}
			if m, found := h.Keep(3); found {
				if p, err := m.Profile(); err != nil || len(p.Sample) != 2 {
					t.Errorf("%v, %v", p, err)
				}
			}
		}
	}()
	for i := range int64(100) {
		addToHistory(h, heapOf(time.Unix(1e9+i, 0), map[string]int64{"leak": 1000 * (i + 1), "steady": 5000}), false)
	}
	<-done
	inMemory := 0
	for _, m := range h.Moments() {
		if m.profile != nil {
			inMemory++
		}
		p, err := m.Profile()
		if err != nil {
			t.Fatal(err)
		}
		if inUse(p) != m.InUse {
			t.Errorf("moment %d has %d instead of %d", m.ID, inUse(p), m.InUse)
		}
	}
	if inMemory != 1 {
		t.Errorf("%d profiles in memory", inMemory)
	}
	h.Keep(3)
	if m, found := s.Moment(3); !found || !m.Pinned {
		t.Errorf("%+v is being viewed, but may be removed from the folder", m)
	}
}

// Moments that the folder has deleted are not listed any more.
func TestEvictedMomentIsNotListed(t *testing.T) {
	s := folder(t, t.TempDir())
	h := &History{}
	if err := h.StoreIn(s, 1, "x", 1, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, 1_500_000)
	for i := range int64(30) {
		p := heapOf(time.Unix(1e9+i, 0), map[string]int64{"f": 1000 * (i + 1)})
		rand.New(rand.NewSource(i)).Read(random)
		p.Comments = []string{hex.EncodeToString(random)}
		addToHistory(h, p, false)
	}
	all := h.Moments()
	if len(all) == 30 || len(all) < 3 || all[0].ID != 1 || all[len(all)-1].ID != 30 {
		t.Errorf("%d moments", len(all))
	}
	for _, m := range all {
		if _, err := m.Profile(); err != nil {
			t.Error(err)
		}
	}
}
