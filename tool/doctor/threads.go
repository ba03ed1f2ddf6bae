package doctor

import (
	"fmt"
	"slices"
	"strings"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// thread holds the activity of one thread between the snapshots.
type thread struct {
	attach.Thread
	name                 string
	cpu                  float64 // of one processor
	refills, remoteFrees float64 // per second
	known                bool    // the kernel lists it in both snapshots
}

// threads lists the threads that are in both snapshots.
func (p Pair) threads() []thread {
	before := map[int]attach.Thread{}
	for _, t := range p.Before.Threads {
		before[t.TID] = t
	}
	var list []thread
	for _, now := range p.After.Threads {
		old, found := before[now.TID]
		if !found || p.Seconds() <= 0 {
			continue
		}
		per := func(before, after int64) float64 { return float64(max(after-before, 0)) / p.Seconds() }
		t := thread{Thread: now, refills: per(old.Refills, now.Refills), remoteFrees: per(old.RemoteFrees, now.RemoteFrees)}
		taskBefore, was := p.Before.Tasks[now.TID]
		task, is := p.After.Tasks[now.TID]
		if t.known = was && is; t.known {
			t.name = task.Name
			t.cpu = per(taskBefore.CPUNS, task.CPUNS) / 1e9
		}
		list = append(list, t)
	}
	return list
}

func (t thread) String() string {
	if t.name == "" {
		return fmt.Sprintf("thread %d", t.TID)
	}
	return fmt.Sprintf("thread %d (%s)", t.TID, t.name)
}

// formatThreads formats the first few of many threads.
func formatThreads(list []thread) string {
	const limit = 3
	var names []string
	for _, t := range list[:min(len(list), limit)] {
		names = append(names, t.String())
	}
	if len(list) > limit {
		names = append(names, fmt.Sprintf("%d more", len(list)-limit))
	}
	return strings.Join(names, ", ")
}

// onlyFreeingThreads finds a thread that frees blocks of other threads and allocates nothing, so that each block must
// be returned to its owner.
func onlyFreeingThreads(p Pair) (string, *Finding, error) {
	if p.After.Threads == nil || p.Before.Threads == nil {
		return "", nil, errOldLibrary
	}
	var found []thread
	sum, all := 0.0, 0.0
	for _, t := range p.threads() {
		all += t.remoteFrees
		if t.remoteFrees > 0 && t.refills <= refillsPerRemoteFree*t.remoteFrees {
			found = append(found, t)
			sum += t.remoteFrees
		}
	}
	seen := fmt.Sprintf("%s blocks/s returned to other threads, %s/s of them by threads that allocate nothing", report.Count(int64(all)),
		report.Count(int64(sum)))
	if sum < remoteRate {
		return seen, nil, nil
	}
	slices.SortFunc(found, func(a, b thread) int { return int(b.remoteFrees - a.remoteFrees) })
	finding := &Finding{
		Severity: Note, Title: "Threads only free blocks of other threads",
		Figure: fmt.Sprintf("%s blocks/s are freed by threads that allocate nothing: %s", report.Count(int64(sum)), formatThreads(found)),
		Value:  sum,
		Why: "A freed block returns to its span, which belongs to the thread that allocated it. If another thread frees it, it has to " +
			"be sent there, with cache misses on both processors. Memory does not grow because of that, but each such free costs several times as much as a local one.",
		Change: []string{
			"free a block in the thread that allocated it: return it through the queue, or let its reference count end there",
			"or let the freeing thread allocate too (buffers in both directions)",
		},
		Places: "Allocated here, freed by other threads, per second",
	}
	if sum >= severeRemoteRate {
		finding.Severity = Warning
	}
	if p.Before.Remote != nil && p.After.Remote != nil {
		finding.Sites = topSites(p.After, p.After.Remote, increase(p.Before.Remote, p.After.Remote, "remote_free_space", p.Seconds()))
	}
	return seen, finding, nil
}

// idleThreadCaches finds idle threads that cache free memory that no other thread can use.
func idleThreadCaches(p Pair) (string, *Finding, error) {
	switch {
	case p.After.Threads == nil || p.Before.Threads == nil:
		return "", nil, errOldLibrary
	case p.After.Tasks == nil || p.Before.Tasks == nil:
		return "", nil, errNoProc
	}
	var idle []thread
	kept := 0.0
	for _, t := range p.threads() {
		if t.known && t.cpu < idleCPUShare && t.refills == 0 && t.CachedBytes() > 0 {
			idle = append(idle, t)
			kept += float64(t.CachedBytes())
		}
	}
	rss := float64(p.After.Stats.Memory.RSS)
	seen := fmt.Sprintf("%s kept by %s (%s of RSS)", report.Bytes(kept), report.Plural(len(idle), "idle thread"), percent(ratio(kept, rss)))
	severity, bad := wasteSeverity(kept, rss)
	if !bad {
		return seen, nil, nil
	}
	slices.SortFunc(idle, func(a, b thread) int { return int(b.CachedBytes() - a.CachedBytes()) })
	finding := &Finding{
		Severity: severity, Title: "Idle threads keep free memory",
		Figure: fmt.Sprintf("%s kept by %s that were idle for %.1f s: %s", report.Bytes(kept), report.Plural(len(idle), "thread"),
			p.Seconds(), formatThreads(idle)),
		Value: kept,
		Why: "A thread keeps lists of free blocks and empty spans for its next allocations, for each size it has used. While it sleeps " +
			"no other thread can use them.",
		Change: []string{
			"end such threads, or use fewer: a thread that ends returns all its memory",
			"call malloc_trim(0) in a thread before it sleeps for long",
			fmt.Sprintf("option thread_cache, now %s: the target limit for all threads together; a thread checks it while it works, and never while it sleeps", optionText(p, "thread_cache")),
		},
	}
	return seen, finding, nil
}

func optionText(p Pair, name string) string {
	if text := p.After.Options[name]; text != "" {
		return text
	}
	return "unknown"
}
