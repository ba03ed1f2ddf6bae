package doctor

import (
	"os"
	"strings"

	"seemalloc/tool/attach"
)

// Room returns the memory that is left to a process: to the nearest limit of a memory cgroup, or of the machine. It
// returns "" and 0 if neither is known.
func Room(pid int) (limit string, bytes int64) {
	const minimum = 1 // at the limit already
	data, _ := os.ReadFile("/proc/meminfo")
	if available := availableMemory(string(data)); available > 0 {
		limit, bytes = "the machine's memory", available
	}
	if pid == 0 {
		return limit, bytes
	}
	for _, one := range readLimits(pid, attach.Pressure{}) {
		if left := max(one.Bytes-one.Used, minimum); limit == "" || left < bytes {
			limit, bytes = "the limit of its cgroup ("+one.File+")", left
		}
	}
	return limit, bytes
}

// availableMemory parses MemAvailable of /proc/meminfo, in bytes.
func availableMemory(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemAvailable:" {
			return number(fields[1]) * kib
		}
	}
	return 0
}
