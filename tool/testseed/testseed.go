// Package testseed gives random tests their seed.
package testseed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Of returns the seed of a random test: SEEMALLOC_SEED, or a new one for each run. If the test fails, the seed is printed.
func Of(t testing.TB) int64 {
	t.Helper()
	seed := int64(rand.Uint32())
	if given, err := strconv.ParseInt(os.Getenv("SEEMALLOC_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat it with SEEMALLOC_SEED=%d", seed)
		}
	})
	return seed
}
