package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Thread is what one thread keeps, in bytes, and what it did. The counts are its heap's: those of threads that had it
// before are in them.
type Thread struct {
	TID         int   `json:"tid"`         // in the process's own pid namespace
	ListBytes   int64 `json:"list_bytes"`  // free blocks in its lists
	EmptyBytes  int64 `json:"empty_bytes"` // spans without a live block
	FreeBytes   int64 `json:"free_bytes"`  // free blocks in its other spans
	LargeBytes  int64 `json:"large_bytes"` // large blocks kept for its next request
	LiveBytes   int64 `json:"live_bytes"`
	Refills     int64 `json:"refills"`      // how often a list of its was at its end
	RemoteFrees int64 `json:"remote_frees"` // blocks of other threads that it sent back
}

// Kept is what nobody but the thread can use.
func (t Thread) Kept() int64 { return t.ListBytes + t.EmptyBytes + t.LargeBytes }

// FetchThreads asks for the threads; nil without an error where the library is too old to tell.
func FetchThreads(c *Client) ([]Thread, error) {
	payload, err := c.Call("threads")
	var refused *ServerError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Text, "unknown command") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	answer := struct {
		Threads []Thread `json:"threads"`
	}{[]Thread{}}
	if err := json.Unmarshal(payload, &answer); err != nil {
		return nil, fmt.Errorf("%s: its list of threads is not readable (%v): tool and library may be of different versions", c.who, err)
	}
	return answer.Threads, nil
}
