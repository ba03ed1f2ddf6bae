package growth

import (
	"cmp"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
)

// Class says what happens to the blocks of memory that grows.
type Class string

// The classes.
const (
	Leak  Class = "leak-like"  // no block of those that accumulate is freed
	Cache Class = "cache-like" // some of them are freed, but more are allocated
)

// Row is one cause of growth: the smallest function that owns all of it.
type Row struct {
	Frame
	// Stack begins with the function, with its callers after it, up to the program's outermost function.
	Stack []Frame `json:"stack"`
	PerS  float64 `json:"bytes_per_s"`
	// Error is the standard error of PerS due to sampling.
	Error float64 `json:"standard_error"`
	// Confidence is at least 0.95, for all rows of a result together.
	Confidence float64 `json:"confidence"`
	Live       float64 `json:"live_bytes"`
	LiveError  float64 `json:"live_standard_error"`
	Sizes      []Size  `json:"block_sizes"`
	Class      Class   `json:"class"`
	// Freed is the share of the accumulating blocks' bytes that was freed.
	Freed float64 `json:"freed_share"`
	// Jump is the change by large blocks that did not grow steadily, such as a table that doubled. It is not in PerS.
	Jump  float64 `json:"jump_bytes,omitempty"`
	Parts []Part  `json:"parts,omitempty"`
	// SecondsLeft is the time until the limit is reached at this rate, if the limit is known.
	SecondsLeft *float64 `json:"seconds_to_limit,omitempty"`

	// Values are the live bytes at each moment.
	Values []float64 `json:"values"`

	key string // the function of all paths
	sum *sums  // the blocks that grow
	of  []*path
}

// Size is a size of blocks, with its share of the growth.
type Size struct {
	Bytes int64   `json:"bytes"`
	Share float64 `json:"share"`
}

// Part is a function that allocates a part of a row.
type Part struct {
	Name string  `json:"name"`
	PerS float64 `json:"bytes_per_s"`
}

// Result is the growth between the first and the last moment.
type Result struct {
	Seconds float64 `json:"seconds"`
	Moments int     `json:"moments"`
	Rows    []Row   `json:"growing"`
	// Exact is the exact change of all live memory per second, or nil if it is unknown.
	Exact *float64 `json:"exact_bytes_per_s,omitempty"`
	// Unattributed is set if all live memory grows steadily, but most of the growth is not in the rows.
	Unattributed bool `json:"unattributed"`
	// Unseen is the rate below which a leak of small blocks may not have been seen.
	Unseen float64 `json:"unseen_bytes_per_s"`
	// Missing describes memory that the profiles lack; "": none.
	Missing string `json:"missing,omitempty"`
	// Steady is false if there are too few moments to distinguish steady growth from a jump.
	Steady bool `json:"steady_judged"`
}

// Options are what Find needs besides the moments.
type Options struct {
	// Frames returns the functions of stacks, innermost first, without frames of the allocator.
	Frames func(stacks []Stack) [][]Frame
	// Keep selects the rows to examine; nil: all.
	Keep func(Key, []Frame) bool
	// Room is the number of bytes to the limit; 0: unknown.
	Room float64
}

// MinMoments is the number of moments from which steady growth can be told from a jump.
const MinMoments = minSteps + 1

const (
	minSteps = 4
	// The error rates. All rows of a result together are wrong with at most this probability: half for the tests of
	// owners, half for those of their callers.
	wrong       = 0.05
	wrongSteady = 0.025
	// wrongTotal is the error rate for the exact growth of all live memory.
	wrongTotal = 0.005
)

// errOrder is returned for moments that are not in the order of time.
var errOrder = errors.New("the moments must have different times, the earliest first")

// path is a chain of callers from the owner outwards, with the rows allocated there.
type path struct {
	frames  []Frame
	changes []change
	sum     sums
	grown   *sums // the blocks that count as growth; nil: all
}

// growing sums the blocks that count as growth.
func (p *path) growing() *sums { return cmp.Or(p.grown, &p.sum) }

// search is one call of Find.
type search struct {
	seconds []float64
	whole   float64
	steady  bool
	paths   []*path
	options Options
	// wrappers are functions that get the size of a block from their caller.
	wrappers map[string]bool
}

// Find returns the growth between moments of one process, the fastest first. It examines at least two moments; steady
// growth can be told from a jump from five on (Result.Steady).
func Find(moments []Moment, options Options) (*Result, error) {
	if len(moments) < 2 {
		return nil, errors.New("at least two moments are needed")
	}
	s := search{options: options, steady: len(moments) > minSteps}
	for k := range moments[1:] {
		step := float64(moments[k+1].TimeNS-moments[k].TimeNS) / 1e9
		if step <= 0 {
			return nil, errOrder
		}
		s.seconds = append(s.seconds, step)
		s.whole += step
	}
	s.readPaths(moments)
	rows, tests := s.owners()
	rows = s.merge(rows)
	more := s.callers(rows)
	rows = append(rows, more...)
	result := &Result{Seconds: s.whole, Moments: len(moments), Rows: []Row{}, Steady: s.steady,
		Unseen: unseen(tests, float64(moments[len(moments)-1].Interval)) / s.whole}
	for _, row := range rows {
		s.finish(row)
		result.Rows = append(result.Rows, *row)
	}
	slices.SortStableFunc(result.Rows, func(a, b Row) int { return cmp.Compare(b.PerS, a.PerS) })
	s.judgeTotal(moments, result)
	return result, nil
}

// readPaths sums the rows of all moments by path.
func (s *search) readPaths(moments []Moment) {
	counts := map[Key][]Counts{}
	allocations := true
	for k, m := range moments {
		allocations = allocations && m.allocations
		for key, now := range m.Rows {
			row := counts[key]
			if row == nil {
				row = make([]Counts, len(moments))
				counts[key] = row
			}
			row[k] = now
		}
	}
	indexes := map[Stack]int{}
	var stacks []Stack
	for key, row := range counts {
		for k := range row[1:] { // a row without blocks may be left out of a profile
			row[k+1].Allocated = max(row[k+1].Allocated, row[k].Allocated)
		}
		if _, known := indexes[key.Stack]; !known {
			indexes[key.Stack] = len(stacks)
			stacks = append(stacks, key.Stack)
		}
	}
	sizes := make([][]int64, len(stacks))
	for key := range counts {
		if i := indexes[key.Stack]; key.Size != 0 {
			sizes[i] = append(sizes[i], key.Size)
		}
	}
	frames := s.options.Frames(stacks)
	charged, inner := charge(frames, sizes)
	last := map[Key]Counts{}
	for key, row := range counts {
		last[key] = row[len(row)-1]
	}
	s.findWrappers(last, func(stack Stack) ([]Frame, string) { return charged[indexes[stack]], inner[indexes[stack]] })
	paths := map[string]*path{}
	for key, row := range counts {
		i := indexes[key.Stack]
		stack := charged[i]
		if len(stack) == 0 || s.options.Keep != nil && !s.options.Keep(key, frames[i]) {
			continue
		}
		stack = stack[s.ownerOf(stack):]
		name := nameOf(stack)
		p := paths[name]
		if p == nil {
			p = &path{frames: stack}
			paths[name] = p
			s.paths = append(s.paths, p)
		}
		c := newChange(key, row, allocations)
		p.changes = append(p.changes, c)
		p.sum.add(&c)
	}
	slices.SortFunc(s.paths, func(a, b *path) int {
		return cmp.Or(cmp.Compare(len(a.frames), len(b.frames)), cmp.Compare(nameOf(a.frames), nameOf(b.frames)))
	})
}

func nameOf(stack []Frame) string { return strings.Join(names(stack), betweenNames) }

func names(stack []Frame) []string {
	list := make([]string, len(stack))
	for i, frame := range stack {
		list[i] = frame.Name
	}
	return list
}

// owners tests the sum of each owner. tests is the number of owners that could pass.
func (s *search) owners() (rows []*Row, tests int) {
	groups := map[string]*Row{}
	var order []*Row
	for _, p := range s.paths {
		name := p.frames[0].Name
		row := groups[name]
		if row == nil {
			row = &Row{key: name}
			groups[name] = row
			order = append(order, row)
		}
		row.of = append(row.of, p)
	}
	passed, tests := s.pass(order)
	for _, test := range passed {
		rows = append(rows, test.accept())
	}
	return rows, tests
}

// test is the question whether a row's memory grows, except for the blocks of some stacks.
type test struct {
	row   *Row
	sum   *sums
	apart map[Stack]bool
}

// testsOf returns the tests of a row. A table that doubles is one jump, which hides the steady growth of the table's
// elements: the first test is without the stacks whose blocks are large beside the whole change and do not grow steadily.
func (s *search) testsOf(row *Row) []test {
	const large = 1.0 / 64 // of the whole change
	all := total(row.of)
	tests := []test{{row: row, sum: all}}
	if !s.steady {
		return tests
	}
	stacks := map[Stack]*sums{}
	for c := range changes(row.of) {
		if c.differing > 0 && c.size > all.weight*large {
			stacks[c.key.Stack] = &sums{}
		}
	}
	for c := range changes(row.of) {
		if sum := stacks[c.key.Stack]; sum != nil {
			sum.add(c)
		}
	}
	apart := map[Stack]bool{}
	for stack, sum := range stacks {
		if !s.isSteady(sum) {
			apart[stack] = true
		}
	}
	if len(apart) != 0 {
		tests = slices.Insert(tests, 0, test{row, totalWithout(apart, row.of), apart})
	}
	return tests
}

// accept makes the blocks of the test the growth of its row.
func (t test) accept() *Row {
	t.row.sum = t.sum
	if t.apart != nil {
		for _, p := range t.row.of {
			p.grown = totalWithout(t.apart, []*path{p})
		}
	}
	return t.row
}

// pass returns the first test of each row that shows growth. Only tests with so many samples that they could pass are
// counted (Tarone 1990).
func (s *search) pass(candidates []*Row) (passed []test, count int) {
	var tests []test
	for _, row := range candidates {
		tests = append(tests, s.testsOf(row)...)
	}
	for count = 1; ; count++ {
		able := 0
		for _, t := range tests {
			if math.Exp2(-t.sum.events()) <= limit(count) {
				able++
			}
		}
		if able <= count {
			break
		}
	}
	for _, t := range tests {
		if len(passed) != 0 && passed[len(passed)-1].row == t.row {
			continue
		}
		if chance := t.sum.chance(); chance <= limit(count) && s.isSteady(t.sum) {
			t.row.Confidence = 1 - max(chance*float64(count)*2, 1e-9)
			passed = append(passed, t)
		}
	}
	return passed, count
}

// limit is the error rate of one of several tests.
func limit(tests int) float64 { return wrong / 2 / float64(tests) }

func (s *search) isSteady(sum *sums) bool {
	return !s.steady || sum.steadyChance(s.seconds) <= wrongSteady
}

// total sums all blocks of paths.
func total(paths []*path) *sums {
	all := &sums{}
	for _, p := range paths {
		all.join(&p.sum)
	}
	return all
}

// totalWithout sums the blocks of paths, except for those of some stacks.
func totalWithout(apart map[Stack]bool, paths []*path) *sums {
	some := &sums{}
	for c := range changes(paths) {
		if !apart[c.key.Stack] {
			some.add(c)
		}
	}
	return some
}

// changes returns the changes of all rows of paths.
func changes(paths []*path) iter.Seq[*change] {
	return func(yield func(*change) bool) {
		for _, p := range paths {
			for i := range p.changes {
				if !yield(&p.changes[i]) {
					return
				}
			}
		}
	}
}

// growing sums the blocks of paths that count as growth.
func growing(paths []*path) *sums {
	some := &sums{}
	for _, p := range paths {
		some.join(p.growing())
	}
	return some
}

// join adds the rows of other.
func (s *sums) join(other *sums) {
	if s.steps == nil {
		s.steps, s.grown = make([]float64, len(other.steps)), map[int64]float64{}
	}
	for k, step := range other.steps {
		s.steps[k] += step
	}
	for size, bytes := range other.grown {
		s.grown[size] += bytes
	}
	s.rows += other.rows
	s.blocks += other.blocks
	s.live += other.live
	s.liveSquares += other.liveSquares
	s.weight += other.weight
	s.energy += other.energy
	s.squares += other.squares
	s.blockSquares += other.blockSquares
	s.missing += other.missing
	s.largest = max(s.largest, other.largest)
	s.steadyAllocs += other.steadyAllocs
	s.steadyFrees += other.steadyFrees
}

// callers finds growth that no owner shows alone: the smallest callers whose remaining rows grow together.
func (s *search) callers(found []*Row) []*Row {
	claimed := map[*path]bool{}
	for _, row := range found {
		for _, p := range row.of {
			claimed[p] = true
		}
	}
	groups := map[string]*Row{}
	var order []*Row
	for _, p := range s.paths {
		if claimed[p] || p.sum.weight == 0 {
			continue
		}
		seen := map[string]bool{}
		for i, frame := range p.frames {
			if seen[frame.Name] || i > 0 && frame.passedOver {
				continue
			}
			seen[frame.Name] = true
			row := groups[frame.Name]
			if row == nil {
				row = &Row{key: frame.Name}
				groups[frame.Name] = row
				order = append(order, row)
			}
			row.of = append(row.of, p)
		}
	}
	passed, _ := s.pass(order)
	// The smallest first; a caller of the same paths is not smaller.
	slices.SortStableFunc(passed, func(a, b test) int {
		return cmp.Or(cmp.Compare(len(a.row.of), len(b.row.of)), cmp.Compare(depth(a.row), depth(b.row)))
	})
	var rows []*Row
	for _, t := range passed {
		left := slices.DeleteFunc(slices.Clone(t.row.of), func(p *path) bool { return claimed[p] })
		if len(left) < len(t.row.of) {
			t.row.of = left
			grows := func(t test) bool { return t.sum.chance() <= limit(len(order)) && s.isSteady(t.sum) }
			tests := s.testsOf(t.row)
			i := slices.IndexFunc(tests, grows)
			if i < 0 {
				continue
			}
			t = tests[i]
		}
		for _, p := range left {
			claimed[p] = true
		}
		rows = append(rows, t.accept())
	}
	return rows
}

// depth is the distance of a row's function from the owner in its largest path.
func depth(row *Row) int { return row.largest().indexOf(row.key) }

func (p *path) indexOf(function string) int {
	return max(0, slices.IndexFunc(p.frames, func(f Frame) bool { return f.Name == function }))
}

// largest returns the path with the most growth.
func (r *Row) largest() *path {
	return slices.MaxFunc(r.of, func(a, b *path) int { return cmp.Compare(a.growing().bytes(), b.growing().bytes()) })
}

// finish computes the figures of a row.
func (s *search) finish(row *Row) {
	p := row.largest()
	row.Stack = p.frames[p.indexOf(row.key):]
	row.Frame = row.Stack[0]
	sum := row.sum
	row.PerS, row.Error = sum.bytes()/s.whole, sum.stderr()/s.whole
	all := total(row.of)
	row.Live, row.LiveError = all.live, math.Sqrt(all.liveSquares)
	row.Jump = all.bytes() - sum.bytes()
	row.Class = Leak
	if sum.steadyAllocs > 0 {
		row.Freed = min(1, sum.steadyFrees/sum.steadyAllocs)
	}
	const freed = 0.1
	if row.Freed > freed {
		row.Class = Cache
	}
	for size, bytes := range sum.grown {
		if share := bytes / sum.bytes(); share >= minShare {
			row.Sizes = append(row.Sizes, Size{size, share})
		}
	}
	slices.SortFunc(row.Sizes, func(a, b Size) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Bytes, b.Bytes))
	})
	row.Sizes = row.Sizes[:min(len(row.Sizes), maxParts)]
	row.Values = make([]float64, len(all.steps)+1)
	row.Values[len(all.steps)] = all.live
	for k := len(all.steps) - 1; k >= 0; k-- {
		row.Values[k] = row.Values[k+1] - all.steps[k]
	}
	row.Parts = s.parts(row)
	if s.options.Room > 0 {
		left := s.options.Room / row.PerS
		row.SecondsLeft = &left
	}
}

const (
	minShare = 0.05
	maxParts = 3
)

// parts lists the owners in a row that is larger than one owner.
func (s *search) parts(row *Row) []Part {
	bytes := map[string]float64{}
	for _, p := range row.of {
		bytes[p.frames[0].Name] += p.growing().bytes()
	}
	var parts []Part
	for name, grown := range bytes {
		if grown >= minShare*row.sum.bytes() {
			parts = append(parts, Part{name, grown / s.whole})
		}
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Or(cmp.Compare(b.PerS, a.PerS), cmp.Compare(a.Name, b.Name)) })
	if len(parts) == 1 && parts[0].Name == row.key {
		return nil
	}
	return parts[:min(len(parts), maxParts)]
}

// unseen returns the growth in bytes that is found with a probability of 95 %, for blocks that are much smaller than the
// interval and not freed. tests is the number of tests.
func unseen(tests int, interval float64) float64 {
	if interval <= 1 {
		return 0
	}
	need := math.Ceil(-math.Log2(limit(tests)))
	const deviations = 1.645 // of the number of samples, a Poisson variable
	root := (deviations + math.Sqrt(deviations*deviations+4*need)) / 2
	return root * root * interval
}

// judgeTotal compares the rows with the exact growth of all live memory.
func (s *search) judgeTotal(moments []Moment, result *Result) {
	var steps []float64
	for k := range moments[1:] {
		if moments[k].Live == nil || moments[k+1].Live == nil {
			return
		}
		steps = append(steps, float64(*moments[k+1].Live-*moments[k].Live))
	}
	all := sums{steps: steps}
	rate := all.bytes() / s.whole
	result.Exact = &rate
	explained, squares := 0.0, 0.0
	for _, row := range result.Rows {
		explained += row.PerS
		squares += row.Error * row.Error
	}
	rest := rate - explained
	const errors, least = 3, 64 << 10 // less than the least may be a few lists of blocks
	result.Unattributed = s.steady && all.bytes() >= least && all.steadyChance(s.seconds) <= wrongTotal &&
		rest > rate/2 && rest > errors*math.Sqrt(squares)
}
