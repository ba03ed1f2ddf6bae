package growth

import (
	"strings"
	"testing"
)

// Each stack is written as functions, innermost first, separated by blanks: NAME, NAME@MODULE or NAME@FILE.py.
func TestStacksBeginWithTheirOwner(t *testing.T) {
	cases := []struct {
		stack, want string
		sizes       []int64
	}{
		{stack: "load main __libc_start_call_main __libc_start_main_impl _start", want: "load main"},
		{stack: "work std::thread::_State_impl::_M_run execute_native_thread_routine start_thread clone3", want: "work"},
		{stack: "_start", want: "_start"},
		{stack: "std::vector::push_back load main", want: "load main"},
		{stack: "zmalloc store main", want: "store main", sizes: []int64{64}},
		{stack: "zmalloc parse main", want: "parse main", sizes: []int64{512}},
		{stack: "PyMem_Malloc@libpython3.11.so.1.0 dict_resize@libpython3.11.so.1.0 remember@jobs.py _PyEval_EvalFrameDefault@libpython3.11.so.1.0 run@jobs.py", want: "remember run"},
		{stack: "g_malloc@libglib-2.0.so.0 g_hash_table_insert@libglib-2.0.so.0 remember main", want: "remember main"},
	}
	var stacks [][]Frame
	var sizes [][]int64
	for _, c := range cases {
		var stack []Frame
		for word := range strings.FieldsSeq(c.stack) {
			name, place, _ := strings.Cut(word, "@")
			frame := Frame{Name: name, module: place}
			if strings.HasSuffix(place, ".py") {
				frame.File, frame.module = place, ""
			}
			stack = append(stack, frame)
		}
		stacks, sizes = append(stacks, stack), append(sizes, c.sizes)
	}
	charged, _ := charge(stacks, sizes)
	for i, stack := range charged {
		if got := strings.Join(names(stack), " "); got != cases[i].want {
			t.Errorf("%q: got %q, want %q", cases[i].stack, got, cases[i].want)
		}
	}
}
