package report

import "regexp"

// libraryFrame matches functions of the standard libraries of C++ and Rust. Rust functions are matched by their module
// names, because a C++ program may have a namespace core or alloc of its own.
var libraryFrame = regexp.MustCompile(`^(?:void )?(?:std|__gnu_cxx)::` +
	`|^<?(?:alloc::(?:alloc|borrow|boxed|collections|ffi|fmt|raw_vec|rc|slice|str|string|sync|vec)` +
	`|core::(?:alloc|array|cell|char|clone|cmp|convert|default|ffi|fmt|future|hash|hint|intrinsics|iter|mem|num|ops|option|panic|panicking|pin|ptr|result|slice|str|sync|task|time)` +
	`|std|hashbrown)(?:::|>)` +
	`|^<.* as alloc::|^__rust_|^__rdl_|^__rg_`)

// IsLibraryFrame reports whether a function is only an intermediary between the program and the allocator: the memory
// belongs to the caller of std::vector::push_back or alloc::raw_vec::RawVec::grow_one, and not to these functions.
func IsLibraryFrame(name string) bool { return libraryFrame.MatchString(name) }

// CountLibraryFrames counts the innermost functions of a stack that belong to a standard library. It returns 0 if all functions are.
func CountLibraryFrames(stack []string) int {
	for i, name := range stack {
		if !IsLibraryFrame(name) {
			return i
		}
	}
	return 0
}
