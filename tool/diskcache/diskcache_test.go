package diskcache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// open creates a cache directory for the test.
func open(t *testing.T, limit int64) *Cache {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	f := Open("test", limit)
	if f == nil {
		t.Fatal("no folder")
	}
	return f
}

func write(t *testing.T, f *Cache, key string, bytes int) {
	t.Helper()
	if err := f.Write(key, make([]byte, bytes)); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
}

// age makes a file appear unused for this time.
func age(t *testing.T, f *Cache, key string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(f.path, key), then, then); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, f *Cache) string {
	t.Helper()
	entries, err := os.ReadDir(f.path)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func TestWriteThenRead(t *testing.T) {
	f := open(t, 100_000)
	if f.Read("a") != nil || f.Path("a") != "" {
		t.Error("there is something before the first write")
	}
	for _, text := range []string{"one", "another", ""} {
		if err := f.Write("a", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := f.Read("a"); string(got) != text || got == nil {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if got := names(t, f); got != "a" {
		t.Errorf("left behind: %s", got)
	}
	f.Remove("a")
	if f.Read("a") != nil {
		t.Error("removed, and still there")
	}
	info, err := os.Stat(f.path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is not private: %v %v", info, err)
	}
}

func TestSizeIsBounded(t *testing.T) {
	f := open(t, 100_000)
	for i, key := range []string{"oldest", "older", "old", "young"} {
		write(t, f, key, 24_000)
		age(t, f, key, time.Duration(10-i)*time.Hour)
	}
	if f.Read("oldest") == nil { // now it is the most recently used
		t.Fatal("evicted too early")
	}
	write(t, f, "new", 10_000) // 106,000 bytes: down to 75,000
	if got := names(t, f); got != "new oldest young" {
		t.Errorf("kept %s", got)
	}
	if err := f.Write("huge", make([]byte, 100_001)); !errors.Is(err, errTooLarge) {
		t.Errorf("larger than all of the cache: %v", err)
	}
	if got := names(t, f); got != "new oldest young" {
		t.Errorf("kept %s after a refusal", got)
	}
}

// Empty files are numerous and need disk space too: each records that a program has no debug file.
func TestEmptyFilesAreEvicted(t *testing.T) {
	f := open(t, 100_000)
	for i := range 1000 {
		write(t, f, fmt.Sprintf("%d.absent", i), 0)
	}
	if n := len(strings.Fields(names(t, f))); n > 24 || n < 18 {
		t.Errorf("%d empty files of 1000 are kept in 100,000 bytes", n)
	}
}

func TestAbandonedFilesAreRemoved(t *testing.T) {
	f := open(t, 100_000)
	write(t, f, "a", 1)
	for name, by := range map[string]time.Duration{"killed": 2 * time.Hour, "busy": time.Minute} {
		path := filepath.Join(f.path, temporaryPrefix+name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-by)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	write(t, f, "b", 1)
	if got := names(t, f); got != temporaryPrefix+"busy a b" {
		t.Errorf("kept %s", got)
	}
	file, err := f.Create("c")
	if err != nil {
		t.Fatal(err)
	}
	file.Abandon()
	if got := names(t, f); got != temporaryPrefix+"busy a b" {
		t.Errorf("kept %s after an abandoned file", got)
	}
}

// Keys may come from an untrusted profile.
func TestKeysAreFileNames(t *testing.T) {
	f := open(t, 100_000)
	write(t, f, "a", 1)
	for _, key := range []string{"", ".", "..", "../a", "/etc/passwd", ".hidden", "a/b", "a\x00", strings.Repeat("a", 201)} {
		if err := f.Write(key, nil); err == nil {
			t.Errorf("%q was written", key)
		}
		if f.Path(key) != "" || f.Read(key) != nil {
			t.Errorf("%q was found", key)
		}
		f.Remove(key)
	}
	if got := names(t, f); got != "a" {
		t.Errorf("kept %s", got)
	}
}

func TestNoCacheDirectory(t *testing.T) {
	for name, set := range map[string]func(*testing.T){
		"neither variable": func(t *testing.T) { t.Setenv("XDG_CACHE_HOME", ""); t.Setenv("HOME", "") },
		"a relative path":  func(t *testing.T) { t.Setenv("XDG_CACHE_HOME", "cache") },
		"not a folder":     func(t *testing.T) { t.Setenv("XDG_CACHE_HOME", "/dev/null") },
		"a kernel's":       func(t *testing.T) { t.Setenv("XDG_CACHE_HOME", "/proc/self") },
	} {
		t.Run(name, func(t *testing.T) {
			set(t)
			f := Open("test", 1000)
			if err := f.Write("a", []byte("x")); err == nil {
				t.Error("no error")
			}
			if f.Read("a") != nil || f.Path("a") != "" {
				t.Error("something was read")
			}
			if _, ok := f.Age("a"); ok {
				t.Error("something has an age")
			}
			f.Remove("a")
		})
	}
}

func TestForeignDirectoryIsNotUsed(t *testing.T) {
	f := open(t, 100_000)
	write(t, f, "a", 1)
	if err := os.Chmod(f.path, 0o777); err != nil {
		t.Fatal(err)
	}
	if f.Read("a") != nil {
		t.Error("read from a folder that anybody may write to")
	}
	if err := f.Write("b", nil); err == nil {
		t.Error("wrote to it")
	}
	if err := os.Chmod(f.path, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("giving a folder to another user needs root")
	}
	if err := os.Chown(f.path, 12345, -1); err != nil {
		t.Skip(err)
	}
	if f.Read("a") != nil || f.Write("b", nil) == nil {
		t.Error("another user's folder was used")
	}
}

// A link in the folder must not lead out of it.
func TestLinksAreNotFollowed(t *testing.T) {
	f := open(t, 100_000)
	write(t, f, "a", 1)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(f.path, "link")); err != nil {
		t.Fatal(err)
	}
	if got := f.Read("link"); got != nil {
		t.Errorf("read %q", got)
	}
	if err := f.Write("link", []byte("ours")); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(secret); string(data) != "secret" {
		t.Errorf("wrote through a link: %q", data)
	}
}

// Eight processes with four threads each write, read and evict in one directory. A reader gets nothing or a complete
// file.
func TestManyProcesses(t *testing.T) {
	if os.Getenv("SEEMALLOC_TEST_WRITER") != "" {
		work(t, Open("test", 20_000))
		return
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var group sync.WaitGroup
	for i := range 8 {
		c := exec.Command(os.Args[0], "-test.run", "^TestManyProcesses$")
		c.Env = append(os.Environ(), fmt.Sprintf("SEEMALLOC_TEST_WRITER=%d", i))
		group.Go(func() {
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	group.Wait()
	f := Open("test", 20_000)
	total := int64(0)
	entries, err := os.ReadDir(f.path)
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), temporaryPrefix) {
			t.Errorf("%s was left behind", e.Name())
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	if total > 20_000 {
		t.Errorf("%d bytes are kept", total)
	}
}

// work writes files of one repeated byte. Its value depends on the length.
func work(t *testing.T, f *Cache) {
	var group sync.WaitGroup
	for thread := range 4 {
		group.Go(func() {
			for round := range 25 {
				key := fmt.Sprintf("key%d", (round*7+thread)%9)
				size := 1000 + round*17
				if err := f.Write(key, bytes.Repeat([]byte{byte(size)}, size)); err != nil {
					t.Errorf("%s: %v", key, err)
				}
				for i := range 9 {
					data := f.Read(fmt.Sprintf("key%d", i))
					if len(data) != 0 && !bytes.Equal(data, bytes.Repeat([]byte{byte(len(data))}, len(data))) {
						t.Errorf("half a file of %d bytes", len(data))
					}
				}
			}
		})
	}
	group.Wait()
}
