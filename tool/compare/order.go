package compare

import "math/rand/v2"

// Order is the one in which the allocators take their turns in a round: by chance, so that a run which leaves cold or
// broken-up memory to the next does not always punish the same one. It follows from the seed and the round alone.
func Order(seed uint64, round int, allocators []Allocator) []Allocator {
	shuffled := append([]Allocator(nil), allocators...)
	random := rand.New(rand.NewPCG(seed, uint64(round)))
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return shuffled
}
