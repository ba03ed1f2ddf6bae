package symbolize

import (
	"slices"

	"github.com/google/pprof/profile"
)

// FreedByFrame is the name of the frame between the two stacks of a row in a profile of the kind deaths. On the root
// side is the stack that allocated the blocks, and on the leaf side the stack that freed them.
// core/profile/pprof/profile_encoder.h writes it.
const FreedByFrame = "(freed by)"

// trimDeathStacks removes the allocator's own functions from the ends of both stacks of joined rows. drop_frames cannot
// do that, because it would drop the other stack together with the frames below the allocation. The frames occur in
// programs that are linked statically with the allocator.
func trimDeathStacks(p *profile.Profile) {
	freedBy := slices.IndexFunc(p.Location, isFreedByFrame)
	if freedBy < 0 {
		return
	}
	inside := map[*profile.Location]bool{}
	for _, loc := range p.Location {
		inside[loc] = slices.ContainsFunc(loc.Line, func(line profile.Line) bool {
			return line.Function != nil && allocatorPattern.MatchString(line.Function.Name)
		})
	}
	for _, sample := range p.Sample {
		at := slices.Index(sample.Location, p.Location[freedBy])
		if at < 0 {
			continue
		}
		freed, made := trimAllocatorFrames(sample.Location[:at], inside), trimAllocatorFrames(sample.Location[at+1:], inside)
		sample.Location = slices.Concat(freed, sample.Location[at:at+1], made)
	}
}

// trimAllocatorFrames returns the part of a stack, leaf first, that starts with the allocator's caller.
func trimAllocatorFrames(stack []*profile.Location, inside map[*profile.Location]bool) []*profile.Location {
	for i := len(stack) - 1; i >= 0; i-- {
		if inside[stack[i]] {
			return stack[i+1:]
		}
	}
	return stack
}

func isFreedByFrame(loc *profile.Location) bool {
	return loc.Mapping == nil && len(loc.Line) == 1 && loc.Line[0].Function != nil && loc.Line[0].Function.Name == FreedByFrame
}
