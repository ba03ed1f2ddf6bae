package report

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/google/pprof/profile"
)

// Nearly all of a large profile is its samples. They are read here, in pieces, on all processors, into few large pieces of memory:
// pprof makes three small ones of each sample and reads them one by one. All else of the file is read by pprof, and so is the whole
// file where anything in a sample is not as it should be: what is said of it, and what becomes of it, is up to pprof.

// Fields of the message Profile in profile.proto, and of Sample and Label in it.
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

// Ways in which a field is written.
const (
	varint   = 0
	fixed64  = 1
	lengthed = 2
	fixed32  = 5
)

// piece is samples that stand one behind the other.
type piece struct {
	data         []byte // fields of a Profile, all of them samples
	first, count int    // which they are
}

const pieceSamples = 8192

// parseSamples reads profile.proto; false: pprof must do it.
func parseSamples(plain []byte) (*profile.Profile, bool) {
	rest, pieces, texts, ok := takeOut(plain)
	if !ok || len(pieces) == 0 {
		return nil, false
	}
	p, err := profile.ParseUncompressed(rest)
	if err != nil || p.CheckValid() != nil || len(p.SampleType) == 0 {
		return nil, false
	}
	last := pieces[len(pieces)-1]
	p.Sample = make([]*profile.Sample, last.first+last.count)
	locations := NewByID[*profile.Location](len(p.Location))
	for _, location := range p.Location {
		locations.Set(location.ID, location)
	}
	var next atomic.Int64
	var failed atomic.Bool
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(pieces)) {
		readers.Go(func() {
			r := sampleReader{types: len(p.SampleType), locations: locations, texts: texts}
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) {
					return
				}
				if one := pieces[i]; !r.read(one.data, p.Sample[one.first:one.first+one.count]) {
					failed.Store(true)
				}
			}
		})
	}
	readers.Wait()
	return p, !failed.Load()
}

// takeOut cuts a Profile into its samples and the rest, which is a Profile too. texts are its strings.
func takeOut(plain []byte) (rest []byte, pieces []piece, texts []string, ok bool) {
	samples, begin := 0, -1 // where the piece begins that is being made
	count := 0
	end := func(at int) {
		if begin >= 0 {
			pieces = append(pieces, piece{plain[begin:at], samples - count, count})
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
	return rest, pieces, texts, true
}

// field is one of a message.
type field struct {
	number uint64
	kind   uint64
	value  uint64 // of a varint
	body   []byte // of one with a length
}

// nextField finds the first field in data, and its size with its key; 0: data ends within it, and if the number is 0 too, within its
// key; less: that is none.
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

// sampleReader reads pieces one by one. What samples consist of is cut from pieces of memory for many of them.
type sampleReader struct {
	types     int // of values
	locations ByID[*profile.Location]
	texts     []string

	locationRoom []*profile.Location
	valueRoom    []int64
	left         int      // bytes of the piece that are yet to be read
	labels       []label  // of the sample that is being read
	numbers      []uint64 // of the field that is
}

type label struct {
	key, text, number, unit int64 // all but the number are indices of texts
}

// roomEntries is what is made at once at most. Profiles of few samples get as much as these can need: a server keeps many profiles.
const roomEntries = 1 << 15

// read reads as many samples as out has room for.
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
	// Each location and each value is a byte or more.
	room := max(min(roomEntries, r.left), len(data))
	if cap(r.locationRoom)-len(r.locationRoom) < len(data) {
		r.locationRoom = make([]*profile.Location, 0, room)
	}
	if cap(r.valueRoom)-len(r.valueRoom) < len(data) {
		r.valueRoom = make([]int64, 0, room)
	}
	locations, values := r.locationRoom[len(r.locationRoom):], r.valueRoom[len(r.valueRoom):]
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
		if location == nil { // there is none with this id
			return false
		}
	}
	r.locationRoom = r.locationRoom[:len(r.locationRoom)+len(locations)]
	r.valueRoom = r.valueRoom[:len(r.valueRoom)+len(values)]
	into.Location, into.Value = locations[:len(locations):len(locations)], values[:len(values):len(values)]
	return len(r.labels) == 0 || r.put(into)
}

// readNumbers reads a field of one number or of many into numbers.
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

// uvarint reads a number that has more than one byte; binary.Uvarint is slower.
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

// put gives a sample its labels, as pprof does: one whose text is the empty one is a number, and one of 0 without a unit is none.
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

// padded has no unit for the numbers that have none.
func padded(units []string, length int) []string {
	for len(units) < length {
		units = append(units, "")
	}
	return units
}
