package attach

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Stats is the answer to `stats`: bytes, counts and milliseconds. Fields that an older or newer core does not send
// stay 0; what this tool has no field for is kept for whoever reads its JSON.
type Stats struct {
	answer json.RawMessage // what the library said, whole

	Version     string      `json:"version"`
	PID         int         `json:"pid"`
	UptimeMS    int64       `json:"uptime_ms"`
	TimeNS      int64       `json:"time_ns"` // CLOCK_MONOTONIC when it was written
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

// Memory reconciles the resident memory: RSS = Live + Cached + Fragmentation + Metadata + NotOurs. Blocks count by their allocated size:
// that of their size class, or whole pages.
type Memory struct {
	RSS           int64 `json:"rss"`
	PeakRSS       int64 `json:"peak_rss"` // since the program was started; 0 where the library does not say
	Live          int64 `json:"live"`
	Cached        int64 `json:"cached"`
	Fragmentation int64 `json:"fragmentation"`
	Metadata      int64 `json:"metadata"`
	NotOurs       int64 `json:"not_ours"`
	// Unused is the part of Cached that is free pages without use, which huge pages have brought; nil where the library does not say: then it is
	// in Fragmentation.
	Unused *int64 `json:"unused"`
	// Uncertain is by how much Live, Cached, Fragmentation and NotOurs may each be off; nil where the library does not say.
	Uncertain *int64 `json:"uncertain"`
	// PagesRefused is 1 where the kernel refuses to tell which pages are resident.
	PagesRefused  int64 `json:"pages_refused"`
	Mapped        int64 `json:"mapped"`
	LiveAllocated int64 `json:"live_allocated"` // exact, by allocated size; may exceed what is resident
	Dirty         int64 `json:"dirty"`          // the part of Cached that is free pages; of brief statistics: free pages that have not been given back
}

// Socket is where the control socket is, and in which folders before that it could not be made.
type Socket struct {
	Path    string         `json:"path"`
	Refused []RefusedPlace `json:"refused"`
}

// RefusedPlace is a folder in which the control socket could not be made.
type RefusedPlace struct {
	Folder string `json:"folder"`
	Why    string `json:"why"`
}

// Sampling says what the profile rests on.
type Sampling struct {
	Interval       int64   `json:"interval"`
	Samples        int64   `json:"samples"`
	LiveSamples    int64   `json:"live_samples"`
	Dropped        int64   `json:"dropped"`
	Truncated      int64   `json:"truncated"` // samples, of Samples, with a stack that is cut
	Broken         int64   `json:"broken"`    // or that could not be followed to its end
	Stacks         int64   `json:"stacks"`
	Stretched      int64   `json:"stretched"` // samples at a longer interval than asked for
	Estimate       float64 `json:"estimate"`
	EstimateStderr float64 `json:"estimate_stderr"`
	// Requested is the same of what the program asked for; nil where the library does not say.
	Requested       *float64 `json:"requested"`
	RequestedStderr float64  `json:"requested_stderr"`
}

// System counts what was asked of the kernel.
type System struct {
	MinorFaults  int64 `json:"minor_faults"`
	MajorFaults  int64 `json:"major_faults"`
	Calls        Calls `json:"calls"`
	RefaultRuns  int64 `json:"refault_runs"`  // allocations that met memory purged shortly before
	RefaultBytes int64 `json:"refault_bytes"` // how much of it
	// Of it, what went by the delay, or was more than may be kept.
	RefaultDelayedBytes int64 `json:"refault_delayed_bytes"`
}

// CallCount counts one kind of call into the kernel, made for one reason.
type CallCount struct {
	Call    string `json:"call"`   // mmap, madvise:dontneed, …
	Reason  string `json:"reason"` // growth, decay, …
	Calls   int64  `json:"calls"`  // refused ones included
	Bytes   int64  `json:"bytes"`
	Refused int64  `json:"refused"`
	NS      int64  `json:"ns"`
}

// Calls is all that the allocator asked of the kernel about memory.
type Calls []CallCount

// ReportReason is the reason of calls made to answer this tool: no doing of the program's.
const ReportReason = "report"

// Sum adds up the calls whose name is call or begins with "call:", without those made to answer this tool. An empty
// call means all.
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

// Purged is how many bytes of free memory were given back. Splitting a huge page only prepares it; what goes for calloc is in use.
func (c Calls) Purged() int64 {
	sum := int64(0)
	for _, one := range c {
		switch one.Call {
		case "madvise:dontneed", "madvise:free":
			if one.Reason != "huge_pages" && one.Reason != "zero" {
				sum += one.Bytes
			}
		case "munmap": // a large block's memory; others unmap what was never free memory, or moved
			if one.Reason == "decay" || one.Reason == "asked" || one.Reason == "pressure" {
				sum += one.Bytes
			}
		}
	}
	return sum
}

// WithoutReport leaves out the calls made to answer this tool.
func (c Calls) WithoutReport() Calls {
	var out Calls
	for _, one := range c {
		if one.Reason != ReportReason {
			out = append(out, one)
		}
	}
	return out
}

// Plus adds up, by call and reason.
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

// Minus returns what came after before.
func (c Calls) Minus(before Calls) Calls {
	type key struct{ call, reason string }
	had := map[key]CallCount{}
	for _, one := range before {
		had[key{one.Call, one.Reason}] = one
	}
	var out Calls
	for _, one := range c {
		b := had[key{one.Call, one.Reason}]
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

// Purge says how free memory goes back to the system by itself. Mode is "" where the core does not send it.
type Purge struct {
	Mode      string `json:"mode"`
	DelayMS   int64  `json:"delay_ms"`
	GivenBack int64  `json:"given_back"`
	Postponed int64  `json:"postponed"` // ticks that ended since purging had its share of the processor time
	// HoleRefilled is memory of idle holes in spans that was given back and used again.
	HoleRefilled int64 `json:"hole_refilled_bytes"`
}

// Threads counts thread heaps.
type Threads struct {
	Heaps int64 `json:"heaps"`
	Live  int64 `json:"live"`
	// RemoteFrees counts blocks that were sent back to the thread whose memory they are.
	RemoteFrees int64 `json:"remote_frees"`
}

// Pressure says how near the process is to the memory limit that it is under, as it sees that itself.
type Pressure struct {
	Limit int64 `json:"limit"` // of its memory cgroup; 0: none is known
	Usage int64 `json:"usage"` // of the cgroup, without file cache
	// Waits is how often a thread that wanted memory slept until another one had given some back.
	Waits  int64 `json:"waits"`
	WaitNS int64 `json:"wait_ns"`
}

// Dumps counts the files that the process has written or tried to: profiles and statistics.
type Dumps struct {
	Written   int64 `json:"written"`
	Failed    int64 `json:"failed"`
	Removed   int64 `json:"removed"`    // older ones (option dump_keep)
	Joined    int64 `json:"joined"`     // became due while another waited to be written, and are that one
	LastErrno int64 `json:"last_errno"` // of those that failed
}

// Locks counts how often a lock was found held: short waits were over within a spin, the others slept.
type Locks struct {
	SharedShortWaits int64 `json:"shared_short_waits"`
	SharedWaits      int64 `json:"shared_waits"`
	SharedWaitNS     int64 `json:"shared_wait_ns"`
	HeapShortWaits   int64 `json:"heap_short_waits"`
	HeapWaits        int64 `json:"heap_waits"`
	HeapWaitNS       int64 `json:"heap_wait_ns"`
}

// Waits is how often a thread slept for a lock.
func (l Locks) Waits() int64 { return l.SharedWaits + l.HeapWaits }

// WaitNS is how long.
func (l Locks) WaitNS() int64 { return l.SharedWaitNS + l.HeapWaitNS }

// Spans says who has the regions' spans, and what the pages without one are.
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

// Blocks are bytes by what blocks are doing, by allocated size, whether resident or not.
type Blocks struct {
	LiveBytes   int64 `json:"live_bytes"`
	CachedBytes int64 `json:"cached_bytes"` // free, in threads' lists
	FreeBytes   int64 `json:"free_bytes"`   // free, in their spans
	// AllocatedBytes were handed to threads since the start, large blocks included, freed or not; 0 of an older library.
	AllocatedBytes int64 `json:"allocated_bytes"`
}

// Large counts blocks of whole pages.
type Large struct {
	Blocks int64 `json:"blocks"`
	Bytes  int64 `json:"bytes"`
}

// Realloc counts blocks that could not be resized where they were.
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
	// Refills counts how often a thread had no free block of its own at hand.
	Refills int64 `json:"refills"`
}

// FetchStats asks for the statistics.
func FetchStats(c *Client) (*Stats, error) { return fetchStats(c, "stats") }

// FetchBriefStats leaves out the parts of Memory for which the kernel would have to be asked about each region: Live,
// Cached, Fragmentation and NotOurs.
func FetchBriefStats(c *Client) (*Stats, error) { return fetchStats(c, "stats", "brief") }

func fetchStats(c *Client, command string, args ...string) (*Stats, error) {
	payload, err := c.Call(command, args...)
	if err != nil {
		return nil, err
	}
	return ParseStats(payload, c.who)
}

// ParseStats reads the JSON of a `stats` answer; who names its source in the error.
func ParseStats(payload []byte, who string) (*Stats, error) {
	stats := new(Stats)
	if err := json.Unmarshal(payload, stats); err != nil {
		return nil, fmt.Errorf("%s: its statistics are not readable (%v): tool and library may be of different versions", who, err)
	}
	stats.answer = bytes.Clone(payload)
	return stats, nil
}

// MarshalJSON passes on what the library said; statistics that were made here are their fields.
func (s *Stats) MarshalJSON() ([]byte, error) {
	if s.answer != nil {
		return s.answer, nil
	}
	type fields Stats
	return json.Marshal((*fields)(s))
}
