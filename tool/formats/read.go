package formats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// Read reads a profile in any known format, compressed or not. name is the file for the one-line error, which contains
// the position of the problem and what was expected there.
func Read(data []byte, name string) (*profile.Profile, error) {
	plain, err := report.Unzip(data, name)
	if err != nil {
		return nil, err
	}
	for _, known := range []struct {
		is   func([]byte) bool
		read func([]byte) (*profile.Profile, error)
	}{
		{isJemalloc, readJemalloc},
		{isHeapText, readHeapText},
		{isCPU, readCPU},
		{isOtherText, readOtherText},
	} {
		if known.is(plain) {
			p, err := known.read(plain)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			return p, nil
		}
	}
	p, err := report.ParseUnzipped(plain, len(data), name)
	if err != nil && strings.Contains(err.Error(), "not a profile") && len(plain) > 0 {
		return nil, fmt.Errorf("%s: not a profile: it begins with %s; expected profile.proto (`seemalloc profile PID -o FILE`), "+
			"a heap profile of gperftools (`heap profile: …`) or jemalloc (`heap_v2/…`), or a CPU profile of gperftools", name, firstBytes(plain))
	}
	return p, err
}

// firstBytes formats the first bytes of a file on one line.
func firstBytes(data []byte) string { return fmt.Sprintf("%q", data[:min(len(data), 24)]) }

// lineError returns an error with the line and what was expected there.
func lineError(number int, line, expected string) error {
	const maximum = 60
	if len(line) > maximum {
		line = line[:maximum] + "…"
	}
	return fmt.Errorf("line %d: expected %s, but it is %q", number, expected, line)
}

func errTruncated(number int) error {
	return fmt.Errorf("line %d: cut off in the middle: the file is truncated; copy it again", number)
}

// textFormat describes the lines of one of pprof's text formats. It is used to locate errors, because pprof only
// reports that the file is wrong.
type textFormat struct {
	row      *regexp.Regexp
	expected string
	header   *regexp.Regexp // additional lines allowed before the rows
}

const (
	counts    = `-?\d+: *-?\d+ *\[ *\d+: *\d+ *\]`
	addresses = `@[ x0-9a-f]*`
)

var (
	heapRows = textFormat{
		row:      regexp.MustCompile(`^` + counts + ` *` + addresses + `$`),
		expected: "OBJECTS: BYTES [OBJECTS: BYTES] @ 0xADDRESS …, or MAPPED_LIBRARIES:",
	}
	contentionRows = textFormat{
		row:      regexp.MustCompile(`^\d+ +\d+ *` + addresses + `$`),
		expected: "TIME COUNT @ 0xADDRESS …",
		header:   regexp.MustCompile(`^[\w/ ]+=`),
	}
	countRows = textFormat{
		row:      regexp.MustCompile(`^\d+ @( 0x[0-9a-f]+)+$`),
		expected: "COUNT @ 0xADDRESS …",
	}
)

// check checks the rows up to the memory map or the next section.
func (f textFormat) check(data []byte) error {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := strings.TrimSpace(string(line))
		switch {
		case number == 1 || text == "" || strings.HasPrefix(text, "#"), f.header != nil && f.header.MatchString(text):
			continue
		case isMemoryMap(text), strings.HasPrefix(text, "---"):
			return nil
		case !f.row.MatchString(text):
			return lineError(number, text, f.expected)
		case !bytes.HasSuffix(line, []byte("\n")):
			return errTruncated(number) // a truncated address would be taken for another one
		}
	}
	return nil
}

func isMemoryMap(line string) bool {
	return strings.Contains(line, "MAPPED_LIBRARIES:") || strings.Contains(line, "--- Memory map:")
}

// read checks the rows, then pprof parses them.
func (f textFormat) read(data []byte, kind string) (*profile.Profile, error) {
	if err := f.check(data); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	p, err := profile.ParseData(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("%s that cannot be read: %v", kind, err)
	}
	return p, nil
}

func isHeapText(data []byte) bool { return bytes.HasPrefix(data, []byte("heap profile:")) }

var (
	heapHeader   = regexp.MustCompile(`^heap profile: *` + counts + ` *@ *(heap[_a-z0-9]*(/\d+)?|(growth|fragmentation)z?)\s*$`)
	olderHeap    = regexp.MustCompile(`^heap profile: *` + counts + `\s*$`)
	growthHeader = regexp.MustCompile(`@ *(growth|fragmentation)`)
)

// readHeapText reads the format of gperftools, older jemallocs and older Go: `heap profile: …`.
func readHeapText(data []byte) (*profile.Profile, error) {
	const kind = "a heap profile"
	first, _, all := bytes.Cut(data, []byte("\n"))
	header := string(bytes.TrimRight(first, "\r"))
	if !heapHeader.MatchString(header) {
		if olderHeap.MatchString(header) {
			return nil, fmt.Errorf("%s: %w", kind, lineError(1, header, "`@ heapprofile` or `@ heap_v2/INTERVAL` at its end, which says how it was sampled"))
		}
		if !all {
			return nil, fmt.Errorf("%s: %w", kind, errTruncated(1))
		}
		return nil, fmt.Errorf("%s: %w", kind, lineError(1, header, "heap profile: OBJECTS: BYTES [OBJECTS: BYTES] @ heap_v2/INTERVAL"))
	}
	p, err := heapRows.read(data, kind)
	if err != nil {
		return nil, err
	}
	p.DropFrames += "|" + allocatorEntryPoints
	trimAllocator(p)
	// Without allocations since the start pprof calls the live values just objects and space.
	if pairOf(p, "").ok() && len(p.SampleType) == 2 && !growthHeader.MatchString(header) {
		for _, t := range p.SampleType {
			t.Type = "inuse_" + t.Type
		}
	}
	var names pythonNames
	for line := range bytes.Lines(data) {
		if isMemoryMap(string(line)) {
			break
		}
		if comment, is := bytes.CutPrefix(line, []byte("# ")); is && !names.learn(string(bytes.TrimSpace(comment))) {
			p.Comments = append(p.Comments, string(bytes.TrimSpace(comment)))
		}
	}
	names.put(p)
	return p, nil
}

var goCount = regexp.MustCompile(`^\S+ profile: total \d+\s`)

func isOtherText(data []byte) bool {
	return bytes.HasPrefix(data, []byte("--- ")) || goCount.Match(data)
}

// readOtherText reads contention profiles, stacks of threads, and Go's counts (`goroutine profile: total 3`).
func readOtherText(data []byte) (*profile.Profile, error) {
	switch {
	case goCount.Match(data):
		return countRows.read(data, "a count of stacks")
	case bytes.HasPrefix(data, []byte("--- contention")), bytes.HasPrefix(data, []byte("--- mutex")):
		if isJava(data) {
			break
		}
		return contentionRows.read(data, "a contention profile")
	}
	p, err := profile.ParseData(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("a text profile that pprof cannot read: %v: it begins with %s", err, firstBytes(data))
	}
	return p, nil
}

// isJava reports whether this is a Java profile: Java's contention profiles have the attribute `format = java`.
func isJava(data []byte) bool {
	return bytes.Contains(data[:min(len(data), 512)], []byte("format = java"))
}

// cpuWords are the word formats of a gperftools CPU profile: the native words of the profiled machine.
var cpuWords = []struct {
	bytes int
	order binary.ByteOrder
}{{8, binary.LittleEndian}, {4, binary.LittleEndian}, {8, binary.BigEndian}, {4, binary.BigEndian}}

// cpuReader reads words from data, starting at an offset.
type cpuReader struct {
	data   []byte
	offset int
	bytes  int
	order  binary.ByteOrder
}

func (r *cpuReader) word() (value uint64, ok bool) {
	if r.offset+r.bytes > len(r.data) {
		return 0, false
	}
	part := r.data[r.offset:]
	r.offset += r.bytes
	if r.bytes == 4 {
		return uint64(r.order.Uint32(part)), true
	}
	return r.order.Uint64(part), true
}

const cpuHeaderWords = 5

// cpuRecords returns a reader positioned behind the header `0 3 0 PERIOD 0`, or nil if there is none. In Java's format
// the third word is 1.
func cpuRecords(data []byte) *cpuReader {
	for _, kind := range cpuWords {
		r := &cpuReader{data: data, bytes: kind.bytes, order: kind.order}
		var header [cpuHeaderWords]uint64
		all := true
		for i := range header {
			var ok bool
			header[i], ok = r.word()
			all = all && ok
		}
		if all && header[0] == 0 && header[1] == 3 && header[2] <= 1 && header[3] > 0 && header[4] == 0 {
			return r
		}
	}
	return nil
}

func isCPU(data []byte) bool { return cpuRecords(data) != nil }

// readCPU reads a gperftools CPU profile: records of COUNT DEPTH ADDRESS…, the record 0 1 0, and the memory map. It
// walks the records first because pprof takes a truncated file for a complete one.
func readCPU(data []byte) (*profile.Profile, error) {
	const kind = "a CPU profile"
	r := cpuRecords(data)
	ended := false
	for !ended && r.offset < len(data) {
		begin := r.offset
		count, ok1 := r.word()
		depth, ok2 := r.word()
		rest := uint64(len(data)-r.offset) / uint64(r.bytes)
		if !ok1 || !ok2 || depth > rest {
			return nil, fmt.Errorf("%s: offset %d: expected a record COUNT DEPTH ADDRESS…, but the file ends within it: it is truncated or damaged; copy it again", kind, begin)
		}
		for range depth {
			address, _ := r.word()
			ended = count == 0 && depth == 1 && address == 0
		}
	}
	p, err := profile.ParseData(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("%s that cannot be read: %v", kind, err)
	}
	if !ended {
		p.Comments = append(p.Comments, "the file has no end mark: the program may still have been writing it, and the rest is missing")
	}
	return p, nil
}
