package cli

import (
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// The mappings are read again for an address outside all known mappings at most every rescanInterval, since broken
// stacks may be full of such addresses. They are also read every maxRescanInterval in any case, because unloaded code
// makes room for other code at the same addresses.
const rescanInterval, maxRescanInterval = 100 * time.Millisecond, time.Second

// processCode holds the code mappings of a process, including earlier ones, since observation began.
type processCode struct {
	list     []*profile.Mapping
	read     func() []*profile.Mapping
	lastScan time.Time
}

func newProcessCode(read func() []*profile.Mapping) *processCode {
	return &processCode{list: read(), read: read, lastScan: time.Now()}
}

// find returns the mapping that contains the address, or nil. It reads the mappings again if the last read was long
// enough ago.
func (c *processCode) find(address uint64) *profile.Mapping {
	m, since := c.known(address), time.Since(c.lastScan)
	if since < rescanInterval || m != nil && since < maxRescanInterval {
		return m
	}
	c.lastScan = time.Now()
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
