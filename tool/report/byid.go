package report

// ByID maps location ids to values. Most writers number from 1, so small ids are looked up in a slice: a million
// samples have twenty million locations, and looking them up in a map would take longer than all other work.
type ByID[T any] struct {
	dense  []T
	sparse map[uint64]T // larger ids
}

// NewByID returns a ByID with slots for this many locations, numbered from 1.
func NewByID[T any](locations int) ByID[T] {
	return ByID[T]{dense: make([]T, locations+1), sparse: map[uint64]T{}}
}

// Get returns the zero value of T for an unknown id.
func (b *ByID[T]) Get(id uint64) T {
	if id < uint64(len(b.dense)) {
		return b.dense[id]
	}
	return b.sparse[id]
}

// Set must not run concurrently with Get.
func (b *ByID[T]) Set(id uint64, value T) {
	if id < uint64(len(b.dense)) {
		b.dense[id] = value
	} else {
		b.sparse[id] = value
	}
}
