package cli

import (
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// The mappings are read again for an address outside all known mappings at most every lookInterval, since broken stacks
// may be full of such addresses. They are also read every mostInterval in any case, because unloaded code makes room
// for other code at the same addresses.
const lookInterval, mostInterval = 100 * time.Millisecond, time.Second

// processCode holds the code mappings of a process, including earlier ones, since observation began.
type processCode struct {
	list   []*profile.Mapping
	read   func() []*profile.Mapping
	looked time.Time
}

func newProcessCode(read func() []*profile.Mapping) *processCode {
	return &processCode{list: read(), read: read, looked: time.Now()}
}

// find returns the mapping that contains the address, or nil. It reads the mappings again if the last read was long
// enough ago.
func (c *processCode) find(address uint64) *profile.Mapping {
	m, since := c.known(address), time.Since(c.looked)
	if since < lookInterval || m != nil && since < mostInterval {
		return m
	}
	c.looked = time.Now()
	for _, m := range c.read() {
		if !slices.ContainsFunc(c.list, func(old *profile.Mapping) bool {
			return old.Start == m.Start && old.Limit == m.Limit && old.File == m.File
		}) {
			c.list = append(c.list, m)
		}
	}
	return c.known(address)
}

// known is find without reading the mappings. It prefers the mapping that was read last.
func (c *processCode) known(address uint64) *profile.Mapping {
	for _, m := range slices.Backward(c.list) {
		if address >= m.Start && address < m.Limit {
			return m
		}
	}
	return nil
}
