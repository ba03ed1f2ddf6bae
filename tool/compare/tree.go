package compare

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"time"
)

// The intervals at which processes are read. The first readings are close together, because most programs are short.
// One reading costs some tens of microseconds of this tool's time and nothing for the program.
const (
	firstReading = time.Millisecond
	LastReadings = 20 * time.Millisecond // also the maximum age of the last reading
	walkInterval = 100 * time.Millisecond
	walkPause    = 50 // multiple of the duration of the last walk, which reads one file per thread
)

// mapReadAges are the ages at which the memory map of a process is read. A process may execute another program, so the
// last reading counts.
var mapReadAges = []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second,
	5 * time.Second}

// loaderLimit is the number of readings after which the loader has certainly finished.
const loaderLimit = 4

// Tristate is the result of an observation.
type Tristate string

const (
	Unknown Tristate = "unknown" // the process ended too early
	Yes     Tristate = "yes"
	No      Tristate = "no"
)

// member is one process of the tree.
type member struct {
	pid      int
	first    time.Time
	last     status // the last reading with a nonzero size
	mapReads int
	loaded   Tristate
	linked   string // another allocator's library in its memory
}

// tree observes a process and its descendants. It belongs to one goroutine.
type tree struct {
	library string // to search for; "": that of any allocator
	members []*member
	began   time.Time
	walked  time.Time
	took    time.Duration // duration of the last walk
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
	every := walkInterval
	if now.Sub(t.began) < walkInterval {
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

// walk finds new descendants. It does not find new ones below a process that has ended.
func (t *tree) walk(now time.Time) {
	for i := 0; i < len(t.members); i++ { // the list grows in the loop
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
	if m.mapReads < len(mapReadAges) && now.Sub(m.first) >= mapReadAges[m.mapReads] {
		t.readMaps(m)
	}
}

func (t *tree) readMaps(m *member) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", m.pid))
	if err != nil || len(maps) == 0 {
		return
	}
	m.mapReads++
	switch {
	case t.library == "":
		m.linked = linkedAllocator(maps)
	case bytes.Contains(maps, []byte(t.library)):
		m.loaded = Yes
	case bytes.Contains(maps, []byte("/libc.so")) || m.mapReads >= loaderLimit || static(fmt.Sprintf("/proc/%d/exe", m.pid)):
		// Preloaded libraries are mapped before the libraries that the program needs.
		m.loaded = No
	}
}

// static reports whether the file is a program without a loader.
func static(path string) bool {
	file, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// largest returns the process with the highest peak.
func (t *tree) largest() *member {
	return slices.MaxFunc(t.members, func(a, b *member) int { return int(a.last.peak/kib - b.last.peak/kib) })
}

// used sums the resource usage so far over all living processes, each with the children that it has waited for.
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

// listens reports whether a process of the tree has a listening socket.
func (t *tree) listens() bool {
	return slices.ContainsFunc(t.members, func(m *member) bool { return listens(m.pid) })
}

// event is the reason for the end of a watch.
type event int

const (
	ended event = iota // the program ended on its own
	loadEnded
	timeUp
	ready
	cancelled
)

// events holds the events to watch for. A nil channel never fires.
type events struct {
	ended, load, cancelled <-chan struct{}
	timeUp                 <-chan time.Time
	ready                  func() bool
}

// watch takes readings until an event occurs.
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
