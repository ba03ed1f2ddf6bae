package cli

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"
)

// New code is found. Addresses outside code do not cause one read of the mappings each.
func TestProcessCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mapped := []*profile.Mapping{{Start: 0x1000, Limit: 0x2000, File: "/bin/shop"}}
		reads := 0
		c := newProcessCode(func() []*profile.Mapping {
			reads++
			return mapped
		})
		library := &profile.Mapping{Start: 0x5000, Limit: 0x6000, File: "/lib/new.so"}
		mapped = append([]*profile.Mapping{{Start: 0x1000, Limit: 0x2000, File: "/bin/shop"}}, library)
		for i := range uint64(1000) {
			if c.find(0x100000+i*0x1000) != nil || c.find(0x1000) == nil || c.find(0x1fff) == nil || c.find(0x2000) != nil {
				t.Fatal("found what is not there, or not what is")
			}
		}
		if reads != 1 {
			t.Errorf("read %d times at once", reads)
		}
		time.Sleep(rescanInterval)
		if c.find(0x5000) != library {
			t.Error("what has come is not found")
		}
		for range 100 {
			time.Sleep(rescanInterval / 10)
			c.find(0x100000)
		}
		if reads < 10 || reads > 12 {
			t.Errorf("read %d times in ten intervals", reads)
		}
		if len(c.list) != 2 {
			t.Errorf("%d mappings, expected 2", len(c.list))
		}
	})
}
