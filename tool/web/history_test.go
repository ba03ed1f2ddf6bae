package web

import (
	"math/rand"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/testseed"
)

// A week of points, one per second, stays within the limit and in order. The last minutes are complete and the
// beginning is still there.
func TestPointsAreThinnedTowardsThePast(t *testing.T) {
	h := &History{}
	const week = 7 * 24 * 3600
	for s := int64(1); s <= week; s++ {
		h.Add(Point{Time: 1000 * s})
	}
	all := h.Since(0)
	if len(all) > maxPoints {
		t.Errorf("%d points", len(all))
	}
	for i := 1; i < len(all); i++ {
		if all[i].Time <= all[i-1].Time {
			t.Fatalf("point %d is not later than the one before", i)
		}
	}
	if first := all[0].Time / 1000; first != 1 {
		t.Errorf("the first is of second %d", first)
	}
	if recent := h.Since(1000 * (week - 600)); len(recent) != 600 {
		t.Errorf("%d points of the last 600 s", len(recent))
	}
	if none := h.Since(1000 * week); len(none) != 0 {
		t.Errorf("%d points after the last one", len(none))
	}
}

// For any sequence the moments are limited and in order. The first one, the last one and the requested ones are kept.
func TestPinnedMomentsAreNotThinned(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	h := &History{}
	now, asked := int64(1e12), map[int]bool{}
	first, last := 0, 0
	for i := range 2000 {
		now += 1 + random.Int63n(20_000)
		keep := len(asked) < maxMoments/2 && random.Intn(40) == 0
		m := h.AddMoment(&profile.Profile{TimeNanos: now * int64(time.Millisecond)}, int64(i), keep)
		if keep {
			asked[m.ID] = true
		}
		if i == 0 {
			first = m.ID
		}
		last = m.ID
	}
	all := h.Moments()
	if len(all) > maxMoments {
		t.Errorf("%d moments", len(all))
	}
	if all[0].ID != first || all[len(all)-1].ID != last {
		t.Errorf("the ends are %d and %d instead of %d and %d", all[0].ID, all[len(all)-1].ID, first, last)
	}
	for i := 1; i < len(all); i++ {
		if all[i].Time <= all[i-1].Time {
			t.Fatalf("moment %d is not later than the one before", i)
		}
	}
	for id := range asked {
		if m, ok := h.Moment(id); !ok || m.ID != id {
			t.Errorf("moment %d, which was asked for, is gone", id)
		}
	}
	if m, ok := h.Moment(0); !ok || m.ID != last {
		t.Errorf("0 is %d, not the last one", m.ID)
	}
	if _, ok := h.Moment(last + 1); ok {
		t.Error("a moment that never was is found")
	}
}

// A viewed moment is kept while others are removed. If there are too many of these, the least recently viewed one is
// removed.
func TestViewedMomentIsKept(t *testing.T) {
	h := &History{}
	now := int64(1e12)
	add := func() int {
		now += 5000
		return h.AddMoment(&profile.Profile{TimeNanos: now * int64(time.Millisecond)}, 0, false).ID
	}
	first := add()
	chosen := add()
	for range 10 * maxMoments {
		if _, ok := h.Keep(chosen); !ok {
			t.Fatal("it is gone")
		}
		add()
	}
	for _, m := range h.Moments() {
		h.Keep(m.ID)
	}
	for range 10 * maxMoments {
		if _, ok := h.Keep(chosen); !ok {
			t.Fatal("it is gone, among many that were looked at")
		}
		h.Keep(add())
	}
	if _, ok := h.Moment(first); !ok || len(h.Moments()) != maxMoments {
		t.Errorf("%d moments, the first: %v", len(h.Moments()), ok)
	}
}

// The page requests points later than its last one. It continues to get points after the clock was set back, in steps
// of one second, and they follow the clock again when it is correct.
func TestTheClockIsSetBack(t *testing.T) {
	const hour = 3600
	h := &History{}
	last, n := int64(0), 0
	for _, begin := range []int64{10 * hour, 9 * hour, 8 * hour, 20 * hour} {
		for s := range int64(100) {
			h.Add(Point{Time: 1000 * (begin + s)})
			if n++; n == 1 {
				last = h.Since(0)[0].Time
				continue
			}
			more := h.Since(last)
			if len(more) != 1 {
				t.Fatalf("from %d h on, second %d: %d new points", begin/hour, s, len(more))
			}
			if step := more[0].Time - last; step != 1000 && begin < 20*hour {
				t.Fatalf("from %d h on, second %d: a step of %d ms", begin/hour, s, step)
			}
			last = more[0].Time
		}
	}
	if want := int64(1000 * (20*hour + 99)); last != want {
		t.Errorf("the last is of %d instead of %d", last, want)
	}
}
