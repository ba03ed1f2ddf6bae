package attach

import (
	"fmt"
	"strconv"
	"strings"
)

// Event is one call into the kernel that the allocator made.
type Event struct {
	TimeNS    int64 // CLOCK_MONOTONIC at the start of the call
	Call      string
	Reason    string
	Bytes     int64
	NS        int64 // duration of the call
	Thread    int
	SizeClass int64 // bytes of the size class that needed the call; 0: none
	Refused   bool
	Stack     []uint64 // return addresses, innermost first, without the library's own frames
}

// Trace is a running trace of a process. The library ends it if it is not read for five seconds.
type Trace struct {
	client *Client
	reader string
	// Lost counts events that were overwritten before they were read. Dropped counts events that could not be recorded.
	Lost, Dropped int64
}

// StartTrace makes the process record its calls from now on.
func StartTrace(c *Client) (*Trace, error) {
	payload, err := c.Call("trace", "start")
	if err != nil {
		return nil, err
	}
	return &Trace{client: c, reader: strings.TrimSpace(string(payload))}, nil
}

// Read returns the events since the last read, oldest first.
func (t *Trace) Read() ([]Event, error) {
	var events []Event
	for {
		payload, err := t.client.Call("trace", "read", t.reader)
		if err != nil {
			return events, err
		}
		more, err := t.parse(string(payload), &events)
		if err != nil {
			return events, fmt.Errorf("%s: its trace is not readable (%v): tool and library may be of different versions", t.client.peer, err)
		}
		if !more {
			return events, nil
		}
	}
}

// Stop ends the recording unless other clients read it too.
func (t *Trace) Stop() error {
	_, err := t.client.Call("trace", "stop", t.reader)
	return err
}

// parse reads one answer: one event a line, then the number of lost events. It returns true if more events are waiting.
func (t *Trace) parse(text string, events *[]Event) (more bool, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 6 && fields[0] == "lost" {
			t.Lost, t.Dropped = number(fields[1]), number(fields[3])
			return fields[5] == "1", nil
		}
		event, err := parseEvent(fields)
		if err != nil {
			return false, err
		}
		*events = append(*events, event)
	}
	return false, fmt.Errorf("its last line is missing")
}

func parseEvent(fields []string) (Event, error) {
	const fieldCount = 9
	if len(fields) < fieldCount {
		return Event{}, fmt.Errorf("%d fields in %q", len(fields), strings.Join(fields, " "))
	}
	event := Event{
		TimeNS: number(fields[0]), Call: fields[1], Reason: currentReason(fields[2]), Bytes: number(fields[3]), NS: number(fields[4]),
		Thread: int(number(fields[5])), SizeClass: number(fields[6]), Refused: fields[7] == "1",
	}
	if fields[8] == "-" {
		return event, nil
	}
	for _, frame := range strings.Split(fields[8], ",") {
		address, err := strconv.ParseUint(frame, 0, 64)
		if err != nil {
			return Event{}, fmt.Errorf("%q is not an address", frame)
		}
		event.Stack = append(event.Stack, address)
	}
	return event, nil
}

// number returns 0 for text that is not a number, such as "-".
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
