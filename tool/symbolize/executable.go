package symbolize

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/pprof/profile"
)

// nameExecutable gives the mappings of a process's executable the path by which it was started: /usr/bin/redis-server,
// and not the file to which that symbolic link leads, /usr/bin/redis-check-rdb. Both open the same file.
func nameExecutable(p *profile.Profile, pid int) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	target, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil {
		return
	}
	started := startedAs(proc, target)
	if started == "" {
		return
	}
	for _, mapping := range p.Mapping {
		if mapping.File == target {
			mapping.File = started
		}
	}
}

// startedAs returns the path of the link by which an executable was started; "": by its own name, or unknown. A process
// may overwrite its command line, so the kernel's short name is tried too.
func startedAs(proc, target string) string {
	line, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
	first, _, _ := bytes.Cut(line, []byte{0})
	short, _ := os.ReadFile(filepath.Join(proc, "comm"))
	file, err := os.Stat(filepath.Join(proc, "exe"))
	if err != nil {
		return ""
	}
	for _, name := range []string{string(first), string(bytes.TrimSpace(short))} {
		if name == "" || name == "." {
			continue
		}
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(target), filepath.Base(name))
		}
		if filepath.Base(path) == filepath.Base(target) {
			return ""
		}
		if found, err := os.Stat(filepath.Join(proc, "root", path)); err == nil && os.SameFile(found, file) {
			return path
		}
	}
	return ""
}
