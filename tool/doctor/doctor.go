// Package doctor says in plain words what is wrong with a process's memory, and what to change.
//
// It looks twice at everything that the library and the kernel report (Take), with some time between, and has each check
// (checks.go) judge the pair. A check is a function of the pair alone; its thresholds stand in thresholds.go.
package doctor

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
)

// Snapshot is one look at a process. What could not be had is nil, and the checks that need it say so.
type Snapshot struct {
	Stats   *attach.Stats
	Threads []attach.Thread
	Tasks   map[int]Task // by thread id in the process's own pid namespace
	Memory  *Memory
	Limits  []Limit
	// Mappings is how many mappings of the address space it has, of how many it may have.
	Mappings *attach.Mappings
	Options  map[string]string
	Heap     *profile.Profile
	// NoHeap is the process's answer if Heap is nil.
	NoHeap string
	Remote *profile.Profile // blocks that other threads than their own have freed

	// What is free in half-empty spans, by whose blocks keep them.
	Fragmentation *profile.Profile

	// Name gives names to the addresses of a profile; it is called for those only that a finding needs.
	Name func(*profile.Profile)
	// Hide names functions that are no places; nil: none.
	Hide *regexp.Regexp
}

// Task is what the kernel says of a thread.
type Task struct {
	Name  string
	CPUNS int64
}

// Memory is /proc/PID/smaps_rollup, in bytes.
type Memory struct {
	RSS, AnonHugePages int64
}

// Limit is a memory cgroup with a limit that the process is in.
type Limit struct {
	Group    string // its path below the mount
	File     string // what holds the limit: memory.max, memory.high, memory.limit_in_bytes
	Bytes    int64
	Used     int64 // without file cache that can be dropped
	Failures int64 // how often the limit was met
	Kills    int64 // processes that the kernel has killed for it
}

// Pair is two looks at one process.
type Pair struct {
	Before, After *Snapshot
}

// Seconds is the time between the looks.
func (p Pair) Seconds() float64 {
	return float64(p.After.Stats.TimeNS-p.Before.Stats.TimeNS) / float64(time.Second)
}

// perSecond is a count's growth.
func (p Pair) perSecond(count func(*attach.Stats) int64) float64 {
	grown := count(p.After.Stats) - count(p.Before.Stats)
	if grown <= 0 || p.Seconds() <= 0 {
		return 0
	}
	return float64(grown) / p.Seconds()
}

// option is a number that the process has set, or otherwise.
func (p Pair) option(name string) (int64, bool) {
	value, err := strconv.ParseInt(p.After.Options[name], 10, 64)
	return value, err == nil
}

// Severity is how much a finding matters.
type Severity string

// In this order they are shown.
const (
	Severe  Severity = "severe"  // it costs much, or is about to
	Warning Severity = "warning" // it costs
	Note    Severity = "note"    // good to know
)

var severities = []Severity{Severe, Warning, Note}

// Finding is something that is wrong.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	Figure   string   `json:"figure"`
	Value    float64  `json:"value"` // the figure's number, in bytes, bytes per second, a count or a share of 1
	Why      string   `json:"why"`
	Change   []string `json:"change"`
	Places   string   `json:"places,omitempty"` // what the sites are
	Sites    []Site   `json:"sites,omitempty"`  // the largest ones first
}

// Look is what a check looked at, also where it has found nothing.
type Look struct {
	ID   string `json:"id"`
	What string `json:"what"`
	Seen string `json:"seen"`
	// Missing says why it could not look, "" when it could.
	Missing string `json:"missing,omitempty"`
}

// Diagnosis is the outcome of all checks.
type Diagnosis struct {
	Seconds  float64   `json:"seconds"` // how long it was looked at
	Findings []Finding `json:"findings"`
	Looks    []Look    `json:"looked_at"`
	// Mappings is nil where the kernel does not tell.
	Mappings *attach.Mappings `json:"mappings,omitempty"`
}

// Kind says which pairs a check is made for.
type Kind int

const (
	// State checks judge how things are. They want the same in both looks, however far these are apart.
	State Kind = 1 << iota
	// Rate checks judge what happened between the looks: the farther apart, the better.
	Rate
	// All is both.
	All = State | Rate
)

// Check is one of the things that may be wrong.
type Check struct {
	ID, What string
	Kind     Kind
	// Judge returns what it has seen, and a finding or nil. An error says why it cannot tell.
	Judge func(Pair) (seen string, finding *Finding, err error)
}

// Examine makes the checks of these kinds.
func Examine(p Pair, kinds Kind) *Diagnosis {
	d := &Diagnosis{Seconds: p.Seconds(), Findings: []Finding{}, Looks: []Look{}, Mappings: p.After.Mappings}
	for _, check := range checks {
		if check.Kind&kinds == 0 {
			continue
		}
		look := Look{ID: check.ID, What: check.What}
		seen, finding, err := check.Judge(p)
		if err != nil {
			look.Missing = err.Error()
		}
		look.Seen = seen
		d.Looks = append(d.Looks, look)
		if finding != nil {
			finding.ID = check.ID
			d.Findings = append(d.Findings, *finding)
		}
	}
	d.sort()
	return d
}

// Worse takes over from other what is worse there, and what was not looked at here.
func (d *Diagnosis) Worse(other *Diagnosis) {
	d.Seconds = max(d.Seconds, other.Seconds)
	if other.Mappings != nil {
		d.Mappings = other.Mappings // the last ones
	}
	for _, finding := range other.Findings {
		at := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.ID == finding.ID })
		switch {
		case at < 0:
			d.Findings = append(d.Findings, finding)
		case finding.Value > d.Findings[at].Value:
			d.Findings[at] = finding
		}
	}
	for _, look := range other.Looks {
		at := slices.IndexFunc(d.Looks, func(l Look) bool { return l.ID == look.ID })
		switch {
		case at < 0:
			d.Looks = append(d.Looks, look)
		case look.Missing == "":
			d.Looks[at] = look // the last one
		}
	}
	d.sort()
}

// sort puts the worst first, and looks in the order of the checks.
func (d *Diagnosis) sort() {
	order := func(id string) int {
		return slices.IndexFunc(checks, func(c Check) bool { return c.ID == id })
	}
	slices.SortStableFunc(d.Findings, func(a, b Finding) int {
		if a.Severity != b.Severity {
			return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
		}
		return order(a.ID) - order(b.ID)
	})
	slices.SortStableFunc(d.Looks, func(a, b Look) int { return order(a.ID) - order(b.ID) })
}
