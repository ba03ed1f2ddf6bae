package doctor

import (
	"fmt"
	"slices"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// purgeStorm: memory goes back to the system and is wanted again at once, so that each page costs a fault and a call.
func purgeStorm(p Pair) (string, *Finding, error) {
	given := p.perSecond(func(s *attach.Stats) int64 { return s.System.Calls.Purged() + unmappedLarge(s) })
	again := max(p.perSecond(func(s *attach.Stats) int64 { return s.System.RefaultBytes }), p.remapped())
	faults := p.perSecond(func(s *attach.Stats) int64 { return s.System.MinorFaults })
	seen := fmt.Sprintf("%s/s given back, %s/s of it wanted again, %s page faults/s", report.Bytes(given), report.Bytes(again),
		report.Count(int64(faults)))
	if again < stormRate || again < stormShare*given {
		return seen, nil, nil
	}
	finding := &Finding{
		Severity: Warning, Title: "Memory is given back and wanted again at once",
		Figure: fmt.Sprintf("%s/s of %s/s given back are wanted again; %s page faults/s", report.Bytes(again), report.Bytes(given),
			report.Count(int64(faults))),
		Value: again,
		Why: "Each page that was given back has to be made anew by the kernel when it is touched again: a page fault of a quarter of " +
			"a microsecond to several, and the calls that gave it back come on top.",
		Change: purgeAdvice(p),
	}
	if again >= severeStormRate {
		finding.Severity = Severe
	}
	if p.Before.Heap != nil && p.After.Heap != nil {
		finding.Places = "Allocated meanwhile, per second, in blocks of a page and more"
		finding.Sites = sites(p.After, p.After.Heap, largeOnly(growth(p.Before.Heap, p.After.Heap, "alloc_space", p.Seconds())))
	}
	return seen, finding, nil
}

// unmappedLarge counts large blocks that were unmapped when they were freed: they went back too.
func unmappedLarge(s *attach.Stats) int64 { return callBytes(s, "munmap", "huge") }

// remapped is memory of large blocks that went by munmap and came again by mmap, per second: not every library counts
// refaults of it.
func (p Pair) remapped() float64 {
	gone := p.perSecond(func(s *attach.Stats) int64 {
		return callBytes(s, "munmap", "huge", "decay", "pressure")
	})
	come := p.perSecond(func(s *attach.Stats) int64 { return callBytes(s, "mmap", "huge") })
	touched := p.perSecond(func(s *attach.Stats) int64 { return s.System.MinorFaults }) * pageBytes
	return min(gone, come, touched)
}

const pageBytes = 4 * kib

func callBytes(s *attach.Stats, call string, reasons ...string) int64 {
	sum := int64(0)
	for _, c := range s.System.Calls {
		if c.Call == call && slices.Contains(reasons, c.Reason) {
			sum += c.Bytes
		}
	}
	return sum
}

func largeOnly(by weigh) weigh {
	return func(s *sample) float64 {
		if label(s, "bytes") < pageBytes {
			return 0
		}
		return by(s)
	}
}

// purgeAdvice depends on what the process was told.
func purgeAdvice(p Pair) []string {
	pid := p.After.Stats.PID
	reuse := "keep the buffers and use them again, at the places below"
	delay, chosen := p.option("purge_delay")
	if !chosen {
		delay = p.After.Stats.Purge.DelayMS
	}
	switch mode := p.After.Options["purge"]; {
	case mode == "eager":
		return []string{fmt.Sprintf("option purge:eager: take purge:balanced, the default (`seemalloc set %d purge=balanced`)", pid), reuse}
	case chosen && delay == 0:
		return []string{fmt.Sprintf("option purge_delay:0: leave it at its default (`seemalloc set %d purge_delay=auto`)", pid), reuse}
	default:
		return []string{fmt.Sprintf("option purge_delay, now %d ms: longer than the time between two uses (`seemalloc set %d purge_delay=%d`)",
			delay, pid, max(4*delay, 1000)), reuse}
	}
}
