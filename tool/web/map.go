package web

import (
	"errors"
	"net/url"
	"strconv"
	"sync"
	"time"

	"seemalloc/tool/attach"
	"seemalloc/tool/owner"
	"seemalloc/tool/symbolize"
)

// mapSums holds the sums of all regions in the format of the page. 100 GiB have 51,200 regions.
type mapSums struct {
	Time      int64 `json:"t"` // ms since 1970
	PageBytes int64 `json:"page_bytes"`
	OSPage    int64 `json:"os_page_bytes"`
	// Memory shows the resident memory. The values of the regions come from heap metadata and include nonresident
	// memory. Memory is nil if the library is older than this tool.
	Memory    *attach.Memory `json:"memory,omitempty"`
	Columns   []string       `json:"columns"`
	Addresses []string       `json:"addresses"`
	Regions   [][]int64      `json:"regions"` // a value for each column
	// PollMillis is the interval in ms at which the page should request the map: a map may use only a share of the
	// process's time.
	PollMillis int64                  `json:"every"`
	Blocks     []attach.MapBlock      `json:"blocks"`
	Kept       []attach.RetainedBlock `json:"kept"`
	Stacks     map[string][]string    `json:"stacks"` // functions, innermost first
	Inner      map[string]int         `json:"inner"`  // number of innermost functions that belong to a standard library
}

var mapColumns = []string{"huge", "spans", "used", "taken", "dirty", "lazy", "purged", "clean", "live", "free", "holes", "most"}

func columnsOf(r attach.MapRegion) []int64 {
	return []int64{int64(r.Huge), r.Spans, r.Used, r.InTransition, r.Dirty, r.Lazy, r.Purged, r.Clean, r.LiveBytes, r.FreeBytes, r.HoleBytes, r.DominantSize}
}

// mapParts holds some regions with all their parts.
type mapParts struct {
	Regions []attach.MapRegion  `json:"regions"`
	Stacks  map[string][]string `json:"stacks"`
	Inner   map[string]int      `json:"inner"`
}

// heapMap caches the last answer, so that several pages cost the process no more than one.
type heapMap struct {
	mutex sync.Mutex
	namer *symbolize.Namer
	sums  *mapSums
	until time.Time
}

// places returns the functions of the stacks. It requires the mutex.
func (h *heapMap) places(pid int, m *attach.Map) map[string][]symbolize.Place {
	if h.namer == nil {
		h.namer = symbolize.NewNamer(pid)
	}
	for address, place := range m.Python {
		h.namer.SetPlace(address, symbolize.Place(place))
	}
	stacks := map[string][]symbolize.Place{}
	for id, frames := range m.Stacks {
		h.namer.Resolve(frames)
		stacks[id] = h.namer.Stack(frames)
	}
	return stacks
}

// namesOf returns the names of the functions, and for each stack the position of its owner if it is not 0.
func namesOf(stacks map[string][]symbolize.Place) (names map[string][]string, inner map[string]int) {
	names, inner = map[string][]string{}, map[string]int{}
	for id, stack := range stacks {
		names[id] = []string{}
		var frames []owner.Frame
		for _, place := range stack {
			names[id] = append(names[id], place.Function)
			frames = append(frames, owner.Frame{Name: place.Function, File: place.File})
		}
		if n := owner.Inner(frames); n > 0 {
			inner[id] = n
		}
	}
	return names, inner
}

// mapOfAll returns the last map after the process has ended.
func (s *Server) mapOfAll(url.Values) (any, error) {
	if s.process == nil {
		return s.history.LastAnswer(storedMapName)
	}
	h := &s.heapMap
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.sums != nil && time.Now().Before(h.until) {
		return h.sums, nil
	}
	var m *attach.Map
	var elapsed time.Duration
	err := s.process.Do(func(c *attach.Client) (err error) {
		meter := attach.StartMeter(s.process.PID)
		m, err = attach.FetchMap(c)
		elapsed = meter.Busy()
		return err
	})
	if errors.Is(err, attach.ErrExited) && h.sums != nil {
		return h.sums, nil
	}
	if err != nil {
		return nil, err
	}
	wait := min(max(interval, statsShare*elapsed), maxInterval)
	sums := &mapSums{Time: time.Now().UnixMilli(), PageBytes: m.PageBytes, OSPage: m.OSPageBytes, Memory: m.Memory, Columns: mapColumns, Addresses: []string{},
		Regions: [][]int64{}, PollMillis: wait.Milliseconds(), Blocks: m.Blocks, Kept: m.Retained}
	sums.Stacks, sums.Inner = namesOf(h.places(s.process.PID, m))
	for _, r := range m.Regions {
		sums.Addresses = append(sums.Addresses, "0x"+strconv.FormatUint(uint64(r.Address), 16))
		sums.Regions = append(sums.Regions, columnsOf(r))
	}
	h.sums, h.until = sums, time.Now().Add(wait)
	return sums, nil
}

func (s *Server) mapOfRange(q url.Values) (any, error) {
	if err := s.needProcess(); err != nil {
		return nil, err
	}
	const limit = 64 // regions; the page shows 16
	from, err := address(q, "from")
	if err != nil {
		return nil, err
	}
	to, err := address(q, "to")
	if err != nil {
		return nil, err
	}
	if to <= from {
		return nil, badRequest("to=%q: expected more than from=%q", q.Get("to"), q.Get("from"))
	}
	var m *attach.Map
	err = s.process.Do(func(c *attach.Client) (err error) {
		m, err = attach.FetchMapOf(c, from, to)
		return err
	})
	if err != nil {
		return nil, err
	}
	h := &s.heapMap
	h.mutex.Lock()
	defer h.mutex.Unlock()
	parts := mapParts{Regions: append([]attach.MapRegion{}, m.Regions[:min(limit, len(m.Regions))]...)}
	parts.Stacks, parts.Inner = namesOf(h.places(s.process.PID, m))
	return parts, nil
}

func address(q url.Values, name string) (attach.Address, error) {
	n, err := strconv.ParseUint(q.Get(name), 0, 64)
	if err != nil {
		return 0, badRequest("%s=%q: expected an address such as 0x7f0000200000", name, q.Get(name))
	}
	return attach.Address(n), nil
}
