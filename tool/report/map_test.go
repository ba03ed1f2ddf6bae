package report

import (
	"strings"
	"testing"

	"seemalloc/tool/attach"
)

func TestPictureOfARegion(t *testing.T) {
	idle := int64(2000)
	m := &attach.Map{PageBytes: 8192, OSPageBytes: 4096}
	r := attach.MapRegion{Address: 0x200000, Spans: 5, DominantSize: 64, LiveBytes: 1 << 20, FreeBytes: 8192, Dirty: 8, Clean: 100, HoleBytes: 4096, Huge: 1, Parts: []attach.MapPart{
		{Page: 0, Pages: 8, Type: "small", Size: 64, Blocks: 100, Live: 100},
		{Page: 8, Pages: 8, Type: "small", Size: 64, Blocks: 100, Live: 60, IdleMS: &idle, State: "available"},
		{Page: 16, Pages: 8, Type: "small", Size: 64, Blocks: 100, Live: 20, Holes: 0xff00},
		{Page: 24, Pages: 8, Type: "sampled", Size: 64, Blocks: 100, Live: 1, MapPin: attach.MapPin{Stack: "0x1", Samples: 3, AgeMS: 61000}},
		{Page: 32, Pages: 40, Type: "large"},
		{Page: 72, Pages: 8, Type: "dirty"},
		{Page: 80, Pages: 176, Type: "clean"},
	}}
	line := MapRegionText(m, r)
	picture := line[strings.Index(line, "|"):]
	if want := "|##++-o..LLLLLLLLLLdd" + strings.Repeat(" ", 44) + "| huge page\n"; picture != want {
		t.Errorf("got  %q\nwant %q", picture, want)
	}
	spans := MapSpansText(m, r, func(pin attach.MapPin) string { return "keeps cache.c:7" })
	for _, want := range []string{"60 of 100 blocks, available, idle for 2s\n", "1 of 100 blocks; keeps cache.c:7 of 1m1s and 2 more samples\n", "page  72  64.00 KiB  dirty"} {
		if !strings.Contains(spans, want) {
			t.Errorf("%q is not in\n%s", want, spans)
		}
	}
}

func TestMostFragmentedAreSortedByAddress(t *testing.T) {
	regions := []attach.MapRegion{{Address: 1, FreeBytes: 5}, {Address: 2, FreeBytes: 50}, {Address: 3, FreeBytes: 1}, {Address: 4, FreeBytes: 40}}
	got := MostFragmented(regions, 2)
	if len(got) != 2 || got[0].Address != 2 || got[1].Address != 4 {
		t.Errorf("%+v", got)
	}
	if len(MostFragmented(regions, 0)) != 4 {
		t.Error("0 is all")
	}
}
