package formats

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// The text format that jemalloc writes since version 4 (`prof.dump`, prof_final …) and jeprof reads:
//
// 	heap_v2/524288
// 	  t*: 3: 4096 [0: 0]
// 	  t1: 3: 4096 [0: 0] name of the thread
// 	@ 0x55d1 0x55d2 …
// 	  t*: 3: 4096 [0: 0]
// 	  t1: 3: 4096 [0: 0]
//
// 	MAPPED_LIBRARIES:
// 	…
//
// Lines that begin with # are comments. libseemalloc_compat writes the losses of the profile there, and jeprof skips
// them. The header's totals are followed by the stacks, innermost address first, each with its counts: live, and in
// brackets since the start if prof_accum is on. t* is the sum of all threads. Thread numbers are jemalloc's own.
// jemalloc's estimate is the counts times 1/(1-exp(-(bytes/objects)/interval)).

func isJemalloc(data []byte) bool { return bytes.HasPrefix(data, []byte("heap_v2/")) }

// allocatorEntryPoints are the allocator's entry functions. Frames below them are the allocator's own; jeprof removes
// the same ones.
const allocatorEntryPoints = `(_?rjem_|je_|tc_|__libc_|__)?(malloc|calloc|cfree|realloc|reallocarray|memalign|posix_memalign|aligned_alloc|valloc|pvalloc|` +
	`mallocx|rallocx|xallocx|do_rallocx|smallocx.*|malloc_default|newImpl|fallbackNewImpl|handleOOM)|operator new(\[\])?|_Zn[aw][jm].*`

type jemallocParser struct {
	interval  float64
	scale     bool
	p         *profile.Profile
	locations map[uint64]*profile.Location
	stack     []*profile.Location
	stackLine int // of the stack that waits for its t* line, 0: none
	inStack   bool
	accum     bool // some count since the start is nonzero
	values    [][4]int64
	names     map[string]string // of threads, by number
	functions pythonNames
	// Of the current stack: the counts of all threads together, and of each thread.
	together [4]int64
	threads  []jemallocThread
	counted  bool
}

type jemallocThread struct {
	number string
	counts [4]int64
}

var (
	jemallocHeader = regexp.MustCompile(`^heap_v2/(\d+)$`)
	jemallocCounts = regexp.MustCompile(`^t(\*|\d+): (\d+): (\d+) \[(\d+): (\d+)\]( .*)?$`)
)

// readJemalloc reads jemalloc's text. Each stack has one sample per thread, labelled with the thread's name. Their sum
// is the estimate for t*.
func readJemalloc(data []byte) (*profile.Profile, error) {
	parser := &jemallocParser{p: &profile.Profile{}, locations: map[uint64]*profile.Location{}, names: map[string]string{}}
	number, offset := 0, 0
	for line := range bytes.Lines(data) {
		number++
		offset += len(line)
		text := strings.TrimSpace(string(line))
		if isMemoryMap(text) {
			break
		}
		if err := parser.line(number, text); err != nil {
			return nil, fmt.Errorf("a heap profile of jemalloc: %w", err)
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil, fmt.Errorf("a heap profile of jemalloc: %w", errTruncated(number))
		}
	}
	if parser.stackLine != 0 {
		return nil, fmt.Errorf("a heap profile of jemalloc: line %d: no line `t*: OBJECTS: BYTES [OBJECTS: BYTES]` follows this stack: the file is truncated or damaged", parser.stackLine)
	}
	parser.add()
	return parser.finish(data[offset:])
}

func (j *jemallocParser) line(number int, text string) error {
	switch {
	case number == 1:
		m := jemallocHeader.FindStringSubmatch(text)
		if m == nil {
			return lineError(number, text, "heap_v2/INTERVAL")
		}
		interval, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return lineError(number, text, "an interval below 2^63")
		}
		j.p.Period = interval
		j.interval = float64(interval)
		j.scale = interval > 1 // 1: every allocation is recorded
	case text == "":
	case strings.HasPrefix(text, "#"):
		comment := strings.TrimSpace(text[1:])
		if !j.functions.learn(comment) {
			j.p.Comments = append(j.p.Comments, comment)
		}
	case strings.HasPrefix(text, "@"):
		return j.addresses(number, text)
	case strings.HasPrefix(text, "t"):
		return j.counts(number, text)
	default:
		return lineError(number, text, "@ 0xADDRESS …, t*: OBJECTS: BYTES [OBJECTS: BYTES], # COMMENT, or MAPPED_LIBRARIES:")
	}
	return nil
}

func (j *jemallocParser) addresses(number int, text string) error {
	if j.stackLine != 0 {
		return lineError(number, text, "t*: OBJECTS: BYTES [OBJECTS: BYTES] for the stack before it")
	}
	j.add()
	j.stack, j.stackLine, j.inStack = nil, number, true
	for _, word := range strings.Fields(text[1:]) {
		digits, hex := strings.CutPrefix(word, "0x")
		address, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || !hex && address != 0 {
			return lineError(number, word, "an address, 0x…")
		}
		address-- // inside the call and not behind it
		loc := j.locations[address]
		if loc == nil {
			loc = &profile.Location{ID: uint64(len(j.p.Location) + 1), Address: address}
			j.locations[address] = loc
			j.p.Location = append(j.p.Location, loc)
		}
		j.stack = append(j.stack, loc)
	}
	return nil
}

func (j *jemallocParser) counts(number int, text string) error {
	m := jemallocCounts.FindStringSubmatch(text)
	if m == nil {
		return lineError(number, text, "t*: OBJECTS: BYTES [OBJECTS: BYTES]")
	}
	if name := strings.TrimSpace(m[6]); name != "" {
		j.names[m[1]] = name
	}
	if !j.inStack {
		return nil // the totals of the header
	}
	if m[1] == "*" && j.stackLine == 0 {
		return lineError(number, text, "a stack (@ 0xADDRESS …) before it")
	}
	var values [4]int64
	for i := range values {
		value, err := strconv.ParseInt(m[2+i], 10, 64)
		if err != nil {
			return lineError(number, m[2+i], "a number below 2^63")
		}
		values[i] = value
	}
	if values[0] == 0 && values[1] != 0 || values[2] == 0 && values[3] != 0 {
		return lineError(number, text, "no bytes where there are no objects")
	}
	if m[1] == "*" {
		j.together, j.counted, j.stackLine = values, true, 0
	} else {
		j.threads = append(j.threads, jemallocThread{m[1], values})
	}
	return nil
}

// add adds the counts of the current stack, if any: live objects and bytes, and those since the start.
func (j *jemallocParser) add() {
	if !j.counted {
		return
	}
	values, size := j.together, int64(0)
	for i := 0; i < len(values); i += 2 {
		if objects, bytes := values[i], values[i+1]; objects != 0 {
			size = max(size, bytes/objects)
			values[i], values[i+1] = j.estimate(objects, bytes)
		}
	}
	j.accum = j.accum || values[2] != 0
	threads := j.threads
	if !j.threadsComplete() {
		threads = []jemallocThread{{"", j.together}}
	}
	// Each thread gets its share of the total, rounded so that the shares add up to it.
	var counted, given [4]int64
	for _, thread := range threads {
		var own [4]int64
		for i, all := range j.together {
			if all == 0 {
				continue
			}
			counted[i] += thread.counts[i]
			upTo := values[i]
			if counted[i] != all {
				upTo = rounded(float64(values[i]) * (float64(counted[i]) / float64(all)))
			}
			own[i], given[i] = upTo-given[i], upTo
		}
		sample := &profile.Sample{Location: j.stack, NumLabel: map[string][]int64{"bytes": {size}}, NumUnit: map[string][]string{"bytes": {"bytes"}}}
		if thread.number != "" {
			sample.Label = map[string][]string{report.ThreadLabel: {cmp.Or(j.names[thread.number], "t"+thread.number)}}
		}
		j.p.Sample = append(j.p.Sample, sample)
		j.values = append(j.values, own)
	}
	j.threads, j.counted = nil, false
}

// threadsComplete reports whether the lines of the threads are complete.
func (j *jemallocParser) threadsComplete() bool {
	var sum [4]int64
	for _, thread := range j.threads {
		for i, count := range thread.counts {
			sum[i] += count
		}
	}
	return len(j.threads) > 0 && sum == j.together
}

// estimate inverts the sampling, which records a block of size s with probability 1-exp(-s/interval).
func (j *jemallocParser) estimate(objects, bytes int64) (int64, int64) {
	if !j.scale || bytes == 0 {
		return objects, bytes
	}
	size := float64(bytes) / float64(objects)
	factor := -1 / math.Expm1(-size/j.interval)
	return rounded(float64(objects) * factor), rounded(float64(bytes) * factor)
}

func rounded(value float64) int64 {
	if value >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Round(value))
}

// finish selects the sample types and assigns mappings to the addresses.
func (j *jemallocParser) finish(maps []byte) (*profile.Profile, error) {
	p := j.p
	p.PeriodType = &profile.ValueType{Type: "space", Unit: "bytes"}
	p.DefaultSampleType = "inuse_space"
	p.DropFrames = allocatorEntryPoints
	kinds := []string{"inuse"}
	if j.accum {
		kinds = []string{"alloc", "inuse"}
	}
	for _, kind := range kinds {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: kind + "_objects", Unit: "count"}, &profile.ValueType{Type: kind + "_space", Unit: "bytes"})
	}
	for i, sample := range p.Sample {
		v := j.values[i]
		if j.accum {
			sample.Value = []int64{v[2], v[3], v[0], v[1]}
		} else {
			sample.Value = []int64{v[0], v[1]}
		}
	}
	if err := p.ParseMemoryMap(bytes.NewReader(maps)); err != nil {
		return nil, fmt.Errorf("a heap profile of jemalloc: its MAPPED_LIBRARIES cannot be read: %v", err)
	}
	if len(bytes.TrimSpace(maps)) == 0 {
		p.Comments = append(p.Comments, "the file has no MAPPED_LIBRARIES: its addresses have no names")
	}
	trimAllocator(p)
	j.functions.put(p)
	return p, p.CheckValid()
}
