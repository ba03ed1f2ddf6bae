package formats

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// writeHeapText writes `heap profile: … @ heap_v2/INTERVAL` followed by the memory map. The text holds addresses only;
// readers symbolize it themselves. Readers multiply the counts of a row by 1/(1-exp(-(bytes/objects)/interval)), so the
// text holds recorded counts and not estimates. If the recorded counts cannot be computed (differences, or rows that
// were not produced by sampling), the interval is written as 1, which makes readers use the counts as they are.
func writeHeapText(w io.Writer, p *profile.Profile, o Options) (Omitted, error) {
	inuse, alloc := pairAt(p, o.Index), pairOf(p, "alloc")
	if !inuse.ok() {
		return Omitted{}, fmt.Errorf("the format heap holds objects and bytes, and this profile has %s: choose another with --to", typeNames(p))
	}
	if inuse == alloc {
		inuse, alloc = alloc, pair{-1, -1}
	}
	if !hasAddresses(p) {
		return Omitted{}, fmt.Errorf("the format heap holds addresses, and this profile has none: choose another with --to")
	}
	interval := heapInterval(p, inuse, alloc)
	var rows []heapRow
	var total heapRow
	var left Omitted
	for _, sample := range p.Sample {
		left.add(sample.Value[inuse.bytes])
		row := heapRow{
			inuse: recorded(sample, inuse, interval),
			alloc: recorded(sample, alloc, interval),
			stack: sample.Location,
		}
		if row.inuse == (rowCounts{}) && row.alloc == (rowCounts{}) {
			continue
		}
		total.inuse.add(row.inuse)
		total.alloc.add(row.alloc)
		rows = append(rows, row)
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "heap profile: %s @ heap_v2/%d\n", total.counts(), interval)
	for _, comment := range p.Comments {
		fmt.Fprintf(out, "# %s\n", strings.ReplaceAll(comment, "\n", " ")) // readers skip lines that begin with #
	}
	writePythonNames(out, p)
	for _, row := range rows {
		fmt.Fprintf(out, "%s @", row.counts())
		for _, loc := range row.stack {
			fmt.Fprintf(out, " %#x", loc.Address+1) // readers subtract 1 to get an address inside the call
		}
		out.WriteByte('\n')
	}
	writeMemoryMap(out, p)
	return left, out.Flush()
}

// rowCounts is a number of recorded blocks and their bytes.
type rowCounts struct{ objects, bytes int64 }

func (c *rowCounts) add(other rowCounts) {
	c.objects += other.objects
	c.bytes += other.bytes
}

type heapRow struct {
	inuse, alloc rowCounts
	stack        []*profile.Location
}

func (r heapRow) counts() string {
	return fmt.Sprintf("%d: %d [%d: %d]", r.inuse.objects, r.inuse.bytes, r.alloc.objects, r.alloc.bytes)
}

// needsRescale reports whether the row was drawn at a longer interval than the given one, because its thread sampled
// too fast. Its counts are converted to those of samples at the given interval, rounded to at least one block. (Rows of
// a shorter interval represent too few blocks for that.)
func needsRescale(sample *profile.Sample, interval int64) bool {
	drawn := sample.NumLabel["interval"]
	return len(drawn) == 1 && drawn[0] > interval && len(sample.NumLabel["bytes"]) == 1
}

// heapInterval returns the profile's mean sampling interval if a reader can recover every row from it, else 1.
func heapInterval(p *profile.Profile, pairs ...pair) int64 {
	if p.Period <= 1 || p.PeriodType == nil || p.PeriodType.Unit != "bytes" {
		return 1
	}
	for _, sample := range p.Sample {
		for _, at := range pairs {
			if !at.ok() || sample.Value[at.objects] == 0 && sample.Value[at.bytes] == 0 || needsRescale(sample, p.Period) && sample.Value[at.objects] > 0 {
				continue
			}
			back := recorded(sample, at, p.Period).estimate(p.Period)
			// Estimates are rounded to whole blocks and bytes.
			if !approxEqual(back.objects, sample.Value[at.objects], 1, 0.01) || !approxEqual(back.bytes, sample.Value[at.bytes], 2, 1e-6) {
				return 1
			}
		}
	}
	return p.Period
}

func approxEqual(a, b, absolute int64, relative float64) bool {
	return math.Abs(float64(a-b)) <= float64(absolute)+relative*math.Abs(float64(b))
}

// estimate returns the values that a reader computes from the counts.
func (c rowCounts) estimate(interval int64) rowCounts {
	if c.objects == 0 {
		return rowCounts{}
	}
	q := report.SampleProbability(float64(c.bytes)/float64(c.objects), float64(interval))
	return rowCounts{rounded(float64(c.objects) / q), rounded(float64(c.bytes) / q)}
}

// recorded inverts the estimate of a row.
func recorded(sample *profile.Sample, at pair, interval int64) rowCounts {
	if !at.ok() || sample.Value[at.objects] <= 0 || sample.Value[at.bytes] <= 0 {
		return rowCounts{}
	}
	objects, bytes := sample.Value[at.objects], sample.Value[at.bytes]
	if interval <= 1 {
		return rowCounts{objects, bytes}
	}
	// The rounded number of blocks makes the mean size inexact. The label with the exact size is better.
	if label := sample.NumLabel["bytes"]; len(label) == 1 {
		q := report.SampleProbability(float64(label[0]), float64(interval))
		blocks := rounded(float64(objects) * q)
		if needsRescale(sample, interval) {
			blocks = max(blocks, 1)
			return rowCounts{blocks, blocks * label[0]}
		}
		if approxEqual(rounded(float64(blocks)*float64(label[0])/q), bytes, 1, 0) {
			return rowCounts{blocks, blocks * label[0]}
		}
	}
	q := report.SampleProbability(float64(bytes)/float64(objects), float64(interval))
	blocks := max(rounded(float64(objects)*q), 1)
	return rowCounts{blocks, rounded(float64(blocks) * sizeFor(float64(bytes)/float64(blocks), float64(interval)))}
}

// sizeFor returns the mean size of recorded blocks that each represent estimate bytes: it solves size/chance(size) =
// estimate. The left side grows with size. It returns 0 if there is no solution, below one interval.
func sizeFor(estimate, interval float64) float64 {
	const steps = 60
	low, high := 0.0, estimate
	for range steps {
		middle := (low + high) / 2
		if middle == 0 || -middle/math.Expm1(-middle/interval) < estimate {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func hasAddresses(p *profile.Profile) bool {
	for _, loc := range p.Location {
		if loc.Address != 0 {
			return true
		}
	}
	return len(p.Location) == 0
}

// writeMemoryMap writes the mappings in the format of /proc/PID/maps, which jeprof reads.
func writeMemoryMap(w io.Writer, p *profile.Profile) {
	fmt.Fprint(w, "\nMAPPED_LIBRARIES:\n")
	for _, m := range p.Mapping {
		if m.File != "" && m.Limit > m.Start {
			fmt.Fprintf(w, "%08x-%08x r-xp %08x 00:00 0 %s\n", m.Start, m.Limit, m.Offset, strings.ReplaceAll(m.File, "\n", " "))
		}
	}
}
