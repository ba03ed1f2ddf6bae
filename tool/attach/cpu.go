package attach

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The defaults and limits of a CPU profile. They equal those of the library (core/api/cpu/cpu_profiler.h).
const (
	DefaultCPUTime = 10 * time.Second
	DefaultCPUHz   = 100
	MaxCPUHz       = 4000
)

// cpuGrace is the time after the requested duration at which the library ends a profile if no client does.
const cpuGrace = 30 * time.Second

// CPUProfile is a running CPU profile of a process. A process has at most one at a time.
type CPUProfile struct {
	// number identifies the profile to the process. It is "" with an older library: its stop command ends any running
	// profile.
	number string
}

// StartCPU starts a profile with hz samples per second of each thread's CPU time. The profile ends when it is stopped,
// or cpuGrace after the given duration. It returns a ServerError if the process refuses.
func StartCPU(c *Client, hz int, duration time.Duration) (*CPUProfile, error) {
	lease := (duration + cpuGrace).Milliseconds()
	payload, err := c.Call("cpu", "start", strconv.Itoa(hz), strconv.FormatInt(lease, 10))
	if err != nil {
		var refused *ServerError
		if errors.As(err, &refused) && strings.HasPrefix(refused.Text, "unknown command") {
			return nil, fmt.Errorf("%s: its library has no CPU profiler: it is older than this tool", c.peer)
		}
		return nil, err
	}
	return &CPUProfile{number: string(payload)}, nil
}

// Stop ends the profile and returns its data. It may be called again after the profile has ended. It affects this
// profile only: if another one has been started since, it returns a ServerError.
func (p *CPUProfile) Stop(c *Client) ([]byte, error) {
	if p.number != "" {
		return c.Call("cpu", "stop", p.number)
	}
	var ended *ServerError
	if _, err := c.Call("cpu", "stop"); err != nil && !errors.As(err, &ended) { // the profile may have ended on its own and reports why
		return nil, err
	}
	return c.Call("profile", "cpu")
}
