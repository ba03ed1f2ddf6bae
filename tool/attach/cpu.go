package attach

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What a CPU profile is unless it is asked for otherwise, and how fine it may be: as in the library (core/api/cpu_profiler.h).
const (
	UsualCPUTime = 10 * time.Second
	UsualCPUHz   = 100
	MostCPUHz    = 4000
)

// cpuGrace is how long after its time a profile ends by itself, should nobody be left to end it.
const cpuGrace = 30 * time.Second

// CPUProfile is a profile of a process's CPU time that has begun. The process has one at a time.
type CPUProfile struct {
	number string // by which the process knows it; "": of an older library, which ends whichever runs
}

// StartCPU begins a profile: hz samples in a second of each thread's time, for so long or until it is stopped. A ServerError says why there
// can be none.
func StartCPU(c *Client, hz int, duration time.Duration) (*CPUProfile, error) {
	lease := (duration + cpuGrace).Milliseconds()
	payload, err := c.Call("cpu", "start", strconv.Itoa(hz), strconv.FormatInt(lease, 10))
	if err != nil {
		var refused *ServerError
		if errors.As(err, &refused) && strings.HasPrefix(refused.Text, "unknown command") {
			return nil, fmt.Errorf("%s: its library has no CPU profiler: it is older than this tool", c.who)
		}
		return nil, err
	}
	return &CPUProfile{number: string(payload)}, nil
}

// Stop ends the profile and returns what it saw; again, if it has ended already. Only this one: a ServerError where another has begun
// since.
func (p *CPUProfile) Stop(c *Client) ([]byte, error) {
	if p.number != "" {
		return c.Call("cpu", "stop", p.number)
	}
	var ended *ServerError
	if _, err := c.Call("cpu", "stop"); err != nil && !errors.As(err, &ended) { // it may have ended by itself: the profile says why
		return nil, err
	}
	return c.Call("profile", "cpu")
}
