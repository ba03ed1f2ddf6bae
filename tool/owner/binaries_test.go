package owner

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seemalloc/tool/symbolize"
)

// functionsOf lists the defined functions of the first of these files that exists, demangled.
func functionsOf(t *testing.T, paths ...string) (path string, names []string) {
	t.Helper()
	for _, pattern := range paths {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			file, err := elf.Open(path)
			if err != nil {
				continue
			}
			defer file.Close()
			dynamic, _ := file.DynamicSymbols()
			static, _ := file.Symbols()
			for _, symbol := range append(dynamic, static...) {
				if elf.ST_TYPE(symbol.Info) == elf.STT_FUNC && symbol.Section != elf.SHN_UNDEF {
					names = append(names, symbolize.Demangle(symbol.Name, symbolize.Short))
				}
			}
			slices.Sort(names)
			return path, slices.Compact(names)
		}
	}
	t.Skipf("none of %v is installed", paths)
	return "", nil
}

// expectKinds checks that a share of the functions has one of the kinds. With module the file is known.
func expectKinds(t *testing.T, module string, names []string, leastPercent int, kinds ...Kind) {
	t.Helper()
	var others []string
	for _, name := range names {
		if !slices.Contains(kinds, Classify(Frame{Name: name, Module: module}).Kind) {
			others = append(others, name)
		}
	}
	if len(names) < 100 || (len(names)-len(others))*100 < leastPercent*len(names) {
		t.Errorf("%d of %d functions are not %v: %s", len(others), len(names), kinds, strings.Join(others[:min(30, len(others))], ", "))
	}
}

const debianLibraries = "/usr/lib/*-linux-gnu/"

func TestLibstdcxx(t *testing.T) {
	path, names := functionsOf(t, debianLibraries+"libstdc++.so.6")
	expectKinds(t, path, names, 100, Library, Allocator, Startup)
	// Linked statically the names are all there is.
	expectKinds(t, "/srv/shop", names, 99, Library, Allocator, Startup)
}

func TestLibcxx(t *testing.T) {
	path, names := functionsOf(t, debianLibraries+"libc++.so.1", "/usr/lib/llvm-*/lib/libc++.so.1")
	expectKinds(t, path, names, 100, Library, Allocator, Startup)
	expectKinds(t, "/srv/shop", names, 99, Library, Allocator, Startup)
}

func TestLibc(t *testing.T) {
	path, names := functionsOf(t, debianLibraries+"libc.so.6")
	expectKinds(t, path, names, 100, Library, Allocator, Startup)
}

func TestGLib(t *testing.T) {
	path, names := functionsOf(t, debianLibraries+"libglib-2.0.so.0")
	expectKinds(t, path, names, 100, Library, Startup)
}

func TestPythonBinary(t *testing.T) {
	path, names := functionsOf(t, "/usr/bin/python3", debianLibraries+"libpython3.*.so.1.0")
	expectKinds(t, path, names, 99, Interpreter, Allocator)
	expectKinds(t, "", slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "Py") }), 95, Interpreter, Allocator)
}

func TestRustLibrary(t *testing.T) {
	sysroot, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		t.Skip("no rustc")
	}
	path, names := functionsOf(t, filepath.Join(strings.TrimSpace(string(sysroot)), "lib", "rustlib", "*", "lib", "libstd-*.so"), filepath.Join(strings.TrimSpace(string(sysroot)), "lib", "libstd-*.so"), "/usr/lib/*-linux-gnu/libstd-*.so")
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.Contains(name, "alloc::") && !strings.Contains(name, "core::") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "_Z")
	})
	names = slices.DeleteFunc(names, func(name string) bool { // its own copies of other crates
		return strings.Contains(name, "addr2line") || strings.Contains(name, "gimli") || strings.Contains(name, "miniz_oxide") || strings.Contains(name, "rustc_demangle") || strings.Contains(name, "object::")
	})
	t.Log(path, len(names))
	expectKinds(t, "/srv/shop", names, 90, Library, Allocator, Startup)
}

// The functions of a program are its own. zmalloc and the like are found by the profile, not by these rules.
func TestRedisIsAProgram(t *testing.T) {
	path, names := functionsOf(t, "/usr/bin/redis-server")
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.HasPrefix(strings.TrimPrefix(name, "_"), "sds") || strings.HasPrefix(name, "lua") || name == "_start"
	})
	expectKinds(t, path, names, 100, Program)
}
