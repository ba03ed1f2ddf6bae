package compare

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func named(names ...string) []Allocator {
	var list []Allocator
	for _, name := range names {
		list = append(list, Allocator{Name: name, Library: "/lib/" + name + ".so"})
	}
	return list
}

func TestOrder(t *testing.T) {
	all := named("a", "b", "c", "d", "e")
	if !reflect.DeepEqual(Order(7, 1, all), Order(7, 1, all)) {
		t.Error("the seed does not repeat it")
	}
	if all[0].Name != "a" || all[4].Name != "e" {
		t.Error("the list itself was shuffled")
	}
	// Each is the first about equally often: 2,000 draws, 400 each, standard deviation 18.
	first := map[string]int{}
	for round := range 2000 {
		order := Order(1, round, all)
		first[order[0].Name]++
		for _, a := range all {
			if !slices.Contains(order, a) {
				t.Fatalf("%v lacks %v", order, a)
			}
		}
	}
	for name, count := range first {
		if count < 320 || count > 480 {
			t.Errorf("%s came first %d times of 2000", name, count)
		}
	}
	if reflect.DeepEqual(Order(1, 1, all), Order(2, 1, all)) && reflect.DeepEqual(Order(1, 2, all), Order(2, 2, all)) {
		t.Error("another seed, the same order")
	}
}

// session runs without processes: the function determines how each run ends.
func session(rounds int, run func(name string, round int) (Run, error), names ...string) (*Session, *[]string) {
	var calls []string
	s := &Session{Allocators: named(names...), Rounds: rounds, Seed: 3, Expected: "exit 0", Progress: func(int, Allocator) {}}
	s.Run = func(_ context.Context, a Allocator, round int) (Run, error) {
		calls = append(calls, fmt.Sprint(round, " ", a.Name))
		r, err := run(a.Name, round)
		r.Allocator = a.Name
		return r, err
	}
	return s, &calls
}

func good(string, int) (Run, error) { return Run{ExitStatus: "exit 0", Loaded: Yes}, nil }

func TestSessionRunsAll(t *testing.T) {
	s, calls := session(3, good, "a", "b")
	if err := s.Do(context.Background()); err != nil || len(s.Runs) != 6 || len(s.Excluded) != 0 {
		t.Errorf("%v, %+v", err, s)
	}
	slices.Sort(*calls)
	if want := []string{"1 a", "1 b", "2 a", "2 b", "3 a", "3 b"}; !reflect.DeepEqual(*calls, want) {
		t.Errorf("%q", *calls)
	}
	for _, run := range s.Runs {
		if run.Round == 0 {
			t.Errorf("%+v has no round", run)
		}
	}
}

func TestSessionExcludes(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		run          Run
		err          error
	}{
		{"status", "exit 1 instead of exit 0: out of luck", Run{ExitStatus: "exit 1", stderrTail: "out of luck"}, nil},
		{"signal", "killed by signal 11 (segmentation fault) instead of exit 0", Run{ExitStatus: "killed by signal 11 (segmentation fault)"}, nil},
		{"failure", "the load failed", Run{}, Failed{"the load failed"}},
		{"no preload", "/lib/bad.so was not in the program's memory", Run{ExitStatus: "exit 0", Loaded: No}, nil},
	} {
		s, calls := session(4, func(name string, round int) (Run, error) {
			if name == "bad" && round == 2 {
				return test.run, test.err
			}
			return good(name, round)
		}, "a", "bad", "c")
		if err := s.Do(context.Background()); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if len(s.Excluded) != 1 || s.Excluded[0].Name != "bad" || s.Excluded[0].Round != 2 || !strings.HasPrefix(s.Excluded[0].Reason, test.reason) {
			t.Errorf("%s: %+v", test.name, s.Excluded)
		}
		if len(*calls) != 4+2+4 {
			t.Errorf("%s: it was run on: %q", test.name, *calls)
		}
		result := Result{Allocators: s.Allocators, Excluded: s.Excluded, Runs: s.Runs}
		if got := result.Counted(); !reflect.DeepEqual(got, []string{"a", "c"}) {
			t.Errorf("%s: counted %q", test.name, got)
		}
	}
}

func TestSessionStops(t *testing.T) {
	bad := func(name string, round int) (Run, error) {
		if name != "a" {
			return Run{}, Failed{"no"}
		}
		return good(name, round)
	}
	s, calls := session(9, bad, "a", "b", "c")
	if err := s.Do(context.Background()); err != nil || len(*calls) != 3 {
		t.Errorf("one was left, and it went on: %q, %v", *calls, err)
	}
	s, calls = session(2, good, "a")
	if err := s.Do(context.Background()); err != nil || len(*calls) != 2 {
		t.Errorf("only one was asked for: %q, %v", *calls, err)
	}
	broken := errors.New("no more processes")
	s, _ = session(2, func(string, int) (Run, error) { return Run{}, broken }, "a", "b")
	if err := s.Do(context.Background()); err != broken || len(s.Excluded) != 0 {
		t.Errorf("%v, %+v", err, s.Excluded)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, calls = session(9, func(name string, round int) (Run, error) {
		if round == 2 {
			cancel()
		}
		return good(name, round)
	}, "a", "b")
	if err := s.Do(ctx); !errors.Is(err, context.Canceled) || len(s.Runs) != 3 {
		t.Errorf("interrupted: %v, %q", err, *calls)
	}
}

func TestFill(t *testing.T) {
	r := Result{Allocators: named("a", "b", "bad"), Excluded: []Excluded{{Name: "bad"}}}
	for round := range 5 {
		for name, threads := range map[string]int{"a": 1, "b": 2, "bad": 1} {
			value := map[string]float64{"a": 1, "b": 1.1, "bad": 0.5}[name]
			r.Runs = append(r.Runs, Run{Allocator: name, Round: round, Threads: threads, Values: map[string]float64{"wall_s": value, "peak_rss": value}})
		}
	}
	r.Fill()
	// One allocator has an additional thread. The program itself has one thread, so 10 % is a significant difference.
	if r.Threads != 1 || len(r.Rows) != 2 || r.Rows[0].Key != "wall_s" || r.Rows[1].Key != "peak_rss" {
		t.Fatalf("%+v", r)
	}
	if a, b := r.Rows[0].Cells["a"], r.Rows[0].Cells["b"]; len(r.Rows[0].Cells) != 2 || !a.Best || b.Unclear {
		t.Errorf("%+v", r.Rows[0])
	}
}
