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

// fragmentation: the free blocks between live ones hold much memory, in both looks: in size classes that are half empty, or in spans that
// one place keeps.
func fragmentation(p Pair) (string, *Finding, error) {
	wasted := min(float64(p.After.Stats.Memory.Fragmentation), float64(p.Before.Stats.Memory.Fragmentation))
	if p.After.Stats.Memory.Unused == nil { // an older library counts it there
		wasted = max(0, wasted-bloat(p.After))
	}
	rss := float64(p.After.Stats.Memory.RSS)
	seen := fmt.Sprintf("%s resident between live blocks (%s of RSS)", report.Bytes(wasted), percent(ratio(wasted, rss)))
	if class, free := emptiest(p.After.Stats); class.Size != 0 {
		seen += fmt.Sprintf("; most in blocks of %s bytes: %s free, %s live", report.Count(class.Size), report.Bytes(free),
			report.Bytes(float64(class.Live*class.Size)))
	}
	if _, bad := waste(wasted, rss); !bad {
		return seen, nil, nil
	}
	classes := halfEmpty(p)
	severity, bad := waste(min(freeInBoth(p, classes), wasted), rss)
	if !bad {
		return seen, pinned(p, wasted), nil
	}
	classes = mostOf(classes)
	bytes := min(freeInBoth(p, classes), wasted)
	finding := &Finding{
		Severity: severity, Value: bytes,
		Why: "A span's pages can go back to the system only where no live block touches them. Most blocks that were allocated together " +
			"have been freed, and the few that live on keep the pages. Only blocks of the same size can use the room.",
		Change: []string{
			"allocate what lives long apart from what lives short (another phase, another thread, or a pool that is freed as a whole)",
			"copy the survivors to fresh blocks once most of their neighbours are gone",
			"no option changes this: the blocks would have to move",
		},
	}
	finding.Title, finding.Figure = halfEmptyText(classes, bytes)
	finding.Places, finding.Sites = keepers(p.After, classes)
	return seen, finding, nil
}

// halfEmpty are the classes that have as many free bytes as live ones in their spans, the one with most free bytes first.
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

// freeInBoth is what was free in the classes in both looks.
func freeInBoth(p Pair, classes []attach.SizeClass) (bytes float64) {
	for _, c := range classes {
		bytes += float64(min(c.Free, classOf(p.Before.Stats, c.Size).Free) * c.Size)
	}
	return bytes
}

// mostOf is the first class alone where it has most of the free bytes.
func mostOf(classes []attach.SizeClass) []attach.SizeClass {
	var all int64
	for _, c := range classes {
		all += c.Free * c.Size
	}
	if first := classes[0]; float64(first.Free*first.Size) >= mostOfClasses*float64(all) {
		return classes[:1]
	}
	return classes
}

// halfEmptyText names the class, or how many there are.
func halfEmptyText(classes []attach.SizeClass, bytes float64) (title, figure string) {
	var live, free, used, spans int64
	var sizes []int64
	for _, c := range classes {
		live, free, used, spans = live+c.Live*c.Size, free+c.Free*c.Size, used+(c.Live+c.Cached)*c.Size, spans+c.Spans
		sizes = append(sizes, c.Size)
	}
	title = fmt.Sprintf("Blocks of %s bytes leave their spans half empty", report.Count(sizes[0]))
	if len(sizes) > 1 {
		title = fmt.Sprintf("Blocks of %d sizes, %s to %s bytes, leave their spans half empty", len(sizes),
			report.Count(slices.Min(sizes)), report.Count(slices.Max(sizes)))
	}
	return title, fmt.Sprintf("%s of free blocks between %s of live ones in %s spans: %s free", report.Bytes(min(bytes, float64(free))),
		report.Bytes(float64(live)), report.Count(spans), percent(ratio(float64(free), float64(free+used))))
}

// placeSize is blocks of one size that one place allocates.
type placeSize struct {
	place string
	size  int64
}

// placeSizes sums rows up.
func placeSizes(s *Snapshot, p *profile.Profile, by weigh) map[placeSize]float64 {
	sums := map[placeSize]float64{}
	eachPlace(s, p, by, func(place string, _ []string, size int64, weight float64) { sums[placeSize{place, size}] += weight })
	return sums
}

// sampleParts is the unit in which samples are counted: weights are whole numbers.
const sampleParts = 1000

// samplesOf is how many samples a row is made of: it tells for how many blocks they stand.
func samplesOf(p *profile.Profile) weigh {
	blocks := value(p, "fragmentation_objects")
	return func(row *sample) float64 {
		size, interval := float64(label(row, "bytes")), float64(cmp.Or(label(row, "interval"), p.Period))
		if interval > 1 {
			return sampleParts * float64(blocks(row)) * -math.Expm1(-size/interval)
		}
		return sampleParts * float64(blocks(row))
	}
}

// pin is what is free, in both looks, beside the blocks of a place: of the sizes of which more is free beside them than they hold.
type pin struct {
	place   string
	bytes   float64
	surely  float64 // less two standard errors
	samples float64
}

// mostPinned finds the place with the most, by what is sure.
func mostPinned(p Pair) (most pin) {
	free := func(s *Snapshot) map[placeSize]float64 {
		if s.Fragmentation == nil {
			return nil
		}
		space := value(s.Fragmentation, "fragmentation_space")
		return placeSizes(s, s.Fragmentation, func(row *sample) float64 { return float64(space(row)) })
	}
	before, after := free(p.Before), free(p.After)
	if len(before) == 0 || len(after) == 0 {
		return most
	}
	held := map[placeSize]float64{}
	if p.After.Heap != nil {
		inuse := value(p.After.Heap, "inuse_space")
		held = placeSizes(p.After, p.After.Heap, func(row *sample) float64 { return float64(inuse(row)) })
	}
	samples := placeSizes(p.After, p.After.Fragmentation, samplesOf(p.After.Fragmentation))
	pins := map[string]pin{}
	for at, bytes := range after {
		if bytes < fragmentedFreeToLive*held[at] {
			continue
		}
		one := pins[at.place]
		one.place = at.place
		one.bytes += min(bytes, before[at])
		one.samples += samples[at] / sampleParts
		pins[at.place] = one
	}
	for _, one := range pins {
		one.surely = one.bytes * (1 - 2/math.Sqrt(max(one.samples, 1)))
		if one.surely > most.surely || one.surely == most.surely && one.place < most.place {
			most = one
		}
	}
	return most
}

// pinned is found where classes are not half empty as a whole, but one place's blocks keep much of what is free in them.
func pinned(p Pair, wasted float64) *Finding {
	most := mostPinned(p)
	severity, bad := waste(min(most.surely, wasted), float64(p.After.Stats.Memory.RSS))
	if !bad {
		return nil
	}
	bytes := min(most.bytes, wasted)
	found := pinning(p.After, nil)
	return &Finding{
		Severity: severity, Value: bytes,
		Title:  "Blocks of one place keep half-empty spans",
		Figure: fmt.Sprintf("about %s of free blocks lie in spans that the blocks of %s keep", report.Bytes(bytes), most.place),
		Why: "A span's pages can go back to the system only where no live block touches them. Elsewhere the spans of these sizes are well " +
			"filled; here most blocks that were allocated together have been freed, and these live on.",
		Change: []string{
			"allocate what lives long apart from what lives short (another phase, another thread, or a pool that is freed as a whole)",
			"copy the survivors to fresh blocks once most of their neighbours are gone",
			"no option changes this: the blocks would have to move",
		},
		Places: placesPinning, Sites: found,
	}
}

const placesPinning = "Blocks that are still in use and keep the pages, by what is free beside them (estimated)"

// keepers are the places whose blocks keep the classes' spans: by what is free beside them, or, where no profile tells, by what they hold.
func keepers(s *Snapshot, classes []attach.SizeClass) (places string, found []Site) {
	if found = pinning(s, classes); found != nil || s.Heap == nil {
		return placesPinning, found
	}
	inuse := value(s.Heap, "inuse_space")
	return "Blocks of these sizes that are still in use and keep the pages (estimated)",
		sites(s, s.Heap, of(classes, func(row *sample) float64 { return float64(inuse(row)) }))
}

// pinning are the places by what is free in the spans that their blocks keep; of these classes, or of all where there are none.
func pinning(s *Snapshot, classes []attach.SizeClass) []Site {
	if s.Fragmentation == nil {
		return nil
	}
	free := value(s.Fragmentation, "fragmentation_space")
	return sites(s, s.Fragmentation, of(classes, func(row *sample) float64 { return float64(free(row)) }))
}

// of counts blocks of these classes only; all where there are none.
func of(classes []attach.SizeClass, by weigh) weigh {
	return func(row *sample) float64 {
		size := label(row, "bytes")
		if len(classes) != 0 && !slices.ContainsFunc(classes, func(c attach.SizeClass) bool { return c.Size == size }) {
			return 0
		}
		return by(row)
	}
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
