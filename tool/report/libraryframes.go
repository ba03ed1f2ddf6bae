package report

import "seemalloc/tool/owner"

// IsLibraryFrame reports whether a function is only an intermediary between the program and the allocator: the memory
// belongs to the caller of std::vector::push_back or alloc::raw_vec::RawVec::grow_one, and not to these functions.
func IsLibraryFrame(name string) bool {
	kind := owner.Classify(owner.Frame{Name: name}).Kind
	return kind != owner.Program && kind != owner.Interpreter
}

// CountLibraryFrames returns the number of innermost frames that do not own the memory of a stack. The next one owns it.
func CountLibraryFrames(stack []string) int { return owner.Inner(stack) }
