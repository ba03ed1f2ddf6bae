package perf

import "testing"

// A record of any bytes is rejected, or its stack lies within the record.
func FuzzSample(f *testing.F) {
	f.Add(make([]byte, 64), false)
	f.Add(make([]byte, 256), true)
	f.Fuzz(func(t *testing.T, body []byte, withStack bool) {
		parseSample(body, withStack)
	})
}
