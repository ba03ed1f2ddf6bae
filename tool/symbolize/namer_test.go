package symbolize

import (
	"debug/elf"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// sleeper starts a program that sleeps. It returns its pid and a return address in its C library's nanosleep.
func sleeper(t *testing.T) (pid int, address uint64) {
	t.Helper()
	command := exec.Command("sleep", "3600")
	if err := command.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for range 500 {
		for _, m := range Mappings(command.Process.Pid) {
			if strings.Contains(m.File, "/libc.so") {
				return command.Process.Pid, m.Start - m.Offset + nanosleep(t, m.File) + 8
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Skip("no C library in sleep")
	return 0, 0
}

// nanosleep returns the address of that function in the file.
func nanosleep(t *testing.T, path string) uint64 {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Skip(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Skip(err)
	}
	for _, s := range symbols {
		if s.Name == "clock_nanosleep" {
			return s.Value
		}
	}
	t.Skip("no clock_nanosleep in " + path)
	return 0
}

func TestNamerNamesARunningProcess(t *testing.T) {
	pid, address := sleeper(t)
	n := NewNamer(pid)
	n.Resolve([]uint64{address})
	n.Resolve([]uint64{address}) // cached by now
	stack := n.Stack([]uint64{address})
	if len(stack) == 0 || !strings.Contains(stack[0].Function, "nanosleep") {
		t.Fatalf("got %v", stack)
	}
}

func TestPlaceString(t *testing.T) {
	if text := (Place{"f", "/src/a.c", 12}).String(); text != "f a.c:12" {
		t.Errorf("got %q", text)
	}
}

func TestNamerOfUnnamedAddresses(t *testing.T) {
	n := NewNamer(os.Getpid())
	n.Resolve([]uint64{17})
	if stack := n.Stack([]uint64{17}); len(stack) != 1 || stack[0].String() != "0x10" {
		t.Errorf("got %v", stack)
	}
	gone := NewNamer(999999999) // above any pid_max
	gone.Resolve([]uint64{0x1001})
	if stack := gone.Stack([]uint64{0x1001}); len(stack) != 1 || stack[0].Function != "0x1000" {
		t.Errorf("got %v", stack)
	}
	if stack := n.Stack(nil); len(stack) != 0 {
		t.Errorf("got %v", stack)
	}
}

// In a static program the stack contains the allocator's frames. All of them are removed, up to and including the entry
// function that the program called.
func TestNamerOmitsAllocatorFrames(t *testing.T) {
	for _, test := range []struct{ names, want string }{
		{"seemalloc::os::map seemalloc::pages::allocate_run malloc work main", "work"},
		{"seemalloc::heap::tick free work main", "work"},
		{"operator new(unsigned long) std::vector::push_back main", "std::vector::push_back"},
		{"operator delete[](void*) work main", "work"},
		{"__libc_malloc work main", "work"},
		{"seemalloc_purge work main", "work"},
		{"work main", "work"},
		{"zmalloc main", "zmalloc"},
		{"free_list_add work", "free_list_add"},
	} {
		n := NewNamer(0)
		var addresses []uint64
		names := strings.Fields(strings.NewReplacer("operator ", "operator_", "unsigned long", "unsigned_long").Replace(test.names))
		for i, name := range names {
			name = strings.NewReplacer("operator_", "operator ", "unsigned_long", "unsigned long").Replace(name)
			addresses = append(addresses, uint64(i+1))
			n.places[uint64(i+1)] = []Place{{Function: name}}
		}
		if got := n.Stack(addresses); len(got) == 0 || got[0].Function != test.want {
			t.Errorf("%s: got %v", test.names, got)
		}
	}
}

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]string{
		"7f0000001000-7f0000003000 r-xp 00001000 08:01 77 /usr/lib/libc.so.6\n":      "/usr/lib/libc.so.6",
		"7f0000001000-7f0000003000 r-xp 00001000 08:01 77 /opt/a b/c.so (deleted)\n": "/opt/a b/c.so (deleted)",
		"7f0000001000-7f0000003000 r-xp 00001000 00:00 0 \n":                         "",
	} {
		m := parseMapping(line)
		if m == nil || m.File != want || m.Start != 0x7f0000001000 || m.Limit != 0x7f0000003000 || m.Offset != 0x1000 {
			t.Errorf("%q: %+v", line, m)
		}
	}
	for _, line := range []string{"", "7f0000001000-7f0000003000 rw-p 00000000 00:00 0 [heap]\n", "nonsense r-xp 0 0 0\n"} {
		if m := parseMapping(line); m != nil {
			t.Errorf("%q: %+v", line, m)
		}
	}
}
