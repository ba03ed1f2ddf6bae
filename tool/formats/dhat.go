package formats

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/pprof/profile"
)

// The fields of DHAT files, version 2 (valgrind, dhat/dh_main.c). Times are in microseconds.
type (
	dhatFile struct {
		Version   int         `json:"dhatFileVersion"`
		Mode      string      `json:"mode"`
		Verb      string      `json:"verb"`
		Lifetimes bool        `json:"bklt"`
		Accesses  bool        `json:"bkacc"`
		TimeUnit  string      `json:"tu"`
		MTimeUnit string      `json:"Mtu"`
		Short     *int64      `json:"tuth,omitempty"`
		Notes     []string    `json:"notes,omitempty"` // our extension: the profile's comments
		Command   string      `json:"cmd"`
		PID       int         `json:"pid"`
		End       int64       `json:"te"`
		Peak      *int64      `json:"tg,omitempty"`
		Points    []dhatPoint `json:"pps"`
		Frames    []string    `json:"ftbl"`
	}
	dhatPoint struct {
		TotalBytes  int64 `json:"tb"`
		TotalBlocks int64 `json:"tbk"`
		*dhatLive
		Stack []int `json:"fs"` // innermost first
	}
	// dhatLive is present if the profile has live blocks.
	dhatLive struct {
		Lifetimes  int64 `json:"tl"`
		MaxBytes   int64 `json:"mb"`
		MaxBlocks  int64 `json:"mbk"`
		PeakBytes  int64 `json:"gb"`
		PeakBlocks int64 `json:"gbk"`
		EndBytes   int64 `json:"eb"`
		EndBlocks  int64 `json:"ebk"`
	}
)

// writeDHAT writes the allocated blocks as DHAT's totals and the live blocks as those at the end. A heap profile has no
// lifetimes (tl is 0) and describes a single moment. Without peak_space this moment also stands for the peak.
func writeDHAT(w io.Writer, p *profile.Profile, o Options) (Omitted, error) {
	total, live, peak := pairOf(p, "alloc"), pairOf(p, "inuse"), pairOf(p, "peak")
	if chosen := pairAt(p, o.Index); !total.ok() && !live.ok() && chosen.ok() {
		total = chosen
	}
	if !total.ok() && !live.ok() {
		return Omitted{}, fmt.Errorf("the format dhat holds blocks and bytes, and this profile has %s: choose another with --to", typeNames(p))
	}
	if !total.ok() {
		total = live
	}
	file := dhatFile{
		Version: 2, Mode: "heap", Verb: "Allocated", Lifetimes: live.ok(), TimeUnit: "µs", MTimeUnit: "s",
		Notes: p.Comments, Command: command(p, o), PID: o.PID, End: max(p.DurationNanos/1000, 1), Points: []dhatPoint{}, Frames: []string{"[root]"},
	}
	if live.ok() {
		file.Short, file.Peak = new(int64), &file.End
		if !peak.ok() {
			peak = live
		}
	}
	frames := map[string]int{}
	points := map[string]int{}
	var left Omitted
	for _, sample := range p.Sample {
		left.add(sample.Value[total.bytes])
		var stack []int
		for _, f := range stackOf(sample) {
			text := f.dhat()
			if frames[text] == 0 {
				frames[text] = len(file.Frames)
				file.Frames = append(file.Frames, text)
			}
			stack = append(stack, frames[text])
		}
		// Viewers expect each stack once.
		key := fmt.Sprint(stack)
		at, found := points[key]
		if !found {
			at = len(file.Points)
			points[key] = at
			file.Points = append(file.Points, dhatPoint{Stack: stack})
			if live.ok() {
				file.Points[at].dhatLive = &dhatLive{}
			}
		}
		file.Points[at].add(sample, total, live, peak)
	}
	return left, encode(w, file)
}

func (d *dhatPoint) add(sample *profile.Sample, total, live, peak pair) {
	value := func(index int) int64 { return max(sample.Value[index], 0) }
	d.TotalBytes += value(total.bytes)
	d.TotalBlocks += value(total.objects)
	if d.dhatLive == nil {
		return
	}
	d.EndBytes += value(live.bytes)
	d.EndBlocks += value(live.objects)
	d.PeakBytes += value(peak.bytes)
	d.PeakBlocks += value(peak.objects)
	d.MaxBytes = max(d.PeakBytes, d.EndBytes)
	d.MaxBlocks = max(d.PeakBlocks, d.EndBlocks)
}

// dhat formats a frame as valgrind does: "0x401136: leak (leaky.cc:33)" or "0x7f…: malloc (in /usr/lib/libc.so.6)".
func (f frame) dhat() string {
	where := "in ???"
	switch {
	case f.file != "" && f.line > 0:
		where = fmt.Sprintf("%s:%d", filepath.Base(f.file), f.line)
	case f.file != "":
		where = filepath.Base(f.file)
	case f.module != "":
		where = "in " + f.module
	}
	return fmt.Sprintf("%#x: %s (%s)", f.address, f.function, where)
}
