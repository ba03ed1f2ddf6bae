package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

// TakeSnapshot takes a snapshot of a process. Data that an older library does not report is not an error, except for
// the statistics. pid is 0 if only the socket is known.
func TakeSnapshot(c *attach.Client, pid int, name string) (*Snapshot, error) {
	stats, err := attach.FetchStats(c)
	if err != nil {
		return nil, err
	}
	if stats.TimeNS == 0 {
		return nil, fmt.Errorf("%s: its library does not have the counters of doctor: it is older than this tool", name)
	}
	s := &Snapshot{Stats: stats}
	if s.Options, err = options(c); err != nil {
		return nil, err
	}
	if s.Threads, err = attach.FetchThreads(c); err != nil {
		return nil, err
	}
	if s.Heap, s.HeapRefusal, err = requestProfile(c, "heap", name); err != nil {
		return nil, err
	}
	if s.Remote, err = fetchProfile(c, "remote", name); err != nil {
		return nil, err
	}
	if s.Fragmentation, err = fetchProfile(c, "fragmentation", name); err != nil {
		return nil, err
	}
	s.Name = func(p *profile.Profile) { symbolize.Profile(p, symbolize.Files{PID: pid}) }
	if pid != 0 {
		s.Tasks, s.Memory, s.Limits = readTasks(pid), readMemory(pid), readLimits(pid, s.Stats.Pressure)
		s.Mappings = attach.ReadMappings(pid)
	}
	return s, nil
}

// fetchProfile returns nil without an error if the library does not provide this kind of profile.
func fetchProfile(c *attach.Client, kind, name string) (*profile.Profile, error) {
	p, _, err := requestProfile(c, kind, name)
	return p, err
}

// requestProfile returns nil and the process's refusal if it does not provide this kind of profile, or cannot at
// present.
func requestProfile(c *attach.Client, kind, name string) (p *profile.Profile, refusal string, err error) {
	data, err := c.Call("profile", kind)
	var refused *attach.ServerError
	if errors.As(err, &refused) {
		return nil, refused.Text, nil
	}
	if err != nil {
		return nil, "", err
	}
	p, err = report.Parse(data, name)
	return p, "", err
}

// options returns the values in effect, by name, or nil if the library does not report them.
func options(c *attach.Client) (map[string]string, error) {
	payload, err := c.Call("options")
	var refused *attach.ServerError
	if errors.As(err, &refused) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(payload)) {
		if fields := strings.Split(line, "\t"); len(fields) > 1 {
			values[fields[0]] = fields[1]
		}
	}
	return values, nil
}

func procFile(pid int, name string) string {
	data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	return string(data)
}

// readTasks reads the CPU time of each thread. It returns nil if the kernel does not report it.
func readTasks(pid int) map[int]Task {
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return nil
	}
	tasks := map[int]Task{}
	for _, entry := range entries {
		dir := filepath.Join("task", entry.Name())
		fields := strings.Fields(procFile(pid, filepath.Join(dir, "schedstat")))
		if len(fields) == 0 {
			continue
		}
		tid, name := taskStatus(procFile(pid, filepath.Join(dir, "status")))
		tasks[tid] = Task{Name: name, CPUNS: number(fields[0])}
	}
	if len(tasks) == 0 {
		return nil
	}
	return tasks
}

// taskStatus parses a thread's name and its id in its own pid namespace.
func taskStatus(status string) (tid int, name string) {
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		switch fields := strings.Fields(value); {
		case key == "Name":
			name = strings.TrimSpace(value)
		case (key == "NSpid" || key == "Pid") && len(fields) > 0:
			tid = int(number(fields[len(fields)-1]))
		}
	}
	return tid, name
}

// readMemory returns nil if the kernel does not report the values.
func readMemory(pid int) *Memory {
	return parseMemory(procFile(pid, "smaps_rollup"))
}

func parseMemory(rollup string) *Memory {
	m := &Memory{}
	for line := range strings.Lines(rollup) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch bytes := number(fields[1]) * kib; fields[0] {
		case "Rss:":
			m.RSS = bytes
		case "AnonHugePages:":
			m.AnonHugePages = bytes
		}
	}
	if m.RSS == 0 {
		return nil
	}
	return m
}

// number returns 0 for text that is not a number.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
