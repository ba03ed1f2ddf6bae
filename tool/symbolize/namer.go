package symbolize

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// Place is one function of a stack, and the line in it.
type Place struct {
	Function string
	File     string // "" when unknown
	Line     int64
}

// String is "function" or "function file.c:12".
func (p Place) String() string {
	if p.File == "" {
		return p.Function
	}
	return fmt.Sprintf("%s %s:%d", p.Function, filepath.Base(p.File), p.Line)
}

// Namer names the return addresses of a running process, each once. Not safe for concurrent use.
type Namer struct {
	files  Files
	places map[uint64][]Place
}

// NewNamer makes a Namer for the process pid. It has no notes: what it names comes piece by piece.
func NewNamer(pid int) *Namer {
	server := Default.Server
	if server == nil {
		server = NewDebuginfod(Default.Say)
	}
	return &Namer{files: Files{PID: pid, Server: server, Say: func(string) {}}, places: map[uint64][]Place{}}
}

// Know tells it what an address, or what stands for one, is: nothing is asked about it.
func (n *Namer) Know(address uint64, place Place) { n.places[address] = []Place{place} }

// Learn finds the names of those return addresses that are new. It must be done while the process runs.
func (n *Namer) Learn(addresses []uint64) {
	var fresh []uint64
	for _, address := range addresses {
		if _, known := n.places[address]; !known {
			n.places[address] = nil
			fresh = append(fresh, address)
		}
	}
	if len(fresh) == 0 {
		return
	}
	p := &profile.Profile{Mapping: Mappings(n.files.PID)}
	for i, address := range fresh {
		// In the call, not behind it.
		loc := &profile.Location{ID: uint64(i + 1), Address: address - 1}
		for _, m := range p.Mapping {
			if loc.Address >= m.Start && loc.Address < m.Limit {
				loc.Mapping = m
			}
		}
		p.Location = append(p.Location, loc)
	}
	Profile(p, n.files)
	for i, loc := range p.Location {
		n.places[fresh[i]] = placesOf(loc)
	}
}

func placesOf(loc *profile.Location) []Place {
	var places []Place
	for _, line := range loc.Line {
		if line.Function != nil {
			places = append(places, Place{line.Function.Name, line.Function.Filename, line.Line})
		}
	}
	if len(places) == 0 {
		places = []Place{{Function: fmt.Sprintf("%#x", loc.Address)}}
	}
	return places
}

// The allocator's doors and what is behind them.
var allocatorPattern = regexp.MustCompile(`^((__libc_|__)?(malloc|calloc|realloc|reallocarray|free|memalign|posix_memalign|aligned_alloc|` +
	`valloc|pvalloc|cfree|malloc_trim)|operator (new|delete)(\[\])?|seemalloc::.*|seemalloc_.*)(\(.*)?$`)

// Stack names a stack of learned return addresses, innermost first, inlined functions included, from the first function
// outside of the allocator on.
func (n *Namer) Stack(addresses []uint64) []Place {
	var stack []Place
	for _, address := range addresses {
		stack = append(stack, n.places[address]...)
	}
	for i := len(stack) - 1; i >= 0; i-- {
		if allocatorPattern.MatchString(stack[i].Function) {
			return stack[i+1:]
		}
	}
	return stack
}

// Mappings are the code that the process pid has mapped, its own file first.
func Mappings(pid int) []*profile.Mapping {
	proc := "/proc/" + strconv.Itoa(pid)
	data, err := os.ReadFile(proc + "/maps")
	if err != nil {
		return nil
	}
	program, _ := os.Readlink(proc + "/exe")
	var main, others []*profile.Mapping
	for line := range strings.Lines(string(data)) {
		m := parseMapping(line)
		switch {
		case m == nil:
		case m.File == program:
			main = append(main, m)
		default:
			others = append(others, m)
		}
	}
	all := append(main, others...)
	for i, m := range all {
		m.ID = uint64(i + 1)
	}
	return all
}

// parseMapping reads a line of /proc/PID/maps; nil for what holds no code.
func parseMapping(line string) *profile.Mapping {
	fields := strings.Fields(line)
	if len(fields) < 5 || !strings.Contains(fields[1], "x") {
		return nil
	}
	m := &profile.Mapping{}
	if n, _ := fmt.Sscanf(fields[0], "%x-%x", &m.Start, &m.Limit); n != 2 {
		return nil
	}
	m.Offset, _ = strconv.ParseUint(fields[2], 16, 64)
	if len(fields) > 5 {
		m.File = strings.Join(fields[5:], " ")
	}
	return m
}
