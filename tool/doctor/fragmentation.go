package doctor

import (
	"fmt"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// fragmentation: the free blocks between live ones of one size class hold much memory, in both looks.
func fragmentation(p Pair) (string, *Finding, error) {
	class, free := emptiest(p.After.Stats)
	wasted := min(float64(p.After.Stats.Memory.Fragmentation), float64(p.Before.Stats.Memory.Fragmentation)) - bloat(p.After)
	rss := float64(p.After.Stats.Memory.RSS)
	seen := fmt.Sprintf("%s resident between live blocks (%s of RSS)", report.Bytes(max(wasted, 0)), percent(ratio(max(wasted, 0), rss)))
	if class.Size == 0 {
		return seen, nil, nil
	}
	seen += fmt.Sprintf("; most in blocks of %s bytes: %s free, %s live", report.Count(class.Size), report.Bytes(free),
		report.Bytes(float64(class.Live*class.Size)))
	before := classOf(p.Before.Stats, class.Size)
	bytes := min(free, float64(before.Free*before.Size), wasted)
	severity, bad := waste(bytes, rss)
	if !bad || float64(class.Free) < fragmentedFreeToLive*float64(class.Live) {
		return seen, nil, nil
	}
	share := ratio(float64(class.Free), float64(class.Free+class.Live+class.Cached))
	finding := &Finding{
		Severity: severity, Title: fmt.Sprintf("Blocks of %s bytes leave their spans half empty", report.Count(class.Size)),
		Figure: fmt.Sprintf("%s of free blocks between %s of live ones in %s spans: %s free", report.Bytes(bytes),
			report.Bytes(float64(class.Live*class.Size)), report.Count(class.Spans), percent(share)),
		Value: bytes,
		Why: "A span's pages can go back to the system only where no live block touches them. Most blocks that were allocated together " +
			"have been freed, and the few that live on keep the pages. Only blocks of this size can use the room.",
		Change: []string{
			"allocate what lives long apart from what lives short (another phase, another thread, or a pool that is freed as a whole)",
			"copy the survivors to fresh blocks once most of their neighbours are gone",
			"no option changes this: the blocks would have to move",
		},
		Places: "Blocks of this size that are still in use and keep the pages (estimated)",
	}
	if p.After.Heap != nil {
		inuse := value(p.After.Heap, "inuse_space")
		finding.Sites = sites(p.After, p.After.Heap, func(s *sample) float64 {
			if label(s, "bytes") != class.Size {
				return 0
			}
			return float64(inuse(s))
		})
	}
	return seen, finding, nil
}

// emptiest is the class with the most free bytes in spans that have live blocks.
func emptiest(s *attach.Stats) (class attach.SizeClass, free float64) {
	for _, c := range s.SizeClasses {
		if bytes := float64(c.Free * c.Size); c.Live > 0 && bytes > free {
			class, free = c, bytes
		}
	}
	return class, free
}

func classOf(s *attach.Stats, size int64) attach.SizeClass {
	for _, c := range s.SizeClasses {
		if c.Size == size {
			return c
		}
	}
	return attach.SizeClass{Size: size}
}
