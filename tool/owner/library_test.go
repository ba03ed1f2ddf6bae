package owner

import "testing"

func TestLibrary(t *testing.T) {
	for name, want := range map[string]bool{
		"std::vector::_M_realloc_insert":                              true,
		"std::__cxx11::basic_string::_M_construct":                    true,
		"void std::vector::emplace_back":                              true,
		"__gnu_cxx::new_allocator::allocate":                          true,
		"alloc::alloc::alloc":                                         true,
		"<alloc::alloc::Global>::alloc_impl":                          true,
		"<alloc::alloc::Global as core::alloc::Allocator>::allocate":  true,
		"<alloc::raw_vec::RawVec<>>::grow_one":                        true,
		"<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem": true,
		"core::iter::adapters::map::map_fold::{closure#0}":            true,
		"hashbrown::raw::RawTable::reserve_rehash":                    true,
		"__rust_alloc": true,
		// Functions of programs.
		"core::Widget::grow": false,
		"alloc::Pool::take":  false,
		"stdlib_like":        false,
		"<leak::Session as core::clone::Clone>::clone": false,
		"leak::leaky_cache":                            false,
		"main":                                         false,
		"0x7f001234":                                   false,
	} {
		if Classify(Frame{Name: name}).IsLibrary() != want {
			t.Errorf("%s: %t, want %t", name, !want, want)
		}
	}
}
