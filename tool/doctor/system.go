package doctor

import (
	"fmt"
	"strings"

	"seemalloc/tool/report"
)

// memoryLimit finds a process that the kernel is about to kill, or already throttles, because of a memory limit.
func memoryLimit(p Pair) (string, *Finding, error) {
	if p.After.Limits == nil {
		return "", nil, errNoProc
	}
	if len(p.After.Limits) == 0 {
		return "no limit is set", nil, nil
	}
	tightest, share := p.After.Limits[0], 0.0
	for _, limit := range p.After.Limits {
		if s := ratio(float64(limit.Used), float64(limit.Bytes)); s > share {
			tightest, share = limit, s
		}
	}
	met := p.failures(tightest)
	used := fmt.Sprintf("%s of %s (%s, %s)", report.Bytes(float64(tightest.Used)), report.Bytes(float64(tightest.Bytes)), percent(share),
		tightest.File)
	if share < nearLimit {
		return used, nil, nil
	}
	memory := p.After.Stats.Memory
	free := float64(memory.Cached)
	finding := &Finding{
		Severity: Warning, Title: "The memory limit is near",
		Figure: used + " of cgroup " + tightest.Group, Value: share,
		Why: fmt.Sprintf("At the limit the kernel reclaims what it can and then kills a process of the group. This process has %s resident, of "+
			"which %s are live blocks and %s free memory cached by the allocator.", report.Bytes(float64(memory.RSS)),
			report.Bytes(float64(memory.Live)), report.Bytes(free)),
	}
	if met > 0 {
		finding.Figure += fmt.Sprintf("; limit hit %s times during this time", report.Count(met))
	}
	if share >= severeNearLimit || met > 0 {
		finding.Severity = Severe
	}
	if free >= wasteShare*float64(memory.RSS) {
		finding.Change = append(finding.Change, fmt.Sprintf("`seemalloc purge %d` returns free memory now; with a shorter option purge_delay, now %d ms, "+
			"it is returned sooner automatically", p.After.Stats.PID, p.After.Stats.Purge.DelayMS))
	}
	finding.Change = append(finding.Change, fmt.Sprintf("raise %s of %s, or use less memory: `seemalloc top %d` shows the functions that hold it", tightest.File,
		tightest.Group, p.After.Stats.PID))
	if p.After.Heap != nil {
		inuse := value(p.After.Heap, "inuse_space")
		finding.Places = "Places that hold the live bytes"
		finding.Sites = topSites(p.After, p.After.Heap, func(s *sample) float64 { return float64(inuse(s)) })
	}
	return used, finding, nil
}

// mappings finds a process that is close to the limit of mappings, at which the kernel refuses memory, threads and
// files even if memory is free.
func mappings(p Pair) (string, *Finding, error) {
	m := p.After.Mappings
	if m == nil {
		return "", nil, errNoProc
	}
	share := m.Share()
	seen := fmt.Sprintf("%s of %s (%s, vm.max_map_count)", report.Count(m.Count), report.Count(m.Limit), percent(share))
	if share < nearMappings {
		return seen, nil, nil
	}
	finding := &Finding{
		Severity: Warning, Title: "The process is close to its limit of mappings",
		Figure: seen, Value: share,
		Why: "At the limit the kernel refuses every new mapping, however much memory is free: threads cannot be started, files cannot be " +
			"mapped, and large blocks are refused. seemalloc itself uses a quarter of the kernel's default limit, more only where memory was refused; most are the program's " +
			"own calls of mmap, mprotect and madvise, or threads.",
		Change: []string{
			fmt.Sprintf("see what they are: `sort -k6 /proc/%d/maps | less`", p.After.Stats.PID),
			"raise the limit: `sysctl vm.max_map_count=262144`, and a line in /etc/sysctl.d to keep it",
			"map fewer and larger pieces: neighbours with the same protection and advice form one mapping",
		},
	}
	if share >= severeNearMappings {
		finding.Severity = Severe
	}
	return seen, finding, nil
}

// failures counts how often the limit was hit between the snapshots.
func (p Pair) failures(limit Limit) int64 {
	for _, before := range p.Before.Limits {
		if before.Group == limit.Group && before.File == limit.File {
			return max(limit.Failures-before.Failures, 0)
		}
	}
	return 0
}

// samplesLost finds incomplete data behind the other findings and the profiles.
func samplesLost(p Pair) (string, *Finding, error) {
	s := p.After.Stats.Sampling
	seen := fmt.Sprintf("%s samples, %s more dropped; %s with a truncated stack, %s with a broken one", report.Count(s.Samples), report.Count(s.Dropped),
		report.Count(s.Truncated), report.Count(s.Broken))
	if s.Interval == 0 {
		seen += "; sampling is off, so no place in the program can be named"
	}
	var figures, change []string
	severity := Note
	many := func(count int64) bool {
		return s.Samples >= minSamples && float64(count) >= incompleteShare*float64(s.Samples)
	}
	if s.Dropped > 0 {
		figures = append(figures, fmt.Sprintf("%s samples dropped for lack of memory, %s recorded", report.Count(s.Dropped), report.Count(s.Samples)))
		change = append(change, fmt.Sprintf("the system refuses memory for the records (ulimit -v, a cgroup, overcommit): raise that limit, or "+
			"sample less (`seemalloc set %d sample=4M`)", p.After.Stats.PID))
		severity = Warning
	}
	if many(s.Truncated) {
		figures = append(figures, fmt.Sprintf("%s of %s samples have a stack truncated at the depth limit", report.Count(s.Truncated), report.Count(s.Samples)))
		change = append(change, fmt.Sprintf("option stack_depth, now %s: more frames (`seemalloc set %d stack_depth=128`)",
			optionText(p, "stack_depth"), p.After.Stats.PID))
	}
	if many(s.Broken) {
		figures = append(figures, fmt.Sprintf("%s of %s samples have a stack that could not be unwound to its end", report.Count(s.Broken), report.Count(s.Samples)))
		change = append(change, "compile with -fasynchronous-unwind-tables (usually the default) or -fno-omit-frame-pointer")
	}
	if len(figures) == 0 {
		return seen, nil, nil
	}
	return seen, &Finding{
		Severity: severity, Title: "The profile is incomplete", Figure: strings.Join(figures, "; "),
		Value:  float64(s.Dropped + s.Truncated + s.Broken),
		Why:    "Samples of allocations determine the places and their bytes. Data missing there is also missing in `seemalloc top` and above.",
		Change: change,
	}, nil
}
