package perf

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Explain turns the error of Open into a one-line message with the requirements. process is its name in the message.
func Explain(err error, process string) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("%s has ended", process)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: the kernel does not let this user see kernel stacks: this requires root or CAP_PERFMON, or kernel.perf_event_paranoid of 1 "+
			"or less for your own processes (it is %s)", process, paranoid())
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%s: this kernel, or the sandbox, has no performance events (perf_event_open: %w): without --kernel the process "+
			"is profiled by its own library", process, err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%s: too many threads: each takes a descriptor per CPU (`ulimit -n` is the limit)", process)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%s: no memory for the samples: kernel.perf_event_mlock_kb limits it for all users except root", process)
	}
	return fmt.Errorf("%s: perf_event_open: %w", process, err)
}

func paranoid() string {
	data, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}
