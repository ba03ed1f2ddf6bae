// Package diskcache stores reproducible files in $XDG_CACHE_HOME/seemalloc (or ~/.cache/seemalloc).
//
// Many processes may use one directory concurrently, without locks: a file is renamed into place when it is complete;
// the last writer wins; and a file that another process has just evicted counts as missing. Contents are not verified:
// callers include a version and a checksum, and treat invalid contents as missing. The size of the directory is
// limited: a writer that exceeds the limit removes the least recently used files.
//
// Nothing is stored in a directory that another user owns or may write to. All methods may be called on nil, which
// stores nothing.
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

// Cache is one directory of the cache.
type Cache struct {
	path  string
	limit int64
}

// Limits of the bookkeeping.
const (
	maxKeyBytes = 200
	// The modification time of a used file is updated at most this often, to limit disk writes.
	touchInterval = time.Minute
	// The age from which a temporary file was left behind by a killed writer.
	abandonedAfter = time.Hour
)

const temporaryPrefix = ".new-"

// Open returns the cache directory called name, which holds at most limit bytes, or nil if the user has no cache
// directory. The directory is created with the first file.
func Open(name string, limit int64) *Cache {
	base, err := os.UserCacheDir()
	if err != nil || !filepath.IsAbs(base) {
		return nil
	}
	return &Cache{path: filepath.Join(base, "seemalloc", name), limit: limit}
}

// Path returns the path of the file with this key, or "" if there is none. It marks the file as used.
func (f *Cache) Path(key string) string {
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

// Read returns the file with this key, or nil if there is none.
func (f *Cache) Read(key string) []byte {
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

// Age returns the time since the file with this key was last written or used. It returns false if there is none.
func (f *Cache) Age(key string) (time.Duration, bool) {
	if f == nil || !isKey(key) || !isPrivate(f.path) {
		return 0, false
	}
	info, err := os.Lstat(filepath.Join(f.path, key))
	if err != nil {
		return 0, false
	}
	return time.Since(info.ModTime()), true
}

// Remove deletes a file that is of no use.
func (f *Cache) Remove(key string) {
	if f != nil && isKey(key) && isPrivate(f.path) {
		_ = os.Remove(filepath.Join(f.path, key))
	}
}

// Write stores data under key and replaces an existing file.
func (f *Cache) Write(key string, data []byte) error {
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

// errNoCacheDir: there is no cache directory, or other users may access it.
var errNoCacheDir = errors.New("no private folder for the cache")

// errTooLarge: a single file exceeds the limit of the directory.
var errTooLarge = errors.New("larger than the cache")

// File is a file that is being written. It appears under its key when it is committed.
type File struct {
	*os.File
	cache   *Cache
	key     string
	written int64
}

// Create starts a file, which must be committed or abandoned.
func (f *Cache) Create(key string) (*File, error) {
	if f == nil || !isKey(key) {
		return nil, errNoCacheDir
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return nil, err
	}
	if !isPrivate(f.path) {
		return nil, errNoCacheDir
	}
	temporary, err := os.CreateTemp(f.path, temporaryPrefix)
	if err != nil {
		return nil, err
	}
	return &File{File: temporary, cache: f, key: key}, nil
}

// Write appends data. A file that exceeds the limit of the cache is refused before it fills the disk.
func (w *File) Write(data []byte) (int, error) {
	if w.written += int64(len(data)); w.written > w.cache.limit {
		return 0, errTooLarge
	}
	return w.File.Write(data)
}

// Abandon discards the file.
func (w *File) Abandon() {
	w.Close()
	_ = os.Remove(w.Name())
}

// Commit renames the file into place and returns its path. It evicts older files if the limit is exceeded.
func (w *File) Commit() (string, error) {
	path := filepath.Join(w.cache.path, w.key)
	err := w.Close()
	if err == nil {
		err = os.Rename(w.Name(), path)
	}
	if err != nil {
		_ = os.Remove(w.Name())
		return "", err
	}
	w.cache.evict(w.key)
	return path, nil
}

// evict reduces the directory below its limit, oldest files first, except the file just written. It also deletes the
// leftovers of killed writers. It goes down to three quarters of the limit, so that not every write has to evict.
func (f *Cache) evict(spare string) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	total := int64(0)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // evicted by another process in the meantime
		}
		if strings.HasPrefix(info.Name(), temporaryPrefix) {
			if time.Since(info.ModTime()) > abandonedAfter {
				_ = os.Remove(filepath.Join(f.path, info.Name()))
			}
			continue
		}
		total += diskUsage(info)
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
			total -= diskUsage(info)
		}
	}
}

// diskUsage returns the disk space of a file with its directory entry. Many files are empty: they record that a debug
// file does not exist.
func diskUsage(info fs.FileInfo) int64 {
	const minimum = 4096
	return max(info.Size(), minimum)
}

// isKey reports whether key is a safe file name. It may come from an untrusted profile.
func isKey(key string) bool {
	if key == "" || len(key) > maxKeyBytes || key[0] == '.' {
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

// isPrivate reports whether the directory belongs to the user and is not writable for others. With `sudo -E` it belongs
// to another user: that user must neither receive root's files nor control the files that root reads.
func isPrivate(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
