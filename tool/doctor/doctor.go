// Package doctor reports in plain words what is wrong with a process's memory and what to change.
//
// It takes two snapshots of the data that the library and the kernel report (Take), some time apart, and lets each
// check (checks.go) judge the pair. A check is a function of the pair alone. The thresholds are in thresholds.go.
package doctor

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/growth"
)

// Snapshot is the state of a process at one moment. Data that is not available is nil, and the checks that need it
// report that.
type Snapshot struct {
	Stats   *attach.Stats
	Threads []attach.Thread
	Tasks   map[int]Task // by thread id in the process's own pid namespace
	Memory  *Memory
	Limits  []Limit
	// Mappings is the number of mappings of the process and its limit.
	Mappings *attach.Mappings
	Options  map[string]string
	Heap     *profile.Profile
	// HeapRefusal is the process's reason if Heap is nil.
	HeapRefusal string
	Remote      *profile.Profile // blocks that were freed by another thread

	// Fragmentation holds the free memory in half-empty spans, by the sites that pin these spans with live blocks.
	Fragmentation *profile.Profile

	// Name symbolizes the addresses of a profile. It is called only for those that a finding needs.
	Name func(*profile.Profile)
	// Hide matches functions that are never sites; nil: none.
	Hide *regexp.Regexp
}

// Task holds the kernel's data about a thread.
type Task struct {
	Name  string
	CPUNS int64
}

// Memory is /proc/PID/smaps_rollup, in bytes.
type Memory struct {
	RSS, AnonHugePages int64
}

// Limit is a memory cgroup with a limit that applies to the process.
type Limit struct {
	Group    string // its path below the mount
	File     string // the file with the limit: memory.max, memory.high, memory.limit_in_bytes
	Bytes    int64
	Used     int64 // without page cache that can be dropped
	Failures int64 // how often the limit was hit
	Kills    int64 // processes that the kernel has killed because of it
}

// Pair is two snapshots of one process.
type Pair struct {
	Before, After *Snapshot
	// Growth is the result of the profiles in between; nil: there were none.
	Growth *growth.Result
	Limit  string // the limit of Growth's times
	// NoGrowth is the reason why Growth is nil, if it is not that a command is examined.
	NoGrowth string
}

// Seconds returns the time between the snapshots.
func (p Pair) Seconds() float64 {
	return float64(p.After.Stats.TimeNS-p.Before.Stats.TimeNS) / float64(time.Second)
}

// perSecond returns the growth of a count per second.
func (p Pair) perSecond(count func(*attach.Stats) int64) float64 {
	grown := count(p.After.Stats) - count(p.Before.Stats)
	if grown <= 0 || p.Seconds() <= 0 {
		return 0
	}
	return float64(grown) / p.Seconds()
}

// option returns a numeric option of the process.
func (p Pair) option(name string) (int64, bool) {
	value, err := strconv.ParseInt(p.After.Options[name], 10, 64)
	return value, err == nil
}

// Severity is the importance of a finding.
type Severity string

// The severities in display order.
const (
	Severe  Severity = "severe"  // costs much, or will soon
	Warning Severity = "warning" // has a cost
	Note    Severity = "note"    // information
)

var severities = []Severity{Severe, Warning, Note}

// Finding is a problem that a check has found.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	Figure   string   `json:"figure"`
	Value    float64  `json:"value"` // the number in Figure: bytes, bytes per second, a count, or a fraction of 1
	Why      string   `json:"why"`
	Change   []string `json:"change"`
	Places   string   `json:"places,omitempty"` // what the sites show
	Sites    []Site   `json:"sites,omitempty"`  // the largest first
}

// CheckResult is the data that a check examined, even without a finding.
type CheckResult struct {
	ID    string `json:"id"`
	Title string `json:"what"`
	Text  string `json:"seen"`
	// Missing is the reason why the check could not run, or "".
	Missing string `json:"missing,omitempty"`
}

// Diagnosis is the result of all checks.
type Diagnosis struct {
	Seconds  float64       `json:"seconds"` // the time between the snapshots
	Findings []Finding     `json:"findings"`
	Checks   []CheckResult `json:"looked_at"`
	// Mappings is nil if the kernel does not report them.
	Mappings *attach.Mappings `json:"mappings,omitempty"`
}

// Kind determines which pairs a check applies to.
type Kind int

const (
	// State checks judge the present state. Both snapshots must show the problem, no matter how far apart they are.
	State Kind = 1 << iota
	// Rate checks judge the events between the snapshots. A longer time gives a better result.
	Rate
	// All selects both kinds.
	All = State | Rate
)

// Check looks for one kind of problem.
type Check struct {
	ID, What string
	Kind     Kind
	// Evaluate returns the data that it examined, and a finding or nil. The error is the reason why it cannot judge.
	Evaluate func(Pair) (seen string, finding *Finding, err error)
}

// Examine runs the checks of these kinds.
func Examine(p Pair, kinds Kind) *Diagnosis {
	d := &Diagnosis{Seconds: p.Seconds(), Findings: []Finding{}, Checks: []CheckResult{}, Mappings: p.After.Mappings}
	for _, check := range checks {
		if check.Kind&kinds == 0 {
			continue
		}
		result := CheckResult{ID: check.ID, Title: check.What}
		seen, finding, err := check.Evaluate(p)
		if err != nil {
			result.Missing = err.Error()
		}
		result.Text = seen
		d.Checks = append(d.Checks, result)
		if finding != nil {
			finding.ID = check.ID
			d.Findings = append(d.Findings, *finding)
		}
	}
	d.sort()
	return d
}

// MergeWorse takes over from other the findings that are worse, and the checks that are missing in d.
func (d *Diagnosis) MergeWorse(other *Diagnosis) {
	d.Seconds = max(d.Seconds, other.Seconds)
	if other.Mappings != nil {
		d.Mappings = other.Mappings // the latest ones
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
	for _, result := range other.Checks {
		at := slices.IndexFunc(d.Checks, func(l CheckResult) bool { return l.ID == result.ID })
		switch {
		case at < 0:
			d.Checks = append(d.Checks, result)
		case result.Missing == "":
			d.Checks[at] = result // the latest one
		}
	}
	d.sort()
}

// sort orders findings by severity, and the examined data in the order of the checks.
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
	slices.SortStableFunc(d.Checks, func(a, b CheckResult) int { return order(a.ID) - order(b.ID) })
}
