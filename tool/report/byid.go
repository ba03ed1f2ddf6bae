package report

// ByID finds what belongs to a location by its id. Most writers count from 1: a million samples have twenty million locations, and
// looking them up in a map would take longer than all else.
type ByID[T any] struct {
	near []T
	far  map[uint64]T // ids that are larger
}

// NewByID has room for the ids of so many locations that are counted from 1.
func NewByID[T any](locations int) ByID[T] {
	return ByID[T]{near: make([]T, locations+1), far: map[uint64]T{}}
}

// Get is nothing (T's zero) for an id that has none.
func (b *ByID[T]) Get(id uint64) T {
	if id < uint64(len(b.near)) {
		return b.near[id]
	}
	return b.far[id]
}

// Set must not be called while others Get.
func (b *ByID[T]) Set(id uint64, value T) {
	if id < uint64(len(b.near)) {
		b.near[id] = value
	} else {
		b.far[id] = value
	}
}
