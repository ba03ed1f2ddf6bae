// Package compare runs a command on several allocators in turn and tells by how much they differ.
//
// allocators.go finds them, order.go and session.go say whose turn it is, run.go and tree.go measure one run by what /proc
// and wait4 say, cells.go decides what may be called a difference. `seemalloc compare` puts it together; nothing here
// prints.
package compare

// Unit of a measure.
type Unit string

const (
	Seconds Unit = "s"
	Bytes   Unit = "bytes"
	Count   Unit = "count"
)

// Measure is one figure of a run.
type Measure struct {
	Key   string `json:"key"` // in Run.Values
	Title string `json:"title"`
	Unit  Unit   `json:"unit"`
}

// Measures in the order in which they are shown.
var Measures = []Measure{
	{"load_s", "time of the load", Seconds},
	{"wall_s", "wall time", Seconds},
	{"cpu_s", "CPU (user + system)", Seconds},
	{"system_s", "system alone", Seconds},
	{"peak_rss", "peak RSS", Bytes},
	{"final_rss", "final RSS", Bytes},
	{"minor_faults", "minor page faults", Count},
	{"major_faults", "major page faults", Count},
	{"switches", "context switches", Count},
}

// Run is what one run of the command was measured at.
type Run struct {
	Allocator string             `json:"allocator"`
	Round     int                `json:"round"` // from 1
	Values    map[string]float64 `json:"values"`
	Threads   int                `json:"threads"` // the most that one process had at once, as far as seen
	Ending    string             `json:"ending"`
	Others    float64            `json:"others_cpu_s"` // what other processes used of the CPUs meanwhile
	Disturbed bool               `json:"disturbed"`
	Loaded    Seen               `json:"library_seen"`               // whether the allocator's library was in the program's memory
	Linked    string             `json:"linked_allocator,omitempty"` // on glibc: another's library in the program's memory
	said      string             // the last line on standard error
}

// Excluded is an allocator whose runs do not count.
type Excluded struct {
	Name   string `json:"name"`
	Round  int    `json:"round"`
	Reason string `json:"reason"`
}

// Row is one measure with a cell for each allocator that has it.
type Row struct {
	Measure
	Cells map[string]Cell `json:"allocators"`
}

// Result is what `seemalloc compare --json` prints.
type Result struct {
	Command     []string    `json:"command"`
	ForSeconds  float64     `json:"for_s,omitempty"`
	Load        string      `json:"load,omitempty"`
	Rounds      int         `json:"rounds"` // asked for
	Seed        uint64      `json:"seed"`
	Threads     int         `json:"threads"`
	Allocators  []Allocator `json:"allocators"`
	Missing     []Missing   `json:"missing"`
	Excluded    []Excluded  `json:"excluded"`
	Options     []string    `json:"options"` // of the environment, for allocators
	Notes       []string    `json:"notes"`
	Interrupted bool        `json:"interrupted"`
	Rows        []Row       `json:"measures"`
	Runs        []Run       `json:"runs"`
}

// Fill works out the rows from the runs of those that were not excluded.
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
		if cells := Cells(names, values, LeastDifference(measure, r.Threads)); len(cells) > 0 {
			r.Rows = append(r.Rows, Row{measure, cells})
		}
	}
}

// Counted are the names of the allocators whose runs count.
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

// threads of the program itself: an allocator may have some of its own, so those of the one with which there were fewest.
func threads(names []string, runs []Run) int {
	least := 0
	for _, name := range names {
		most := 0
		for _, run := range runs {
			if run.Allocator == name {
				most = max(most, run.Threads)
			}
		}
		if most > 0 && (least == 0 || most < least) {
			least = most
		}
	}
	return max(least, 1)
}

// Disturbed counts the runs that others disturbed.
func (r *Result) Disturbed() int {
	count := 0
	for _, run := range r.Runs {
		if run.Disturbed {
			count++
		}
	}
	return count
}
