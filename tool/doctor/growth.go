package doctor

import (
	"errors"
	"fmt"

	"seemalloc/tool/growth"
	"seemalloc/tool/report"
)

var errNoLook = errors.New("a command is not judged, since it ends: `seemalloc growth PID` examines it while it runs")

// growing finds functions whose memory grows during the time between the snapshots.
func growing(p Pair) (string, *Finding, error) {
	switch {
	case p.Growth == nil && p.After.Heap == nil:
		return "", nil, missingProfile(p.After)
	case p.Growth == nil && p.NoGrowth != "":
		return "", nil, errors.New(p.NoGrowth)
	case p.Growth == nil:
		return "", nil, errNoLook
	}
	g := p.Growth
	seen := fmt.Sprintf("%s; a leak of less than %s/s may be unseen", report.Plural(len(g.Rows), "function"), report.Bytes(g.Unseen))
	if g.Unseen == 0 {
		seen = report.Plural(len(g.Rows), "function")
	}
	if g.Exact != nil {
		seen += fmt.Sprintf("; all live memory %s/s exactly", report.Signed(int64(*g.Exact), "bytes"))
	}
	if !g.Found() {
		return seen, nil, nil
	}
	return seen, growthFinding(p), nil
}

func growthFinding(p Pair) *Finding {
	g := p.Growth
	if len(g.Rows) == 0 {
		return &Finding{Severity: Note, Title: "Memory grows steadily, in an unknown function", Figure: fmt.Sprintf("%s/s exactly", report.Bytes(*g.Exact)), Value: *g.Exact,
			Why:    "All live memory grew throughout this time, but too few blocks were sampled to name the function.",
			Change: []string{fmt.Sprintf("look longer: `seemalloc growth %d --for 5m`", p.After.Stats.PID)}}
	}
	total := 0.0
	for _, row := range g.Rows {
		total += row.PerS
	}
	first := g.Rows[0]
	finding := &Finding{
		Severity: Warning, Title: "Memory grows", Value: total,
		Figure: fmt.Sprintf("%s/s ± %s in %s (%s); it holds %s", report.Bytes(first.PerS), report.Bytes(first.Error), first.Place(), first.Class, report.Bytes(first.Live)),
		Why: "The functions below kept allocating more than was freed, throughout this time. leak-like: none of the accumulating blocks is freed; " +
			"cache-like: some are, but more are allocated.",
		Change: []string{"free what is no longer needed, or bound the size of the container or cache",
			fmt.Sprintf("if the program is only starting or loading: look again later, or longer (`seemalloc growth %d --for 5m`)", p.After.Stats.PID)},
		Places: "Functions that hold the growing memory, per second",
	}
	for _, row := range g.Rows {
		finding.Sites = append(finding.Sites, growthSite(row, total, p.Limit))
		if row.SecondsLeft != nil && *row.SecondsLeft < severeSecondsLeft {
			finding.Severity = Severe
		}
	}
	return finding
}

func growthSite(row growth.Row, total float64, limit string) Site {
	site := Site{Bytes: row.PerS, Share: row.PerS / total, Error: row.Error}
	for _, frame := range row.Stack {
		site.Stack = append(site.Stack, frame.Place())
	}
	site.Place = site.Stack[0]
	site.Notes = append([]string{fmt.Sprintf("± %s, %s, holds %s", report.Bytes(row.Error), row.Class, report.Bytes(row.Live))}, row.Facts(limit)...)
	return site
}
