package symbolize

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"os"
	"slices"

	"seemalloc/tool/diskcache"
)

// The symbols of a file's addresses are cached on disk by build id. A second report of a profile therefore reads no
// debug information, and a profile can be symbolized after its files are gone.
//
// Results from complete debug information are valid forever, because the build id identifies the file's contents.
// Incomplete results are used only while nothing better is available (isCurrent).
//
// An entry consists of the word "SMNAMES\n", the version, a checksum of the rest, and the data. Numbers are varints,
// and strings are their length followed by their bytes:
//
// 	key, flags, split units that were missing, segments, table of strings, addresses with their frames
//
// An invalid entry is treated as missing and written again.

const (
	namesMagic = "SMNAMES\n"
	// namesVersion increases with every change of the format, and of the results that this package computes from a
	// file.
	namesVersion = 3
	headerBytes  = len(namesMagic) + 8
	// Maximum size of all entries, and of one entry. If an entry exceeds it, only the addresses of the latest profile
	// are kept.
	namesCacheBytes = 256 << 20
	maxAddresses    = 200_000
)

// names holds the symbols of one file.
type names struct {
	segments    segments
	resolutions map[uint64]resolution // keyed by the file's own addresses
	debug       bool                  // the file had debug information
	// References from the debug information to missing files: the shared file of dwz, and split units.
	missingAlternate bool
	missingSplit     []string
	changed          bool // since it was read from the cache
	damaged          bool // the file is damaged: not cached
}

// complete reports whether no better result is possible.
func (n *names) complete() bool { return n.debug && !n.missingAlternate && len(n.missingSplit) == 0 }

// isCurrent reports whether the cached result is the best that is possible with the files that exist now.
func (s *session) isCurrent(n *names, found *binaries) bool {
	switch {
	case n.complete():
		return true
	case !n.debug:
		return !found.debug().hasDebug()
	case n.missingAlternate:
		if other := s.files.alternate(found.debug()); other != nil {
			other.close()
			return false
		}
	}
	return !slices.ContainsFunc(n.missingSplit, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// store caches names on disk. A nil store caches nothing.
type store struct{ cache *diskcache.Cache }

func openStore() *store { return &store{diskcache.Open("names", namesCacheBytes)} }

// load returns the names cached under key, or nil.
func (s *store) load(key string) *names {
	if s == nil || key == "" {
		return nil
	}
	return decodeNames(s.cache.Read(fileKey(key)), key)
}

// save caches names if they have changed. If they are too many, only wanted is kept.
func (s *store) save(key string, n *names, wanted map[uint64]resolution) {
	if s == nil || key == "" || !n.changed || n.damaged {
		return
	}
	if len(n.resolutions) > maxAddresses {
		n = &names{segments: n.segments, resolutions: wanted, debug: n.debug, missingAlternate: n.missingAlternate, missingSplit: n.missingSplit}
	}
	_ = s.cache.Write(fileKey(key), encodeNames(n, key)) // a full disk only costs time
}

// fileKey returns the file name for a key, which is usually a build id.
func fileKey(key string) string {
	if isBuildID(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "other-" + hex.EncodeToString(sum[:16])
}

const (
	flagDebug = 1 << iota
	flagMissingAlternate
	flagDebugOnly
)

// namesWriter builds an entry. Strings are numbered in order of appearance.
type namesWriter struct {
	body    []byte
	strings map[string]uint64
	texts   []string
}

func (w *namesWriter) number(n uint64) { w.body = binary.AppendUvarint(w.body, n) }

func (w *namesWriter) text(text string) {
	w.number(uint64(len(text)))
	w.body = append(w.body, text...)
}

func (w *namesWriter) reference(text string) {
	n, ok := w.strings[text]
	if !ok {
		n = uint64(len(w.texts))
		w.strings[text] = n
		w.texts = append(w.texts, text)
	}
	w.number(n)
}

func encodeNames(n *names, key string) []byte {
	addresses := namesWriter{strings: map[string]uint64{}}
	addresses.addresses(n.resolutions)
	w := namesWriter{}
	w.text(key)
	flags := uint64(0)
	for flag, set := range map[uint64]bool{flagDebug: n.debug, flagMissingAlternate: n.missingAlternate, flagDebugOnly: n.segments.debugOnly} {
		if set {
			flags |= flag
		}
	}
	w.number(flags)
	w.number(uint64(len(n.missingSplit)))
	for _, path := range n.missingSplit {
		w.text(path)
	}
	w.number(uint64(len(n.segments.list)))
	for _, s := range n.segments.list {
		w.number(s.offset)
		w.number(s.bytes)
		w.number(s.address)
	}
	w.number(uint64(len(addresses.texts)))
	for _, text := range addresses.texts {
		w.text(text)
	}
	w.body = append(w.body, addresses.body...)

	data := binary.LittleEndian.AppendUint32([]byte(namesMagic), namesVersion)
	data = binary.LittleEndian.AppendUint32(data, crc32.ChecksumIEEE(w.body))
	return append(data, w.body...)
}

func (w *namesWriter) addresses(answers map[uint64]resolution) {
	sorted := make([]uint64, 0, len(answers))
	for a := range answers {
		sorted = append(sorted, a)
	}
	slices.Sort(sorted)
	w.number(uint64(len(sorted)))
	last := uint64(0)
	for _, a := range sorted {
		w.number(a - last)
		last = a
		known := answers[a]
		w.number(uint64(known.how))
		w.number(known.start)
		w.number(uint64(len(known.frames)))
		for _, f := range known.frames {
			w.reference(f.system)
			w.reference(f.short)
			w.reference(f.display)
			w.reference(f.file)
			w.number(uint64(max(f.line, 0)))
			w.number(uint64(max(f.startLine, 0)))
		}
	}
}

// namesReader reads an entry. After the first invalid value it sets bad, and all further values are zero.
type namesReader struct {
	data []byte
	bad  bool
}

func (r *namesReader) number() uint64 {
	n, used := binary.Uvarint(r.data)
	if used <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[used:]
	return n
}

// count reads a number of elements, each of which takes at least one byte.
func (r *namesReader) count() int {
	n := r.number()
	if n > uint64(len(r.data)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *namesReader) text() string {
	n := r.count()
	text := string(r.data[:n])
	r.data = r.data[n:]
	return text
}

func (r *namesReader) fail() { r.data, r.bad = nil, true }

// decodeNames parses an entry. It returns nil if the entry is damaged, has another version, or belongs to another file.
func decodeNames(data []byte, key string) *names {
	if len(data) < headerBytes || string(data[:len(namesMagic)]) != namesMagic {
		return nil
	}
	version, sum := binary.LittleEndian.Uint32(data[len(namesMagic):]), binary.LittleEndian.Uint32(data[len(namesMagic)+4:])
	if version != namesVersion || crc32.ChecksumIEEE(data[headerBytes:]) != sum {
		return nil
	}
	return readNames(&namesReader{data: data[headerBytes:]}, key)
}

func readNames(r *namesReader, key string) *names {
	if r.text() != key {
		return nil
	}
	flags := r.number()
	n := &names{debug: flags&flagDebug != 0, missingAlternate: flags&flagMissingAlternate != 0}
	n.segments.debugOnly = flags&flagDebugOnly != 0
	for range r.count() {
		n.missingSplit = append(n.missingSplit, r.text())
	}
	for range r.count() {
		n.segments.list = append(n.segments.list, segment{offset: r.number(), bytes: r.number(), address: r.number()})
	}
	texts := make([]string, r.count())
	for i := range texts {
		texts[i] = r.text()
	}
	if n.resolutions = r.resolutions(texts); r.bad || len(r.data) != 0 {
		return nil
	}
	return n
}

func (r *namesReader) resolutions(texts []string) map[uint64]resolution {
	text := func() string {
		n := r.number()
		if n >= uint64(len(texts)) {
			r.fail()
			return ""
		}
		return texts[n]
	}
	count := r.count()
	answers := make(map[uint64]resolution, count)
	address := uint64(0)
	for range count {
		address += r.number()
		a := resolution{how: source(min(r.number(), uint64(lastSource)+1)), start: r.number()}
		if a.how > lastSource {
			r.fail()
		}
		frames := make([]frame, r.count())
		for i := range frames {
			frames[i] = frame{system: text(), short: text(), display: text(), file: text(), line: int(r.number()), startLine: int(r.number())}
		}
		if r.bad {
			return nil
		}
		a.frames = frames
		answers[address] = a
	}
	return answers
}
