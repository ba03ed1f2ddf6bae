package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"seemalloc/tool/attach"
)

// readLimits lists the memory limits of a process: those of its own group and of the groups above it, in cgroup v2 or
// v1. If its group is in a part of the hierarchy that is not mounted here, as in another container, it returns the
// limit that the process itself reports. Nil means unknown, and an empty list means that no limit is set.
func readLimits(pid int, own attach.Pressure) []Limit {
	groups := procFile(pid, "cgroup")
	if groups == "" {
		return nil
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	places, all := memoryGroups(groups, string(mounts))
	if !all && len(places) == 0 {
		return ownLimit(own)
	}
	found := []Limit{}
	for _, place := range places {
		for group := place.group; ; group = filepath.Dir(group) {
			found = append(found, limitsOf(filepath.Join(place.mount, group), group)...)
			if group == "/" || group == "." {
				break
			}
		}
	}
	return found
}

// memoryGroup is the location of a process's group: a mount and a path below it.
type memoryGroup struct{ mount, group string }

func ownLimit(own attach.Pressure) []Limit {
	if own.Limit <= 0 {
		return nil
	}
	return []Limit{{Group: "(its container's)", File: "memory limit", Bytes: own.Limit, Used: own.Usage}}
}

// memoryGroups parses /proc/PID/cgroup and /proc/self/mountinfo. all is false if a group lies outside the mounted
// hierarchy.
func memoryGroups(groups, mounts string) (found []memoryGroup, all bool) {
	all = true
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		v2 := fields[0] == "0" && fields[1] == ""
		if !v2 && !slices.Contains(strings.Split(fields[1], ","), "memory") {
			continue
		}
		mounted := memoryMounts(mounts, v2)
		place, ok := groupBelow(fields[2], mounted)
		if ok {
			found = append(found, place)
		}
		all = all && (ok || len(mounted) == 0)
	}
	return found, all
}

// groupBelow finds a group below one of the mounts. A mount may begin below the root of the hierarchy, as in a
// container.
func groupBelow(group string, mounts []cgroupMount) (memoryGroup, bool) {
	if strings.HasPrefix(group, "/..") { // in another namespace
		return memoryGroup{}, false
	}
	for _, m := range mounts {
		below, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
		if ok && (below == "" || below[0] == '/') {
			return memoryGroup{m.place, filepath.Clean("/" + below)}, true
		}
	}
	return memoryGroup{}, false
}

type cgroupMount struct{ root, place string }

func memoryMounts(mounts string, v2 bool) []cgroupMount {
	const root, place = 3, 4
	var found []cgroupMount
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) <= place || len(kind) < 3 {
			continue
		}
		if v2 && kind[0] == "cgroup2" || !v2 && kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "memory") {
			found = append(found, cgroupMount{fields[root], fields[place]})
		}
	}
	return found
}

// limitsOf reads the directory of one group. Page cache does not count as used, because the kernel drops it before it
// kills processes.
func limitsOf(dir, group string) []Limit {
	read := func(name string) string {
		data, _ := os.ReadFile(filepath.Join(dir, name))
		return strings.TrimSpace(string(data))
	}
	const unlimited = 1 << 60 // v1 writes a number near 2^63
	var found []Limit
	for _, file := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
		bytes := number(read(file)) // "max" is 0
		if bytes <= 0 || bytes >= unlimited {
			continue
		}
		limit := Limit{Group: group, File: file, Bytes: bytes}
		stat := fieldsOf(read("memory.stat"))
		if file == "memory.limit_in_bytes" {
			limit.Used = number(read("memory.usage_in_bytes")) - stat["total_inactive_file"] - stat["total_active_file"]
			limit.Failures = number(read("memory.failcnt"))
			limit.Kills = fieldsOf(read("memory.oom_control"))["oom_kill"]
		} else {
			events := fieldsOf(read("memory.events"))
			limit.Used = number(read("memory.current")) - stat["inactive_file"] - stat["active_file"]
			limit.Failures = events[strings.TrimPrefix(file, "memory.")]
			limit.Kills = events["oom_kill"]
		}
		limit.Used = max(limit.Used, 0)
		found = append(found, limit)
	}
	return found
}

// fieldsOf parses lines with a name and a number.
func fieldsOf(text string) map[string]int64 {
	fields := map[string]int64{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 {
			fields[words[0]] = number(words[1])
		}
	}
	return fields
}
