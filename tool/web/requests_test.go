package web

import (
	"reflect"
	"testing"

	"github.com/google/pprof/profile"
)

// Rows with the same size are added up over all stacks. Rows without a size are ignored.
func TestRequestsAddUpBySize(t *testing.T) {
	sized := func(size int64, values ...int64) func(*profile.Profile) *profile.Sample {
		return func(p *profile.Profile) *profile.Sample {
			sample := row([]string{"f", "main"}, nil, values...)(p)
			sample.NumLabel = map[string][]int64{}
			if size > 0 {
				sample.NumLabel["bytes"] = []int64{size}
			}
			return sample
		}
	}
	got, err := requestsOf(profileOf([]string{"alloc_objects", "alloc_space", "requested_space", "short_objects"},
		sized(48, 10, 480, 400, 9), sized(16, 5, 80, 60, 1), sized(48, 1, 48, 33, 0), sized(0, 7, 700, 700, 7), sized(65536, 2, 131072, 100000, 0)))
	want := []requestRow{{16, 5, 80, 60}, {48, 11, 528, 433}, {65536, 2, 131072, 100000}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v instead of %v", got, err, want)
	}
	if _, err := requestsOf(profileOf([]string{"alloc_objects", "alloc_space"}, sized(48, 10, 480))); err == nil {
		t.Error("a library that does not tell what was asked for is one")
	}
}
