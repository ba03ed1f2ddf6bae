package cli

import (
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// Mappings are read anew for an address that is in none, which stacks may be full of, at most every lookInterval; and every mostInterval
// without being asked for one, since what is unloaded makes room for others.
const lookInterval, mostInterval = 100 * time.Millisecond, time.Second

// processCode knows the code that a process has, and had, mapped since it is watched.
type processCode struct {
	list   []*profile.Mapping
	read   func() []*profile.Mapping
	looked time.Time
}

func newProcessCode(read func() []*profile.Mapping) *processCode {
	return &processCode{list: read(), read: read, looked: time.Now()}
}

// find is the mapping that holds the address, nil if none does. The mappings are read anew for it, if that is some time ago.
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

// known is find without a look: the last that was found there.
func (c *processCode) known(address uint64) *profile.Mapping {
	for _, m := range slices.Backward(c.list) {
		if address >= m.Start && address < m.Limit {
			return m
		}
	}
	return nil
}
