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

// Place is one function of a stack with a line in it.
type Place struct {
	Function string
	File     string // "" if unknown
	Line     int64
}

// String returns "function" or "function file.c:12".
func (p Place) String() string {
	if p.File == "" {
		return p.Function
	}
	return fmt.Sprintf("%s %s:%d", p.Function, filepath.Base(p.File), p.Line)
}

// Namer symbolizes the return addresses of a running process, each address once. Not safe for concurrent use.
type Namer struct {
	files  Files
	places map[uint64][]Place
}

// NewNamer returns a Namer for the process pid. It prints no notes, because it symbolizes piece by piece.
func NewNamer(pid int) *Namer {
	server := Default.Server
	if server == nil {
		server = NewDebuginfod(Default.Notify)
	}
	return &Namer{files: Files{PID: pid, Server: server, Notify: func(string) {}}, places: map[uint64][]Place{}}
}

// SetPlace sets the place of an address, or of a number in place of an address. Learn does not look it up any more.
func (n *Namer) SetPlace(address uint64, place Place) { n.places[address] = []Place{place} }

// Resolve symbolizes the return addresses that are new. The process must be running.
func (n *Namer) Resolve(addresses []uint64) {
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
		// An address inside the call instruction and not behind it.
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

// The allocator's entry functions and the functions behind them.
var allocatorPattern = regexp.MustCompile(`^((__libc_|__)?(malloc|calloc|realloc|reallocarray|free|memalign|posix_memalign|aligned_alloc|` +
	`valloc|pvalloc|cfree|malloc_trim)|operator (new|delete)(\[\])?|seemalloc::.*|seemalloc_.*)(\(.*)?$`)

// Stack returns the symbols of a stack of learned return addresses, innermost first, with inlined functions. It starts
// with the first function outside the allocator.
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

// Mappings returns the code mappings of the process pid, those of its own file first.
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

// parseMapping parses a line of /proc/PID/maps. It returns nil if the mapping is not executable.
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
