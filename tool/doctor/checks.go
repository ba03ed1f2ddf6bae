package doctor

import (
	"errors"
	"fmt"
	"strings"

	"seemalloc/tool/report"
)

// checks lists the checks in display order.
var checks = []Check{
	{"purge-storm", "page faults because memory is purged too soon", Rate, purgeStorm},
	{"fragmentation", "half-empty spans", State, fragmentation},
	{"only-frees", "threads that only free blocks of other threads", Rate, onlyFrees},
	{"hoarding", "free memory cached by idle threads", Rate, hoarding},
	{"huge-pages", "unused memory in huge pages", State, hugePages},
	{"realloc-copies", "growing blocks that are copied", Rate, reallocCopies},
	{"over-alignment", "blocks far larger than requested", State, overAlignment},
	{"memory-limit", "the limit of a memory cgroup", State, memoryLimit},
	{"mappings", "mappings of the address space", State, mappings},
	{"samples-lost", "missing data in the profile", State, samplesLost},
}

// Checks lists the names of the checks and what they examine.
func Checks() []Look {
	var list []Look
	for _, check := range checks {
		list = append(list, Look{ID: check.ID, What: check.What})
	}
	return list
}

var (
	errOldLibrary = errors.New("the process's library is too old to report it")
	errNoProc     = errors.New("/proc does not show it to this user")
	errNoProfile  = errors.New("the process's library has no profiler (libseemalloc_minimal)")
	errNoKind     = errors.New("the process's library does not provide heap profiles")
)

// noProfile explains why a snapshot has no heap profile.
func noProfile(s *Snapshot) error {
	switch {
	case strings.Contains(s.NoHeap, "minimal"):
		return errNoProfile
	case s.NoHeap == "":
		return errNoKind
	case s.Mappings != nil && s.Mappings.Share() >= severeNearMappings:
		return fmt.Errorf("no heap profile could be taken (%s): the process has %s mappings of at most %s (vm.max_map_count)", s.NoHeap,
			report.Count(s.Mappings.Count), report.Count(s.Mappings.Limit))
	}
	return fmt.Errorf("no heap profile could be taken: %s", s.NoHeap)
}

// waste rates the severity of this many wasted resident bytes. It returns false if the waste is acceptable.
func waste(bytes, rss float64) (Severity, bool) {
	switch {
	case bytes < wasteBytes || bytes < wasteShare*rss:
		return "", false
	case bytes >= severeWasteShare*rss:
		return Severe, true
	}
	return Warning, true
}

// percent formats a share for people: "34 %".
func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
