package report

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"seemalloc/tool/testseed"
)

// randomHeap builds a heap profile of a few functions that call each other, with recursion.
func randomHeap(r *rand.Rand) *profile.Profile {
	p := heap(1, 1, 4096)
	p.Sample = nil
	for i := range 8 {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("f%d", i)}
		p.Function = append(p.Function, f)
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 1), Address: uint64(i + 1), Line: []profile.Line{{Function: f}}})
	}
	for range r.Intn(60) {
		n := r.Int63n(1000)
		s := &profile.Sample{Value: []int64{n, n * int64(8+r.Intn(4096))}}
		for range r.Intn(6) {
			s.Location = append(s.Location, p.Location[r.Intn(8)])
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// The changes by function and by stack each add up to the change of the total, and each equals the difference of the
// two top tables.
func TestDiffAddsUp(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewSource(seed))
	for range 100 {
		before, after := randomHeap(r), randomHeap(r)
		want := map[string]int64{}
		for _, of := range []struct {
			p    *profile.Profile
			sign int64
		}{{before, -1}, {after, 1}} {
			top, err := NewTop(of.p, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range top.Rows {
				want[row.Name] += of.sign * row.Flat
			}
		}
		d, err := NewDiff(before, 1, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		sums := [2]int64{}
		for i, rows := range [][]Delta{d.Functions, d.Stacks} {
			for j, row := range rows {
				sums[i] += row.Change
				if row.Change != row.After-row.Before || row.Change == 0 || (row.State == "new") != (row.Before == 0) || (row.State == "gone") != (row.After == 0) {
					t.Fatalf("seed %d: %+v", seed, row)
				}
				if j > 0 && compareDown(rows[j-1].Change, row.Change) > 0 {
					t.Fatalf("seed %d: %d before %d", seed, rows[j-1].Change, row.Change)
				}
				if i == 0 && want[row.Name] != row.Change {
					t.Fatalf("seed %d: %+v, but top says %d", seed, row, want[row.Name])
				}
			}
		}
		change := Total(after, 1) - Total(before, 1)
		if d.Total.Change != change || sums != [2]int64{change, change} {
			t.Fatalf("seed %d: total %d, functions and stacks %v, want %d", seed, d.Total.Change, sums, change)
		}
	}
}

// Subtract and NewDiff agree, function by function.
func TestSubtract(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewSource(seed))
	for range 50 {
		before, after := randomHeap(r), randomHeap(r)
		d, err := NewDiff(before.Copy(), 1, after.Copy(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(before.Sample) == 0 || len(after.Sample) == 0 {
			continue
		}
		change, err := Subtract(after, before)
		if err != nil {
			t.Fatal(err)
		}
		top, err := NewTop(change, 1)
		if err != nil {
			t.Fatal(err)
		}
		flat := map[string]int64{}
		for _, row := range top.Rows {
			flat[row.Name] = row.Flat
		}
		for _, row := range d.Functions {
			if flat[row.Name] != row.Change {
				t.Fatalf("seed %d: %+v, subtracted %d", seed, row, flat[row.Name])
			}
		}
		if top.Total != d.Total.Change {
			t.Fatalf("seed %d: %d and %d", seed, top.Total, d.Total.Change)
		}
	}
}

// In a tree the value of a function is its flat value plus the values of its callees. Both directions have the same
// total.
func TestTreeAddsUp(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewSource(seed))
	for range 50 {
		p := randomHeap(r)
		top, err := NewTop(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, inverted := range []bool{false, true} {
			root := NewTree(p, 1, inverted)
			if root.Cum != top.Total || !addsUp(root) {
				t.Fatalf("seed %d: %d of %d", seed, root.Cum, top.Total)
			}
			if inverted {
				for _, c := range root.Children {
					for _, row := range top.Rows {
						if row.Name == c.Name && row.Flat != c.Cum {
							t.Fatalf("seed %d: %s %d, top says %d", seed, c.Name, c.Cum, row.Flat)
						}
					}
				}
			}
			text := top.TreeText(root, 0, 0, "")
			if lines, want := strings.Count(text, "\n"), 1+countNodes(root); lines != want {
				t.Fatalf("seed %d: %d lines, want %d", seed, lines, want)
			}
		}
	}
}

// A chain of calls is one line. A function that allocates, or that calls several, ends it.
func TestTreeFoldsChains(t *testing.T) {
	chain := func(flat int64, names ...string) *Node {
		root := &Node{Cum: flat}
		for at := root; len(names) > 0; names = names[1:] {
			at.Children = []*Node{{Name: names[0], Cum: flat}}
			at = at.Children[0]
			if len(names) == 1 {
				at.Flat = flat
			}
		}
		return root
	}
	root := chain(10, "main", "run", "a", "b", "work")
	work := root.Children[0].Children[0].Children[0].Children[0].Children[0]
	work.Cum, work.Flat = 10, 3
	work.Children = chain(7, "read", "grow").Children
	top := &Top{Total: 10, Whole: 10, Unit: "objects"}
	text := top.TreeText(root, 0, 0, "→")
	var got []string
	for line := range strings.Lines(text) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"cum cum% flat function", "10 100.00% 3 main → (3 calls) → work", "7 70.00% 7 read → grow"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if lines := strings.Count(top.TreeText(root, 0, 0, ""), "\n"); lines != 8 {
		t.Errorf("%d lines unfolded", lines)
	}
}

func addsUp(n *Node) bool {
	sum := n.Flat
	for _, c := range n.Children {
		sum += c.Cum
		if !addsUp(c) {
			return false
		}
	}
	return sum == n.Cum
}

func countNodes(n *Node) (count int) {
	for _, c := range n.Children {
		count += 1 + countNodes(c)
	}
	return count
}

func TestBinaryUnits(t *testing.T) {
	for text, want := range map[string]string{
		"       3MB 98.71% 98.71%        3MB 98.71%                | f(10MB) 5MB\n":   "     3 MiB 98.71% 98.71%      3 MiB 98.71%                | f(10MB) 5MB\n",
		" 1023.99MB  1023.99kB     10:x = 3MB; // 1MB\n":                              "1023.99 MiB 1023.99 KiB     10:x = 3MB; // 1MB\n",
		"         0     3.04GB (flat, cum)   100% of Total\n":                         "         0   3.04 GiB (flat, cum)   100% of Total\n",
		"ROUTINE ======================== f in /src/3MB/f.cc\n":                       "ROUTINE ======================== f in /src/3MB/f.cc\n",
		"     -40kB       512B      7:\n":                                             "   -40 KiB       512B      7:\n",
		"                                               167   100% |   shop::serve\n": "                                               167   100% |   shop::serve\n",
	} {
		if got := binaryUnits(text); got != want {
			t.Errorf("%q: got\n%q, want\n%q", text, got, want)
		}
	}
}
