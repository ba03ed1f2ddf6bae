package attach

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Meter measures how long a process works for the tool: the CPU time of the library's thread, or, where the system does
// not tell it, the time that has passed. Elapsed time is too long if the machine is busy.
type Meter struct {
	thread string // directory of the thread in /proc; "": unknown
	cpu    time.Duration
	began  time.Time
}

// StartMeter starts to measure the process pid.
func StartMeter(pid int) Meter {
	m := Meter{thread: helperThread(pid), began: time.Now()}
	var known bool
	if m.cpu, known = threadCPU(m.thread); !known {
		m.thread = ""
	}
	return m
}

// Busy returns the time since the start.
func (m Meter) Busy() time.Duration {
	if m.thread != "" {
		if cpu, known := threadCPU(m.thread); known {
			return cpu - m.cpu
		}
	}
	return time.Since(m.began)
}

// helperThreads caches the directories of processes' helper threads: a process may have thousands of threads.
var helperThreads sync.Map // pid → directory

func helperThread(pid int) string {
	if thread, known := helperThreads.Load(pid); known {
		name, _ := os.ReadFile(thread.(string) + "/comm")
		if strings.HasPrefix(string(name), helperName) {
			return thread.(string)
		}
	}
	tid := findHelper(pid).tid
	if tid == "" {
		return ""
	}
	thread := procPath(pid, "task/"+tid)
	helperThreads.Store(pid, thread)
	return thread
}

// threadCPU returns the CPU time of a thread.
func threadCPU(thread string) (time.Duration, bool) {
	text, err := os.ReadFile(thread + "/schedstat")
	if err != nil {
		return 0, false
	}
	var ns int64
	if _, err := fmt.Sscan(string(text), &ns); err != nil {
		return 0, false
	}
	return time.Duration(ns), true
}
