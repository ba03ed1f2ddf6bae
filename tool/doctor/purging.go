package doctor

import (
	"fmt"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// purgeStorm finds memory that is purged and reused at once, so that each page costs a fault and a system call.
func purgeStorm(p Pair) (string, *Finding, error) {
	given := p.perSecond(func(s *attach.Stats) int64 { return s.System.Calls.Purged() })
	wanted := p.reusedBytes()
	again := wanted.delayed + wanted.atOnce + wanted.holes
	faults := p.perSecond(func(s *attach.Stats) int64 { return s.System.MinorFaults })
	seen := fmt.Sprintf("%s/s purged, %s/s of it reused soon, %s page faults/s", report.Bytes(given), report.Bytes(again),
		report.Count(int64(faults)))
	if again < stormRate || again < stormShare*given {
		return seen, nil, nil
	}
	finding := &Finding{
		Severity: Warning, Title: "Memory is purged and reused soon after",
		Figure: fmt.Sprintf("%s/s of %s/s purged are reused soon; %s page faults/s", report.Bytes(again), report.Bytes(given),
			report.Count(int64(faults))),
		Value: again,
		Why: "The kernel must provide each purged page again when it is touched: a page fault of a quarter of " +
			"a microsecond to several microseconds, in addition to the purge calls.",
		Change: purgeAdvice(p, wanted),
	}
	if again >= severeStormRate {
		finding.Severity = Severe
	}
	if p.Before.Heap != nil && p.After.Heap != nil {
		by := increase(p.Before.Heap, p.After.Heap, "alloc_space", p.Seconds())
		finding.Places = "Allocated during this time, per second"
		if wanted.holes <= wanted.delayed+wanted.atOnce {
			finding.Places += ", in blocks of a page and more"
			by = largeOnly(by)
		}
		finding.Sites = topSites(p.After, p.After.Heap, by)
	}
	return seen, finding, nil
}

// reused holds the rate of memory that was purged and reused, in bytes per second, by the change that would have kept
// it.
type reused struct {
	delayed float64 // a longer delay, or a larger cache
	atOnce  float64 // no delay would help: purged when it was freed, on request, or because memory was short
	holes   float64 // idle holes in spans: purged without a request
}

func (p Pair) reusedBytes() reused {
	delayed := p.perSecond(func(s *attach.Stats) int64 { return s.System.RefaultDelayedBytes })
	all := p.perSecond(func(s *attach.Stats) int64 { return s.System.RefaultBytes })
	// A large block that is never touched costs only two system calls.
	touched := p.perSecond(func(s *attach.Stats) int64 { return s.System.MinorFaults }) * pageBytes
	return reused{delayed, min(all-delayed, touched), p.perSecond(func(s *attach.Stats) int64 { return s.Purge.HoleRefilled })}
}

const pageBytes = 4 * kib

func largeOnly(by weightFunc) weightFunc {
	return func(s *sample) float64 {
		if report.Label(s, "bytes") < pageBytes {
			return 0
		}
		return by(s)
	}
}

// purgedBytes returns the rate of memory that was purged for this reason, in bytes per second.
func (p Pair) purgedBytes(reason string) float64 {
	return p.perSecond(func(s *attach.Stats) int64 {
		sum := int64(0)
		for _, c := range s.System.Calls {
			if c.Reason == reason && (c.Call == "munmap" || c.Call == "madvise:dontneed") {
				sum += c.Bytes
			}
		}
		return sum
	})
}

// purgeAdvice depends on the reason of the purges and on the options of the process.
func purgeAdvice(p Pair, w reused) []string {
	pid := p.After.Stats.PID
	reuse := "keep and reuse the buffers, at the places below"
	delay, chosen := p.option("purge_delay")
	if !chosen {
		delay = p.After.Stats.Purge.DelayMS
	}
	ratio, _ := p.option("free_ratio")
	asked, short := p.purgedBytes("requested"), p.purgedBytes("pressure")
	switch mode := p.After.Options["purge"]; {
	case w.holes > w.delayed+w.atOnce:
		return []string{"pages between live blocks: `malloc_trim`, `seemalloc purge` and memory pressure purge them immediately; without these, " +
			"the delay increases with the amount that is reused", fmt.Sprintf("`seemalloc set %d purge=never` keeps them until a purge is requested", pid)}
	case w.atOnce > w.delayed && asked > short && asked > p.purgedBytes("decay"):
		return []string{"the program, or another tool, requests it (malloc_trim, seemalloc_purge, `seemalloc purge`): without requests, memory that is " +
			"unused for a second is returned automatically; `seemalloc trace` shows the requests", reuse}
	case w.atOnce > w.delayed && short > p.purgedBytes("decay"):
		return []string{"memory is short: raise the limit of the memory cgroup, or option heap_soft_limit if that limit was reached", reuse}
	case mode == "eager":
		return []string{fmt.Sprintf("option purge:eager: use purge:balanced, the default (`seemalloc set %d purge=balanced`)", pid), reuse}
	case chosen && delay == 0:
		return []string{fmt.Sprintf("option purge_delay:0: leave it at its default (`seemalloc set %d purge_delay=auto`)", pid), reuse}
	case ratio > 0:
		return []string{fmt.Sprintf("option free_ratio:%d, which applies regardless of the delay: leave it at its default (`seemalloc set %d free_ratio=0`)",
			ratio, pid), reuse}
	case chosen:
		return []string{fmt.Sprintf("option purge_delay, now %d ms: longer than the time between two uses (`seemalloc set %d purge_delay=%d`)",
			delay, pid, max(4*delay, 1000)), reuse}
	default:
		return []string{fmt.Sprintf("option purge_delay adapts to such reuse, is %d ms now, and keeps no more than was recently in use: "+
			"`seemalloc set %d purge=never` keeps all memory", delay, pid), reuse}
	}
}
