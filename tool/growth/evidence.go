package growth

import (
	"math"

	"seemalloc/tool/report"
)

// change is the change of one row over the moments.
type change struct {
	key  Key
	size float64   // of a block
	live []float64 // blocks at each moment
	// allocated and freed are the numbers of blocks between the first and the last moment.
	allocated, freed float64
	// differing is an upper bound of the number of blocks that are live at only one of the two ends. A block that was
	// allocated and freed in between is at neither.
	differing float64
}

// newChange reads a row from its counts at each moment.
func newChange(key Key, counts []Counts, allocations bool) change {
	c := change{key: key, size: float64(key.Size), live: make([]float64, len(counts))}
	for k, now := range counts {
		if c.live[k] = now.Live; key.Size == 0 && now.Live > 0 {
			c.size = now.Bytes / now.Live
		}
		if k == 0 {
			continue
		}
		step := now.Live - counts[k-1].Live
		allocated := max(step, 0)
		if allocations {
			// A block that is resized in place changes its row without an allocation.
			allocated = max(allocated, now.Allocated-counts[k-1].Allocated)
		}
		c.allocated += allocated
		c.freed += allocated - step
	}
	c.differing = min(c.allocated+c.freed, c.live[0]+c.live[len(counts)-1])
	return c
}

// sampled returns the probability that a block of the row is sampled.
func (c *change) sampled() float64 {
	size := float64(c.key.Sampled)
	if size == 0 {
		size = c.size
	}
	if size <= 0 {
		return 1
	}
	return report.SampleProbability(size, float64(c.key.Interval))
}

// sums are the changes of several rows together.
type sums struct {
	steps   []float64 // bytes between each two moments
	blocks  float64   // change of the number of blocks
	live    float64   // bytes at the last moment
	rows    int
	grown   map[int64]float64 // bytes by size of blocks
	weight  float64           // bytes that the differing samples represent
	energy  float64           // the sum of their squares
	squares float64           // variance of the change due to sampling
	missing float64           // estimated number of differing blocks that were not sampled
	largest float64           // bytes that one differing sample represents, at most

	blockSquares              float64 // variance of blocks
	liveSquares               float64 // variance of live
	steadyAllocs, steadyFrees float64 // bytes, of the rows that grow
}

func (s *sums) add(c *change) {
	q, size := c.sampled(), c.size
	last := len(c.live) - 1
	if s.steps == nil {
		s.steps, s.grown = make([]float64, last), map[int64]float64{}
	}
	s.rows++
	s.live += c.live[last] * size
	s.liveSquares += c.live[last] * (1 - q) / q * size * size
	if c.differing == 0 {
		return
	}
	for k := range s.steps {
		s.steps[k] += (c.live[k+1] - c.live[k]) * size
	}
	grown := c.live[last] - c.live[0]
	s.blocks += grown
	s.grown[int64(size)] += grown * size
	s.weight += c.differing * size
	s.energy += c.differing / q * size * size
	s.squares += c.differing * (1 - q) / q * size * size
	s.blockSquares += c.differing * (1 - q) / q
	s.missing += c.differing * (1 - q)
	s.largest = max(s.largest, size/q)
	// Temporary blocks of the same function, whose number does not change, say nothing about the fate of the others.
	const growing = 0.1
	switch {
	case grown > growing*c.allocated:
		s.steadyAllocs += c.allocated * size
		s.steadyFrees += c.freed * size
	case grown < 0: // for example blocks that were allocated by other callers, before
		s.steadyFrees -= grown * size
	}
}

// bytes returns the change between the first and the last moment.
func (s *sums) bytes() float64 {
	total := 0.0
	for _, step := range s.steps {
		total += step
	}
	return total
}

// stderr returns the standard error of bytes due to sampling. One block more than was sampled is allowed for, as in
// report.Variance.
func (s *sums) stderr() float64 {
	if s.squares == 0 {
		return 0
	}
	const certain = 40
	return math.Sqrt(s.squares + s.largest*s.largest*min(1, certain*s.missing))
}

// events returns the effective number of samples that the change rests on.
func (s *sums) events() float64 {
	if s.energy == 0 {
		return 0
	}
	return s.weight * s.weight / s.energy
}

// chance returns the probability of a change of at least this size if each differing block were as likely freed as
// allocated: the sign test, with samples of several weights counted as their effective number.
func (s *sums) chance() float64 {
	n := s.events()
	if n == 0 || s.bytes() <= 0 {
		return 1
	}
	return halves((n+n*min(1, s.bytes()/s.weight))/2, n)
}

// steadyChance returns the probability that changes without a trend have this mean: Student's test of the rates between
// successive moments, weighted by their times. A single jump is no trend, and memory that comes and goes has rates that
// cancel. It is 1 if the memory did not grow in each third of the time.
func (s *sums) steadyChance(seconds []float64) float64 {
	whole, grown := 0.0, 0.0
	for k, step := range s.steps {
		whole += seconds[k]
		grown += step
	}
	if len(s.steps) < minSteps || grown <= 0 || !s.growsThroughout(seconds, whole) {
		return 1
	}
	mean, spread := grown/whole, 0.0
	for k, step := range s.steps {
		if seconds[k] > 0 {
			off := step/seconds[k] - mean
			spread += seconds[k] * off * off
		}
	}
	free := float64(len(s.steps) - 1)
	if spread == 0 {
		return 0
	}
	return studentTail(mean/math.Sqrt(spread/free/whole), free)
}

func (s *sums) growsThroughout(seconds []float64, whole float64) bool {
	const parts = 3
	var part [parts]float64
	at := 0.0
	for k, step := range s.steps {
		i := int(parts * (at + seconds[k]/2) / whole)
		part[min(i, parts-1)] += step
		at += seconds[k]
	}
	for _, one := range part {
		if one <= 0 {
			return false
		}
	}
	return true
}

// halves returns the probability of at least k of n throws of a fair coin, continued to real numbers.
func halves(k, n float64) float64 {
	if k <= 0 {
		return 1
	}
	return incompleteBeta(k, n-k+1, 0.5)
}

// studentTail returns the probability that Student's t with this many degrees of freedom is at least t > 0.
func studentTail(t, free float64) float64 {
	return incompleteBeta(free/2, 0.5, free/(free+t*t)) / 2
}

// incompleteBeta returns the regularized incomplete beta function, by its continued fraction.
func incompleteBeta(a, b, x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - incompleteBeta(b, a, 1-x)
	}
	front := math.Exp(logGamma(a+b) - logGamma(a) - logGamma(b) + a*math.Log(x) + b*math.Log1p(-x))
	const tiny, steps, exact = 1e-300, 10000, 1e-12
	value, c, d := 1.0, 1.0, 0.0
	for i := range steps {
		m := float64(i / 2)
		var term float64
		switch {
		case i == 0:
			term = 1
		case i%2 == 0:
			term = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			term = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + term*d; math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		if c = 1 + term/c; math.Abs(c) < tiny {
			c = tiny
		}
		value *= c * d
		if math.Abs(1-c*d) < exact {
			break
		}
	}
	return front * (value - 1) / a
}

func logGamma(x float64) float64 {
	value, _ := math.Lgamma(x)
	return value
}
