package owner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// Each rule is needed: its example matches no earlier rule, and matches it.
func TestEveryRuleMatchesItsExample(t *testing.T) {
	for i := range Rules {
		r := &Rules[i]
		f := Frame{Name: r.Example, Module: r.ExampleModule}
		if r.File != nil {
			f = Frame{Name: r.Example, File: r.ExampleModule}
		}
		name := Name(f.Name)
		for j := range Rules {
			if Rules[j].matches(name, f, interpreted(f, name)) {
				if j != i {
					t.Errorf("the example %s of rule %d (%s, %s) matches rule %d (%s, %s)", r.Example, i, r.Kind, r.Of, j, Rules[j].Kind, Rules[j].Of)
				}
				break
			}
			if j == len(Rules)-1 {
				t.Errorf("the example %s of rule %d (%s, %s) matches no rule", r.Example, i, r.Kind, r.Of)
			}
		}
	}
}

func TestClassify(t *testing.T) {
	const (
		libstdcxx = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30"
		lib       = "/usr/lib/x86_64-linux-gnu/libc.so.6"
		program   = "/srv/shop"
	)
	for _, of := range []struct {
		frame Frame
		want  Kind
	}{
		// C++, as g++ and clang name them.
		{Frame{Name: "std::__cxx11::basic_string<char>::_M_mutate", Module: libstdcxx}, Library},
		{Frame{Name: "std::__1::vector::__push_back_slow_path", Module: program}, Library},
		{Frame{Name: "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(__gnu_cxx::__normal_iterator<int*, std::vector<int> >, int&&)", Module: program}, Library},
		{Frame{Name: "non-virtual thunk to std::basic_stringstream::~basic_stringstream", Module: program}, Library},
		{Frame{Name: "__gnu_cxx::__alloc_traits::allocate"}, Library},
		{Frame{Name: "__cxa_allocate_exception", Module: libstdcxx}, Library},
		{Frame{Name: "shop::Item::operator new", Module: program}, Allocator},
		{Frame{Name: "std::vector<int> shop::make<int>()", Module: program}, Program},
		{Frame{Name: "bool shop::Cart::operator< <int>(int) const", Module: program}, Program},
		{Frame{Name: "main::{lambda(std::vector<int>)#1}::operator()", Module: program}, Program},
		{Frame{Name: "(anonymous namespace)::fill", Module: program}, Program},
		{Frame{Name: "core::Widget::grow", Module: program}, Program},
		{Frame{Name: "alloc::Pool::take", Module: program}, Program},
		{Frame{Name: "stdx::grow", Module: program}, Program},
		{Frame{Name: "standard::vector::grow", Module: program}, Program},
		{Frame{Name: "boost::asio::io_context::run", Module: program}, Program},
		{Frame{Name: "Quota::append", Module: program}, Program},
		{Frame{Name: "QueryPlan::build", Module: program}, Program},
		// Rust, both manglings.
		{Frame{Name: "<alloc::raw_vec::RawVec<u8>>::grow_one", Module: program}, Library},
		{Frame{Name: "<alloc::vec::Vec<T,A> as core::iter::traits::collect::Extend<T>>::extend", Module: program}, Library},
		{Frame{Name: "hashbrown::raw::RawTable<T,A>::reserve_rehash", Module: program}, Library},
		{Frame{Name: "<&mut I as core::iter::traits::iterator::Iterator>::next", Module: program}, Library},
		{Frame{Name: "<T as alloc::string::ToString>::to_string", Module: program}, Library},
		{Frame{Name: "<leak::Session as core::clone::Clone>::clone", Module: program}, Program},
		{Frame{Name: "<leak::Session as alloc::borrow::ToOwned>::to_owned", Module: program}, Program},
		{Frame{Name: "<leak::List as core::iter::traits::collect::FromIterator<u8>>::from_iter", Module: program}, Program},
		{Frame{Name: "__rdl_alloc", Module: program}, Library},
		// C.
		{Frame{Name: "strdup", Module: lib}, Library},
		{Frame{Name: "__GI___strdup", Module: lib}, Library},
		{Frame{Name: "strdup"}, Library},
		{Frame{Name: "clone", Module: lib}, Startup},
		{Frame{Name: "clone", Module: program}, Program},
		{Frame{Name: "start_thread", Module: program}, Program},
		{Frame{Name: "__libc_start_call_main", Module: lib}, Startup},
		{Frame{Name: "g_malloc", Module: "/lib/x86_64-linux-gnu/libglib-2.0.so.0.7400.6"}, Library},
		{Frame{Name: "g_strdup_printf", Module: program}, Library},
		{Frame{Name: "g_cache_insert_entry", Module: program}, Program},
		{Frame{Name: "libcache_fill", Module: "/usr/lib/libcache.so.1"}, Program},
		{Frame{Name: "default_malloc", Module: program}, Program},
		{Frame{Name: "default_malloc", Module: "/usr/bin/python3.11"}, Allocator},
		{Frame{Name: "default_malloc", Module: "/srv/env/lib/python3.12/site-packages/numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so"}, Allocator},
		{Frame{Name: "main", Module: program}, Program},
		{Frame{Name: "0x7f001234"}, Program},
		// JavaScript: native and interpreted.
		{Frame{Name: "v8::internal::Heap::AllocateExternalBackingStore", Module: "/usr/bin/node"}, Library},
		{Frame{Name: "node::Buffer::(anonymous namespace)::CreateUnsafeArrayBuffer", Module: "/usr/bin/node"}, Interpreter},
		{Frame{Name: "rememberBuffer", File: "/srv/app.js"}, Program},
		{Frame{Name: "rememberBuffer", File: "/srv/app.js", Module: "//anon"}, Program},
		{Frame{Name: "createUnsafeBuffer", File: "node:internal/buffer"}, Library},
		{Frame{Name: "JS:*work app.js:3"}, Program},
		// Python: native and interpreted.
		{Frame{Name: "list_resize", Module: "/usr/bin/python3.11"}, Interpreter},
		{Frame{Name: "load", Module: "/usr/lib/python3/dist-packages/_yaml.cpython-311-x86_64-linux-gnu.so"}, Interpreter},
		{Frame{Name: "openblas_read_env", Module: "/usr/lib/python3/site-packages/numpy.libs/libopenblas64_p-r0-742d56dc.3.20.so"}, Interpreter},
		{Frame{Name: "load", File: "/srv/app.py"}, Program},
		{Frame{Name: "loads", File: "/usr/lib/python3.11/json/__init__.py"}, Library},
		{Frame{Name: "get", File: "/usr/lib/python3/dist-packages/requests/api.py"}, Program},
		{Frame{Name: "ones", File: "/srv/env/lib/python3.12/site-packages/numpy/_core/numeric.py"}, Library},
		{Frame{Name: "fill", File: "<string>"}, Program},
		// A script without an extension.
		{Frame{Name: "malloc", File: "/usr/bin/report-sales"}, Program},
		{Frame{Name: "std::thread::thread", File: "/usr/include/c++/12/thread"}, Library},
		{Frame{Name: "_load_unlocked", File: "<frozen importlib._bootstrap>"}, Library},
		{Frame{Name: "Pythonic::run", Module: program}, Program},
	} {
		if got := Classify(of.frame).Kind; got != of.want {
			t.Errorf("%+v: %s, want %s", of.frame, got, of.want)
		}
	}
}

func TestInner(t *testing.T) {
	for _, of := range []struct {
		stack []string
		want  int
	}{
		{[]string{"std::a", "__gnu_cxx::b", "mine", "std::c", "main"}, 2},
		{[]string{"mine"}, 0},
		{[]string{"std::a", "std::b"}, 1}, // only libraries: the one closest to the program
		{[]string{"std::a", "std::b", "__libc_start_main", "_start"}, 1},
		{[]string{"malloc", "_start"}, 0},
		{[]string{"_start"}, 0},
		{nil, 0},
	} {
		var frames []Frame
		for _, name := range of.stack {
			frames = append(frames, Frame{Name: name})
		}
		if got := Inner(frames); got != of.want {
			t.Errorf("%v: %d, want %d", of.stack, got, of.want)
		}
	}
}

// builder makes profiles of inuse_space. A frame is NAME or NAME@FILE of an interpreted function.
type builder struct {
	p         *profile.Profile
	locations map[string]*profile.Location
}

func newBuilder() *builder {
	return &builder{&profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}}, map[string]*profile.Location{}}
}

// add adds a stack, the innermost frame first. Names that are joined by | are inlined into one location.
func (b *builder) add(value, size int64, frames ...string) {
	sample := &profile.Sample{Value: []int64{value}, NumLabel: map[string][]int64{"bytes": {size}}}
	for _, frame := range frames {
		if b.locations[frame] == nil {
			location := &profile.Location{ID: uint64(len(b.p.Location) + 1)}
			for _, name := range splitNames(frame) {
				name, file := cutFile(name)
				function := &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name, Filename: file}
				b.p.Function = append(b.p.Function, function)
				location.Line = append(location.Line, profile.Line{Function: function, Line: 1})
			}
			b.p.Location = append(b.p.Location, location)
			b.locations[frame] = location
		}
		sample.Location = append(sample.Location, b.locations[frame])
	}
	b.p.Sample = append(b.p.Sample, sample)
}

func stacksOf(p *profile.Profile) []string {
	var all []string
	for _, sample := range p.Sample {
		text := fmt.Sprint(sample.Value[0])
		for _, location := range sample.Location {
			for _, line := range location.Line {
				text += " " + line.Function.Name
			}
		}
		all = append(all, text)
	}
	return all
}

func TestCharge(t *testing.T) {
	b := newBuilder()
	b.add(1, 8, "std::allocator::allocate|std::vector::push_back|fill", "main", "__libc_start_call_main", "_start")
	b.add(2, 8, "strdup", "fill", "std::__invoke", "std::thread::_Invoker::operator()", "std::thread::_State_impl::_M_run", "execute_native_thread_routine", "start_thread")
	b.add(3, 8, "std::vector::reserve", "std::thread::_Invoker::operator()", "start_thread")
	b.add(4, 8, "std::sort", "compare", "std::sort", "sum", "main", "_start")
	b.add(5, 8, "_start")
	b.add(6, 8, "zmalloc", "textnew", "main")
	b.add(7, 8, "fill", "main", "__libc_start_main_impl", "shop+0x10") // _start of a stripped program
	if err := b.p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	passed := Charge(b.p, Wrappers{"zmalloc": true})
	want := []string{"1 fill main", "2 fill", "3 std::vector::reserve", "4 compare std::sort sum main", "5 _start", "6 textnew main", "7 fill main"}
	if got := stacksOf(b.p); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := b.p.CheckValid(); err != nil {
		t.Error(err)
	}
	if text := passed.Text(); text != "a wrapper of malloc (zmalloc), C++ library, libc" {
		t.Errorf("passed over: %s", text)
	}
}

// A profile with Python functions has no native frames of the interpreter; without them they are functions like others.
func TestChargePython(t *testing.T) {
	native := func(b *builder) {
		b.add(1, 8, "_PyMem_RawMalloc", "PyList_New", "Py_InitializeFromConfig", "Py_BytesMain", "_start")
	}
	b := newBuilder()
	native(b)
	b.add(2, 8, "_PyObject_Malloc", "PyUnicode_New", "loads@/usr/lib/python3.11/json/__init__.py", "_PyEval_Vector", "work@/srv/app.py", "PyObject_Call", "<module>@/srv/app.py",
		"PyEval_EvalCode", "Py_BytesMain", "_start")
	Charge(b.p, nil)
	if got, want := stacksOf(b.p), []string{"1 Py_BytesMain", "2 work <module>"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	b = newBuilder()
	native(b)
	Charge(b.p, nil)
	if got, want := stacksOf(b.p), []string{"1 PyList_New Py_InitializeFromConfig Py_BytesMain"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Native code belongs to the function in Python that calls it, and not to one that it is called by.
func TestChargeNativeCode(t *testing.T) {
	b := newBuilder()
	b.add(1, 8, "parse", "xmlNewNode", "loads@/usr/lib/python3.11/json/__init__.py", "work@/srv/app.py", "run_plugin", "main")
	b.add(2, 8, "parse", "run_plugin", "main")
	b.add(4, 8, "parse", "_find_spec@<frozen importlib._bootstrap>", "run_plugin", "main")
	passed := Charge(b.p, nil)
	if got, want := stacksOf(b.p), []string{"1 work run_plugin main", "2 parse run_plugin main", "4 parse _find_spec run_plugin main"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if text := passed.Text(); text != "native code called by Python, Python library" {
		t.Errorf("passed over: %s", text)
	}
}

// Only the stack that freed the blocks is changed in a profile of frees.
func TestChargeFreed(t *testing.T) {
	b := newBuilder()
	b.add(1, 8, "std::vector::~vector", "drop", "main", Joint, "std::vector::push_back", "fill", "main")
	b.add(2, 8, "std::vector::~vector", Joint, "fill", "main")
	Charge(b.p, nil)
	want := []string{"1 drop main " + Joint + " std::vector::push_back fill main", "2 std::vector::~vector " + Joint + " fill main"}
	if got := stacksOf(b.p); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTimeIsNotCharged(t *testing.T) {
	b := newBuilder()
	b.p.SampleType[0] = &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	b.add(1, 8, "std::sort", "main", "_start")
	Charge(b.p, FindWrappers(b.p))
	if got, want := stacksOf(b.p), []string{"1 std::sort main _start"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFindWrappers(t *testing.T) {
	b := newBuilder()
	for i := range int64(4) {
		caller := fmt.Sprint("caller", i)
		b.add(100, 16*i+16, "xmalloc", "make_string", caller, "main") // sizes of the callers: make_string has no telling name
		b.add(100, 16*i+16, "xmalloc", "pool_alloc", caller, "main")  // a wrapper of a wrapper
		b.add(100, 64, "node_new", caller, "main")                    // a constructor: the same size for every caller
		b.add(100, 16*i+16, "grow_cache", "main")                     // one caller
		b.add(100, 16*i+16, "alloc_tree", caller, "main")             // owns memory through others as well
		b.add(100, 16*i+16, "leaf", "alloc_tree", caller, "main")
	}
	b.add(100, 8, "my_calloc", "main")                            // one caller, but a telling name
	b.add(100, 8, "xstrdup")                                      // no caller
	b.add(100, 8, "lib.so+0x10", "sqlite3Malloc", "read", "main") // called by a function with a telling name
	b.add(100, 8, "lib.so+0x20", "read", "main")                  // a function of its own
	found := FindWrappers(b.p)
	want := Wrappers{"xmalloc": true, "pool_alloc": true, "my_calloc": true, "lib.so+0x10": true, "sqlite3Malloc": true}
	if !maps.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
}

func splitNames(frame string) []string { return strings.Split(frame, "|") }

func cutFile(frame string) (name, file string) {
	name, file, _ = strings.Cut(frame, "@")
	return name, file
}

func BenchmarkClassify(b *testing.B) {
	names := []string{"std::vector::_M_realloc_insert", "shop::Cart::add", "createStringObject", "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop"}
	for i := range b.N {
		classifyByRules(Frame{Name: names[i%len(names)], Module: "/usr/bin/shop"})
	}
}
