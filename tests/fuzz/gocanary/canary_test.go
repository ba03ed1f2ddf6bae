//go:build fuzz_canary

// Package gocanary has a fuzz target with a bug that the fuzzer must find. tests/fuzz/go runs it first: if the bug is
// not found, the results of the other targets mean nothing. The build tag keeps it out of the ordinary tests.
package gocanary

import "testing"

func FuzzCanary(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 3 && data[0] == 'b' && data[1] == 'u' && data[2] == 'g' {
			t.Fatal("found")
		}
	})
}
