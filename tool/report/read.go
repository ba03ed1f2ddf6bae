package report

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/google/pprof/profile"
)

// Parse reads a profile, compressed or not; name is its file or process for the error, which is one line.
func Parse(data []byte, name string) (*profile.Profile, error) {
	plain, err := Unzip(data, name)
	if err != nil {
		return nil, err
	}
	return ParseUnzipped(plain, len(data), name)
}

// Unzip is what is in data, if it is compressed, else data itself.
func Unzip(data []byte, name string) ([]byte, error) {
	if len(data) < 2 || data[0] != 0x1f || data[1] != 0x8b {
		return data, nil
	}
	var plain []byte
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		plain, err = io.ReadAll(reader)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nil, truncated(name, len(data))
	case err != nil:
		return nil, fmt.Errorf("%s: damaged: %v; take the profile again", name, err)
	}
	return plain, nil
}

// ParseUnzipped reads a profile that is not compressed any more; size is that of its file, for the error.
func ParseUnzipped(plain []byte, size int, name string) (*profile.Profile, error) {
	if len(plain) == 0 {
		return nil, fmt.Errorf("%s: empty, not a profile: the writer may have been stopped; take the profile again", name)
	}
	p, err := profile.ParseData(plain)
	if err == nil {
		err = p.CheckValid()
	}
	switch {
	case err == nil:
		return p, nil
	case isCut(plain):
		return nil, truncated(name, size)
	}
	return nil, fmt.Errorf("%s: not a profile: expected one as `seemalloc profile PID -o FILE` writes it (profile.proto)", name)
}

func truncated(name string, size int) error {
	return fmt.Errorf("%s: a truncated profile (%d bytes): copy it again, or take it again with `seemalloc profile PID -o FILE`", name, size)
}

// isCut says whether data starts like profile.proto and then breaks off in the middle of a field. It steps over the
// fields of the outermost message, which must be among those that profile.proto has.
func isCut(data []byte) bool {
	const lastField, varint, fixed64, lengthed, fixed32 = 16, 0, 1, 2, 5
	fields := 0
	for ; len(data) > 0; fields++ {
		key, n := binary.Uvarint(data)
		if n == 0 {
			return fields > 0
		}
		number, kind := key>>3, key&7
		if n < 0 || number < 1 || number > lastField || fields == 0 && (number != 1 || kind != lengthed) {
			return false
		}
		data = data[n:]
		skip := uint64(0)
		switch kind {
		case varint, lengthed:
			value, n := binary.Uvarint(data)
			if n <= 0 {
				return n == 0
			}
			data = data[n:]
			if kind == lengthed {
				skip = value
			}
		case fixed64:
			skip = 8
		case fixed32:
			skip = 4
		default:
			return false
		}
		if skip > uint64(len(data)) {
			return true
		}
		data = data[skip:]
	}
	// Cut between two fields: the strings, which come last, are missing.
	return fields > 0
}
