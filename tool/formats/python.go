package formats

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// A Python function has no code address that a reader could symbolize: it has a number in place of an address
// (core/profile/python/python_pc.h). So the text explains the numbers in lines that other readers skip:
//
// 	# 0x7000000001000017 is Keeper.hold at /srv/app.py:22 from 21

// isPython reports whether a location is a Python function that the process itself has named.
func isPython(loc *profile.Location) bool {
	const tag, shift = 0x70, 56
	return loc.Address>>shift == tag && loc.Mapping == nil && len(loc.Line) == 1 && loc.Line[0].Function != nil
}

func writePythonNames(w io.Writer, p *profile.Profile) {
	for _, loc := range p.Location {
		if isPython(loc) {
			line := loc.Line[0]
			text := fmt.Sprintf("%#x is %s at %s:%d from %d", loc.Address+1, line.Function.Name, line.Function.Filename, line.Line, line.Function.StartLine)
			fmt.Fprintf(w, "# %s\n", strings.ReplaceAll(text, "\n", " "))
		}
	}
}

var pythonName = regexp.MustCompile(`^(0x70[0-9a-f]{14}) is (.*?) at (.*):(\d+) from (\d+)$`)

// pythonNames parses these lines and adds the names to the locations.
type pythonNames struct {
	lines     map[uint64]profile.Line // by the address in the rows
	functions map[profile.Function]*profile.Function
}

// learn parses a comment. It returns false if the comment is not one of these lines.
func (n *pythonNames) learn(comment string) bool {
	match := pythonName.FindStringSubmatch(comment)
	if match == nil {
		return false
	}
	address, _ := strconv.ParseUint(match[1], 0, 64)
	line, _ := strconv.ParseInt(match[4], 10, 64)
	start, _ := strconv.ParseInt(match[5], 10, 64)
	if n.lines == nil {
		n.lines, n.functions = map[uint64]profile.Line{}, map[profile.Function]*profile.Function{}
	}
	key := profile.Function{Name: match[2], Filename: match[3], StartLine: start}
	function := n.functions[key]
	if function == nil {
		function = &profile.Function{Name: key.Name, SystemName: key.Name, Filename: key.Filename, StartLine: start}
		n.functions[key] = function
	}
	n.lines[address] = profile.Line{Function: function, Line: line}
	return true
}

func (n *pythonNames) put(p *profile.Profile) {
	for _, loc := range p.Location {
		line, known := n.lines[loc.Address+1]
		if !known || len(loc.Line) != 0 {
			continue
		}
		if line.Function.ID == 0 {
			line.Function.ID = uint64(len(p.Function) + 1)
			p.Function = append(p.Function, line.Function)
		}
		loc.Line, loc.Mapping = []profile.Line{line}, nil
	}
}
