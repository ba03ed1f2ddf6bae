package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"seemalloc/tool/attach"
)

// MapTotals sums up a heap map, in bytes.
type MapTotals struct {
	Regions, HugePages                                int64
	Live, Free, Holes                                 int64 // in spans
	Dirty, Lazy, Empty                                int64 // free pages: with memory, reclaimable by the kernel, without memory
	Blocks, BlockBytes, RetainedBytes, RetainedPurged int64
}

// SumMap sums the regions and the huge memory.
func SumMap(m *attach.Map) MapTotals {
	t := MapTotals{Regions: int64(len(m.Regions))}
	for _, r := range m.Regions {
		t.HugePages += int64(r.Huge)
		t.Live += r.LiveBytes
		t.Free += r.FreeBytes
		t.Holes += r.HoleBytes
		t.Dirty += r.Dirty * m.PageBytes
		t.Lazy += r.Lazy * m.PageBytes
		t.Empty += (r.Clean + r.Purged) * m.PageBytes
	}
	for _, b := range m.Blocks {
		t.Blocks++
		t.BlockBytes += b.Bytes
	}
	for _, k := range m.Retained {
		if k.Purged == 1 {
			t.RetainedPurged += k.Bytes
		} else {
			t.RetainedBytes += k.Bytes
		}
	}
	return t
}

// MostFragmented returns the regions with the most free memory in spans, at most `most` of them (0: all), sorted by
// address.
func MostFragmented(regions []attach.MapRegion, limit int) []attach.MapRegion {
	list := slices.Clone(regions)
	slices.SortStableFunc(list, func(a, b attach.MapRegion) int { return cmp.Compare(b.FreeBytes, a.FreeBytes) })
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	slices.SortFunc(list, func(a, b attach.MapRegion) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

// MapText formats the heading: the totals of all regions.
func MapText(name string, m *attach.Map) string {
	t := SumMap(m)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: heap map\n", name)
	if m.Memory != nil {
		r := m.Memory
		fmt.Fprintf(&b, "resident, as in `seemalloc stats`: live %s, cached %s (free pages %s), fragmentation %s%s\n", Bytes(float64(r.Live)),
			Bytes(float64(r.Cached)), Bytes(float64(r.Dirty)), Bytes(float64(r.Fragmentation)), eachWithin(*r))
	}
	fmt.Fprintf(&b, "by heap metadata, including nonresident memory: %s regions of 2 MiB, %s of them on huge pages; in spans: live %s (including free blocks in threads' free lists), free %s, purged inside %s; free pages: not purged %s, without memory %s\n",
		Count(t.Regions), Count(t.HugePages), Bytes(float64(t.Live)), Bytes(float64(t.Free)), Bytes(float64(t.Holes)),
		Bytes(float64(t.Dirty+t.Lazy)), Bytes(float64(t.Empty)))
	fmt.Fprintf(&b, "%s huge blocks of %s; %s of freed ones are retained\n", Count(t.Blocks), Bytes(float64(t.BlockBytes)), Bytes(float64(t.RetainedBytes)))
	if m.Omitted > 0 {
		fmt.Fprintf(&b, "%s lines did not fit into the answer\n", Count(m.Omitted))
	}
	fmt.Fprintf(&b, "\n%-16s %6s %10s %10s %10s %10s %6s  %s\n", "region", "spans", "live", "free in", "free out", "empty", "mostly", "picture")
	return b.String()
}

// MapRegionText formats a region as one line. m is the answer that contains it.
func MapRegionText(m *attach.Map, r attach.MapRegion) string {
	mostly := "large"
	if r.DominantSize > 0 {
		mostly = Count(r.DominantSize)
	}
	if r.Spans == 0 {
		mostly = "-"
	}
	huge := ""
	if r.Huge == 1 {
		huge = " huge page"
	}
	return fmt.Sprintf("%-16x %6s %10s %10s %10s %10s %6s  |%s|%s\n", uint64(r.Address), Count(r.Spans), Bytes(float64(r.LiveBytes)),
		Bytes(float64(r.FreeBytes)), Bytes(float64((r.Dirty+r.Lazy)*m.PageBytes)),
		Bytes(float64((r.Clean+r.Purged)*m.PageBytes+r.HoleBytes)), mostly, mapPicture(m, r), huge)
}

const pictureWidth = 64

// mapPicture draws the parts of a region. Each character shows the most frequent state of its pages.
func mapPicture(m *attach.Map, r attach.MapRegion) string {
	pages := int(attach.RegionBytes / m.PageBytes)
	each := max(1, pages/pictureWidth)
	marks := make([]rune, 0, pages)
	for _, part := range r.Parts {
		for range part.Pages {
			marks = append(marks, pictureChar(m, part, len(marks)-int(part.Page)))
		}
	}
	var b strings.Builder
	for cell := range slices.Chunk(marks, each) {
		counts, best := map[rune]int{}, cell[0]
		for _, mark := range cell {
			counts[mark]++
			if counts[mark] > counts[best] {
				best = mark
			}
		}
		b.WriteRune(best)
	}
	return b.String()
}

// pictureChar returns the character for one page of a part.
func pictureChar(m *attach.Map, part attach.MapPart, page int) rune {
	switch part.Type {
	case "large":
		return 'L'
	case "small", "sampled":
		first := uint(int64(page) * m.PageBytes / m.OSPageBytes) // OS pages that are larger than ours have at most 64 KiB
		if first < 32 && part.Holes>>first&1 == 1 {
			return 'o'
		}
		switch full := float64(part.Live) / float64(max(1, part.Blocks)); {
		case full >= 0.95:
			return '#'
		case full >= 0.5:
			return '+'
		case full >= 0.1:
			return '-'
		}
		return '.'
	case "dirty", "lazy", "kept", "taken":
		return 'd'
	}
	return ' '
}

// MapSpansText lists a region's spans. place names the function that allocated a pin.
func MapSpansText(m *attach.Map, r attach.MapRegion, place func(attach.MapPin) string) string {
	var b strings.Builder
	for _, part := range r.Parts {
		fmt.Fprintf(&b, "    page %3d %10s  %-8s", part.Page, Bytes(float64(part.Pages*m.PageBytes)), part.Type)
		if part.Size > 0 {
			fmt.Fprintf(&b, " %6s B  %s of %s blocks", Count(part.Size), Count(part.Live), Count(part.Blocks))
		}
		if part.State != "" {
			fmt.Fprintf(&b, ", %s", part.State)
		}
		if part.IdleMS != nil {
			fmt.Fprintf(&b, ", idle for %s", MapAge(*part.IdleMS))
		}
		if part.Stack != "" {
			fmt.Fprintf(&b, "; %s of %s", place(part.MapPin), MapAge(part.AgeMS))
			if part.Samples > 1 {
				fmt.Fprintf(&b, " and %s more samples", Count(part.Samples-1))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// MapHugeText lists the largest huge blocks.
func MapHugeText(m *attach.Map, limit int) string {
	list := slices.Clone(m.Blocks)
	slices.SortStableFunc(list, func(a, b attach.MapBlock) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var b strings.Builder
	if len(list) > 0 {
		fmt.Fprintf(&b, "\n%-16s %10s %10s\n", "huge block", "bytes", "room")
	}
	for i, block := range list {
		if limit > 0 && i == limit {
			fmt.Fprintf(&b, "(%s more huge blocks: -n 0 shows all)\n", Count(int64(len(list)-i)))
			break
		}
		fmt.Fprintf(&b, "%-16x %10s %10s\n", uint64(block.Address), Bytes(float64(block.Bytes)), Bytes(float64(block.ReservedBytes)))
	}
	return b.String()
}

// MapAge formats milliseconds in short form.
func MapAge(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}
