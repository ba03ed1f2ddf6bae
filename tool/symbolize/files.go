package symbolize

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// Files says where the files of a profile are looked for.
type Files struct {
	// PID is the process that the profile was just taken from, 0 for a saved profile. Its files are then read the way
	// it sees them, even in a container or when they have been deleted or replaced meanwhile.
	PID int
	// DebugDirs are folders of debug information besides /usr/lib/debug.
	DebugDirs []string
}

// open returns the file that m maps and the file with its debug information, each nil when it cannot be had. A file
// whose build id is not the mapping's is not the one that runs, and is not used.
func (f Files) open(m *profile.Mapping, isMain bool) (main, debug *object) {
	for _, path := range f.candidates(m, isMain) {
		o := openObject(path)
		if o == nil {
			continue
		}
		if id := o.buildID(); m.BuildID == "" || strings.EqualFold(id, m.BuildID) {
			main = o
			break
		}
		o.close()
	}
	if main.hasDebug() {
		return main, nil
	}
	id := m.BuildID
	if id == "" {
		id = main.buildID()
	}
	return main, f.debugFile(m, main, strings.ToLower(id))
}

// candidates are the places where the mapped file can be, most trustworthy first.
func (f Files) candidates(m *profile.Mapping, isMain bool) []string {
	path := strings.TrimSuffix(m.File, " (deleted)")
	if f.PID == 0 {
		return []string{path}
	}
	proc := "/proc/" + strconv.Itoa(f.PID)
	list := []string{filepath.Join(proc, "root", path)}
	// map_files needs privileges, but leads to the mapped file itself, whatever has become of its name.
	if span := mapFilesName(proc, m.Start); span != "" {
		list = append(list, filepath.Join(proc, "map_files", span))
	}
	if isMain {
		list = append(list, filepath.Join(proc, "exe"))
	}
	return append(list, path)
}

// mapFilesName is the entry of /proc/PID/map_files for the mapping that holds address.
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

// roots are the file trees in which debug files are looked for: the target's, then our own.
func (f Files) roots() []string {
	if f.PID == 0 {
		return []string{"/"}
	}
	return []string{"/proc/" + strconv.Itoa(f.PID) + "/root", "/"}
}

// debugFile finds separate debug information: by build id, by the link in the file, in the cache of debuginfod's
// clients. (This tool downloads nothing by itself.)
func (f Files) debugFile(m *profile.Mapping, main *object, id string) *object {
	var byID []string
	if len(id) > 2 {
		name := filepath.Join(".build-id", id[:2], id[2:]+".debug")
		for _, root := range f.roots() {
			byID = append(byID, filepath.Join(root, "usr/lib/debug", name))
		}
		for _, dir := range f.DebugDirs {
			byID = append(byID, filepath.Join(dir, name))
		}
		if cache, err := os.UserCacheDir(); err == nil {
			byID = append(byID, filepath.Join(cache, "debuginfod_client", id, "debuginfo"))
		}
	}
	for _, path := range byID {
		if o := openObject(path); o != nil {
			if o.buildID() == id {
				return o
			}
			o.close()
		}
	}
	return f.linkedDebugFile(m, main, id)
}

// linkedDebugFile follows .gnu_debuglink, which names a file and gives its checksum.
func (f Files) linkedDebugFile(m *profile.Mapping, main *object, id string) *object {
	link := main.section(".gnu_debuglink")
	end := bytes.IndexByte(link, 0)
	if end <= 0 || len(link) < 4 {
		return nil
	}
	name, sum := filepath.Base(string(link[:end])), main.elf.ByteOrder.Uint32(link[len(link)-4:])
	dir := filepath.Dir(strings.TrimSuffix(m.File, " (deleted)"))
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

// alternate opens the file that .gnu_debugaltlink names: what dwz found common to several debug files, as in most of
// Debian's and Fedora's debug packages.
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
	if len(id) > 2 {
		for _, root := range f.roots() {
			paths = append(paths, filepath.Join(root, "usr/lib/debug/.build-id", id[:2], id[2:]+".debug"))
		}
	}
	for _, path := range paths {
		if o := openObject(path); o != nil {
			if o.buildID() == id {
				return o
			}
			o.close()
		}
	}
	return nil
}
