package growth

import (
	"slices"

	"seemalloc/tool/owner"
)

// charge returns the visible part of each stack, which begins with the owner (owner.VisiblePart). sizes are the sizes of
// the blocks of each stack. inner are the names of the functions inside of the owner.
func charge(stacks [][]Frame, sizes [][]int64) (charged [][]Frame, inner []string) {
	charged, inner = make([][]Frame, len(stacks)), make([]string, len(stacks))
	classified := make([]owner.Stack, len(stacks))
	for i, stack := range stacks {
		s := &classified[i]
		s.Sizes = sizes[i]
		for _, frame := range stack {
			s.Names = append(s.Names, frame.Name)
			s.Classes = append(s.Classes, frame.class())
		}
	}
	languages := owner.Languages(func(yield func(owner.Class) bool) {
		for _, s := range classified {
			for _, class := range s.Classes {
				if !yield(class) {
					return
				}
			}
		}
	})
	wrappers := owner.FindWrappersIn(slices.Values(classified), languages)
	for i, s := range classified {
		s.Mark(wrappers)
		part := owner.VisiblePart(s.Classes, languages)
		inner[i] = nameOf(stacks[i][:part.First])
		for at, frame := range stacks[i] {
			if part.Shows(at, s.Classes[at]) {
				frame.passedOver = s.Classes[at].IsPassedOver(languages)
				charged[i] = append(charged[i], frame)
			}
		}
	}
	return charged, inner
}
