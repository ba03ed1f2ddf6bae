package report

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/google/pprof/profile"
)

// Samples make up nearly all of a large profile. This file reads them in chunks, on all processors, into a few large
// allocations; pprof makes three small allocations per sample and reads the samples one by one. pprof reads the rest of
// the file. It also reads the whole file if any sample is malformed, so that the error and the result are pprof's.

// Field numbers of the message Profile in profile.proto, and of its messages Sample and Label.
const (
	samplesField = 2
	stringsField = 6

	sampleLocations = 1
	sampleValues    = 2
	sampleLabels    = 3

	labelKey  = 1
	labelText = 2
	labelNum  = 3
	labelUnit = 4
)

// Wire types of fields.
const (
	varint   = 0
	fixed64  = 1
	lengthed = 2
	fixed32  = 5
)

// sampleChunk is a run of consecutive samples.
type sampleChunk struct {
	data         []byte // fields of a Profile, all of them samples
	first, count int    // index of the first sample, and their number
}

const pieceSamples = 8192

// parseSamples reads profile.proto. It returns false if pprof must read the file.
func parseSamples(plain []byte) (*profile.Profile, bool) {
	rest, chunks, texts, ok := splitSamples(plain)
	if !ok || len(chunks) == 0 {
		return nil, false
	}
	p, err := profile.ParseUncompressed(rest)
	if err != nil || p.CheckValid() != nil || len(p.SampleType) == 0 {
		return nil, false
	}
	last := chunks[len(chunks)-1]
	p.Sample = make([]*profile.Sample, last.first+last.count)
	locations := NewByID[*profile.Location](len(p.Location))
	for _, location := range p.Location {
		locations.Set(location.ID, location)
	}
	var next atomic.Int64
	var failed atomic.Bool
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(chunks)) {
		readers.Go(func() {
			r := sampleReader{types: len(p.SampleType), locations: locations, texts: texts}
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(chunks) {
					return
				}
				if one := chunks[i]; !r.read(one.data, p.Sample[one.first:one.first+one.count]) {
					failed.Store(true)
				}
			}
		})
	}
	readers.Wait()
	return p, !failed.Load()
}

// splitSamples splits a Profile into its samples and the rest, which is a valid Profile too. texts are its strings.
func splitSamples(plain []byte) (rest []byte, chunks []sampleChunk, texts []string, ok bool) {
	samples, begin := 0, -1 // start of the current chunk
	count := 0
	end := func(at int) {
		if begin >= 0 {
			chunks = append(chunks, sampleChunk{plain[begin:at], samples - count, count})
		}
		begin, count = -1, 0
	}
	for at := 0; at < len(plain); {
		f, size := nextField(plain[at:])
		if size <= 0 || f.number == samplesField && f.kind != lengthed {
			return nil, nil, nil, false
		}
		switch {
		case f.number == samplesField:
			if count == pieceSamples {
				end(at)
			}
			if begin < 0 {
				begin = at
			}
			samples++
			count++
		default:
			end(at)
			rest = append(rest, plain[at:at+size]...)
			if f.number == stringsField {
				texts = append(texts, string(f.body))
			}
		}
		at += size
	}
	end(len(plain))
	return rest, chunks, texts, true
}

// field is one field of a message.
type field struct {
	number uint64
	kind   uint64
	value  uint64 // for a varint
	body   []byte // for a length-delimited field
}

// nextField parses the first field in data and returns its size including the key. Size 0 means that data ends inside
// the field (inside its key if the field number is 0 too). A negative size means that the field is invalid.
func nextField(data []byte) (f field, size int) {
	key, size := binary.Uvarint(data)
	if size <= 0 {
		return f, size
	}
	f.number, f.kind = key>>3, key&7
	if f.number == 0 {
		return f, -1
	}
	skip := uint64(0)
	switch f.kind {
	case varint, lengthed:
		value, n := binary.Uvarint(data[size:])
		if n <= 0 {
			return f, n
		}
		f.value = value
		size += n
		if f.kind == lengthed {
			skip = value
		}
	case fixed64:
		skip = 8
	case fixed32:
		skip = 4
	default:
		return f, -1
	}
	if skip > uint64(len(data)-size) {
		return f, 0
	}
	end := size + int(skip)
	f.body = data[size:end]
	return f, end
}

// sampleReader reads chunks one after the other. It allocates the parts of many samples at once.
type sampleReader struct {
	types     int // number of values
	locations ByID[*profile.Location]
	texts     []string

	locationChunk []*profile.Location
	valueChunk    []int64
	left          int      // unread bytes of the chunk
	labels        []label  // of the current sample
	numbers       []uint64 // of the current field
}

type label struct {
	key, text, number, unit int64 // all except number are indices into texts
}

// maxChunkEntries is the maximum size of one chunk. Profiles with few samples get only as much as they can need,
// because a server keeps many profiles.
const maxChunkEntries = 1 << 15

// read reads len(out) samples.
func (r *sampleReader) read(data []byte, out []*profile.Sample) bool {
	samples := make([]profile.Sample, len(out))
	for i := range samples {
		f, size := nextField(data)
		r.left = len(data)
		if !r.sample(f.body, &samples[i]) {
			return false
		}
		out[i] = &samples[i]
		data = data[size:]
	}
	return true
}

func (r *sampleReader) sample(data []byte, into *profile.Sample) bool {
	// Each location and each value takes at least one byte.
	chunk := max(min(maxChunkEntries, r.left), len(data))
	if cap(r.locationChunk)-len(r.locationChunk) < len(data) {
		r.locationChunk = make([]*profile.Location, 0, chunk)
	}
	if cap(r.valueChunk)-len(r.valueChunk) < len(data) {
		r.valueChunk = make([]int64, 0, chunk)
	}
	locations, values := r.locationChunk[len(r.locationChunk):], r.valueChunk[len(r.valueChunk):]
	r.labels = r.labels[:0]
	for len(data) > 0 {
		f, size := nextField(data)
		if size <= 0 {
			return false
		}
		data = data[size:]
		switch f.number {
		case sampleLocations:
			if !r.readNumbers(f) {
				return false
			}
			for _, id := range r.numbers {
				locations = append(locations, r.locations.Get(id))
			}
		case sampleValues:
			if !r.readNumbers(f) {
				return false
			}
			for _, value := range r.numbers {
				values = append(values, int64(value))
			}
		case sampleLabels:
			if f.kind != lengthed || !r.label(f.body) {
				return false
			}
		}
	}
	if len(values) != r.types {
		return false
	}
	for _, location := range locations {
		if location == nil { // unknown id
			return false
		}
	}
	r.locationChunk = r.locationChunk[:len(r.locationChunk)+len(locations)]
	r.valueChunk = r.valueChunk[:len(r.valueChunk)+len(values)]
	into.Location, into.Value = locations[:len(locations):len(locations)], values[:len(values):len(values)]
	return len(r.labels) == 0 || r.put(into)
}

// readNumbers reads a field with one number or with packed numbers into numbers.
func (r *sampleReader) readNumbers(f field) bool {
	numbers := r.numbers[:0]
	if f.kind == varint {
		numbers = append(numbers, f.value)
	} else if f.kind != lengthed {
		return false
	}
	for packed := f.body; len(packed) > 0; {
		number, n := uint64(packed[0]), 1
		if number >= 0x80 {
			if number, n = uvarint(packed); n <= 0 {
				return false
			}
		}
		packed = packed[n:]
		numbers = append(numbers, number)
	}
	r.numbers = numbers
	return true
}

// uvarint reads a number with more than one byte. It is faster than binary.Uvarint.
func uvarint(data []byte) (uint64, int) {
	if len(data) > 2 {
		if data[1] < 0x80 {
			return uint64(data[0]&0x7f) | uint64(data[1])<<7, 2
		}
		if data[2] < 0x80 {
			return uint64(data[0]&0x7f) | uint64(data[1]&0x7f)<<7 | uint64(data[2])<<14, 3
		}
	}
	return binary.Uvarint(data)
}

func (r *sampleReader) label(data []byte) bool {
	var l label
	for len(data) > 0 {
		f, size := nextField(data)
		if size <= 0 {
			return false
		}
		data = data[size:]
		var of *int64
		switch f.number {
		case labelKey:
			of = &l.key
		case labelText:
			of = &l.text
		case labelNum:
			of = &l.number
		case labelUnit:
			of = &l.unit
		default:
			continue
		}
		if f.kind != varint {
			return false
		}
		*of = int64(f.value)
	}
	r.labels = append(r.labels, l)
	return true
}

// put sets the labels of a sample as pprof does: a label with an empty text is a number, and a number of 0 without a
// unit is dropped.
func (r *sampleReader) put(into *profile.Sample) bool {
	for _, l := range r.labels {
		for _, index := range []int64{l.key, l.text, l.unit} {
			if index < 0 || index >= int64(len(r.texts)) {
				return false
			}
		}
		key := r.texts[l.key]
		switch {
		case l.text != 0:
			if into.Label == nil {
				into.Label = map[string][]string{}
			}
			into.Label[key] = append(into.Label[key], r.texts[l.text])
		case l.number != 0 || l.unit != 0:
			if into.NumLabel == nil {
				into.NumLabel, into.NumUnit = map[string][]int64{}, map[string][]string{}
			}
			into.NumLabel[key] = append(into.NumLabel[key], l.number)
			if l.unit != 0 {
				into.NumUnit[key] = append(padded(into.NumUnit[key], len(into.NumLabel[key])-1), r.texts[l.unit])
			}
		}
	}
	for key, units := range into.NumUnit {
		into.NumUnit[key] = padded(units, len(into.NumLabel[key]))
	}
	return true
}

// padded appends an empty unit for each number without one.
func padded(units []string, length int) []string {
	for len(units) < length {
		units = append(units, "")
	}
	return units
}
