package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Thread holds the bytes that one thread caches, and its counters. The counters belong to its thread heap, so they
// include earlier threads that used the same heap.
type Thread struct {
	TID         int   `json:"tid"`         // in the process's own pid namespace
	ListBytes   int64 `json:"list_bytes"`  // free blocks in its free lists
	EmptyBytes  int64 `json:"empty_bytes"` // spans without live blocks
	FreeBytes   int64 `json:"free_bytes"`  // free blocks in its other spans
	LargeBytes  int64 `json:"large_bytes"` // large blocks cached for reuse
	LiveBytes   int64 `json:"live_bytes"`
	Refills     int64 `json:"refills"`      // how often one of its free lists was empty
	RemoteFrees int64 `json:"remote_frees"` // blocks of other threads that it returned to them
}

// CachedBytes returns the bytes that only this thread can use.
func (t Thread) CachedBytes() int64 { return t.ListBytes + t.EmptyBytes + t.LargeBytes }

// FetchThreads fetches the threads. It returns nil without an error if the library is too old for this command.
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
		return nil, fmt.Errorf("%s: its list of threads is not readable (%v): tool and library may be of different versions", c.peer, err)
	}
	return answer.Threads, nil
}
