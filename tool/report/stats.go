package report

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"seemalloc/tool/attach"
)

// Stats formats the statistics of one process: the breakdown of its resident memory, its sampling, its calls into the
// kernel, and the size classes in use. mappings is nil if unknown.
func Stats(s *attach.Stats, process string, mappings *attach.Mappings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: seemalloc %s, up %s, thread heaps %s in use, %s so far\n\n", process, orUnknown(s.Version),
		Duration(time.Duration(s.UptimeMS)*time.Millisecond), Count(s.Threads.Live), Count(s.Threads.Heaps))
	writeRSSBreakdown(&b, s.Memory)
	sampling(&b, s)
	system(&b, s)
	if mappings != nil {
		fmt.Fprintf(&b, "Mappings of the address space: %s of %s that the kernel allows (vm.max_map_count)\n", Count(mappings.Count),
			Count(mappings.Limit))
	}
	purge(&b, s.Purge, s.System)
	spans(&b, s.Spans)
	dumps(&b, s.Dumps)
	socket(&b, s.Socket)
	classes(&b, s.SizeClasses)
	return b.String()
}

func writeRSSBreakdown(b *strings.Builder, m attach.Memory) {
	fmt.Fprintf(b, "Resident memory (RSS) %s, of which\n", Bytes(float64(m.RSS)))
	sum := int64(0)
	for _, part := range []struct {
		name  string
		bytes int64
		help  string
	}{
		{"live", m.Live, "live blocks, by allocated size"},
		{"cached", m.Cached, "free blocks and pages cached for later allocations"},
		{"fragmentation", m.Fragmentation, "free space in spans that still have live blocks"},
		{"metadata", m.Metadata, "the allocator's own metadata, samples and stacks"},
		{"not ours", m.Foreign, "code, stacks, files, and memory mapped by others"},
	} {
		sum += part.bytes
		fmt.Fprintf(b, "  %-14s %12s %7s  %s\n", part.name, Bytes(float64(part.bytes)), Percent(float64(part.bytes), float64(m.RSS)), part.help)
	}
	if sum != m.RSS {
		fmt.Fprintf(b, "  %-14s %12s %7s  %s\n", "difference", Bytes(float64(m.RSS-sum)), Percent(float64(m.RSS-sum), float64(m.RSS)),
			"the parts were not read at the same moment")
	}
	writeErrorBounds(b, m)
	fmt.Fprintf(b, "Live bytes %s (exact, by allocated size; may exceed the resident part), address space %s, free pages not purged %s\n\n",
		Bytes(float64(m.LiveAllocated)), Bytes(float64(m.Mapped)), Bytes(float64(m.Dirty)))
}

// eachWithin states the accuracy of the parts briefly.
func eachWithin(m attach.Memory) string {
	if m.ErrorBound == nil || *m.ErrorBound == 0 {
		return ""
	}
	return fmt.Sprintf(", each may be off by up to %s", Bytes(float64(*m.ErrorBound)))
}

// writeErrorBounds states the accuracy of the parts that are estimates.
func writeErrorBounds(b *strings.Builder, m attach.Memory) {
	if m.ErrorBound == nil || *m.ErrorBound == 0 {
		return
	}
	fmt.Fprintf(b, "  estimated: live, cached, fragmentation and not ours may each be off by up to %s\n", Bytes(float64(*m.ErrorBound)))
	if m.PagesRefused != 0 {
		b.WriteString("  the kernel refuses to report which pages are resident (mincore): all pages that may be resident are counted\n")
	}
}

func sampling(b *strings.Builder, s *attach.Stats) {
	p := s.Sampling
	if p.Interval == 0 {
		fmt.Fprintf(b, "Sampling is off (`seemalloc set %d sample=512K` turns it on); %s samples so far\n", s.PID, Count(p.Samples))
	} else {
		fmt.Fprintf(b, "Sampling: one in %s on average; %s samples so far, %s of blocks still live, %s stacks\n",
			Bytes(float64(p.Interval)), Count(p.Samples), Count(p.LiveSamples), Count(p.Stacks))
	}
	if p.BackedOff != 0 {
		fmt.Fprintf(b, "  %s of the samples at a longer interval: their threads would have exceeded sample_limit\n",
			Count(p.BackedOff))
	}
	if p.Estimate != 0 {
		fmt.Fprintf(b, "  live bytes estimated from samples: %s ± %s (standard error); exact: %s, by allocated size\n",
			Bytes(p.Estimate), Bytes(p.EstimateStderr), Bytes(float64(s.Memory.LiveAllocated)))
	}
	if p.Requested != nil && p.Estimate != 0 {
		fmt.Fprintf(b, "  requested by the program: %s ± %s; the rest is rounding up to size classes and pages\n", Bytes(*p.Requested),
			Bytes(p.RequestedStderr))
	}
	if losses := MissingData(p); losses != "" {
		fmt.Fprintf(b, "  %s\n", losses)
	}
	b.WriteByte('\n')
}

// MissingData describes the data that the profile lacks: dropped samples, and truncated or broken stacks. It returns ""
// if nothing is missing.
func MissingData(p attach.Sampling) string {
	var parts []string
	for _, loss := range []struct {
		count int64
		text  string
	}{
		{p.Dropped, "samples dropped for lack of space"},
		{p.Truncated, "samples with a stack truncated at the depth limit (option stack_depth)"},
		{p.Broken, "samples with a stack that could not be unwound to its end"},
	} {
		if loss.count != 0 {
			parts = append(parts, loss.text+": "+Count(loss.count))
		}
	}
	return strings.Join(parts, "; ")
}

// system formats the calls into the kernel since the start, by call and reason, and the waits and faults of threads.
func system(b *strings.Builder, s *attach.Stats) {
	b.WriteString("Calls into the kernel\n")
	b.WriteString(CallsTable(s.System.Calls.WithoutReport(), time.Duration(s.UptimeMS)*time.Millisecond))
	runTotals(b, sumStats([]*attach.Stats{s}))
	b.WriteByte('\n')
}

func purge(b *strings.Builder, p attach.Purge, s attach.System) {
	if p.Mode == "" {
		return
	}
	if p.Mode == "never" {
		b.WriteString("Free memory is returned to the OS only on request (option purge)\n")
	} else {
		fmt.Fprintf(b, "Free memory is returned to the OS after %s (purge:%s); of %s returned automatically, %s were reused soon (%s)\n",
			Duration(time.Duration(p.DelayMS)*time.Millisecond), p.Mode, Bytes(float64(p.PurgedBytes)), Bytes(float64(s.RefaultDelayedBytes)),
			Percent(float64(s.RefaultDelayedBytes), float64(p.PurgedBytes)))
	}
	if rest := s.RefaultBytes - s.RefaultDelayedBytes; rest > 0 {
		fmt.Fprintf(b, "  reused soon after it was returned at free, on request or because memory was short: %s\n", Bytes(float64(rest)))
	}
	if p.HoleRefilled > 0 {
		fmt.Fprintf(b, "  reused of purged holes in spans: %s\n", Bytes(float64(p.HoleRefilled)))
	}
	b.WriteByte('\n')
}

// spans formats the number of spans in each state, and their address space.
func spans(b *strings.Builder, s attach.Spans) {
	b.WriteString("Spans\n")
	for _, row := range []struct {
		name         string
		count, bytes int64
		help         string
	}{
		{"threads'", s.Owned, s.OwnedBytes, "owned by threads, which allocate from them; includes empty ones"},
		{"empty", s.Empty, s.EmptyBytes, "of these, without live blocks"},
		{"central", s.Central, s.CentralBytes, "owned by no thread: for the next thread that needs blocks of their class"},
		{"sampled", s.Sampled, s.SampledBytes, "of sampled blocks"},
		{"large", s.CachedLarge, s.CachedLargeBytes, "of freed large blocks, cached by threads"},
		{"free", -1, s.FreeDirtyBytes, "pages outside spans that have not been purged"},
		{"returned", -1, s.FreeCleanBytes, "pages outside spans, without memory"},
	} {
		count := ""
		if row.count >= 0 {
			count = Count(row.count)
		}
		fmt.Fprintf(b, "  %-10s %10s %12s  %s\n", row.name, count, Bytes(float64(row.bytes)), row.help)
	}
	b.WriteByte('\n')
}

// socket prints nothing if the socket is in its preferred directory.
func socket(b *strings.Builder, s attach.Socket) {
	if len(s.Refused) == 0 {
		return
	}
	if s.Path == "" {
		b.WriteString("There is no control socket\n")
	} else {
		fmt.Fprintf(b, "The control socket is %s\n", s.Path)
	}
	for _, place := range s.Refused {
		fmt.Fprintf(b, "  it could not be made in %s: %s\n", place.Dir, place.Why)
	}
	b.WriteByte('\n')
}

// dumps prints nothing if there were no dumps.
func dumps(b *strings.Builder, d attach.Dumps) {
	if d.Written+d.Failed == 0 {
		return
	}
	fmt.Fprintf(b, "Profiles written to files: %s", Count(d.Written))
	if d.Removed != 0 {
		fmt.Fprintf(b, ", older ones removed: %s", Count(d.Removed))
	}
	if d.Merged != 0 {
		fmt.Fprintf(b, "; merged with another one that was waiting to be written: %s", Count(d.Merged))
	}
	if d.Failed != 0 {
		fmt.Fprintf(b, "; could not be written: %s (last: %s)", Count(d.Failed), syscall.Errno(d.LastErrno))
	}
	b.WriteString("\n\n")
}

func classes(b *strings.Builder, classes []attach.SizeClass) {
	b.WriteString("Size classes in use (blocks)\n")
	fmt.Fprintf(b, "  %10s %8s %12s %12s %12s %12s %7s %10s\n", "size", "spans", "live", "free: lists", "free: spans", "live bytes", "used", "refills")
	none := true
	for _, c := range classes {
		if c.Spans == 0 && c.Live == 0 && c.Cached == 0 && c.Free == 0 {
			continue
		}
		none = false
		fmt.Fprintf(b, "  %10s %8s %12s %12s %12s %12s %7s %10s\n", Count(c.Size), Count(c.Spans), Count(c.Live), Count(c.Cached),
			Count(c.Free), Bytes(float64(c.Live*c.Size)), Percent(float64(c.Live), float64(c.Live+c.Cached+c.Free)),
			Count(c.Refills))
	}
	if none {
		b.WriteString("  none\n")
	}
}

// Duration formats a time in its two largest units: "3h12m", "41.5s".
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

func orUnknown(s string) string {
	if s == "" {
		return "of unknown version"
	}
	return s
}
