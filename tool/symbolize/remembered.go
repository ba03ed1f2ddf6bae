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

// What is found out about a file's addresses is kept on disk, by build id, so that a second look at a profile reads no
// debug information, and a profile whose files are gone is still read with names.
//
// What came from complete debug information stays true for ever: the build id stands for the file's contents. Anything
// less is used as long as there is nothing better (stillBest).
//
// An entry is: the word "SMNAMES\n", the version, a checksum of the rest; then numbers as varints and strings as a
// number of bytes and the bytes:
//
//	key, flags, split units that were missing, segments, table of strings, addresses with their frames
//
// Whatever does not fit is taken for absent, and written anew.

const (
	namesMagic = "SMNAMES\n"
	// namesVersion goes up with every change of the format, and of what this package makes of a file.
	namesVersion = 1
	headerBytes  = len(namesMagic) + 8
	// Of all entries, and of one: then what the last profile asked for is all that stays.
	namesCacheBytes = 256 << 20
	mostAddresses   = 200_000
)

// names are what is known of one file.
type names struct {
	segments segments
	answers  map[uint64]answer // by the file's own addresses
	debug    bool              // there was debug information
	// What it referred to and was not there: the file that dwz has made, and split units.
	lacksAlternate bool
	lacksSplit     []string
	changed        bool // since it was read
	damaged        bool // the file is: nothing to keep
}

// complete says that nobody can know more.
func (n *names) complete() bool { return n.debug && !n.lacksAlternate && len(n.lacksSplit) == 0 }

// stillBest says whether what is known is the best that can be had from the files that are there now.
func (s *session) stillBest(n *names, found *binaries) bool {
	switch {
	case n.complete():
		return true
	case !n.debug:
		return !found.debug().hasDebug()
	case n.lacksAlternate:
		if other := s.files.alternate(found.debug()); other != nil {
			other.close()
			return false
		}
	}
	return !slices.ContainsFunc(n.lacksSplit, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// store keeps names on disk. A nil store keeps nothing.
type store struct{ folder *diskcache.Folder }

func openStore() *store { return &store{diskcache.Open("names", namesCacheBytes)} }

// load returns what is kept under key, nil when that is nothing.
func (s *store) load(key string) *names {
	if s == nil || key == "" {
		return nil
	}
	return decodeNames(s.folder.Read(fileKey(key)), key)
}

// save keeps names if there is anything new in them; wanted is what must stay when they are too many.
func (s *store) save(key string, n *names, wanted map[uint64]answer) {
	if s == nil || key == "" || !n.changed || n.damaged {
		return
	}
	if len(n.answers) > mostAddresses {
		n = &names{segments: n.segments, answers: wanted, debug: n.debug, lacksAlternate: n.lacksAlternate, lacksSplit: n.lacksSplit}
	}
	_ = s.folder.Write(fileKey(key), encodeNames(n, key)) // a full disk costs time, no more
}

// fileKey is a build id as a file's name.
func fileKey(key string) string {
	if isBuildID(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "other-" + hex.EncodeToString(sum[:16])
}

const (
	flagDebug = 1 << iota
	flagLacksAlternate
	flagDebugOnly
)

// namesWriter builds an entry. Strings are numbered as they are met.
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
	addresses.addresses(n.answers)
	w := namesWriter{}
	w.text(key)
	flags := uint64(0)
	for flag, set := range map[uint64]bool{flagDebug: n.debug, flagLacksAlternate: n.lacksAlternate, flagDebugOnly: n.segments.debugOnly} {
		if set {
			flags |= flag
		}
	}
	w.number(flags)
	w.number(uint64(len(n.lacksSplit)))
	for _, path := range n.lacksSplit {
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

func (w *namesWriter) addresses(answers map[uint64]answer) {
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

// namesReader reads an entry; after the first thing that does not fit, everything is zero and bad is set.
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

// count is a number of things, each of which takes at least a byte.
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

// decodeNames reads an entry; nil when it is damaged, of another version or another file's.
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
	n := &names{debug: flags&flagDebug != 0, lacksAlternate: flags&flagLacksAlternate != 0}
	n.segments.debugOnly = flags&flagDebugOnly != 0
	for range r.count() {
		n.lacksSplit = append(n.lacksSplit, r.text())
	}
	for range r.count() {
		n.segments.list = append(n.segments.list, segment{offset: r.number(), bytes: r.number(), address: r.number()})
	}
	texts := make([]string, r.count())
	for i := range texts {
		texts[i] = r.text()
	}
	if n.answers = r.answers(texts); r.bad || len(r.data) != 0 {
		return nil
	}
	return n
}

func (r *namesReader) answers(texts []string) map[uint64]answer {
	text := func() string {
		n := r.number()
		if n >= uint64(len(texts)) {
			r.fail()
			return ""
		}
		return texts[n]
	}
	count := r.count()
	answers := make(map[uint64]answer, count)
	address := uint64(0)
	for range count {
		address += r.number()
		a := answer{how: source(min(r.number(), uint64(lastSource)+1)), start: r.number()}
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
