// Package owner decides which function of a stack owns memory: the first function of the program. It passes over the
// functions of the allocator, of runtimes and libraries (Rules), and of wrappers of malloc, which it finds in the
// profile (FindWrappers).
//
// Stacks are lists of classes of frames, innermost first. Only the frames at the inner end, those of start-up at the
// outer end, and native frames of an interpreter between functions of its language are left out. All totals stay the
// same: each stack keeps at least one frame.
package owner

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Frame is a function in a stack.
type Frame struct {
	Name   string // in the short style of names
	Module string // path or base name of its program or library; "": unknown, or no native code
	File   string // source file; "": unknown
}

// Class is the role of a frame.
type Class struct {
	Kind Kind
	// Of is the library or language in messages; "" for a function of the program.
	Of string
	// Language is the interpreter's language, or for an interpreted function its own.
	Language string
	// Interpreted is set for a function that an interpreter runs.
	Interpreted bool
	// Wrapper is set for a function that FindWrappers has found.
	Wrapper bool
	// Joint is set for the frame between two stacks: inside of it is the stack that freed a block.
	Joint bool
	// isMain and isRust identify the main function that the Rust compiler writes.
	isMain, isRust bool
}

// Joint is the name of the frame between the stack that freed a block and the stack that allocated it.
const Joint = "(freed by)"

// known caches classes: a server classifies the same frames again and again. Trying all rules takes some microseconds.
var known struct {
	sync.RWMutex
	classes map[Frame]Class
}

const maxKnown = 1 << 17

// Classify finds the rule for a frame. Safe for concurrent use.
func Classify(f Frame) Class {
	known.RLock()
	class, found := known.classes[f]
	known.RUnlock()
	if found {
		return class
	}
	class = classifyByRules(f)
	known.Lock()
	defer known.Unlock()
	if known.classes == nil || len(known.classes) >= maxKnown {
		known.classes = map[Frame]Class{}
	}
	known.classes[f] = class
	return class
}

func classifyByRules(f Frame) Class {
	if f.Name == Joint {
		return Class{Joint: true}
	}
	name := Name(f.Name)
	language := interpreted(f, name)
	for i := range Rules {
		if r := &Rules[i]; r.matches(name, f, language) {
			c := Class{Kind: r.Kind, Of: r.Of, Language: r.Language, Interpreted: language != "", isRust: r.Of == rust, isMain: name == "main"}
			if language != "" {
				c.Language = language
			}
			if r.Kind == Program {
				c.Of = ""
			}
			return c
		}
	}
	return Class{Language: language, Interpreted: language != "", isMain: name == "main"}
}

func (r *Rule) matches(name string, f Frame, language string) bool {
	switch {
	case r.File != nil:
		return language == cmp.Or(r.Language, python) && r.File.MatchString(f.File) && (r.Function == nil || r.Function.MatchString(name))
	case language != "":
		return false // the other rules are for native functions
	case r.Function == nil:
		return f.Module != "" && r.Module.MatchString(f.Module)
	case r.Module != nil && f.Module != "" && !r.Module.MatchString(f.Module):
		return false
	}
	return r.Function.MatchString(name)
}

// DependsOnFile reports whether the class of a frame may depend on its source file: that of an interpreted function.
func DependsOnFile(file string) bool { return isPython(file) || scriptFile.MatchString(file) }

func isPython(file string) bool {
	// The headers of the C++ library have no extension either.
	return pythonFile.MatchString(file) || pythonScript.MatchString(file) && !strings.Contains(file, "/include/")
}

var (
	// pythonFile matches modules, and code from a text: "<stdin>", "<frozen runpy>".
	pythonFile = regular(`\.py[cw]?$|^<.+>$`)
	// pythonScript matches a script: it has no extension.
	pythonScript = regular(`^(/[^:]*/)?[^./:<>]+$`)
	// scriptName matches V8's names in a perf map: "JS:*work app.js:3", "LazyCompile:~work app.js:3".
	scriptName = regular(`^(JS|LazyCompile|Function|Script|Eval|RegExp|BytecodeHandler|Builtin|Stub):`)
	// scriptFile matches the files in V8's names: the program's, and "node:buffer".
	scriptFile = regular(`\.[cm]?[jt]sx?$|^node:`)
	// javaName matches names of a perf map of the JVM: "Lshop/Cart;::add", "int shop.Cart.add(int)".
	javaName = regular(`^(L[\w$/]+;::|(virtual |static )?[\w.$\[\]<>]+ [\w$]+(\.[\w$]+)+\()`)
)

// interpreted returns the language of an interpreted function; "": it is native. Native code has a module: code that
// was generated at run time has none, or one that is not a file.
func interpreted(f Frame, name string) string {
	if f.Module != "" && !strings.HasPrefix(f.Module, "[") && !strings.HasPrefix(f.Module, "//anon") {
		return ""
	}
	switch {
	case scriptName.MatchString(name), scriptFile.MatchString(f.File):
		return script
	case javaName.MatchString(f.Name):
		return java
	case isPython(f.File):
		return python
	}
	return ""
}

// Name returns a function's name without the return type, which names of C++ templates have in some styles:
// "void std::vector<int>::emplace_back<int>(int&&)" becomes "std::vector<int>::emplace_back<int>(int&&)".
func Name(name string) string {
	for _, prefix := range []string{"non-virtual thunk to ", "virtual thunk to ", "covariant return thunk to "} {
		name = strings.TrimPrefix(name, prefix)
	}
	if strings.IndexByte(name, ' ') < 0 {
		return name
	}
	depth, start := 0, 0
	for i := 0; i < len(name); i++ {
		switch name[i] {
		case '<', '{', '[':
			depth++
		case '>', '}', ']':
			depth--
		case '(':
			if depth == 0 && !strings.HasPrefix(name[i:], "(anonymous namespace)") {
				return name[start:] // the parameters
			}
			depth++
		case ')':
			depth--
		case ' ':
			if depth == 0 {
				start = i + 1
			}
		case 'o':
			if depth == 0 && strings.HasPrefix(name[i:], "operator") && (i == start || name[i-1] == ':') {
				return name[start:] // its name may have blanks and brackets
			}
		}
	}
	return name[start:]
}

// IsPassedOver reports whether a frame cannot own memory, in a profile with functions of these languages.
func (c Class) IsPassedOver(languages []string) bool {
	switch c.Kind {
	case Allocator, Library, Startup:
		return true
	case Interpreter:
		return c.IsFolded(languages)
	}
	return c.Wrapper
}

// SetWrapper marks a function of the program if it is one of the wrappers.
func (c *Class) SetWrapper(wrappers Wrappers, name string) {
	c.Wrapper = c.Kind == Program && !c.Interpreted && wrappers[name]
}

// IsFolded reports whether a frame is native code of an interpreter that runs functions of this profile.
func (c Class) IsFolded(languages []string) bool {
	return !c.Interpreted && (c.Kind == Interpreter || c.Kind == Library) && slices.Contains(languages, c.Language)
}

// Part is the visible part of a stack.
type Part struct {
	First, End int // positions of the innermost frame and behind the outermost one
	// Languages are those whose interpreter's frames are left out between First and End.
	Languages []string
	joint     int // the position behind the outermost frame of the stack that owns; for a joined stack the joint
}

// Shows reports whether the frame at a position is visible.
func (p Part) Shows(position int, c Class) bool {
	return position >= p.First && position < p.End && !(position != p.First && position < p.joint && c.IsFolded(p.Languages))
}

// Languages lists the languages of interpreted functions among all frames of a profile.
func Languages(frames func(yield func(Class) bool)) []string {
	var found []string
	for c := range frames {
		if c.Interpreted && !slices.Contains(found, c.Language) {
			found = append(found, c.Language)
		}
	}
	return found
}

// VisiblePart finds the owner of a stack, which is its innermost visible frame. The memory of native code that an
// interpreted function of the program calls belongs to that function. If the stack has no function of the program, the
// outermost function that is not one of start-up owns the memory, because it is closest to the program. languages are
// those of the profile: the memory that the interpreter allocates for itself is one row.
func VisiblePart(stack []Class, languages []string) Part {
	p := Part{End: len(stack), Languages: languages, joint: len(stack)}
	if joint := slices.IndexFunc(stack, func(c Class) bool { return c.Joint }); joint >= 0 {
		p.joint = joint
	}
	own := stack[:p.joint]
	isOwner := func(c Class) bool { return !c.IsPassedOver(languages) }
	p.First = slices.IndexFunc(own, func(c Class) bool { return c.Interpreted && isOwner(c) })
	if p.First < 0 {
		p.First = slices.IndexFunc(own, isOwner)
	}
	isOwned := p.First >= 0
	if !isOwned { // only libraries
		p.First = 0
		for i := len(own) - 1; i >= 0; i-- {
			if own[i].Kind != Startup && own[i].Kind != Allocator {
				p.First = i
				break
			}
		}
	}
	if p.joint == len(stack) {
		p.End = trimStartup(own, p.First, isOwned, languages)
	}
	return p
}

// trimStartup returns the position behind the outermost frame that is not one of start-up. Libraries call the function
// that a thread runs through functions of their own, which are left out too.
func trimStartup(stack []Class, first int, isOwned bool, languages []string) int {
	end := len(stack)
	for end > first+1 {
		c := stack[end-1]
		isRustMain := c.isMain && c.Kind == Program && stack[end-2].isRust && stack[end-2].Kind == Startup
		isOfThread := isOwned && end < len(stack) && c.Kind == Library && !c.Interpreted
		isStart := stack[end-2].Kind == Startup && stack[end-2].Of == "start-up" // it has called __libc_start_main
		if c.Kind != Startup && !isStart && !isRustMain && !isOfThread && !c.IsFolded(languages) {
			break
		}
		end--
	}
	return end
}

// IsLibrary reports whether a function is only an intermediary between the program and the allocator: the memory belongs
// to the caller of std::vector::push_back or alloc::raw_vec::RawVec::grow_one, and not to these functions.
func (c Class) IsLibrary() bool { return c.Kind != Program && c.Kind != Interpreter }

// Inner returns the position of the owner in a stack, innermost first. It knows no wrappers of malloc.
func Inner(stack []Frame) int {
	classes := make([]Class, len(stack))
	for i, frame := range stack {
		classes[i] = Classify(frame)
	}
	return VisiblePart(classes, Languages(slices.Values(classes))).First
}
