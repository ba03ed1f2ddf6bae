package growth

import (
	"slices"
	"testing"
)

func TestStartupIsLeftOut(t *testing.T) {
	for _, c := range []struct{ stack, want []string }{
		{[]string{"load", "main", "__libc_start_call_main", "__libc_start_main_impl", "_start"}, []string{"load", "main"}},
		{[]string{"work", "std::thread::_State_impl::_M_run", "execute_native_thread_routine", "start_thread", "clone3"}, []string{"work"}},
		{[]string{"_start"}, []string{"_start"}},
		{[]string{"load", "main"}, []string{"load", "main"}},
	} {
		stack := make([]Frame, len(c.stack))
		for i, name := range c.stack {
			stack[i].Name = name
		}
		var got []string
		for _, frame := range withoutStartup(stack) {
			got = append(got, frame.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q instead of %q", c.stack, got, c.want)
		}
	}
}
