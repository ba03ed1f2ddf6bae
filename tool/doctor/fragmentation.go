package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/report"
)

// fragmentation finds much memory in free blocks between live ones, in both snapshots: in half-empty size classes, or
// in spans that the blocks of one site keep.
func fragmentation(p Pair) (string, *Finding, error) {
	wasted := min(float64(p.After.Stats.Memory.Fragmentation), float64(p.Before.Stats.Memory.Fragmentation))
	if p.After.Stats.Memory.Unused == nil { // an older library counts the unused memory as fragmentation
		wasted = max(0, wasted-unusedHugePageBytes(p.After))
	}
	rss := float64(p.After.Stats.Memory.RSS)
	seen := fmt.Sprintf("%s resident between live blocks (%s of RSS)", report.Bytes(wasted), percent(ratio(wasted, rss)))
	if class, free := classWithMostFree(p.After.Stats); class.Size != 0 {
		seen += fmt.Sprintf("; most in blocks of %s bytes: %s free, %s live", report.Count(class.Size), report.Bytes(free),
			report.Bytes(float64(class.Live*class.Size)))
	}
	if _, bad := wasteSeverity(wasted, rss); !bad {
		return seen, nil, nil
	}
	classes := halfEmpty(p)
	severity, bad := wasteSeverity(min(freeInBoth(p, classes), wasted), rss)
	if !bad {
		return seen, pinned(p, wasted), nil
	}
	classes = dominantClasses(classes)
	bytes := min(freeInBoth(p, classes), wasted)
	finding := &Finding{
		Severity: severity, Value: bytes,
		Why: "A span's pages can be returned to the OS only where no live block touches them. Most blocks that were allocated together " +
			"have been freed, and the few live ones keep the pages. Only blocks of the same size can use the free space.",
		Change: []string{
			"separate long-lived from short-lived allocations (another phase, another thread, or a pool that is freed as a whole)",
			"copy the remaining blocks to new ones once most of their neighbours have been freed",
			"no option changes this: the blocks would have to move",
		},
	}
	finding.Title, finding.Figure = halfEmptyText(classes, bytes)
	finding.Places, finding.Sites = pinningSites(p.After, classes)
	return seen, finding, nil
}

// halfEmpty returns the classes with at least as many free bytes as live bytes in their spans, the one with the most
// free bytes first.
func halfEmpty(p Pair) (classes []attach.SizeClass) {
	for _, c := range p.After.Stats.SizeClasses {
		free := min(c.Free, classOf(p.Before.Stats, c.Size).Free)
		if c.Live != 0 && free != 0 && float64(c.Free) >= fragmentedFreeToLive*float64(c.Live) {
			classes = append(classes, c)
		}
	}
	slices.SortFunc(classes, func(a, b attach.SizeClass) int { return cmp.Compare(b.Free*b.Size, a.Free*a.Size) })
	return classes
}

// freeInBoth returns the bytes that were free in the classes in both snapshots.
func freeInBoth(p Pair, classes []attach.SizeClass) (bytes float64) {
	for _, c := range classes {
		bytes += float64(min(c.Free, classOf(p.Before.Stats, c.Size).Free) * c.Size)
	}
	return bytes
}

// dominantClasses returns only the first class if it has most of the free bytes, else all classes.
func dominantClasses(classes []attach.SizeClass) []attach.SizeClass {
	var all int64
	for _, c := range classes {
		all += c.Free * c.Size
	}
	if first := classes[0]; float64(first.Free*first.Size) >= dominantClassShare*float64(all) {
		return classes[:1]
	}
	return classes
}

// halfEmptyText names the class, or the number of classes.
func halfEmptyText(classes []attach.SizeClass, bytes float64) (title, figure string) {
	var live, free, used, spans int64
	var sizes []int64
	for _, c := range classes {
		live, free, used, spans = live+c.Live*c.Size, free+c.Free*c.Size, used+(c.Live+c.Cached)*c.Size, spans+c.Spans
		sizes = append(sizes, c.Size)
	}
	title = fmt.Sprintf("Blocks of %s bytes keep their spans half empty", report.Count(sizes[0]))
	if len(sizes) > 1 {
		title = fmt.Sprintf("Blocks of %d sizes, %s to %s bytes, keep their spans half empty", len(sizes),
			report.Count(slices.Min(sizes)), report.Count(slices.Max(sizes)))
	}
	return title, fmt.Sprintf("%s of free blocks between %s of live ones in %s spans: %s free", report.Bytes(min(bytes, float64(free))),
		report.Bytes(float64(live)), report.Count(spans), percent(ratio(float64(free), float64(free+used))))
}

// siteSize identifies blocks of one size that one site allocates.
type siteSize struct {
	site string
	size int64
}

// siteSizes sums the rows by site and size.
func siteSizes(s *Snapshot, p *profile.Profile, by weightFunc) map[siteSize]float64 {
	sums := map[siteSize]float64{}
	eachSite(s, p, by, func(site string, _ []string, size int64, weight float64) { sums[siteSize{site, size}] += weight })
	return sums
}

// sampleParts is the unit for counting samples, because weights are integers.
const sampleParts = 1000

// samplesOf weighs a row by its number of samples, computed from the number of blocks that they represent.
func samplesOf(p *profile.Profile) weightFunc {
	blocks := value(p, "fragmentation_objects")
	return func(row *sample) float64 {
		size, interval := float64(report.Label(row, "bytes")), float64(cmp.Or(report.Label(row, "interval"), p.Period))
		return sampleParts * float64(blocks(row)) * report.SampleProbability(size, interval)
	}
}

// pin holds the memory next to the blocks of one site that is free in both snapshots. It counts only sizes for which
// more memory is free next to the blocks than they hold.
type pin struct {
	site    string
	bytes   float64
	certain float64 // minus two standard errors
	samples float64
}

// mostPinned finds the site with the largest certain value.
func mostPinned(p Pair) (largest pin) {
	free := func(s *Snapshot) map[siteSize]float64 {
		if s.Fragmentation == nil {
			return nil
		}
		space := value(s.Fragmentation, "fragmentation_space")
		return siteSizes(s, s.Fragmentation, func(row *sample) float64 { return float64(space(row)) })
	}
	before, after := free(p.Before), free(p.After)
	if len(before) == 0 || len(after) == 0 {
		return largest
	}
	held := map[siteSize]float64{}
	if p.After.Heap != nil {
		inuse := value(p.After.Heap, "inuse_space")
		held = siteSizes(p.After, p.After.Heap, func(row *sample) float64 { return float64(inuse(row)) })
	}
	samples := siteSizes(p.After, p.After.Fragmentation, samplesOf(p.After.Fragmentation))
	pins := map[string]pin{}
	for at, bytes := range after {
		if bytes < fragmentedFreeToLive*held[at] {
			continue
		}
		one := pins[at.site]
		one.site = at.site
		one.bytes += min(bytes, before[at])
		one.samples += samples[at] / sampleParts
		pins[at.site] = one
	}
	for _, one := range pins {
		one.certain = one.bytes * (1 - 2/math.Sqrt(max(one.samples, 1)))
		if one.certain > largest.certain || one.certain == largest.certain && one.site < largest.site {
			largest = one
		}
	}
	return largest
}

// pinned finds memory in classes that are not half empty as a whole, if the blocks of one site keep much of the free
// memory in them.
func pinned(p Pair, wasted float64) *Finding {
	largest := mostPinned(p)
	severity, bad := wasteSeverity(min(largest.certain, wasted), float64(p.After.Stats.Memory.RSS))
	if !bad {
		return nil
	}
	bytes := min(largest.bytes, wasted)
	found := pinning(p.After, nil)
	return &Finding{
		Severity: severity, Value: bytes,
		Title:  "Blocks from one place keep spans half empty",
		Figure: fmt.Sprintf("about %s of free blocks are in spans kept by the blocks of %s", report.Bytes(bytes), largest.site),
		Why: "A span's pages can be returned to the OS only where no live block touches them. Elsewhere the spans of these sizes are well " +
			"filled; here most blocks that were allocated together have been freed, and these remain.",
		Change: []string{
			"separate long-lived from short-lived allocations (another phase, another thread, or a pool that is freed as a whole)",
			"copy the remaining blocks to new ones once most of their neighbours have been freed",
			"no option changes this: the blocks would have to move",
		},
		Places: pinningProfile, Sites: found,
	}
}

const pinningProfile = "Live blocks that keep the pages, by the free memory next to them (estimated)"

// pinningSites returns the sites that pin spans of the classes with live blocks. They are ordered by the free memory
// next to these blocks, or, if no profile has it, by the bytes they hold.
func pinningSites(s *Snapshot, classes []attach.SizeClass) (sites string, found []Site) {
	if found = pinning(s, classes); found != nil || s.Heap == nil {
		return pinningProfile, found
	}
	inuse := value(s.Heap, "inuse_space")
	return "Live blocks of these sizes that keep the pages (estimated)",
		topSites(s, s.Heap, onlyClasses(classes, func(row *sample) float64 { return float64(inuse(row)) }))
}

// pinning returns the sites, ordered by the free memory in the spans that their blocks keep. It is limited to these
// classes, unless the list is empty.
func pinning(s *Snapshot, classes []attach.SizeClass) []Site {
	if s.Fragmentation == nil {
		return nil
	}
	free := value(s.Fragmentation, "fragmentation_space")
	return topSites(s, s.Fragmentation, onlyClasses(classes, func(row *sample) float64 { return float64(free(row)) }))
}

// onlyClasses weighs only blocks of these classes, or all blocks if the list is empty.
func onlyClasses(classes []attach.SizeClass, by weightFunc) weightFunc {
	return func(row *sample) float64 {
		size := report.Label(row, "bytes")
		if len(classes) != 0 && !slices.ContainsFunc(classes, func(c attach.SizeClass) bool { return c.Size == size }) {
			return 0
		}
		return by(row)
	}
}

// classWithMostFree returns the class with the most free bytes in spans that have live blocks.
func classWithMostFree(s *attach.Stats) (class attach.SizeClass, free float64) {
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
