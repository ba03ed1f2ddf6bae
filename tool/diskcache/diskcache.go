// Package diskcache keeps files that can be made again in $XDG_CACHE_HOME/seemalloc (or ~/.cache/seemalloc).
//
// Many processes may use one folder at once, without locks: a file appears by rename, whole or not at all; the last
// writer wins; a file that another process has just evicted is one that is not there. What is read is not checked:
// callers put a version and a checksum into it and take what does not fit for absent. The folder's size is bounded:
// whoever writes beyond the limit removes what has been used least lately.
// Nothing is kept in a folder that another user owns or may write to. All methods may be called on nil, which keeps nothing.
package diskcache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Folder is one folder of the cache.
type Folder struct {
	path  string
	limit int64
}

// Bounds on the bookkeeping.
const (
	mostKeyBytes = 200
	// A file that was used is marked as such no more often: reading is not to wear the disk.
	touchInterval = time.Minute
	// What a writer left behind that was killed.
	abandonedAfter = time.Hour
)

const temporaryPrefix = ".new-"

// Open returns the folder called name, which holds at most limit bytes; nil where the user has no place for caches.
// The folder is made when the first file is written.
func Open(name string, limit int64) *Folder {
	base, err := os.UserCacheDir()
	if err != nil || !filepath.IsAbs(base) {
		return nil
	}
	return &Folder{path: filepath.Join(base, "seemalloc", name), limit: limit}
}

// Path is where the file of that key is, "" when there is none. It counts as used.
func (f *Folder) Path(key string) string {
	if f == nil || !isKey(key) || !isPrivate(f.path) {
		return ""
	}
	path := filepath.Join(f.path, key)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if now := time.Now(); now.Sub(info.ModTime()) > touchInterval {
		_ = os.Chtimes(path, now, now)
	}
	return path
}

// Read returns the file of that key, nil when there is none.
func (f *Folder) Read(key string) []byte {
	path := f.Path(key)
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return data
}

// Age is how long ago the file of that key was last written or used; false when there is none.
func (f *Folder) Age(key string) (time.Duration, bool) {
	if f == nil || !isKey(key) || !isPrivate(f.path) {
		return 0, false
	}
	info, err := os.Lstat(filepath.Join(f.path, key))
	if err != nil {
		return 0, false
	}
	return time.Since(info.ModTime()), true
}

// Remove takes a file away that turned out to be of no use.
func (f *Folder) Remove(key string) {
	if f != nil && isKey(key) && isPrivate(f.path) {
		_ = os.Remove(filepath.Join(f.path, key))
	}
}

// Write puts data under key, in place of what was there.
func (f *Folder) Write(key string, data []byte) error {
	file, err := f.Create(key)
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		file.Abandon()
		return err
	}
	_, err = file.Commit()
	return err
}

// errNoPlace: there is no folder, or it is not ours alone.
var errNoPlace = errors.New("no private folder for the cache")

// errTooLarge: a file that alone is more than the folder may hold.
var errTooLarge = errors.New("larger than the cache")

// File is one that is being written. It appears under its key when it is committed.
type File struct {
	*os.File
	folder  *Folder
	key     string
	written int64
}

// Create begins a file, which must be committed or abandoned.
func (f *Folder) Create(key string) (*File, error) {
	if f == nil || !isKey(key) {
		return nil, errNoPlace
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return nil, err
	}
	if !isPrivate(f.path) {
		return nil, errNoPlace
	}
	temporary, err := os.CreateTemp(f.path, temporaryPrefix)
	if err != nil {
		return nil, err
	}
	return &File{File: temporary, folder: f, key: key}, nil
}

// Write appends data; a file that does not fit into the cache is refused before it fills the disk.
func (w *File) Write(data []byte) (int, error) {
	if w.written += int64(len(data)); w.written > w.folder.limit {
		return 0, errTooLarge
	}
	return w.File.Write(data)
}

// Abandon forgets the file.
func (w *File) Abandon() {
	w.Close()
	_ = os.Remove(w.Name())
}

// Commit makes the file appear and returns where. Older files go where there are too many.
func (w *File) Commit() (string, error) {
	path := filepath.Join(w.folder.path, w.key)
	err := w.Close()
	if err == nil {
		err = os.Rename(w.Name(), path)
	}
	if err != nil {
		_ = os.Remove(w.Name())
		return "", err
	}
	w.folder.evict(w.key)
	return path, nil
}

// evict brings the folder below its limit, oldest first, sparing the file just written, and sweeps up what killed
// writers have left. It goes down to three quarters, so that it is not the work of every write.
func (f *Folder) evict(spare string) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	total := int64(0)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // evicted by somebody else meanwhile
		}
		if strings.HasPrefix(info.Name(), temporaryPrefix) {
			if time.Since(info.ModTime()) > abandonedAfter {
				_ = os.Remove(filepath.Join(f.path, info.Name()))
			}
			continue
		}
		total += room(info)
		if info.Name() != spare {
			files = append(files, info)
		}
	}
	if total <= f.limit {
		return
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if total <= f.limit/4*3 {
			break
		}
		if os.Remove(filepath.Join(f.path, info.Name())) == nil {
			total -= room(info)
		}
	}
}

// room is what a file takes on the disk, with its name: that nothing is there to be had is an empty file, and there are many.
func room(info fs.FileInfo) int64 {
	const least = 4096
	return max(info.Size(), least)
}

// isKey says whether key is a plain file name of ours: it may come from a profile that somebody sent.
func isKey(key string) bool {
	if key == "" || len(key) > mostKeyBytes || key[0] == '.' {
		return false
	}
	for _, c := range []byte(key) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// isPrivate says whether a folder belongs to the user and nobody else may write to it. With `sudo -E` it is somebody
// else's, who must neither get files of root's nor choose what root reads.
func isPrivate(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
