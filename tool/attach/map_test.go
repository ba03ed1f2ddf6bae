package attach_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"seemalloc/tool/attach"
	"seemalloc/tool/attach/fake"
)

func dialMap(t *testing.T, answer func(args []string) string) *attach.Client {
	t.Helper()
	server := fake.Start(t, filepath.Join(t.TempDir(), "s"))
	if answer != nil {
		server.Answers["map"] = answer
	}
	client, err := attach.DialSocket(server.Path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

const mapEnd = `{"end":1,"regions":2,"page_bytes":8192,"os_page_bytes":4096,"left_out":3,"stacks_left_out":0,"new":1}` + "\n"

const mapEndWhole = `{"end":1,"page_bytes":8192,"os_page_bytes":4096,"left_out":0}` + "\n"

func TestMapIsReadInTheOrderOfAddresses(t *testing.T) {
	client := dialMap(t, func([]string) string {
		return `{"memory":{"rss":9000,"live":5000,"fragmentation":300,"uncertain":0,"new":1}}
{"region":"0xffff800000400000","shard":1,"used":200,"clean":56,"live_bytes":5,"parts":[{"page":0,"pages":2,"is":"small","size":64,"blocks":256,"live":3,"idle_ms":0,"stack":"0x1","age_ms":9,"later":"x"}]}
{"region":"0x200000","huge":1,"used":256,"most":64}
{"block":"0x900000","bytes":4194304,"room":8192,"stack":"0x1"}
{"kept":"0x800000","bytes":2097152,"purged":1}
{"stack":"0x1","frames":["0x10","0xffff800000000001"]}
{"something":"new"}
` + mapEnd
	})
	m, err := attach.FetchMap(client)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Regions) != 2 || m.Regions[0].Address != 0x200000 || m.Regions[1].Address != 0xffff800000400000 || m.Regions[0].Huge != 1 {
		t.Errorf("%+v", m.Regions)
	}
	if m.Memory == nil || m.Memory.RSS != 9000 || m.Memory.Fragmentation != 300 || m.Memory.ErrorBound == nil {
		t.Errorf("%+v", m.Memory)
	}
	part := m.Regions[1].Parts[0]
	if part.Type != "small" || part.Live != 3 || part.IdleMS == nil || *part.IdleMS != 0 || part.Stack != "0x1" || part.AgeMS != 9 {
		t.Errorf("%+v", part)
	}
	if len(m.Blocks) != 1 || m.Blocks[0].ReservedBytes != 8192 || m.Blocks[0].Stack != "0x1" || len(m.Retained) != 1 || m.Retained[0].Purged != 1 {
		t.Errorf("%+v %+v", m.Blocks, m.Retained)
	}
	if s := m.Stacks["0x1"]; len(s) != 2 || s[1] != 0xffff800000000001 || m.Omitted != 3 || m.PageBytes != 8192 || m.OSPageBytes != 4096 {
		t.Errorf("%+v", m)
	}
}

func TestMapWithUnknownFields(t *testing.T) {
	for answer, want := range map[string]string{
		"":                           "last line is missing",
		`{"region":12}` + "\n":       "different versions",
		`{"region":"0x1"}` + "\n":    "last line is missing",
		"error unknown command: map": "older than this tool",
	} {
		_, err := attach.FetchMap(dialMap(t, func([]string) string { return answer }))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v", answer, err)
		}
	}
}

// The parts are requested for several regions at a time, and once for each region.
func TestEachRegionIsQueriedOnce(t *testing.T) {
	var regions []attach.MapRegion
	for i := range 150 {
		regions = append(regions, attach.MapRegion{Address: attach.Address(i+1) * attach.RegionBytes})
	}
	var asked []string
	client := dialMap(t, func(args []string) string {
		asked = append(asked, strings.Join(args, " "))
		return `{"region":"` + args[0] + `"}` + "\n" + mapEndWhole
	})
	seen := 0
	if err := attach.EachRegion(client, regions, func(*attach.Map, attach.MapRegion) error { seen++; return nil }); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(asked, ", "), "0x200000 0x8200000, 0x8200000 0x10200000, 0x10200000 0x12e00000"; got != want || seen != 3 {
		t.Errorf("asked %s\nwant  %s; %d", got, want, seen)
	}
}

// mapOf answers for a heap with regions at these addresses. An answer has room for the given number of regions.
func mapOf(addresses []attach.Address, room int, asked *int) func([]string) string {
	return func(args []string) string {
		*asked++
		from, _ := strconv.ParseUint(args[0], 0, 64)
		to, _ := strconv.ParseUint(args[1], 0, 64)
		var b strings.Builder
		there, left := 0, 0
		for _, at := range addresses {
			if uint64(at) < from || uint64(at) >= to {
				continue
			}
			if there++; there > room {
				left++
				continue
			}
			fmt.Fprintf(&b, "{\"region\":\"%#x\"}\n", uint64(at))
		}
		return b.String() + fmt.Sprintf(`{"end":1,"page_bytes":8192,"os_page_bytes":4096,"left_out":%d}`, left) + "\n"
	}
}

// Regions that were not requested lie between the requested ones, and no answer has to hold the whole heap.
func TestOnlyRequestedRegionsAreReturned(t *testing.T) {
	var all []attach.Address
	for i := range 1000 {
		all = append(all, attach.Address(i+1)*attach.RegionBytes)
	}
	chosen := []attach.MapRegion{{Address: all[3]}, {Address: all[5]}, {Address: all[40]}, {Address: all[300]}, {Address: all[999]}}
	for _, of := range []struct{ room, requests int }{
		{64, 3}, // one answer for each range of 128 MiB
		{37, 5}, // the first answer has 38 regions: it is requested in halves
		{1, 7},  // these are halved as well
	} {
		var got []attach.MapRegion
		asked := 0
		client := dialMap(t, mapOf(all, of.room, &asked))
		if err := attach.EachRegion(client, chosen, func(_ *attach.Map, r attach.MapRegion) error { got = append(got, r); return nil }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, chosen) {
			t.Errorf("room for %d: got %d regions, want the %d chosen: %+v", of.room, len(got), len(chosen), got)
		}
		if asked != of.requests {
			t.Errorf("room for %d: asked %d times, want %d", of.room, asked, of.requests)
		}
	}
}

func TestRegionWithoutPagesIsAnError(t *testing.T) {
	asked := 0
	client := dialMap(t, mapOf([]attach.Address{attach.RegionBytes}, 0, &asked))
	err := attach.EachRegion(client, []attach.MapRegion{{Address: attach.RegionBytes}}, func(*attach.Map, attach.MapRegion) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "1 lines of the region 0x200000 did not fit") {
		t.Errorf("got %v", err)
	}
}
