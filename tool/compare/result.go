// Package compare runs a command with several allocators in turn and compares the results.
//
// allocators.go finds the allocators. order.go and session.go schedule the runs. run.go and tree.go measure one run
// from /proc and wait4. cells.go decides which differences are significant. `seemalloc compare` combines these parts;
// this package prints nothing.
package compare

// Unit is the unit of a measure.
type Unit string

const (
	Seconds Unit = "s"
	Bytes   Unit = "bytes"
	Count   Unit = "count"
)

// Measure is one value of a run.
type Measure struct {
	Key   string `json:"key"` // key in Run.Values
	Title string `json:"title"`
	Unit  Unit   `json:"unit"`
}

// Measures lists the measures in display order.
var Measures = []Measure{
	{"load_s", "time of the load", Seconds},
	{"wall_s", "wall time", Seconds},
	{"cpu_s", "CPU (user + system)", Seconds},
	{"system_s", "CPU (system only)", Seconds},
	{"peak_rss", "peak RSS", Bytes},
	{"final_rss", "final RSS", Bytes},
	{"minor_faults", "minor page faults", Count},
	{"major_faults", "major page faults", Count},
	{"switches", "context switches", Count},
}

// Run holds the results of one run of the command.
type Run struct {
	Allocator       string             `json:"allocator"`
	Round           int                `json:"round"` // from 1
	Values          map[string]float64 `json:"values"`
	Threads         int                `json:"threads"` // the maximum of any one process, as far as observed
	ExitStatus      string             `json:"ending"`
	OtherCPUSeconds float64            `json:"others_cpu_s"` // CPU time of other processes during the run
	Disturbed       bool               `json:"disturbed"`
	Loaded          Tristate           `json:"library_seen"`               // whether the allocator's library was mapped in the program
	Linked          string             `json:"linked_allocator,omitempty"` // on glibc: another allocator's library that was mapped in the program
	stderrTail      string             // the last line of standard error
}

// Excluded is an allocator with runs that are not counted.
type Excluded struct {
	Name   string `json:"name"`
	Round  int    `json:"round"`
	Reason string `json:"reason"`
}

// Row is one measure with a cell for each allocator that has values.
type Row struct {
	Measure
	Cells map[string]Cell `json:"allocators"`
}

// Result is the output of `seemalloc compare --json`.
type Result struct {
	Command     []string    `json:"command"`
	ForSeconds  float64     `json:"for_s,omitempty"`
	Load        string      `json:"load,omitempty"`
	Rounds      int         `json:"rounds"` // as requested
	Seed        uint64      `json:"seed"`
	Threads     int         `json:"threads"`
	Allocators  []Allocator `json:"allocators"`
	Missing     []Missing   `json:"missing"`
	Excluded    []Excluded  `json:"excluded"`
	Options     []string    `json:"options"` // environment variables that configure allocators
	Notes       []string    `json:"notes"`
	Interrupted bool        `json:"interrupted"`
	Rows        []Row       `json:"measures"`
	Runs        []Run       `json:"runs"`
}

// Fill computes the rows from the runs of all allocators that are not excluded.
func (r *Result) Fill() {
	names := r.Counted()
	r.Threads = threads(names, r.Runs)
	r.Rows = nil
	for _, measure := range Measures {
		values := map[string][]float64{}
		for _, run := range r.Runs {
			if value, ok := run.Values[measure.Key]; ok {
				values[run.Allocator] = append(values[run.Allocator], value)
			}
		}
		if cells := Cells(names, values, MinDifference(measure, r.Threads)); len(cells) > 0 {
			r.Rows = append(r.Rows, Row{measure, cells})
		}
	}
}

// Counted returns the names of the allocators that have counted runs.
func (r *Result) Counted() []string {
	var names []string
	for _, one := range r.Allocators {
		if !r.excluded(one.Name) {
			names = append(names, one.Name)
		}
	}
	return names
}

func (r *Result) excluded(name string) bool {
	for _, one := range r.Excluded {
		if one.Name == name {
			return true
		}
	}
	return false
}

// threads returns the program's own number of threads. An allocator may have additional threads, so it is the smallest
// number over all allocators.
func threads(names []string, runs []Run) int {
	minimum := 0
	for _, name := range names {
		maximum := 0
		for _, run := range runs {
			if run.Allocator == name {
				maximum = max(maximum, run.Threads)
			}
		}
		if maximum > 0 && (minimum == 0 || maximum < minimum) {
			minimum = maximum
		}
	}
	return max(minimum, 1)
}

// Disturbed counts the runs that other processes disturbed.
func (r *Result) Disturbed() int {
	count := 0
	for _, run := range r.Runs {
		if run.Disturbed {
			count++
		}
	}
	return count
}
