package attach

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Stats is the answer to `stats`: bytes, counts and milliseconds. Fields that an older or newer library does not send
// stay
// 0. Fields that this tool does not know are preserved in its JSON output.
type Stats struct {
	answer json.RawMessage // the library's complete answer

	Version     string      `json:"version"`
	PID         int         `json:"pid"`
	UptimeMS    int64       `json:"uptime_ms"`
	TimeNS      int64       `json:"time_ns"` // CLOCK_MONOTONIC at the time of the answer
	Memory      Memory      `json:"memory"`
	Sampling    Sampling    `json:"sampling"`
	System      System      `json:"system"`
	Purge       Purge       `json:"purge"`
	Dumps       Dumps       `json:"dumps"`
	Socket      Socket      `json:"socket"`
	Pressure    Pressure    `json:"pressure"`
	Threads     Threads     `json:"threads"`
	Locks       Locks       `json:"locks"`
	Spans       Spans       `json:"spans"`
	Blocks      Blocks      `json:"blocks"`
	Large       Large       `json:"large"`
	Realloc     Realloc     `json:"realloc"`
	SizeClasses []SizeClass `json:"size_classes"`
}

// Memory breaks down the resident memory: RSS = Live + Cached + Fragmentation + Metadata + Foreign. A block counts with
// its allocated size: its size class, or whole pages.
type Memory struct {
	RSS           int64 `json:"rss"`
	PeakRSS       int64 `json:"peak_rss"` // since the start of the program; 0 if the library does not report it
	Live          int64 `json:"live"`
	Cached        int64 `json:"cached"`
	Fragmentation int64 `json:"fragmentation"`
	Metadata      int64 `json:"metadata"`
	Foreign       int64 `json:"not_ours"`
	// Unused is the part of Cached that consists of free pages that came with a huge page and were never used. If the
	// library does not report it, it is nil and these pages are part of Fragmentation.
	Unused *int64 `json:"unused"`
	// ErrorBound is the maximum error of each of Live, Cached, Fragmentation and Foreign, or nil if the library does
	// not report it.
	ErrorBound *int64 `json:"uncertain"`
	// PagesRefused is 1 if the kernel refuses to report which pages are resident.
	PagesRefused  int64 `json:"pages_refused"`
	Mapped        int64 `json:"mapped"`
	LiveAllocated int64 `json:"live_allocated"` // exact, by allocated size; may exceed the resident memory
	Dirty         int64 `json:"dirty"`          // free pages in Cached; in brief statistics: free pages that have not been purged
}

// Socket holds the path of the control socket, and the directories in which it could not be created before.
type Socket struct {
	Path    string       `json:"path"`
	Refused []RefusedDir `json:"refused"`
}

// RefusedDir is a directory in which the control socket could not be created.
type RefusedDir struct {
	Dir string `json:"directory"`
	Why string `json:"reason"`
}

// Sampling describes the data behind the profile.
type Sampling struct {
	Interval       int64   `json:"interval"`
	Samples        int64   `json:"samples"`
	LiveSamples    int64   `json:"live_samples"`
	Dropped        int64   `json:"dropped"`
	Truncated      int64   `json:"truncated"` // samples (part of Samples) with a truncated stack
	Broken         int64   `json:"broken"`    // samples with a broken stack (not unwound to its end)
	Stacks         int64   `json:"stacks"`
	BackedOff      int64   `json:"backed_off"` // samples taken at a backed-off interval
	Estimate       float64 `json:"estimate"`
	EstimateStderr float64 `json:"estimate_stderr"`
	// Requested is the estimate of the requested bytes, or nil if the library does not report it.
	Requested       *float64 `json:"requested"`
	RequestedStderr float64  `json:"requested_stderr"`
}

// System counts the allocator's calls into the kernel.
type System struct {
	MinorFaults  int64 `json:"minor_faults"`
	MajorFaults  int64 `json:"major_faults"`
	Calls        Calls `json:"calls"`
	RefaultRuns  int64 `json:"refault_runs"`  // allocations that reused memory purged shortly before
	RefaultBytes int64 `json:"refault_bytes"` // bytes of that memory
	// RefaultDelayedBytes is the part of RefaultBytes that was purged because of the delay or because it exceeded the
	// cache limit.
	RefaultDelayedBytes int64 `json:"refault_delayed_bytes"`
}

// CallCount counts the calls of one kind that were made for one reason.
type CallCount struct {
	Call    string `json:"call"`   // mmap, madvise:dontneed, …
	Reason  string `json:"reason"` // growth, decay, …
	Calls   int64  `json:"calls"`  // including refused calls
	Bytes   int64  `json:"bytes"`
	Refused int64  `json:"refused"`
	NS      int64  `json:"ns"`
}

// Calls counts all memory calls of the allocator into the kernel.
type Calls []CallCount

// ReportReason is the reason of calls that only serve a request of this tool.
const ReportReason = "report"

// Sum adds up the calls with the name call, or a name that begins with "call:". It excludes calls made to answer
// this tool. An empty call selects all.
func (c Calls) Sum(call string) CallCount {
	sum := CallCount{Call: call}
	for _, one := range c {
		if one.Reason == ReportReason || call != "" && one.Call != call && !strings.HasPrefix(one.Call, call+":") {
			continue
		}
		sum.Calls += one.Calls
		sum.Bytes += one.Bytes
		sum.Refused += one.Refused
		sum.NS += one.NS
	}
	return sum
}

// Purged returns the bytes of free memory that were returned to the OS. It excludes the splitting of huge pages, which
// only prepares a purge, and the zeroing by calloc, because that memory is live.
func (c Calls) Purged() int64 {
	sum := int64(0)
	for _, one := range c {
		switch one.Call {
		case "madvise:dontneed", "madvise:free":
			if one.Reason != "huge_pages" && one.Reason != "zero" {
				sum += one.Bytes
			}
		case "munmap": // a large block; other reasons unmap memory that was never free, or was moved
			if one.Reason == "decay" || one.Reason == requestedReason || one.Reason == "pressure" {
				sum += one.Bytes
			}
		}
	}
	return sum
}

// WithoutReport returns the calls except those made to answer this tool.
func (c Calls) WithoutReport() Calls {
	var out Calls
	for _, one := range c {
		if one.Reason != ReportReason {
			out = append(out, one)
		}
	}
	return out
}

// Plus adds the counts of both, by call and reason.
func (c Calls) Plus(more Calls) Calls {
	out := slices.Clone(c)
	for _, one := range more {
		i := slices.IndexFunc(out, func(o CallCount) bool { return o.Call == one.Call && o.Reason == one.Reason })
		if i < 0 {
			out = append(out, one)
			continue
		}
		out[i].Calls += one.Calls
		out[i].Bytes += one.Bytes
		out[i].Refused += one.Refused
		out[i].NS += one.NS
	}
	return out
}

// Minus returns the calls that were made after the earlier state before.
func (c Calls) Minus(before Calls) Calls {
	type key struct{ call, reason string }
	previous := map[key]CallCount{}
	for _, one := range before {
		previous[key{one.Call, one.Reason}] = one
	}
	var out Calls
	for _, one := range c {
		b := previous[key{one.Call, one.Reason}]
		one.Calls -= b.Calls
		one.Bytes -= b.Bytes
		one.Refused -= b.Refused
		one.NS -= b.NS
		if one.Calls != 0 {
			out = append(out, one)
		}
	}
	return out
}

// Purge describes the automatic return of free memory to the OS. Mode is "" if the library does not send it.
type Purge struct {
	Mode        string `json:"mode"`
	DelayMS     int64  `json:"delay_ms"`
	PurgedBytes int64  `json:"purged_bytes"`
	Postponed   int64  `json:"postponed"` // purge ticks cut short because purging had used its share of CPU time
	// HoleRefilled counts bytes of holes in spans that were purged and used again.
	HoleRefilled int64 `json:"hole_refilled_bytes"`
}

// Threads counts thread heaps.
type Threads struct {
	Heaps int64 `json:"heaps"`
	Live  int64 `json:"live"`
	// RemoteFrees counts blocks that were returned to the thread that owns their memory.
	RemoteFrees int64 `json:"remote_frees"`
}

// Pressure describes how close the process is to its memory limit, as the process itself sees it.
type Pressure struct {
	Limit int64 `json:"limit"` // of its memory cgroup; 0: no known limit
	Usage int64 `json:"usage"` // of the cgroup, without page cache
	// Waits counts how often a thread that needed memory slept until another thread had freed some.
	Waits  int64 `json:"waits"`
	WaitNS int64 `json:"wait_ns"`
}

// Dumps counts the profiles and statistics files that the process has written or tried to write.
type Dumps struct {
	Written   int64 `json:"written"`
	Failed    int64 `json:"failed"`
	Removed   int64 `json:"removed"`    // older files that were deleted (option dump_keep)
	Merged    int64 `json:"joined"`     // dumps that became due while another one was waiting, and were merged with it
	LastErrno int64 `json:"last_errno"` // of the last failure
}

// Locks counts contended lock acquisitions. Short waits ended within a spin; in the others the thread slept.
type Locks struct {
	SharedShortWaits int64 `json:"shared_short_waits"`
	SharedWaits      int64 `json:"shared_waits"`
	SharedWaitNS     int64 `json:"shared_wait_ns"`
	HeapShortWaits   int64 `json:"heap_short_waits"`
	HeapWaits        int64 `json:"heap_waits"`
	HeapWaitNS       int64 `json:"heap_wait_ns"`
}

// Waits returns how often a thread slept for a lock.
func (l Locks) Waits() int64 { return l.SharedWaits + l.HeapWaits }

// WaitNS returns the total time that threads slept for a lock.
func (l Locks) WaitNS() int64 { return l.SharedWaitNS + l.HeapWaitNS }

// Spans describes the owners of the regions' spans, and the state of the pages outside spans.
type Spans struct {
	Owned            int64 `json:"owned"`
	OwnedBytes       int64 `json:"owned_bytes"`
	Central          int64 `json:"central"`
	CentralBytes     int64 `json:"central_bytes"`
	Empty            int64 `json:"empty"`
	EmptyBytes       int64 `json:"empty_bytes"`
	Sampled          int64 `json:"sampled"`
	SampledBytes     int64 `json:"sampled_bytes"`
	CachedLarge      int64 `json:"cached_large"`
	CachedLargeBytes int64 `json:"cached_large_bytes"`
	FreeDirtyBytes   int64 `json:"free_dirty_bytes"`
	FreeCleanBytes   int64 `json:"free_clean_bytes"`
}

// Blocks holds bytes by state of the block, by allocated size, whether resident or not.
type Blocks struct {
	LiveBytes   int64 `json:"live_bytes"`
	CachedBytes int64 `json:"cached_bytes"` // free, in free lists of threads
	FreeBytes   int64 `json:"free_bytes"`   // free, in their spans
	// AllocatedBytes counts the bytes allocated since the start, including large blocks and freed blocks; 0 for an
	// older library.
	AllocatedBytes int64 `json:"allocated_bytes"`
}

// Large counts blocks of whole pages.
type Large struct {
	Blocks int64 `json:"blocks"`
	Bytes  int64 `json:"bytes"`
}

// Realloc counts blocks that could not be resized in place.
type Realloc struct {
	Copies      int64 `json:"copies"`
	CopiedBytes int64 `json:"copied_bytes"`
}

// SizeClass counts the spans and blocks of one class.
type SizeClass struct {
	Size   int64 `json:"size"`
	Spans  int64 `json:"spans"`
	Live   int64 `json:"live"`
	Cached int64 `json:"cached"`
	Free   int64 `json:"free"`
	// Refills counts how often a thread's free list was empty.
	Refills int64 `json:"refills"`
}

// FetchStats fetches the statistics.
func FetchStats(c *Client) (*Stats, error) { return fetchStats(c, "stats") }

// FetchBriefStats fetches the statistics without the parts of Memory that need a query to the kernel for each region:
// Live, Cached, Fragmentation and Foreign.
func FetchBriefStats(c *Client) (*Stats, error) { return fetchStats(c, "stats", "brief") }

func fetchStats(c *Client, command string, args ...string) (*Stats, error) {
	payload, err := c.Call(command, args...)
	if err != nil {
		return nil, err
	}
	return ParseStats(payload, c.peer)
}

// ParseStats reads the JSON of a `stats` answer. process is the name of the source in the error.
func ParseStats(payload []byte, process string) (*Stats, error) {
	stats := new(Stats)
	payload = CurrentNames(payload)
	if err := json.Unmarshal(payload, stats); err != nil {
		return nil, fmt.Errorf("%s: its statistics are not readable (%v): tool and library may be of different versions", process, err)
	}
	stats.answer = payload
	return stats, nil
}

// MarshalJSON returns the library's answer, with the present names. Statistics that were computed here are encoded from their fields.
func (s *Stats) MarshalJSON() ([]byte, error) {
	if s.answer != nil {
		return s.answer, nil
	}
	type fields Stats
	return json.Marshal((*fields)(s))
}
