package symbolize

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// program is a running test program that has printed its marks and is waiting.
type program struct {
	path  string
	pid   int
	marks map[string]uint64
}

// tool skips the test if a compiler or a binutils tool is not installed.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("none of %v is installed", names)
	return ""
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// emptyCache gives the test its own cache, so that symbols cached by one test do not affect another.
func emptyCache(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// compile builds testdata/marks.cc in a temporary directory.
func compile(t *testing.T, flags ...string) string {
	t.Helper()
	return compileWith(t, tool(t, "g++", "clang++"), flags...)
}

func compileWith(t *testing.T, compiler string, flags ...string) string {
	t.Helper()
	emptyCache(t)
	source, _ := filepath.Abs("testdata/marks.cc")
	path := filepath.Join(t.TempDir(), "marks")
	args := append([]string{"-O2", "-g", "-Wl,--build-id", source, "-o", path}, flags...)
	run(t, compiler, args...)
	return path
}

// start runs the program and reads its marks. The program ends with the test.
func start(t *testing.T, path string) *program {
	t.Helper()
	command := exec.Command(path)
	stdin, _ := command.StdinPipe()
	stdout, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = command.Wait()
	})
	p := &program{path: path, pid: command.Process.Pid, marks: map[string]uint64{}}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if fields[0] == "end" {
			return p
		}
		address, err := strconv.ParseUint(fields[2], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		p.marks[fields[1]] = address
	}
	t.Fatalf("%s ended early", path)
	return nil
}

// profile builds a profile like the core's: unsymbolized, with the mappings of /proc/PID/maps.
func (p *program) profile(t *testing.T, buildID string) *profile.Profile {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	result := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"},
	}
	for line := range strings.Lines(string(maps)) {
		var m profile.Mapping
		var mode, device string
		var inode int
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &m.Start, &m.Limit, &mode, &m.Offset, &device, &inode, &m.File); n < 7 || !strings.Contains(mode, "x") {
			continue
		}
		if m.File == p.path {
			m.BuildID = buildID
		}
		m.ID = uint64(len(result.Mapping) + 1)
		result.Mapping = append(result.Mapping, &m)
	}
	for name, address := range p.marks {
		loc := &profile.Location{ID: uint64(len(result.Location) + 1), Address: address}
		for _, m := range result.Mapping {
			if m.Start <= address && address < m.Limit {
				loc.Mapping = m
			}
		}
		if loc.Mapping == nil {
			t.Fatalf("mark %s at %#x is in no mapping:\n%s", name, address, maps)
		}
		result.Location = append(result.Location, loc)
		result.Sample = append(result.Sample, &profile.Sample{
			Location: []*profile.Location{loc}, Value: []int64{1}, Label: map[string][]string{"mark": {name}},
		})
	}
	return result
}

// stack formats the frames of a mark: "inner file:line < outer file:line", with base names of files.
func stack(p *profile.Profile, mark string) string {
	var parts []string
	for _, sample := range p.Sample {
		if sample.Label["mark"][0] != mark {
			continue
		}
		for _, line := range sample.Location[0].Line {
			part := line.Function.Name
			if line.Line != 0 {
				part += fmt.Sprintf(" %s:%d", filepath.Base(line.Function.Filename), line.Line)
			}
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " < ")
}

// lineOf finds "// line NAME" in the test program.
func lineOf(t *testing.T, name string) int {
	t.Helper()
	source, err := os.ReadFile("testdata/marks.cc")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range bytes.Split(source, []byte("\n")) {
		if bytes.HasSuffix(line, []byte("// line "+name)) {
			return i + 1
		}
	}
	t.Fatalf("no line %s", name)
	return 0
}

func idOf(t *testing.T, path string) string {
	t.Helper()
	o := openObject(path)
	if o == nil {
		t.Fatalf("%s cannot be read", path)
	}
	defer o.close()
	id := o.buildID()
	if id == "" {
		t.Fatalf("%s has no build id", path)
	}
	return id
}
