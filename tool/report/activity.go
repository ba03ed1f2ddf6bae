package report

import (
	"fmt"
	"strings"
	"time"

	"seemalloc/tool/attach"
)

// Activity is one line of `seemalloc activity`: the present state, and the events since the previous line. Rates are per
// second.
type Activity struct {
	Seconds     float64 `json:"seconds"` // since the previous line
	RSS         int64   `json:"rss"`
	Live        int64   `json:"live"`
	FreeBlocks  int64   `json:"free_blocks"`
	Cached      int64   `json:"cached"` // the former name of free_blocks
	Dirty       int64   `json:"dirty"`
	MinorFaults float64 `json:"minor_faults_per_s"`
	MajorFaults float64 `json:"major_faults_per_s"`
	Madvise     float64 `json:"madvise_per_s"`
	PurgedMB    float64 `json:"purged_mb_per_s"` // MB: 1,000,000 bytes
	Mmap        float64 `json:"mmap_per_s"`      // mmap, munmap and mremap
	RefaultMB   float64 `json:"refault_mb_per_s"`
	LockWaits   float64 `json:"lock_waits_per_s"`
	RemoteFrees float64 `json:"remote_frees_per_s"`
	Refills     float64 `json:"refills_per_s"`
	Refused     float64 `json:"refused_per_s"`
	KernelCPU   float64 `json:"kernel_cpu_percent"` // percent of one CPU, in the allocator's system calls
}

// NewActivity compares two answers.
func NewActivity(before, now *attach.Stats) Activity {
	calls := now.System.Calls.Minus(before.System.Calls)
	seconds := float64(now.TimeNS-before.TimeNS) / 1e9
	rate := func(count int64) float64 {
		if seconds <= 0 {
			return 0
		}
		return float64(count) / seconds
	}
	const MB = 1e6
	all := calls.Sum("")
	free := now.Blocks.CachedBytes + now.Blocks.FreeBytes
	return Activity{
		Seconds: seconds,
		RSS:     now.Memory.RSS, Live: now.Memory.LiveAllocated, Dirty: now.Memory.Dirty,
		FreeBlocks: free, Cached: free,
		MinorFaults: rate(now.System.MinorFaults - before.System.MinorFaults),
		MajorFaults: rate(now.System.MajorFaults - before.System.MajorFaults),
		Madvise:     rate(calls.Sum("madvise").Calls), PurgedMB: rate(calls.Purged()) / MB,
		Mmap:        rate(calls.Sum("mmap").Calls + calls.Sum("munmap").Calls + calls.Sum("mremap").Calls),
		RefaultMB:   rate(now.System.RefaultBytes-before.System.RefaultBytes) / MB,
		LockWaits:   rate(now.Locks.Waits() + now.Pressure.Waits - before.Locks.Waits() - before.Pressure.Waits),
		RemoteFrees: rate(now.Threads.RemoteFrees - before.Threads.RemoteFrees),
		Refills:     rate(refills(now) - refills(before)),
		Refused:     rate(all.Refused),
		KernelCPU:   rate(all.NS) / 1e7,
	}
}

func refills(s *attach.Stats) int64 {
	sum := int64(0)
	for _, c := range s.SizeClasses {
		sum += c.Refills
	}
	return sum
}

// ActivityHeader returns the two lines above the columns.
func ActivityHeader() string {
	return "----------- memory, MiB ----------- --- faults/s --- -------- system calls/s -------- ------ other threads/s ------  cpu\n" +
		fmt.Sprintf("%8s %8s %8s %8s %9s %6s %9s %8s %6s %6s %9s %9s %9s %4s\n", "rss", "live", "free", "dirty", "minor", "major",
			"madvise", "MB", "mmap", "re-MB", "refills", "remote", "lockwait", "sys%")
}

// Text formats the line.
func (s Activity) Text() string {
	mib := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }
	return fmt.Sprintf("%8s %8s %8s %8s %9.0f %6.0f %9.0f %8.1f %6.0f %6.1f %9.0f %9.0f %9.0f %4.1f\n", mib(s.RSS), mib(s.Live), mib(s.FreeBlocks),
		mib(s.Dirty), s.MinorFaults, s.MajorFaults, s.Madvise, s.PurgedMB, s.Mmap, s.RefaultMB, s.Refills, s.RemoteFrees, s.LockWaits,
		s.KernelCPU)
}

// RunSummary holds the system's data about a command that has ended.
type RunSummary struct {
	Command   string        `json:"command"`
	Status    string        `json:"status"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	User      time.Duration `json:"user_ns"`
	System    time.Duration `json:"system_ns"`
	PeakRSS   int64         `json:"peak_rss"`
	Processes int           `json:"processes"` // processes with statistics, including the command's own
	// AtExit is set if Stats was written when the command ended. Otherwise Stats is the last answer of the running
	// command.
	AtExit bool `json:"at_exit"`
}

func known(bytes int64) string {
	if bytes == 0 {
		return "unknown"
	}
	return Bytes(float64(bytes))
}

// Run formats the summary of a whole run. stats is nil if the command itself left none. others are the statistics of
// its child processes.
func Run(f RunSummary, stats *attach.Stats, others []*attach.Stats) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s after %s; CPU %s user, %s system; peak RSS %s\n", f.Command, f.Status, precise(f.Elapsed), precise(f.User),
		precise(f.System), known(f.PeakRSS))
	all := others
	switch {
	case stats == nil && len(others) == 0:
		b.WriteString("No statistics: it ended without running its exit handlers, ended before the first query, or does not run on seemalloc\n")
		return b.String()
	case stats == nil:
		fmt.Fprintf(&b, "No statistics of its own; these are the totals of %d processes that it started\n\n", len(others))
	default:
		all = append([]*attach.Stats{stats}, others...)
		ownStatus(&b, f, stats, len(all))
	}
	sums := sumStats(all)
	b.WriteString(CallsTable(sums.System.Calls.WithoutReport(), f.Elapsed))
	runTotals(&b, sums)
	return b.String()
}

// ownStatus formats the final state of the command's own process.
func ownStatus(b *strings.Builder, f RunSummary, s *attach.Stats, processes int) {
	if !f.AtExit {
		b.WriteString("It ended without running its exit handlers: these are the statistics of the last query\n")
	}
	fmt.Fprintf(b, "At its end: RSS %s, live %s, free blocks %s, free pages %s\n", Bytes(float64(s.Memory.RSS)), Bytes(float64(s.Memory.LiveAllocated)),
		Bytes(float64(s.Blocks.CachedBytes+s.Blocks.FreeBytes)), Bytes(float64(s.Memory.Dirty)))
	if processes > 1 {
		fmt.Fprintf(b, "The rest is the total of %d processes (itself and those that it started)\n", processes)
	}
	b.WriteByte('\n')
}

// sumStats sums the values that runTotals shows.
func sumStats(all []*attach.Stats) *attach.Stats {
	sum := new(attach.Stats)
	for _, s := range all {
		sum.System.Calls = sum.System.Calls.Plus(s.System.Calls)
		sum.System.MinorFaults += s.System.MinorFaults
		sum.System.MajorFaults += s.System.MajorFaults
		sum.System.RefaultRuns += s.System.RefaultRuns
		sum.System.RefaultBytes += s.System.RefaultBytes
		sum.Threads.RemoteFrees += s.Threads.RemoteFrees
		sum.Threads.Heaps += s.Threads.Heaps
		sum.Locks.SharedShortWaits += s.Locks.SharedShortWaits + s.Locks.HeapShortWaits
		sum.Locks.SharedWaits += s.Locks.Waits()
		sum.Locks.SharedWaitNS += s.Locks.WaitNS()
		sum.Pressure.Waits += s.Pressure.Waits
		sum.Pressure.WaitNS += s.Pressure.WaitNS
		sum.SizeClasses = append(sum.SizeClasses, s.SizeClasses...)
	}
	return sum
}

func runTotals(b *strings.Builder, sum *attach.Stats) {
	fmt.Fprintf(b, "Page faults: %s minor, %s major (from disk)\n", Count(sum.System.MinorFaults), Count(sum.System.MajorFaults))
	fmt.Fprintf(b, "Refaults: %s in %s allocations: memory that was reused soon after it was purged\n",
		Bytes(float64(sum.System.RefaultBytes)), Count(sum.System.RefaultRuns))
	fmt.Fprintf(b, "Threads: %s heaps, %s refills, %s blocks freed by other threads, %s lock waits (%s), %s short ones\n", Count(sum.Threads.Heaps),
		Count(refills(sum)), Count(sum.Threads.RemoteFrees), Count(sum.Locks.Waits()), FormatNanos(sum.Locks.WaitNS()), Count(sum.Locks.SharedShortWaits))
	if sum.Pressure.Waits > 0 {
		fmt.Fprintf(b, "Near a memory limit threads waited %s times until memory was returned (%s)\n", Count(sum.Pressure.Waits), FormatNanos(sum.Pressure.WaitNS))
	}
}

func precise(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
