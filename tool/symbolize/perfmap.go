package symbolize

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/pprof/profile"
)

// Code generated at run time has no file. JIT compilers (node --perf-basic-prof, java with -XX:+DumpPerfMapAtExit or
// `jcmd PID Compiler.perfmap`, .NET with DOTNET_PerfMapEnabled, python -X perf) write its symbols to /tmp/perf-PID.map.
// Its lines "START BYTES NAME" are hexadecimal and are appended as code is generated. If an address range was reused,
// the last line for it counts.

// perfMaps returns the maps of the process and those given by the user, in order of preference.
func (f Files) perfMaps() []string {
	paths := append([]string(nil), f.PerfMaps...)
	if f.PID == 0 {
		return paths
	}
	// The process names the file by its pid in its own pid namespace, in the /tmp of its own mount namespace.
	pid := strconv.Itoa(f.PID)
	inside := innermostPID(f.PID)
	paths = append(paths, filepath.Join("/proc", pid, "root/tmp", "perf-"+inside+".map"))
	return append(paths, "/tmp/perf-"+pid+".map")
}

// innermostPID returns the pid of a process in its own pid namespace.
func innermostPID(pid int) string {
	number := strconv.Itoa(pid)
	status, err := os.ReadFile("/proc/" + number + "/status")
	if err != nil {
		return number
	}
	for line := range strings.Lines(string(status)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if fields := strings.Fields(numbers); len(fields) > 0 {
				return fields[len(fields)-1]
			}
		}
	}
	return number
}

// generatedCode maps addresses of generated code to symbols.
type generatedCode map[uint64]string

// put sets the symbol of a location if it is known.
func (g generatedCode) put(loc *profile.Location, names *functions, result *Result) bool {
	name, ok := g[loc.Address]
	if ok {
		loc.Line = nil
		names.put(loc, generatedFrame(name))
		result.Generated++
	}
	return ok
}

// nameGenerated looks up addresses (sorted) in the perf maps.
func (f Files) nameGenerated(addresses []uint64) generatedCode {
	found := generatedCode{}
	owner := processOwner(f.PID)
	for i, path := range f.perfMaps() {
		var open []uint64
		for _, a := range addresses {
			if _, done := found[a]; !done {
				open = append(open, a)
			}
		}
		if len(open) == 0 {
			break
		}
		// A file given by the user may belong to any owner.
		file, err := openPerfMap(path, owner, i < len(f.PerfMaps))
		if err != nil {
			continue
		}
		maps.Copy(found, scanPerfMap(file, open))
		file.Close()
	}
	return found
}

// generatedNote explains how symbols could be obtained for this many addresses of generated code. It returns nothing if
// it is unknown whether there is any generated code.
func (f Files) generatedNote(unnamed int) []string {
	if unnamed == 0 || f.PID == 0 && len(f.PerfMaps) == 0 {
		return nil
	}
	places := "1 address is"
	if unnamed > 1 {
		places = fmt.Sprintf("%d addresses are", unnamed)
	}
	paths := f.perfMaps()
	return []string{fmt.Sprintf("%s in no file and not in %s: code generated at run time has symbols only if the JIT compiler writes that map "+
		"(node --perf-basic-prof, python -X perf, jcmd PID Compiler.perfmap)", places, paths[len(paths)-1])}
}

// processOwner returns the uid of a process, or -1 if there is no process.
func processOwner(pid int) int {
	if pid == 0 {
		return -1
	}
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return -1
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// errNotPerfMap: not a regular file, or created by another user, since all users can write to /tmp.
var errNotPerfMap = errors.New("not the process's perf map")

func openPerfMap(path string, owner int, anybody bool) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		stat, ok := info.Sys().(*syscall.Stat_t)
		trusted := ok && (anybody || int(stat.Uid) == owner || int(stat.Uid) == os.Geteuid() || stat.Uid == 0)
		if !info.Mode().IsRegular() || !trusted {
			err = errNotPerfMap
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// scanPerfMap finds the symbols of addresses (sorted) in one pass. It allocates memory only for the symbols that it
// finds: the map of a Java program has tens of thousands of lines, and a profile some hundred addresses in generated
// code.
func scanPerfMap(file io.Reader, addresses []uint64) generatedCode {
	found := generatedCode{}
	reader := bufio.NewReaderSize(file, 256<<10)
	for {
		line, err := reader.ReadSlice('\n')
		start, end, name := perfMapLine(line)
		for i := lowerBound(addresses, start); i < len(addresses) && addresses[i] < end; i++ {
			found[addresses[i]] = string(name)
		}
		for errors.Is(err, bufio.ErrBufferFull) { // skip the rest of a symbol longer than 256 KiB
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			return found
		}
	}
}

// perfMapLine parses a line. It returns start = end for an invalid line, such as one that is still being written.
func perfMapLine(line []byte) (start, end uint64, name []byte) {
	first, rest, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
	second, name, ok := bytes.Cut(rest, []byte(" "))
	start, err := parseHex(first)
	size, err2 := parseHex(second)
	if !ok || err != nil || err2 != nil || start+size < start || len(name) == 0 {
		return 0, 0, nil
	}
	return start, start + size, name
}

func parseHex(digits []byte) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(string(digits), "0x"), 16, 64)
}

var (
	// py::NAME:FILE, as written by python -X perf.
	pythonName = regexp.MustCompile(`^py::(.+?):(/.*|<.*>|[^:]+\.py)$`)
	// KIND:NAME FILE:LINE:COLUMN, as written by V8, with a compiler mark before the name.
	scriptName = regexp.MustCompile(`^(?:LazyCompile|JS|Function|Script|Eval):[*~^+']*(\S*) ?(\S*?):(\d+)(?::\d+)?$`)
)

// generatedFrame parses a function's name, and its file and line if the format is known.
func generatedFrame(name string) frame {
	if m := pythonName.FindStringSubmatch(name); m != nil {
		return frame{display: m[1], file: m[2]}
	}
	if m := scriptName.FindStringSubmatch(name); m != nil {
		if m[1] == "" {
			m[1] = "(anonymous)"
		}
		line, _ := strconv.Atoi(m[3])
		return frame{display: m[1], file: m[2], startLine: line}
	}
	return frame{display: name}
}
