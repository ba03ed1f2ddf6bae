package symbolize

import "testing"

func TestDemangle(t *testing.T) {
	for _, test := range []struct {
		system string
		style  Style
		want   string
	}{
		{"malloc", Short, "malloc"},
		{"malloc@@GLIBC_2.2.5", Short, "malloc"},
		{"parse.constprop.0", Short, "parse"},
		{"parse.part.3.cold", Short, "parse"},
		{"main.func1", Short, "main.func1"},
		{"_Znwm", Short, "operator new"},
		{"_Znwm", Full, "operator new(unsigned long)"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", Short, "std::vector::push_back"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", Templates, "std::vector<int, std::allocator<int> >::push_back"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", Full, "std::vector<int, std::allocator<int> >::push_back(int const&)"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi.isra.0", Short, "std::vector::push_back"},
		{"_ZN3FooC4Ev", Short, "Foo::Foo"},
		{"_ZN4shop4loadB5cxx11Ev", Short, "shop::load"},
		{"_ZN4shop4loadB5cxx11Ev", Full, "shop::load[abi:cxx11]()"},
		// Rust: legacy mangling (its hash is not part of the name) and v0 mangling.
		{"_ZN5alloc7raw_vec19RawVec$LT$T$C$A$GT$7reserve17h0123456789abcdefE", Full, "alloc::raw_vec::RawVec<T,A>::reserve"},
		{"_RNvNtCs1234_7mycrate3foo3bar", Short, "mycrate::foo::bar"},
		{"_RNvMNtCs1234_7mycrate3fooINtB2_6BasketmE3put", Full, "<mycrate::foo::Basket<u32>>::put"},
	} {
		if got := Demangle(test.system, test.style); got != test.want {
			t.Errorf("Demangle(%s, %s) = %s, want %s", test.system, test.style, got, test.want)
		}
	}
}

func TestParseStyle(t *testing.T) {
	if _, err := ParseStyle("long"); err == nil {
		t.Error("no error for an unknown style")
	}
	if s, err := ParseStyle("templates"); err != nil || s != Templates {
		t.Errorf("%v %v", s, err)
	}
}
