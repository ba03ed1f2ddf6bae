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

// Map is the heap map: regions, huge blocks, and huge memory that is kept for the next one, each in the order of addresses.
// Lines count by the heap's books, resident or not; Memory is what is resident of all.
type Map struct {
	// Memory is nil in answers with parts, and where the library is older than this tool.
	Memory  *Memory
	Regions []MapRegion
	Blocks  []MapBlock
	Kept    []MapKept
	// Stacks are those that parts and blocks refer to: return addresses, innermost first.
	Stacks map[string][]uint64
	// Python names those of them that are no addresses but functions of Python's.
	Python      map[uint64]PythonPlace
	PageBytes   int64
	OSPageBytes int64
	LeftOut     int64 // lines that there was no room for
}

// PythonPlace is a function of Python's, and the line in it.
type PythonPlace struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int64  `json:"line"`
}

// MapRegion is 2 MiB of address space. Pages by what they are add up to all of it.
type MapRegion struct {
	Address   Address   `json:"region"`
	Shard     int       `json:"shard"`
	Huge      int       `json:"huge"` // 1: lies on one huge page
	Spans     int64     `json:"spans"`
	Used      int64     `json:"used"`  // pages in spans
	Taken     int64     `json:"taken"` // pages on their way to a span, or to the system
	Dirty     int64     `json:"dirty"` // free pages that have not been given back
	Lazy      int64     `json:"lazy"`  // free pages that the kernel may take
	Purged    int64     `json:"purged"`
	Clean     int64     `json:"clean"`
	LiveBytes int64     `json:"live_bytes"`
	FreeBytes int64     `json:"free_bytes"` // free blocks and uncut ends in spans
	HoleBytes int64     `json:"hole_bytes"` // of spans, given back to the system
	Most      int64     `json:"most"`       // the block size that has most pages; 0: large blocks
	Parts     []MapPart `json:"parts,omitempty"`
}

// MapPart is a span, or free pages that are alike.
type MapPart struct {
	Page     int64  `json:"page"`
	Pages    int64  `json:"pages"`
	Is       string `json:"is"`
	Size     int64  `json:"size,omitempty"`
	Blocks   int64  `json:"blocks,omitempty"`
	Cut      int64  `json:"cut,omitempty"`
	Live     int64  `json:"live,omitempty"`
	Returned int64  `json:"returned,omitempty"`
	Holes    uint32 `json:"holes,omitempty"`
	State    string `json:"state,omitempty"`
	IdleMS   *int64 `json:"idle_ms,omitempty"`
	MapPin
}

// MapPin is who has a sampled block there, or would: nothing is known where Stack is "".
type MapPin struct {
	Stack   string `json:"stack,omitempty"`
	Samples int64  `json:"samples,omitempty"`
	AgeMS   int64  `json:"age_ms,omitempty"` // of the oldest one
	Thread  int    `json:"thread,omitempty"`
}

// MapBlock is a huge block in use.
type MapBlock struct {
	Address Address `json:"block"`
	Bytes   int64   `json:"bytes"`
	Room    int64   `json:"room"` // behind it
	MapPin
}

// MapKept is memory of freed huge blocks.
type MapKept struct {
	Address Address `json:"kept"`
	Bytes   int64   `json:"bytes"`
	Purged  int     `json:"purged"` // 1: only the addresses are kept
	IdleMS  *int64  `json:"idle_ms,omitempty"`
}

// Address is written in hexadecimal: JSON's numbers are too short for it.
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

// FetchMap asks for all regions in sums, and for huge memory.
func FetchMap(c *Client) (*Map, error) { return fetchMap(c) }

// FetchMapOf asks for what begins in [from, to), with the parts of regions and who pins them.
func FetchMapOf(c *Client, from, to Address) (*Map, error) {
	return fetchMap(c, fmt.Sprintf("%#x", uint64(from)), fmt.Sprintf("%#x", uint64(to)))
}

// EachRegion asks for the parts of these regions, which are in the order of addresses, some at a time. What lies between them is
// not passed on. An answer that had no room for all of them is asked for again in halves.
func EachRegion(c *Client, regions []MapRegion, f func(*Map, MapRegion) error) error {
	const atOnce = 64 // their answers' texts are some MiB at most
	for len(regions) > 0 {
		// Regions may lie far apart: what is asked for is bounded by the addresses, not by how many are wanted.
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

// eachRegionOf passes on what one answer has room for.
func eachRegionOf(c *Client, regions []MapRegion, f func(*Map, MapRegion) error) error {
	first, last := regions[0].Address, regions[len(regions)-1].Address
	part, err := FetchMapOf(c, first, last+RegionBytes)
	if err != nil {
		return err
	}
	if part.LeftOut > 0 {
		if len(regions) == 1 {
			return fmt.Errorf("%s: its answer had no room for %d lines of the region %#x", c.who, part.LeftOut, uint64(first))
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
			return nil, fmt.Errorf("%s: its library has no heap map: it is older than this tool", c.who)
		}
		return nil, err
	}
	m, err := parseMap(payload)
	if err != nil {
		return nil, fmt.Errorf("%s: its heap map is not readable (%v): tool and library may be of different versions", c.who, err)
	}
	return m, nil
}

// parseMap reads a line for what is resident, for each region, block, kept range and stack, and the last one.
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
			err = decodeInto(line, &m.Kept)
		case bytes.HasPrefix(line, []byte(`{"stack"`)):
			err = m.addStack(line)
		case bytes.HasPrefix(line, []byte(`{"end"`)):
			var end struct {
				PageBytes   int64 `json:"page_bytes"`
				OSPageBytes int64 `json:"os_page_bytes"`
				LeftOut     int64 `json:"left_out"`
			}
			err = json.Unmarshal(line, &end)
			m.PageBytes, m.OSPageBytes, m.LeftOut, ended = end.PageBytes, end.OSPageBytes, end.LeftOut, true
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
	slices.SortFunc(m.Kept, func(a, b MapKept) int { return cmp.Compare(a.Address, b.Address) })
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
