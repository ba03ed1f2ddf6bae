package doctor

import "time"

// Watch adds up many looks at one process: states between each look and the next, rates over windows. The worst of each
// kind stays.
type Watch struct {
	Window time.Duration

	first, last, anchor *Snapshot
	judged              *Diagnosis
	rated               bool // a window has been judged
}

// shortestRate is what can be called a rate; less is chance.
const shortestRate = 400 * time.Millisecond

// Add takes the next look. Names are asked for at once, since the process may be gone later.
func (w *Watch) Add(s *Snapshot) {
	if w.last == nil {
		w.first, w.last, w.anchor = s, s, s
		return
	}
	w.take(Examine(Pair{w.last, s}, State))
	w.last = s
	pair := Pair{w.anchor, s}
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
	w.judged.Worse(d)
}

// Diagnosis is the outcome; nil when there were too few looks. The last window may be shorter, where there is no other one.
func (w *Watch) Diagnosis() *Diagnosis {
	if w.judged == nil {
		return nil
	}
	rest := Pair{w.anchor, w.last}
	if !w.rated || rest.Seconds() >= w.Window.Seconds()/2 {
		if rest.Seconds() < shortestRate.Seconds() {
			return nil
		}
		w.take(Examine(rest, Rate))
	}
	w.judged.Seconds = Pair{w.first, w.last}.Seconds()
	return w.judged
}
