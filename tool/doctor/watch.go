package doctor

import "time"

// Watch combines many snapshots of one process: it judges states between successive snapshots, and rates over windows.
// It keeps the worst finding of each check.
type Watch struct {
	Window time.Duration

	first, last, anchor *Snapshot
	judged              *Diagnosis
	rated               bool // at least one window has been judged
}

// minRateWindow is the shortest time over which a rate is meaningful.
const minRateWindow = 400 * time.Millisecond

// Add adds the next snapshot. It symbolizes at once, because the process may end at any time.
func (w *Watch) Add(s *Snapshot) {
	if w.last == nil {
		w.first, w.last, w.anchor = s, s, s
		return
	}
	w.take(Examine(Pair{Before: w.last, After: s}, State))
	w.last = s
	pair := Pair{Before: w.anchor, After: s}
	if pair.Seconds() >= w.Window.Seconds() {
		w.take(Examine(pair, Rate))
		w.anchor, w.rated = s, true
	}
}

func (w *Watch) take(d *Diagnosis) {
	if w.judged == nil {
		w.judged = d
		return
	}
	w.judged.MergeWorse(d)
}

// Diagnosis returns the result, or nil if there were too few snapshots. The last window may be shorter if there is no
// other one.
func (w *Watch) Diagnosis() *Diagnosis {
	if w.judged == nil {
		return nil
	}
	rest := Pair{Before: w.anchor, After: w.last}
	if !w.rated || rest.Seconds() >= w.Window.Seconds()/2 {
		if rest.Seconds() < minRateWindow.Seconds() {
			return nil
		}
		w.take(Examine(rest, Rate))
	}
	w.judged.Seconds = Pair{Before: w.first, After: w.last}.Seconds()
	return w.judged
}
