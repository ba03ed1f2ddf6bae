package report

import (
	"bytes"
	"compress/gzip"
	"math/rand"
	"testing"

	"github.com/google/pprof/profile"
)

// The parser of samples must agree with pprof's on every input that it accepts, and must leave to pprof every input that
// pprof rejects.
func FuzzParse(f *testing.F) {
	plain := encoded(f, randomSamples(rand.New(rand.NewSource(1)), 3))
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write(plain)
	w.Close()
	f.Add(plain)
	f.Add(packed.Bytes())
	f.Add(plain[:len(plain)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data, "FILE")
		if err == nil && p == nil {
			t.Fatal("neither a profile nor an error")
		}
		got, ok := parseSamples(data)
		if !ok {
			return
		}
		want, err := profile.ParseData(data)
		if err != nil {
			t.Fatalf("read, but pprof reports: %v", err)
		}
		if difference := differs(got, want); difference != "" {
			t.Fatal(difference)
		}
	})
}
