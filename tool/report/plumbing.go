package report

import "regexp"

// plumbing matches functions of the standard libraries of C++ and Rust. Rust's are named by their modules: a C++ program may
// well have a namespace core or alloc of its own.
var plumbing = regexp.MustCompile(`^(?:void )?(?:std|__gnu_cxx)::` +
	`|^<?(?:alloc::(?:alloc|borrow|boxed|collections|ffi|fmt|raw_vec|rc|slice|str|string|sync|vec)` +
	`|core::(?:alloc|array|cell|char|clone|cmp|convert|default|ffi|fmt|future|hash|hint|intrinsics|iter|mem|num|ops|option|panic|panicking|pin|ptr|result|slice|str|sync|task|time)` +
	`|std|hashbrown)(?:::|>)` +
	`|^<.* as alloc::|^__rust_|^__rdl_|^__rg_`)

// Plumbing says whether a function stands only between the program and the allocator: who holds memory is not
// std::vector::push_back or alloc::raw_vec::RawVec::grow_one, but who calls it.
func Plumbing(name string) bool { return plumbing.MatchString(name) }

// Inner counts the innermost functions of a stack that are plumbing, if there are others.
func Inner(stack []string) int {
	for i, name := range stack {
		if !Plumbing(name) {
			return i
		}
	}
	return 0
}
