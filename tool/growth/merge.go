package growth

import (
	"cmp"
	"math"
	"slices"
)

// merge joins rows that are one cause: a row whose memory is allocated for another row's function, and rows of one
// caller that grow by the same number of blocks, such as the keys and the values of a table.
func (s *search) merge(rows []*Row) []*Row {
	rows = s.joinCallees(rows)
	for {
		caller, same := s.sameCount(rows)
		if caller == "" {
			return rows
		}
		joined := &Row{key: caller, Confidence: 1}
		for _, row := range same {
			joined.of = append(joined.of, row.of...)
			joined.Confidence = min(joined.Confidence, row.Confidence)
		}
		joined.sum = growing(joined.of)
		rows = append(slices.DeleteFunc(rows, func(row *Row) bool { return slices.Contains(same, row) }), joined)
	}
}

// joinCallees joins each row to the row of its direct caller, if nearly all of its growth comes from there.
func (s *search) joinCallees(rows []*Row) []*Row {
	byName := map[string]*Row{}
	for _, row := range rows {
		byName[row.key] = row
	}
	for changed := true; changed; {
		changed = false
		for _, row := range rows {
			owner := byName[s.caller(row)]
			if owner == nil || owner == row {
				continue
			}
			owner.of = append(owner.of, row.of...)
			owner.sum = growing(owner.of)
			owner.Confidence = max(owner.Confidence, row.Confidence)
			delete(byName, row.key)
			rows = slices.DeleteFunc(rows, func(one *Row) bool { return one == row })
			changed = true
			break
		}
	}
	return rows
}

// caller returns the function that calls the row's function for nearly all of its growth, or "".
func (s *search) caller(row *Row) string {
	const nearly = 0.9
	bytes := map[string]float64{}
	all := 0.0
	for _, p := range row.of {
		grown := max(0, p.growing().bytes())
		all += grown
		for _, frame := range p.frames[p.indexOf(row.key)+1:] {
			if frame.Name != row.key && !frame.passedOver {
				bytes[frame.Name] += grown
				break
			}
		}
	}
	for name, grown := range bytes {
		if grown >= nearly*all {
			return name
		}
	}
	return ""
}

// sameCount finds rows with the same caller and the same number of new blocks, where the numbers are known well enough
// for this to be no coincidence.
func (s *search) sameCount(rows []*Row) (caller string, same []*Row) {
	const known, errors = 0.1, 3
	callers := map[string][]*Row{}
	for _, row := range rows {
		if name := s.caller(row); name != "" && math.Sqrt(row.sum.blockSquares) < known*row.sum.blocks {
			callers[name] = append(callers[name], row)
		}
	}
	var names []string
	for name := range callers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		group := callers[name]
		slices.SortFunc(group, func(a, b *Row) int { return cmp.Or(cmp.Compare(b.sum.blocks, a.sum.blocks), cmp.Compare(a.key, b.key)) })
		for i, first := range group {
			same = []*Row{first}
			for _, other := range group[i+1:] {
				if first.sum.blocks-other.sum.blocks <= errors*math.Sqrt(first.sum.blockSquares+other.sum.blockSquares) {
					same = append(same, other)
				}
			}
			if len(same) > 1 {
				return name, same
			}
		}
	}
	return "", nil
}
