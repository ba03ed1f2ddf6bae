package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Node is a function in a call tree.
type Node struct {
	Name     string  `json:"name"`
	Cum      int64   `json:"cum"`
	Flat     int64   `json:"flat"`
	Children []*Node `json:"children,omitempty"`
	byName   map[string]*Node
}

func (n *Node) child(name string) *Node {
	c := n.byName[name]
	if c == nil {
		c = &Node{Name: name, byName: map[string]*Node{}}
		n.byName[name] = c
		n.Children = append(n.Children, c)
	}
	return c
}

// NewTree sums the values at index by stack: each node is a caller and its children are its callees. If inverted, the
// root's children are the functions that hold the memory, and the children of a node are its callers. The root has no
// name. The frames of p must have been pruned (by NewTop).
func NewTree(p *profile.Profile, index int, inverted bool) *Node {
	root := &Node{byName: map[string]*Node{}}
	for _, sample := range p.Sample {
		value := sample.Value[index]
		if value == 0 {
			continue
		}
		stack := Frames(sample)
		if !inverted {
			slices.Reverse(stack)
		}
		node := root
		node.Cum += value
		for _, frame := range stack {
			node = node.child(frame.Name)
			node.Cum += value
		}
		node.Flat += value
	}
	root.sort()
	return root
}

func (n *Node) sort() {
	slices.SortStableFunc(n.Children, func(a, b *Node) int {
		if order := compareDown(a.Cum, b.Cum); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, c := range n.Children {
		c.sort()
	}
}

// TreeText formats the tree. Branches below least percent of the total are summarized in one line, and so are levels
// below depth; 0 means no limit. A function that is the only visible child has the same indent as its parent, so that
// the depth of the tree is its number of forks. A chain of functions that each only call the next one is one line, with an
// arrow between the names; without an arrow each function has its own line.
func (t *Top) TreeText(root *Node, minimum float64, depth int, arrow string) string {
	w := treeWriter{top: t, depth: depth, arrow: arrow, least: int64(minimum / 100 * float64(max(t.Whole, -t.Whole)))}
	fmt.Fprintf(&w.b, "%12s %8s %12s  %s\n", "cum", "cum%", "flat", "function")
	w.children(root, "", 1)
	return w.b.String()
}

type treeWriter struct {
	b     strings.Builder
	top   *Top
	least int64
	depth int
	arrow string // between the names of a chain; "": chains are not folded
}

// chain follows the calls of a function that has one callee and allocates nothing itself, to the last one. text names
// the first and the last function, and those between them if they are few.
func (w *treeWriter) chain(n *Node, level int) (last *Node, lastLevel int, text string) {
	names := []string{n.Name}
	for w.arrow != "" && n.Flat == 0 && len(n.Children) == 1 && n.Children[0].Cum == n.Cum && (w.depth == 0 || level < w.depth) {
		n = n.Children[0]
		level++
		names = append(names, n.Name)
	}
	const between = 1
	if hidden := len(names) - 2; hidden > between {
		names = []string{names[0], fmt.Sprintf("(%d calls)", hidden), names[len(names)-1]}
	}
	return n, level, strings.Join(names, " "+w.arrow+" ")
}

func (w *treeWriter) children(n *Node, indent string, level int) {
	if len(n.Children) == 0 {
		return
	}
	shown := 0
	for shown < len(n.Children) && max(n.Children[shown].Cum, -n.Children[shown].Cum) >= w.least && (w.depth == 0 || level <= w.depth) {
		shown++
	}
	fork := len(n.Children) > 1 && level > 1
	for i, c := range n.Children[:shown] {
		mark, below := "", indent
		if fork && (shown > 1 || shown < len(n.Children)) {
			mark, below = "├─ ", indent+"│  "
			if i == len(n.Children)-1 {
				mark, below = "└─ ", indent+"   "
			}
		}
		last, lastLevel, names := w.chain(c, level)
		flat := ""
		if last.Flat != 0 {
			flat = w.top.Value(last.Flat)
		}
		w.line(c.Cum, flat, indent+mark+names)
		w.children(last, below, lastLevel+1)
	}
	if shown == len(n.Children) {
		return
	}
	rest := int64(0)
	for _, c := range n.Children[shown:] {
		rest += c.Cum
	}
	mark := ""
	if fork {
		mark = "└─ "
	}
	why := "smaller"
	if w.depth != 0 && level > w.depth {
		why = "deeper"
	}
	w.line(rest, "", fmt.Sprintf("%s%s(%s %s: --%s shows more)", indent, mark, Count(int64(len(n.Children)-shown)), why,
		map[string]string{"smaller": "min 0", "deeper": "depth 0"}[why]))
}

func (w *treeWriter) line(cum int64, flat, text string) {
	fmt.Fprintf(&w.b, "%12s %8s %12s  %s\n", w.top.Value(cum), Percent(float64(cum), float64(w.top.Whole)), flat, text)
}
