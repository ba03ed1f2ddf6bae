package doctor

import (
	"errors"
	"fmt"
	"strings"

	"seemalloc/tool/report"
)

// checks lists the checks in display order.
var checks = []Check{
	{"growth", "functions whose memory grows", Rate, growing},
	{"purge-storm", "page faults because memory is purged too soon", Rate, purgeStorm},
	{"fragmentation", "half-empty spans", State, fragmentation},
	{"only-frees", "threads that only free blocks of other threads", Rate, onlyFreeingThreads},
	{"hoarding", "free memory cached by idle threads", Rate, idleThreadCaches},
	{"huge-pages", "unused memory in huge pages", State, hugePages},
	{"realloc-copies", "growing blocks that are copied", Rate, reallocCopies},
	{"over-alignment", "blocks far larger than requested", State, overAlignment},
	{"memory-limit", "the limit of a memory cgroup", State, memoryLimit},
	{"mappings", "mappings of the address space", State, mappings},
	{"samples-lost", "missing data in the profile", State, samplesLost},
}

// Checks lists the names of the checks and what they examine.
func Checks() []CheckResult {
	var list []CheckResult
	for _, check := range checks {
		list = append(list, CheckResult{ID: check.ID, Title: check.What})
	}
	return list
}

var (
	errOldLibrary = errors.New("the process's library is too old to report it")
	errNoProc     = errors.New("/proc does not show it to this user")
	errNoProfile  = errors.New("the process's library has no profiler (libseemalloc_minimal)")
	errNoKind     = errors.New("the process's library does not provide heap profiles")
)

// missingProfile explains why a snapshot has no heap profile.
func missingProfile(s *Snapshot) error {
	switch {
	case strings.Contains(s.HeapRefusal, "minimal"):
		return errNoProfile
	case s.HeapRefusal == "":
		return errNoKind
	case s.Mappings != nil && s.Mappings.Share() >= severeNearMappings:
		return fmt.Errorf("no heap profile could be taken (%s): the process has %s mappings of at most %s (vm.max_map_count)", s.HeapRefusal,
			report.Count(s.Mappings.Count), report.Count(s.Mappings.Limit))
	}
	return fmt.Errorf("no heap profile could be taken: %s", s.HeapRefusal)
}

// wasteSeverity rates the severity of this many wasted resident bytes. It returns false if the waste is acceptable.
func wasteSeverity(bytes, rss float64) (Severity, bool) {
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

func ratio(part, total float64) float64 {
	if total <= 0 {
		return 0
	}
	return part / total
}
