package report

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/google/pprof/profile"
)

// Parse reads a profile, compressed or not. name is the file or process for the one-line error.
func Parse(data []byte, name string) (*profile.Profile, error) {
	plain, err := Unzip(data, name)
	if err != nil {
		return nil, err
	}
	return ParseUnzipped(plain, len(data), name)
}

// Unzip returns the uncompressed content of data, or data itself if it is not compressed.
func Unzip(data []byte, name string) ([]byte, error) {
	if len(data) < 2 || data[0] != 0x1f || data[1] != 0x8b {
		return data, nil
	}
	var plain bytes.Buffer
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		plain.Grow(plainSize(data))
		_, err = plain.ReadFrom(reader)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nil, truncated(name, len(data))
	case err != nil:
		return nil, fmt.Errorf("%s: damaged: %v; take the profile again", name, err)
	}
	return plain.Bytes(), nil
}

// plainSize returns the uncompressed size stated in a compressed file, plus the space that ReadFrom needs behind it.
// Growing the buffer step by step takes as long as reading a large profile. The stated size is not trusted beyond a
// ratio that profiles can have.
func plainSize(data []byte) int {
	const atMost = 30 // maximum ratio to the compressed size
	last := data[max(len(data)-4, 0):]
	if len(last) < 4 {
		return 0
	}
	return min(int(binary.LittleEndian.Uint32(last)), atMost*len(data)) + bytes.MinRead
}

// ParseUnzipped reads an uncompressed profile. size is the size of its file, for the error.
func ParseUnzipped(plain []byte, size int, name string) (*profile.Profile, error) {
	if len(plain) == 0 {
		return nil, fmt.Errorf("%s: empty, not a profile: the writer may have been stopped; take the profile again", name)
	}
	if p, ok := parseSamples(plain); ok {
		return p, nil
	}
	p, err := profile.ParseData(plain) // checks it too
	switch {
	case err == nil:
		return p, nil
	case isTruncated(plain):
		return nil, truncated(name, size)
	}
	return nil, fmt.Errorf("%s: not a profile: expected one as `seemalloc profile PID -o FILE` writes it (profile.proto)", name)
}

func truncated(name string, size int) error {
	return fmt.Errorf("%s: a truncated profile (%d bytes): copy it again, or take it again with `seemalloc profile PID -o FILE`", name, size)
}

// isTruncated reports whether data begins like profile.proto and ends in the middle of a field. It walks the fields of
// the outermost message. Their numbers must exist in profile.proto.
func isTruncated(data []byte) bool {
	const lastField = 16
	fields := 0
	for ; len(data) > 0; fields++ {
		f, size := nextField(data)
		switch {
		case size == 0 && f.number == 0: // within the key
			return fields > 0
		case size < 0, f.number > lastField, fields == 0 && (f.number != 1 || f.kind != lengthed):
			return false
		case size == 0:
			return true
		}
		data = data[size:]
	}
	// Cut between two fields: the strings, which come last, are missing.
	return fields > 0
}

// Column returns the index of the sample type with this name, or -1.
func Column(p *profile.Profile, name string) int {
	return slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == name })
}

// Label returns a numeric label of a sample, or 0 if it has none.
func Label(sample *profile.Sample, name string) int64 {
	if values := sample.NumLabel[name]; len(values) != 0 {
		return values[0]
	}
	return 0
}

// SampleProbability returns the probability that a block is sampled. size and interval are in bytes; with an interval of
// 1 every block is sampled.
func SampleProbability(size, interval float64) float64 {
	if interval <= 1 {
		return 1
	}
	return -math.Expm1(-size / interval)
}
