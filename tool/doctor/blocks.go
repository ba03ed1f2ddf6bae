package doctor

import (
	"fmt"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// unusedHugePageBytes returns the resident bytes in regions that are outside spans but were never freed: they came with
// huge pages.
func unusedHugePageBytes(s *Snapshot) float64 {
	if s.Memory == nil {
		return 0
	}
	m, spans := s.Stats.Memory, s.Stats.Spans
	if m.Unused != nil {
		return float64(min(*m.Unused, s.Memory.AnonHugePages))
	}
	resident := m.Live + m.Cached + m.Fragmentation
	known := spans.OwnedBytes + spans.CentralBytes + spans.EmptyBytes + spans.SampledBytes + spans.CachedLargeBytes +
		s.Stats.Large.Bytes + m.Dirty
	return float64(max(min(resident-known, s.Memory.AnonHugePages), 0))
}

// hugePages finds huge pages that hold few live pages but are fully resident.
func hugePages(p Pair) (string, *Finding, error) {
	if p.After.Memory == nil || p.Before.Memory == nil {
		return "", nil, errNoProc
	}
	bytes := min(unusedHugePageBytes(p.Before), unusedHugePageBytes(p.After))
	huge := float64(p.After.Memory.AnonHugePages)
	seen := fmt.Sprintf("%s in huge pages, %s of it unused", report.Bytes(huge), report.Bytes(bytes))
	severity, bad := wasteSeverity(bytes, float64(p.After.Stats.Memory.RSS))
	if !bad {
		return seen, nil, nil
	}
	advice := []string{
		"exclude malloc's blocks from your own calls of madvise(MADV_HUGEPAGE)",
		"`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` if it is set to always",
	}
	if p.After.Options["huge_pages"] == "0" {
		advice = append([]string{"option huge_pages:0 leaves huge pages to the kernel: with 1, the default, sparse memory does not get any"}, advice...)
	}
	return seen, &Finding{
		Severity: severity, Title: "Huge pages contain unused memory",
		Figure: fmt.Sprintf("%s of %s in huge pages are neither in a block nor freed: they were never requested", report.Bytes(bytes),
			report.Bytes(huge)),
		Value: bytes,
		Why: "Where a huge page is possible, touching one byte makes 2 MiB resident. The allocator permits that only if a region " +
			"is going to be dense; these pages have another origin.",
		Change: advice,
	}, nil
}

// reallocCopies finds blocks that realloc could not grow in place and had to copy.
func reallocCopies(p Pair) (string, *Finding, error) {
	copied := p.perSecond(func(s *attach.Stats) int64 { return s.Realloc.CopiedBytes })
	copies := p.perSecond(func(s *attach.Stats) int64 { return s.Realloc.Copies })
	seen := fmt.Sprintf("%s/s copied by realloc, in %s copies/s", report.Bytes(copied), report.Count(int64(copies)))
	if copied < copyRate {
		return seen, nil, nil
	}
	finding := &Finding{
		Severity: Warning, Title: "Growing blocks are copied",
		Figure: fmt.Sprintf("%s/s copied by realloc in %s copies/s, of %s on average", report.Bytes(copied), report.Count(int64(copies)),
			report.Bytes(ratio(copied, copies))),
		Value: copied,
		Why: "A block that outgrows its size class has to move, and all of it is copied. (Blocks above 1 MiB are moved by the kernel " +
			"without copying, and are not counted here.)",
		Change: []string{
			"request the final size at once: reserve(), or a first realloc to the expected size",
			"grow buffers by a factor (1.5 or 2) instead of in steps: then each byte is copied about once",
		},
		Places: "Places where realloc had to move blocks, in bytes per second",
	}
	if copied >= severeCopyRate {
		finding.Severity = Severe
	}
	if p.Before.Heap != nil && p.After.Heap != nil {
		grown := increase(p.Before.Heap, p.After.Heap, "alloc_space", p.Seconds())
		finding.Sites = topSites(p.After, p.After.Heap, func(s *sample) float64 {
			if report.Label(s, "moved") == 0 {
				return 0
			}
			return grown(s)
		})
	}
	return seen, finding, nil
}

// overAlignment finds blocks of which the program requested less than half. No size class wastes that much, but an
// alignment can.
func overAlignment(p Pair) (string, *Finding, error) {
	for _, result := range []*Snapshot{p.Before, p.After} {
		if result.Heap == nil {
			return "", nil, missingProfile(result)
		}
	}
	before, _ := oversized(p.Before)
	wasted, count := oversized(p.After)
	bytes := min(before, wasted)
	seen := fmt.Sprintf("%s in %s blocks (estimated) beyond the requested size", report.Bytes(wasted), report.Count(int64(count)))
	severity, bad := wasteSeverity(bytes, float64(p.After.Stats.Memory.LiveAllocated))
	if !bad {
		return seen, nil, nil
	}
	finding := &Finding{
		Severity: severity, Title: "Blocks are far larger than requested",
		Figure: fmt.Sprintf("%s in %s blocks, on average %s each, are due only to their alignment", report.Bytes(wasted),
			report.Count(int64(count)), report.Bytes(ratio(wasted, count))),
		Value: bytes,
		Why: "A block aligned to N bytes takes a multiple of N bytes. Here the alignment is more than twice the requested size, so " +
			"that more than half of each block is never used.",
		Change: []string{
			"request only the alignment that is needed: 64 bytes prevent blocks from sharing a cache line, and malloc always aligns to 16",
			"or allocate one aligned array for many of these objects",
		},
		Places: "Bytes beyond the requested size, in live blocks",
	}
	over := excessWeight(p.After)
	finding.Sites = topSites(p.After, p.After.Heap, over)
	return seen, finding, nil
}

// excessWeight weighs a row by the bytes beyond the requested size. The requested size is rounded up, so the result is
// a lower bound.
func excessWeight(s *Snapshot) weightFunc {
	objects := value(s.Heap, "inuse_objects")
	return func(row *sample) float64 {
		asked := report.Label(row, "asked")
		if asked == 0 {
			return 0
		}
		return float64(objects(row) * (report.Label(row, "bytes") - asked))
	}
}

func oversized(s *Snapshot) (bytes, count float64) {
	over, objects := excessWeight(s), value(s.Heap, "inuse_objects")
	for _, row := range s.Heap.Sample {
		if w := over(row); w > 0 {
			bytes += w
			count += float64(objects(row))
		}
	}
	return bytes, count
}
