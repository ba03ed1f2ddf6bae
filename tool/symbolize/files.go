package symbolize

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Files determines where the files of a profile are searched.
type Files struct {
	// PID is the process from which the profile was just taken, or 0 for a saved profile. Its files are read in the
	// process's own view, so this works in a container, and after the files have been deleted or replaced.
	PID int
	// DebugDirs are directories with programs and debug information, searched in addition to /usr/lib/debug.
	DebugDirs []string
	// PerfMaps are files with symbols of code generated at run time, in addition to those of PID.
	PerfMaps []string
	// Server fetches debug information over the network. nil: the server set by the environment.
	Server *Debuginfod
	// Notify receives one-line messages for the user: why symbols are missing, and what takes long.
	Notify func(string)
}

// Default provides the values that Files leaves unset. A program sets it once, before any other call.
var Default Files

func (f Files) orDefault() Files {
	f.DebugDirs = append(f.DebugDirs[:len(f.DebugDirs):len(f.DebugDirs)], Default.DebugDirs...)
	f.PerfMaps = append(f.PerfMaps[:len(f.PerfMaps):len(f.PerfMaps)], Default.PerfMaps...)
	if f.Notify == nil {
		f.Notify = Default.Notify
	}
	if f.Server == nil {
		f.Server = Default.Server
	}
	if f.Server == nil {
		f.Server = NewDebuginfod(f.Notify)
	}
	return f
}

func (f Files) notify(line string) {
	if f.Notify != nil {
		f.Notify(line)
	}
}

// binaries holds the file of a module and, if that file has no debug information, the separate file that has it. A file
// that is not available is nil.
type binaries struct {
	main, separate *object
	name           string // the file's name in the profile
	why            string // why both are nil
}

func (b *binaries) any() *object   { return b.main.orElse(b.separate) }
func (b *binaries) debug() *object { return b.separate.orElse(b.main) }

func (b *binaries) close() {
	b.main.close()
	b.separate.close()
}

// key is the cache key for the symbols: the build id, or else the identity of the file.
func (b *binaries) key() string {
	if id := b.any().buildID(); id != "" {
		return id
	}
	return b.any().identity
}

// mismatchWarning applies to a profile without build ids: a file modified after the profile was taken may be a
// different file.
func (b *binaries) mismatchWarning(taken time.Time) string {
	if taken.IsZero() || b.main == nil || !b.main.modified.After(taken) {
		return ""
	}
	return "modified after the profile was taken, and the profile has no build id for it: its symbols may be wrong"
}

// open finds a module's files. A file with a build id other than the module's is not the one that ran, and is not used.
func (f Files) open(m *module) *binaries {
	b := &binaries{name: strings.TrimSuffix(m.file, " (deleted)")}
	if m.file == vdsoName {
		if b.main = f.openVdso(m.buildID); b.main == nil {
			b.why = "the kernel's code is available only for a running process, or for this kernel"
		}
		return b
	}
	for _, path := range f.candidates(m) {
		o := openObject(path)
		if o == nil {
			b.why = cmp.Or(b.why, rejectReason(path))
			continue
		}
		if id := o.buildID(); m.buildID == "" || id == m.buildID {
			b.main = o
			break
		} else {
			b.why = fmt.Sprintf("not the file that ran (replaced since?): its build id is %s, the profile's %s", shortID(id), shortID(m.buildID))
		}
		o.close()
	}
	if !b.main.hasDebug() {
		b.separate = f.debugFile(m, b.main, cmp.Or(m.buildID, b.main.buildID()))
	}
	return b
}

// rejectReason explains why a file cannot be used.
func rejectReason(path string) string {
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case err != nil:
		return "cannot be opened"
	}
	file.Close()
	return "not an ELF file"
}

// shortID returns the start of a build id, long enough to recognize it.
func shortID(id string) string {
	switch {
	case id == "":
		return "none"
	case len(id) > 12:
		return id[:12] + "…"
	}
	return id
}

// candidates returns the paths where the mapped file can be, the most reliable first.
func (f Files) candidates(m *module) []string {
	path := strings.TrimSuffix(m.file, " (deleted)")
	var list []string
	if f.PID != 0 {
		proc := "/proc/" + strconv.Itoa(f.PID)
		list = append(list, filepath.Join(proc, "root", path))
		// map_files requires privileges, but it is the mapped file itself, even if it was renamed or deleted.
		if span := mapFilesName(proc, m.locations[0].Mapping.Start); span != "" {
			list = append(list, filepath.Join(proc, "map_files", span))
		}
		if m.isMain {
			list = append(list, filepath.Join(proc, "exe"))
		}
	}
	list = append(list, path)
	if m.buildID != "" { // without a build id it could be any file with that name
		for _, dir := range f.DebugDirs {
			list = append(list, filepath.Join(dir, path), filepath.Join(dir, filepath.Base(path)))
		}
	}
	return list
}

// mapFilesName returns the entry of /proc/PID/map_files for the mapping that contains address.
func mapFilesName(proc string, address uint64) string {
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(maps) {
		var start, end uint64
		if n, _ := fmt.Sscanf(string(line), "%x-%x ", &start, &end); n == 2 && start <= address && address < end {
			return fmt.Sprintf("%x-%x", start, end)
		}
	}
	return ""
}

// roots returns the root directories in which debug files are searched: that of the target process, then our own.
func (f Files) roots() []string {
	if f.PID == 0 {
		return []string{"/"}
	}
	return []string{"/proc/" + strconv.Itoa(f.PID) + "/root", "/"}
}

// debugFile finds separate debug information: by build id, in the cache of debuginfod clients, by the link in the file,
// and on debuginfod servers.
func (f Files) debugFile(m *module, main *object, id string) *object {
	var byID []string
	if isBuildID(id) {
		name := filepath.Join(".build-id", id[:2], id[2:]+".debug")
		for _, root := range f.roots() {
			byID = append(byID, filepath.Join(root, "usr/lib/debug", name))
		}
		for _, dir := range f.DebugDirs {
			byID = append(byID, filepath.Join(dir, name))
		}
		byID = append(byID, clientCaches(id)...)
	}
	for _, path := range byID {
		if o := openWithID(path, id); o != nil {
			return o
		}
	}
	if o := f.linkedDebugFile(m, main, id); o != nil {
		return o
	}
	return f.Server.find(id, m.file)
}

// linkedDebugFile follows .gnu_debuglink, which holds a file name and a checksum.
func (f Files) linkedDebugFile(m *module, main *object, id string) *object {
	link := main.section(".gnu_debuglink")
	end := bytes.IndexByte(link, 0)
	if end <= 0 || len(link) < 4 {
		return nil
	}
	name, sum := filepath.Base(string(link[:end])), main.elf.ByteOrder.Uint32(link[len(link)-4:])
	dir := filepath.Dir(strings.TrimSuffix(m.file, " (deleted)"))
	var paths []string
	for _, root := range f.roots() {
		for _, place := range []string{dir, filepath.Join(dir, ".debug"), filepath.Join("/usr/lib/debug", dir)} {
			paths = append(paths, filepath.Join(root, place, name))
		}
	}
	for _, extra := range f.DebugDirs {
		paths = append(paths, filepath.Join(extra, name), filepath.Join(extra, dir, name))
	}
	for _, path := range paths {
		o := openObject(path)
		if o == nil {
			continue
		}
		if own := o.buildID(); own != "" && own == id || crc32.ChecksumIEEE(o.data) == sum {
			return o
		}
		o.close()
	}
	return nil
}

// alternate opens the file named by .gnu_debugaltlink, in which dwz stores data that several debug files share. Most
// debug packages of Debian and Fedora have one.
func (f Files) alternate(debug *object) *object {
	link := debug.section(".gnu_debugaltlink")
	end := bytes.IndexByte(link, 0)
	if end <= 0 {
		return nil
	}
	name, id := string(link[:end]), fmt.Sprintf("%x", link[end+1:])
	var paths []string
	if filepath.IsAbs(name) {
		for _, root := range f.roots() {
			paths = append(paths, filepath.Join(root, name))
		}
	} else {
		paths = append(paths, filepath.Join(debug.dir(), name))
	}
	if isBuildID(id) {
		place := filepath.Join(".build-id", id[:2], id[2:]+".debug")
		for _, root := range f.roots() {
			paths = append(paths, filepath.Join(root, "usr/lib/debug", place))
		}
		for _, dir := range f.DebugDirs {
			paths = append(paths, filepath.Join(dir, place), filepath.Join(dir, filepath.Base(name)))
		}
		paths = append(paths, clientCaches(id)...)
	}
	for _, path := range paths {
		if o := openWithID(path, id); o != nil {
			return o
		}
	}
	return f.Server.find(id, filepath.Base(name))
}
