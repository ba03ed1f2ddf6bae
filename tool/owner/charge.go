package owner

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"seemalloc/tool/symbolize"
)

// OwnsMemory reports whether the values of a profile are memory. Time is spent where it is spent: a profile of it is not
// changed.
func OwnsMemory(p *profile.Profile) bool {
	return slices.ContainsFunc(p.SampleType, func(t *profile.ValueType) bool {
		return t.Unit == "bytes" || strings.HasSuffix(t.Type, "_space") || strings.HasSuffix(t.Type, "_objects")
	}) && !slices.ContainsFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "cpu" })
}

// placed is a line of a location.
type placed struct {
	location *profile.Location
	line     int
	name     string
}

// classified is a profile with the classes of its lines.
type classified struct {
	profile *profile.Profile
	names   map[*profile.Location][]string
	classes map[*profile.Location][]Class
	// languages are those of interpreted functions.
	languages []string
}

func classify(p *profile.Profile, wrappers Wrappers) *classified {
	c := &classified{profile: p, names: map[*profile.Location][]string{}, classes: map[*profile.Location][]Class{}}
	short := map[*profile.Function]string{}
	known := map[Frame]Class{}
	for _, location := range p.Location {
		module := ""
		if location.Mapping != nil {
			module = location.Mapping.File
		}
		add := func(name, file string) {
			frame := Frame{Name: name, Module: module, File: file}
			class, ok := known[frame]
			if !ok {
				class = Classify(frame)
				known[frame] = class
			}
			c.names[location] = append(c.names[location], name)
			c.classes[location] = append(c.classes[location], class)
		}
		for _, line := range location.Line {
			if line.Function == nil {
				add("", "")
				continue
			}
			name, ok := short[line.Function]
			if !ok {
				name = shortName(line.Function)
				short[line.Function] = name
			}
			add(name, line.Function.Filename)
		}
		if len(location.Line) == 0 {
			add(fmt.Sprintf("%#x", location.Address), "")
		}
	}
	c.languages = Languages(maps.Values(known))
	c.mark(wrappers)
	return c
}

// shortName returns the name in the short style, whatever the style of the profile is.
func shortName(f *profile.Function) string {
	if strings.HasPrefix(f.SystemName, "_Z") || strings.HasPrefix(f.SystemName, "_R") {
		return symbolize.Demangle(f.SystemName, symbolize.Short)
	}
	return f.Name
}

// mark sets the classes of wrappers.
func (c *classified) mark(wrappers Wrappers) {
	if len(wrappers) == 0 {
		return
	}
	for location, names := range c.names {
		for i, name := range names {
			c.classes[location][i].SetWrapper(wrappers, name)
		}
	}
}

// stack lists the frames of a sample, innermost first.
func (c *classified) stack(sample *profile.Sample, stack []placed, classes []Class) ([]placed, []Class) {
	for _, location := range sample.Location {
		for i, class := range c.classes[location] {
			stack, classes = append(stack, placed{location, i, c.names[location][i]}), append(classes, class)
		}
	}
	return stack, classes
}

// stacks returns the stacks of all samples. Each is valid until the next one.
func (c *classified) stacks() iter.Seq[Stack] {
	return func(yield func(Stack) bool) {
		var s Stack
		for _, sample := range c.profile.Sample {
			s.Names, s.Classes, s.Sizes = s.Names[:0], s.Classes[:0], sample.NumLabel["bytes"]
			for _, location := range sample.Location {
				s.Names, s.Classes = append(s.Names, c.names[location]...), append(s.Classes, c.classes[location]...)
			}
			if !yield(s) {
				return
			}
		}
	}
}

// PassedOver describes the frames that Charge has removed from the inner ends of stacks.
type PassedOver struct {
	Wrappers []string // the largest first
	Of       []string // libraries and languages, the most frequent first
}

// Charge removes from the stacks of p the frames that do not own memory, so that each stack ends in its owner. It
// changes samples and adds locations. The allocator's own frames, as the profile marks them, must have been removed.
func Charge(p *profile.Profile, wrappers Wrappers) PassedOver {
	if !OwnsMemory(p) {
		return PassedOver{}
	}
	c := classify(p, wrappers)
	r := remover{profile: p, made: map[partOfLocation]*profile.Location{}}
	for _, location := range p.Location {
		r.lastID = max(r.lastID, location.ID)
	}
	counts := map[string]int64{}
	wrapped := map[string]int64{}
	var stack []placed
	var classes []Class
	for _, sample := range p.Sample {
		stack, classes = c.stack(sample, stack[:0], classes[:0])
		part := VisiblePart(classes, c.languages)
		for i := range part.First {
			switch class := classes[i]; {
			case class.Wrapper:
				wrapped[stack[i].name] += weight(sample)
			case class.Of != "":
				counts[class.Of]++
			case classes[part.First].Interpreted:
				counts["native code called by "+classes[part.First].Language]++
			}
		}
		r.keep(sample, stack, classes, part)
	}
	return PassedOver{Wrappers: mostFirst(wrapped), Of: mostFirst(counts)}
}

func weight(sample *profile.Sample) int64 {
	sum := int64(1)
	for _, value := range sample.Value {
		sum += max(value, -value)
	}
	return sum
}

func mostFirst(counts map[string]int64) []string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if counts[a] != counts[b] {
			if counts[a] > counts[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}

// remover makes locations with some lines of others.
type remover struct {
	profile *profile.Profile
	made    map[partOfLocation]*profile.Location
	lastID  uint64
}

type partOfLocation struct {
	location *profile.Location
	lines    string // one byte for each line: '1' if it is visible
}

// keep replaces the stack of a sample by its visible part.
func (r *remover) keep(sample *profile.Sample, stack []placed, classes []Class, part Part) {
	if len(stack) == 0 {
		return
	}
	kept := make([]*profile.Location, 0, len(sample.Location))
	for from := 0; from < len(stack); {
		location := stack[from].location
		lines := make([]byte, max(len(location.Line), 1))
		shown := 0
		for i := range lines {
			lines[i] = '0'
			if part.Shows(from+i, classes[from+i]) {
				lines[i] = '1'
				shown++
			}
		}
		switch {
		case shown == len(lines):
			kept = append(kept, location)
		case shown > 0:
			kept = append(kept, r.without(location, string(lines)))
		}
		from += len(lines)
	}
	sample.Location = kept
}

// without returns a copy of a location with only the visible lines.
func (r *remover) without(location *profile.Location, lines string) *profile.Location {
	key := partOfLocation{location, lines}
	if r.made[key] == nil {
		copied := *location
		copied.Line = nil
		for i, line := range location.Line {
			if lines[i] == '1' {
				copied.Line = append(copied.Line, line)
			}
		}
		r.lastID++
		copied.ID = r.lastID
		r.made[key] = &copied
		r.profile.Location = append(r.profile.Location, &copied)
	}
	return r.made[key]
}

// Text describes what was passed over in one line; "": nothing.
func (o PassedOver) Text() string {
	var parts []string
	if n := len(o.Wrappers); n > 0 {
		const limit = 4
		names := strings.Join(o.Wrappers[:min(n, limit)], ", ")
		switch {
		case n > limit:
			names += fmt.Sprintf(" and %d more", n-limit)
			fallthrough
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d wrappers of malloc (%s)", n, names))
		default:
			parts = append(parts, "a wrapper of malloc ("+names+")")
		}
	}
	parts = append(parts, o.Of...)
	return strings.Join(parts, ", ")
}
