package attach

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Map is the heap map: regions, live huge blocks, and retained memory of freed huge blocks, each sorted by address.
// These values come from heap metadata and include nonresident memory. Memory shows the resident memory.
type Map struct {
	// Memory is nil in answers with parts, and if the library is older than this tool.
	Memory   *Memory
	Regions  []MapRegion
	Blocks   []MapBlock
	Retained []RetainedBlock
	// Stacks are the stacks that parts and blocks refer to: return addresses, innermost first.
	Stacks map[string][]uint64
	// Python names the frames that are Python functions and not addresses.
	Python      map[uint64]PythonPlace
	PageBytes   int64
	OSPageBytes int64
	Omitted     int64 // lines that did not fit into the answer
}

// PythonPlace is a Python function and a line in it.
type PythonPlace struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int64  `json:"line"`
}

// MapRegion is 2 MiB of address space. Its page counts by state add up to the whole region.
type MapRegion struct {
	Address      Address   `json:"region"`
	Shard        int       `json:"shard"`
	Huge         int       `json:"huge"` // 1: backed by one huge page
	Spans        int64     `json:"spans"`
	Used         int64     `json:"used"`  // pages in spans
	InTransition int64     `json:"taken"` // pages that are being moved to a span or returned to the OS
	Dirty        int64     `json:"dirty"` // free pages that have not been purged
	Lazy         int64     `json:"lazy"`  // free pages that the kernel may reclaim (MADV_FREE)
	Purged       int64     `json:"purged"`
	Clean        int64     `json:"clean"`
	LiveBytes    int64     `json:"live_bytes"`
	FreeBytes    int64     `json:"free_bytes"` // free blocks and uncarved ends of spans
	HoleBytes    int64     `json:"hole_bytes"` // purged holes in spans
	DominantSize int64     `json:"most"`       // the block size with the most pages; 0: large blocks
	Parts        []MapPart `json:"parts,omitempty"`
}

// MapPart is one span, or a run of free pages in the same state.
type MapPart struct {
	Page     int64  `json:"page"`
	Pages    int64  `json:"pages"`
	Type     string `json:"is"`
	Size     int64  `json:"size,omitempty"`
	Blocks   int64  `json:"blocks,omitempty"`
	Carved   int64  `json:"cut,omitempty"`
	Live     int64  `json:"live,omitempty"`
	Returned int64  `json:"returned,omitempty"`
	Holes    uint32 `json:"holes,omitempty"`
	State    string `json:"state,omitempty"`
	IdleMS   *int64 `json:"idle_ms,omitempty"`
	MapPin
}

// MapPin describes the sampled blocks that pin the memory. An empty Stack means that none is known.
type MapPin struct {
	Stack   string `json:"stack,omitempty"`
	Samples int64  `json:"samples,omitempty"`
	AgeMS   int64  `json:"age_ms,omitempty"` // of the oldest block
	Thread  int    `json:"thread,omitempty"`
}

// MapBlock is a live huge block.
type MapBlock struct {
	Address       Address `json:"block"`
	Bytes         int64   `json:"bytes"`
	ReservedBytes int64   `json:"room"` // reserved address space behind it
	MapPin
}

// RetainedBlock is retained memory of freed huge blocks.
type RetainedBlock struct {
	Address Address `json:"kept"`
	Bytes   int64   `json:"bytes"`
	Purged  int     `json:"purged"` // 1: only the address range is retained
	IdleMS  *int64  `json:"idle_ms,omitempty"`
}

// Address is written in hexadecimal because a JSON number cannot hold 64 bits exactly.
type Address uint64

// UnmarshalJSON reads "0x…".
func (a *Address) UnmarshalJSON(data []byte) error {
	text, err := strconv.Unquote(string(data))
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(text, 0, 64)
	*a = Address(n)
	return err
}

// MarshalJSON writes "0x…".
func (a Address) MarshalJSON() ([]byte, error) { return []byte(fmt.Sprintf(`"%#x"`, uint64(a))), nil }

// RegionBytes is the size of a region.
const RegionBytes = 2 << 20

// FetchMap fetches the totals of all regions, and the huge memory.
func FetchMap(c *Client) (*Map, error) { return fetchMap(c) }

// FetchMapOf fetches the regions and blocks that begin in [from, to), with the parts of each region and their pins.
func FetchMapOf(c *Client, from, to Address) (*Map, error) {
	return fetchMap(c, fmt.Sprintf("%#x", uint64(from)), fmt.Sprintf("%#x", uint64(to)))
}

// EachRegion fetches the parts of the given regions, which are sorted by address, several at a time, and calls f for
// each of them. It skips other regions between them. If an answer is too small for all of them, it is requested again
// in halves.
func EachRegion(c *Client, regions []MapRegion, f func(*Map, MapRegion) error) error {
	const atOnce = 64 // limits the text of one answer to a few MiB
	for len(regions) > 0 {
		// Regions may be far apart, so a request is limited by its address range and not by the number of regions.
		n, end := 1, regions[0].Address+atOnce*RegionBytes
		for n < len(regions) && regions[n].Address < end {
			n++
		}
		if err := eachRegionOf(c, regions[:n], f); err != nil {
			return err
		}
		regions = regions[n:]
	}
	return nil
}

// eachRegionOf calls f for the regions that one answer has room for.
func eachRegionOf(c *Client, regions []MapRegion, f func(*Map, MapRegion) error) error {
	first, last := regions[0].Address, regions[len(regions)-1].Address
	part, err := FetchMapOf(c, first, last+RegionBytes)
	if err != nil {
		return err
	}
	if part.Omitted > 0 {
		if len(regions) == 1 {
			return fmt.Errorf("%s: %d lines of the region %#x did not fit into the answer", c.peer, part.Omitted, uint64(first))
		}
		half := len(regions) / 2
		if err := eachRegionOf(c, regions[:half], f); err != nil {
			return err
		}
		return eachRegionOf(c, regions[half:], f)
	}
	for _, region := range part.Regions {
		wanted := func(r MapRegion, at Address) int { return cmp.Compare(r.Address, at) }
		if _, found := slices.BinarySearchFunc(regions, region.Address, wanted); !found {
			continue
		}
		if err := f(part, region); err != nil {
			return err
		}
	}
	return nil
}

func fetchMap(c *Client, args ...string) (*Map, error) {
	payload, err := c.Call("map", args...)
	if err != nil {
		var refused *ServerError
		if errors.As(err, &refused) && strings.HasPrefix(refused.Text, "unknown command") {
			return nil, fmt.Errorf("%s: its library has no heap map: it is older than this tool", c.peer)
		}
		return nil, err
	}
	m, err := parseMap(payload)
	if err != nil {
		return nil, fmt.Errorf("%s: its heap map is not readable (%v): tool and library may be of different versions", c.peer, err)
	}
	return m, nil
}

// parseMap reads one line for the resident memory, one line for each region, block, retained range and stack, and the
// final line.
func parseMap(payload []byte) (*Map, error) {
	m := &Map{Stacks: map[string][]uint64{}, Python: map[uint64]PythonPlace{}}
	ended := false
	for line := range bytes.Lines(payload) {
		var err error
		switch {
		case bytes.HasPrefix(line, []byte(`{"region"`)):
			err = decodeInto(line, &m.Regions)
		case bytes.HasPrefix(line, []byte(`{"memory"`)):
			var one struct{ Memory *Memory }
			err = json.Unmarshal(line, &one)
			m.Memory = one.Memory
		case bytes.HasPrefix(line, []byte(`{"block"`)):
			err = decodeInto(line, &m.Blocks)
		case bytes.HasPrefix(line, []byte(`{"kept"`)):
			err = decodeInto(line, &m.Retained)
		case bytes.HasPrefix(line, []byte(`{"stack"`)):
			err = m.addStack(line)
		case bytes.HasPrefix(line, []byte(`{"end"`)):
			var end struct {
				PageBytes   int64 `json:"page_bytes"`
				OSPageBytes int64 `json:"os_page_bytes"`
				LeftOut     int64 `json:"left_out"`
			}
			err = json.Unmarshal(line, &end)
			m.PageBytes, m.OSPageBytes, m.Omitted, ended = end.PageBytes, end.OSPageBytes, end.LeftOut, true
		}
		if err != nil {
			return nil, err
		}
	}
	if !ended {
		return nil, errors.New("its last line is missing")
	}
	slices.SortFunc(m.Regions, func(a, b MapRegion) int { return cmp.Compare(a.Address, b.Address) })
	slices.SortFunc(m.Blocks, func(a, b MapBlock) int { return cmp.Compare(a.Address, b.Address) })
	slices.SortFunc(m.Retained, func(a, b RetainedBlock) int { return cmp.Compare(a.Address, b.Address) })
	return m, nil
}

func decodeInto[T any](line []byte, list *[]T) error {
	var one T
	err := json.Unmarshal(line, &one)
	*list = append(*list, one)
	return err
}

func (m *Map) addStack(line []byte) error {
	var stack struct {
		Stack  string
		Frames []Address
		Python []struct {
			Address Address `json:"address"`
			PythonPlace
		}
	}
	if err := json.Unmarshal(line, &stack); err != nil {
		return err
	}
	for _, frame := range stack.Frames {
		m.Stacks[stack.Stack] = append(m.Stacks[stack.Stack], uint64(frame))
	}
	for _, frame := range stack.Python {
		m.Python[uint64(frame.Address)] = frame.PythonPlace
	}
	return nil
}
