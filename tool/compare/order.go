package compare

import "math/rand/v2"

// Order returns the random order of the allocators in a round. It prevents a run that leaves cold or fragmented memory
// behind from always affecting the same allocator. The order depends only on the seed and the round.
func Order(seed uint64, round int, allocators []Allocator) []Allocator {
	shuffled := append([]Allocator(nil), allocators...)
	random := rand.New(rand.NewPCG(seed, uint64(round)))
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return shuffled
}
