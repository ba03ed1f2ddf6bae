package cli

import (
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// lookInterval bounds how often the mappings of a process are read: stacks without frame pointers are full of what is no code.
const lookInterval = 100 * time.Millisecond

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
	if m := c.known(address); m != nil || time.Since(c.looked) < lookInterval {
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

// known is find without a look.
func (c *processCode) known(address uint64) *profile.Mapping {
	for _, m := range c.list {
		if address >= m.Start && address < m.Limit {
			return m
		}
	}
	return nil
}
