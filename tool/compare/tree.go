package compare

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"time"
)

// How often processes are looked at. Readings begin close together, because most programs are short. One costs some tens
// of microseconds of this tool's time and none of the program's.
const (
	firstReading = time.Millisecond
	LastReadings = 20 * time.Millisecond // and so the age of the last reading at most
	walkEvery    = 100 * time.Millisecond
	walkPause    = 50 // times what the last walk took: it reads a file for each thread
)

// Ages at which a process's maps are looked at. A program may be replaced by another (exec), so the last look counts.
var lookAges = []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second,
	5 * time.Second}

// loaderLimit is the number of looks after which the loader is surely done.
const loaderLimit = 4

// Seen says whether something was seen.
type Seen string

const (
	Unknown Seen = "unknown" // the process ended too soon
	Yes     Seen = "yes"
	No      Seen = "no"
)

// member is one process of the tree.
type member struct {
	pid    int
	first  time.Time
	last   status // the last reading that had memory
	looks  int
	loaded Seen
	linked string // another allocator's library in its memory
}

// tree watches a process and its descendants. One goroutine uses it.
type tree struct {
	library string // to be looked for; "": any allocator's
	members []*member
	began   time.Time
	walked  time.Time
	took    time.Duration // by the last walk
	threads int
}

func newTree(pid int, library string) *tree {
	now := time.Now()
	t := &tree{library: library, began: now}
	t.add(pid, now)
	return t
}

func (t *tree) add(pid int, now time.Time) {
	m := &member{pid: pid, first: now}
	if t.library != "" {
		m.loaded = Unknown
	}
	t.members = append(t.members, m)
}

// sample reads every process once.
func (t *tree) sample() {
	now := time.Now()
	every := walkEvery
	if now.Sub(t.began) < walkEvery {
		every = 0
	}
	if now.Sub(t.walked) >= max(every, walkPause*t.took) {
		t.walk(now)
		t.walked, t.took = now, time.Since(now)
	}
	for _, m := range t.members {
		t.read(m, now)
	}
}

// walk finds new descendants. Those of a process that has ended are not found, only those that were known before.
func (t *tree) walk(now time.Time) {
	for i := 0; i < len(t.members); i++ { // grows meanwhile
		for _, child := range children(t.members[i].pid) {
			if !slices.ContainsFunc(t.members, func(m *member) bool { return m.pid == child }) {
				t.add(child, now)
			}
		}
	}
}

func (t *tree) read(m *member, now time.Time) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.pid))
	if err != nil {
		return
	}
	s := parseStatus(text)
	t.threads = max(t.threads, s.threads)
	if s.rss != 0 {
		m.last = s
	}
	if m.looks < len(lookAges) && now.Sub(m.first) >= lookAges[m.looks] {
		t.look(m)
	}
}

func (t *tree) look(m *member) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", m.pid))
	if err != nil || len(maps) == 0 {
		return
	}
	m.looks++
	switch {
	case t.library == "":
		m.linked = linkedAllocator(maps)
	case bytes.Contains(maps, []byte(t.library)):
		m.loaded = Yes
	case bytes.Contains(maps, []byte("/libc.so")) || m.looks >= loaderLimit || static(fmt.Sprintf("/proc/%d/exe", m.pid)):
		// Libraries to preload are mapped before those that the program needs.
		m.loaded = No
	}
}

// static says whether the file is a program that no loader prepares.
func static(path string) bool {
	file, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// largest is the process with the highest peak.
func (t *tree) largest() *member {
	return slices.MaxFunc(t.members, func(a, b *member) int { return int(a.last.peak/kib - b.last.peak/kib) })
}

// used is what the tree has used until now: of each living process, with the children that it has waited for.
func (t *tree) used() usage {
	var sum usage
	for _, m := range t.members {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
		if err != nil {
			continue
		}
		one, _ := parseStat(text)
		sum = sum.plus(one)
	}
	return sum
}

// listens says whether a process of the tree waits for clients.
func (t *tree) listens() bool {
	return slices.ContainsFunc(t.members, func(m *member) bool { return listens(m.pid) })
}

// event is what ended a watch.
type event int

const (
	ended event = iota // the program, by itself
	loadEnded
	timeUp
	ready
	cancelled
)

// events to watch for; nil ones never come.
type events struct {
	ended, load, cancelled <-chan struct{}
	timeUp                 <-chan time.Time
	ready                  func() bool
}

// watch samples until an event.
func (t *tree) watch(e events) event {
	interval := firstReading
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-e.cancelled:
			return cancelled
		case <-e.ended:
			return ended
		case <-e.load:
			return loadEnded
		case <-e.timeUp:
			return timeUp
		case <-timer.C:
			t.sample()
			if e.ready != nil && e.ready() {
				return ready
			}
			interval = min(2*interval, LastReadings)
			timer.Reset(interval)
		}
	}
}
