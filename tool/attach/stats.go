package attach

import (
	"encoding/json"
	"fmt"
)

// Stats is the answer to `stats`: bytes, counts and milliseconds. Fields that an older or newer core does not send
// stay 0; fields that this tool does not know are ignored here but kept by `seemalloc stats --json`.
type Stats struct {
	Version     string      `json:"version"`
	PID         int         `json:"pid"`
	UptimeMS    int64       `json:"uptime_ms"`
	Memory      Memory      `json:"memory"`
	Sampling    Sampling    `json:"sampling"`
	System      System      `json:"system"`
	Threads     Threads     `json:"threads"`
	SizeClasses []SizeClass `json:"size_classes"`
}

// Memory reconciles the resident memory: RSS = Live + Cached + Fragmentation + Metadata + NotOurs.
type Memory struct {
	RSS           int64 `json:"rss"`
	Live          int64 `json:"live"`
	Cached        int64 `json:"cached"`
	Fragmentation int64 `json:"fragmentation"`
	Metadata      int64 `json:"metadata"`
	NotOurs       int64 `json:"not_ours"`
	Mapped        int64 `json:"mapped"`
	LiveAllocated int64 `json:"live_allocated"` // exact; may exceed what is resident
	Dirty         int64 `json:"dirty"`
}

// Sampling says what the profile rests on.
type Sampling struct {
	Interval       int64   `json:"interval"`
	Samples        int64   `json:"samples"`
	LiveSamples    int64   `json:"live_samples"`
	Dropped        int64   `json:"dropped"`
	Truncated      int64   `json:"truncated"`
	Broken         int64   `json:"broken"`
	Stacks         int64   `json:"stacks"`
	Stretched      int64   `json:"stretched"` // samples at a longer interval than asked for
	Estimate       float64 `json:"estimate"`
	EstimateStderr float64 `json:"estimate_stderr"`
}

// System counts what was asked of the kernel.
type System struct {
	MapCalls      int64 `json:"map_calls"`
	MapBytes      int64 `json:"map_bytes"`
	UnmapCalls    int64 `json:"unmap_calls"`
	UnmapBytes    int64 `json:"unmap_bytes"`
	PurgeCalls    int64 `json:"purge_calls"`
	PurgeBytes    int64 `json:"purge_bytes"`
	RemapCalls    int64 `json:"remap_calls"`
	HugePageCalls int64 `json:"huge_page_calls"`
	RefusedCalls  int64 `json:"refused_calls"`
	MinorFaults   int64 `json:"minor_faults"`
	MajorFaults   int64 `json:"major_faults"`
}

// Threads counts thread heaps.
type Threads struct {
	Heaps int64 `json:"heaps"`
	Live  int64 `json:"live"`
}

// SizeClass counts the spans and blocks of one class.
type SizeClass struct {
	Size   int64 `json:"size"`
	Spans  int64 `json:"spans"`
	Live   int64 `json:"live"`
	Cached int64 `json:"cached"`
	Free   int64 `json:"free"`
}

// FetchStats asks for the statistics.
func FetchStats(c *Client) (*Stats, error) {
	payload, err := c.Call("stats")
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
	return stats, nil
}
