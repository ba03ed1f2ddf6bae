package web

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/growth"
	"seemalloc/tool/testseed"
)

// heapOf builds a profile of functions, each called by main, with these live bytes.
func heapOf(at time.Time, bytes map[string]int64) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1, TimeNanos: at.UnixNano(), DefaultSampleType: "inuse_space",
	}
	location := func(name string) *profile.Location {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: name + ".cc"}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 7}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		return l
	}
	main := location("main")
	for name, value := range bytes {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{location(name), main}, Value: []int64{value / 100, value}})
	}
	return p
}

// Two leaks among noise are found with their rates. A fluctuating value is no suspect.
func TestLeaksComeFirst(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	noise := func(about float64) int64 { return int64(about * (1 + random.NormFloat64()/20)) }
	h := &History{}
	for i := range 30 {
		seconds := float64(5 * i)
		addToHistory(h, heapOf(time.Unix(1e9+int64(seconds), 0), map[string]int64{
			"leak_fast": 1000 + int64(1e6*seconds), "leak_slow": noise(1e6) + int64(1e5*seconds), "steady": noise(5e7), "swings": int64(5e7 * (1 + math.Sin(seconds))),
		}), false)
	}
	all, err := GrowthSuspects(h.Moments(), 10)
	if err != nil || len(all) < 2 {
		t.Fatalf("%v, %v", all, err)
	}
	if all[0].Stack[0] != "leak_fast" || math.Abs(all[0].PerS-1e6) > 1e4 || all[0].Certainty < 0.999 || len(all[0].Stack) != 2 {
		t.Errorf("first %+v", all[0])
	}
	if slow := all[1]; slow.Stack[0] != "leak_slow" || math.Abs(slow.PerS-1e5) > 2e4 || slow.Certainty < 0.999 || len(slow.Values) != 30 {
		t.Errorf("second %+v", slow)
	}
	if times := all[1].Times; len(times) != 30 || times[0] != 1e12 || times[29] != 1e12+29*5000 {
		t.Errorf("times %v", times)
	}
	// After this many periods the value ends slightly above its start.
	if len(all) != 2 {
		t.Errorf("other suspects: %+v", all[2:])
	}
}

// Filters apply before the ranking is cut, so that their results are not lost behind others.
func TestSuspectsOfChosenFunctions(t *testing.T) {
	h := &History{}
	for i := range int64(6) {
		addToHistory(h, heapOf(time.Unix(1e9+5*i, 0), map[string]int64{"leak_a": 1000 + 3e6*i, "leak_b": 1000 + 2e6*i, "leak_c": 1000 + 1e6*i}), false)
	}
	for query, want := range map[string]string{"": "leak_a", "focus=LEAK_C": "leak_c", "ignore=_a%7C_c": "leak_b", "focus=main&ignore=leak_a": "leak_b", "focus=none": ""} {
		all, err := suspectsOf(h.Moments(), growth.MinMoments, 1, filterOf(t, query), Moment.rows)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(all) > 0 {
			got = all[0].Stack[0]
		}
		if got != want {
			t.Errorf("%q: %q instead of %q", query, got, want)
		}
	}
}

// Sizes and modules select rows before the ranking, and the cached results of one selection are not used for another.
func TestSuspectsOfChosenSizesAndModules(t *testing.T) {
	h := &History{}
	add := func(i int64) {
		p := heapOf(time.Unix(1e9+5*i, 0), map[string]int64{"leak_a": 1000 + 2e6*i, "leak_b": 1000 + 1e6*i})
		app, lib := &profile.Mapping{ID: 1, File: "/bin/app"}, &profile.Mapping{ID: 2, File: "/lib/libb.so"}
		p.Mapping = []*profile.Mapping{app, lib}
		for _, sample := range p.Sample {
			sample.NumLabel = map[string][]int64{"bytes": {64}}
			sample.Location[0].Mapping, sample.Location[1].Mapping = app, app // main as well
			if sample.Location[0].Line[0].Function.Name == "leak_b" {
				sample.NumLabel["bytes"] = []int64{4096}
				sample.Location[0].Mapping = lib
			}
		}
		addToHistory(h, p, false)
	}
	for i := range int64(6) {
		add(i)
	}
	var chosen filteredLiveBytes
	first := func(query string) string {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := newLabelFilter(q)
		if err != nil {
			t.Fatal(err)
		}
		all, err := chosen.suspects(h.Moments(), growth.MinMoments, 1, filterOf(t, query), rows)
		if err != nil || len(all) == 0 {
			return fmt.Sprint(err)
		}
		return fmt.Sprint(all[0].Stack[0], " ", len(all[0].Values))
	}
	for _, query := range []string{"", "module=app", "size_to=64", "size_from=1&size_to=4095"} {
		if got := first(query); got != "leak_a 6" {
			t.Errorf("%q: %q", query, got)
		}
	}
	for _, query := range []string{"module=libb.so", "size_from=4096", "module=libb.so&size_from=65", "module=libb.so&size_from=65"} {
		if got := first(query); got != "leak_b 6" {
			t.Errorf("%q: %q", query, got)
		}
	}
	add(6)
	if got := first("module=libb.so&size_from=65"); got != "leak_b 7" {
		t.Errorf("with a new moment: %q", got)
	}
	for _, query := range []string{"module=none", "module=app&size_from=65"} {
		if got := first(query); got != "<nil>" {
			t.Errorf("%q: %q", query, got)
		}
	}
	last, _ := h.Moment(0)
	if p, err := last.Profile(); err != nil || !slices.Equal(modulesOf(p), []string{"app", "libb.so"}) {
		t.Errorf("%v, %v", modulesOf(p), err)
	}
}

// The key of a selection depends on everything that selects rows.
func TestFilterKeysAreDistinct(t *testing.T) {
	known := map[string]string{}
	for _, query := range []string{"", "size_from=1", "size_to=1", "size_from=1&size_to=1", "thread=a", "thread=b", "labels=a%3Db", "labels=a%3Dc", "labels=a%3Db%26c%3Dd", "thread=a&size_to=1"} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		f, err := newLabelFilter(q)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := known[f.key()]; ok {
			t.Errorf("%q and %q have the key %q", other, query, f.key())
		}
		known[f.key()] = query
	}
}

// heapByThread is a heap in which each thread holds this many bytes with the same stack.
func heapByThread(at time.Time, bytes map[string]int64) *profile.Profile {
	p := heapOf(at, map[string]int64{"holds": 0})
	locations := p.Sample[0].Location
	p.Sample = nil
	for thread, value := range bytes {
		p.Sample = append(p.Sample, &profile.Sample{Location: locations, Value: []int64{value / 100, value}, Label: map[string][]string{"thread": {thread}}})
	}
	return p
}

func suspectsAt(t *testing.T, url string) []Suspect {
	t.Helper()
	var all []Suspect
	if status, body := get(t, url, nil); status != http.StatusOK {
		t.Fatalf("%s: %d %s", url, status, body)
	}
	get(t, url, &all)
	return all
}

// Saved profiles with threads are ranked by thread. For others this is refused and not offered.
func TestSuspectsOfThreadsInFiles(t *testing.T) {
	tell, others := &History{}, &History{}
	for i := range int64(6) {
		at := time.Unix(1e9+5*i, 0)
		tell.AddProfile(heapByThread(at, map[string]int64{"reader": 1000 + 1e6*i, "writer 1": 1000 + 3e6*i, "idle": 5e6}))
		others.AddProfile(heapOf(at, map[string]int64{"holds": 1000 + 1e6*i}))
	}
	server, err := NewServer(Options{}, tell, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := listen(t, server)
	for query, want := range map[string]float64{"": 4e6 / 5, "?thread=reader": 1e6 / 5, "?thread=%5Ewriter": 3e6 / 5, "?thread=idle": 0, "?thread=nobody": 0} {
		all, got := suspectsAt(t, base+"api/suspects"+query), 0.0
		if len(all) > 0 {
			got = all[0].PerS
		}
		if math.Abs(got-want) > 1 {
			t.Errorf("%q: %v a second instead of %v", query, got, want)
		}
	}
	var offered choices
	if get(t, base+"api/choices", &offered); !slices.Equal(offered.Threads, []string{"idle", "reader", "writer 1"}) {
		t.Errorf("%+v", offered)
	}
	if server, err = NewServer(Options{}, others, nil, nil); err != nil {
		t.Fatal(err)
	}
	base = listen(t, server)
	if status, body := get(t, base+"api/suspects?thread=reader", nil); status != http.StatusBadRequest || !strings.Contains(body, "thread=reader: the saved profiles have no threads") {
		t.Errorf("%d %s", status, body)
	}
	if get(t, base+"api/choices", &offered); offered.Threads != nil {
		t.Errorf("%+v", offered)
	}
}

// For a process, profiles with threads are taken and kept while a page requests them. They remain after it has ended.
func TestSuspectsOfThreadsInAProcess(t *testing.T) {
	base, socket, server := process(t, false)
	server.options.Kinds = []Kind{{Name: "heap"}, {Name: threadsKind}}
	heap := socket.Answers["profile"]
	var taken, refuses atomic.Int64
	socket.Answers["profile"] = func(args []string) string {
		if args[0] != threadsKind {
			return heap(args)
		}
		if refuses.Load() > 0 {
			return "error it has ended"
		}
		i := taken.Add(1)
		var body bytes.Buffer
		_ = heapByThread(time.Unix(1e9+5*i, 0), map[string]int64{"reader": 1000 + 1e6*i, "writer": 1000 + 3e6*i}).WriteUncompressed(&body)
		return body.String()
	}
	wait := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	wait("there is no moment", func() bool { return len(server.history.Moments()) > 0 })
	var offered choices
	if get(t, base+"api/choices", &offered); offered.Threads == nil || len(offered.Threads) > 0 {
		t.Errorf("before anybody asked: %+v", offered)
	}
	if suspectsAt(t, base+"api/suspects?last=0"); taken.Load() > 0 {
		t.Error("threads were not requested")
	}
	var all []Suspect
	wait("nothing grows", func() bool {
		all = suspectsAt(t, base+"api/suspects?thread=reader")
		return len(all) > 0 && len(all[0].Values) >= 6
	})
	if one := all[0]; one.Stack[0] != "holds" || math.Abs(one.PerS-1e6/5) > 1 || one.Now != one.Values[len(one.Values)-1] || one.Times[0] != 1e12+5000 {
		t.Errorf("%+v", one)
	}
	if all = suspectsAt(t, base+"api/suspects?last=20&thread=WRITER%7Cwriter"); len(all) != 1 || math.Abs(all[0].PerS-3e6/5) > 1 || len(all[0].Values) != 5 {
		t.Errorf("the last 20 s: %+v", all)
	}
	if get(t, base+"api/choices", &offered); !slices.Equal(offered.Threads, []string{"reader", "writer"}) {
		t.Errorf("%+v", offered)
	}
	refuses.Store(1)
	if all = suspectsAt(t, base+"api/suspects?thread=reader"); len(all) != 1 {
		t.Errorf("what was seen is gone: %+v", all)
	}
}

func TestTooFewMomentsHaveNoSuspects(t *testing.T) {
	h := &History{}
	for i := range growth.MinMoments - 1 {
		addToHistory(h, heapOf(time.Unix(1e9+int64(i), 0), map[string]int64{"leak": int64(i) << 20}), false)
	}
	if all, err := GrowthSuspects(h.Moments(), 10); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// What grew between two files is shown, without a claim that it was steady.
func TestSuspectsBetweenTwoFiles(t *testing.T) {
	h := &History{}
	for i := range int64(2) {
		h.AddFile("file", heapOf(time.Unix(1e9+20*i, 0), map[string]int64{"leak": 1e6 + 4e6*i, "steady": 5e6}))
	}
	server, err := NewServer(Options{}, h, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := suspectsAt(t, listen(t, server)+"api/suspects?last=0")
	if len(all) != 1 || all[0].Stack[0] != "leak" || math.Abs(all[0].PerS-2e5) > 1 || all[0].Steady || len(all[0].Values) != 2 {
		t.Errorf("%+v", all)
	}
}

// A rate requires times.
func TestFilesWithoutTimesHaveNoSuspects(t *testing.T) {
	for _, timeless := range []int{-1, 3} {
		h := &History{}
		for i := range 2 * growth.MinMoments {
			p := heapOf(time.Unix(1e9+int64(i), 0), map[string]int64{"leak": int64(1+i) << 20})
			if i == timeless {
				p.TimeNanos = 0
			}
			h.AddFile("file", p)
		}
		if all, err := GrowthSuspects(h.Moments(), 10); err != nil || (len(all) == 1) != (timeless < 0) {
			t.Errorf("file %d without a time: %v, %v", timeless, all, err)
		}
	}
}

// Cached data about stacks is released with the profiles that contain them, because a program may produce ever new
// stacks.
func TestOldStacksAreDropped(t *testing.T) {
	const alone = "SEEMALLOC_TEST_ALONE" // the live heap is that of the process, and the servers of other tests keep profiles too
	if os.Getenv(alone) == "" {
		child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		child.Env = append(os.Environ(), alone+"=1")
		if said, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
		return
	}
	h := &History{}
	inHeap := func() int64 {
		var m runtime.MemStats
		for range 3 { // also collect objects that were reachable from freed ones
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inHeap()
	const perMoment, nameBytes = 50, 2000
	padding := strings.Repeat("x", nameBytes)
	for i := range 10 * maxMoments {
		bytes := map[string]int64{}
		for j := range perMoment {
			bytes[fmt.Sprint(i, "-", j, padding)] = 100
		}
		m := addToHistory(h, heapOf(time.Unix(1e9+int64(5*i), 0), bytes), false)
		if _, err := m.held(); err != nil { // as Suspects does
			t.Fatal(err)
		}
	}
	// Each name is stored in a profile and once more as part of a stack. The factor 2 allows for spare capacity.
	grown, most := inHeap()-before, int64(2*2*maxMoments*perMoment*nameBytes)
	for tries := 0; grown > most && tries < 1500; tries++ { // the package unique releases values in the background, which may take a while on a busy machine
		time.Sleep(20 * time.Millisecond)
		grown = inHeap() - before
	}
	if grown > most {
		t.Errorf("%d bytes in use for %d moments, at most %d expected", grown, len(h.Moments()), most)
	}
	runtime.KeepAlive(h)
}
