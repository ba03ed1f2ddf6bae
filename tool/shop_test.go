package main

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// shop is the compiled testdata/shop.cc, and the addresses of its functions.
type shop struct {
	path      string
	functions map[string]uint64
	text      *elf.Prog
}

// compiledShop compiles once for all tests, each of which gets a copy. It returns nil without a compiler.
var compiledShop = sync.OnceValues(func() ([]byte, error) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		if compiler, err = exec.LookPath("c++"); err != nil {
			return nil, nil
		}
	}
	dir, err := os.MkdirTemp("", "seemalloc-shop")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "shop")
	out, err := exec.Command(compiler, "-O1", "-g", "-fno-optimize-sibling-calls", "-fPIE", "-pie", "testdata/shop.cc", "-o", program).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(program)
})

func buildShop(t *testing.T) *shop {
	t.Helper()
	program, err := compiledShop()
	if err != nil {
		t.Fatal(err)
	}
	if program == nil {
		t.Skip("no C++ compiler")
	}
	s := &shop{path: filepath.Join(t.TempDir(), "shop"), functions: map[string]uint64{}}
	if err := os.WriteFile(s.path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	// Older than its profiles, as in practice.
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(s.path, old, old); err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, symbol := range symbols {
		s.functions[symbol.Name] = symbol.Value
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_LOAD && segment.Flags&elf.PF_X != 0 {
			s.text = segment
		}
	}
	return s
}

// profile builds an unsymbolized heap profile with known sums.
func (s *shop) profile(t *testing.T) *profile.Profile {
	t.Helper()
	const base, page = 0x5580_0000_0000, 4096
	m := &profile.Mapping{ID: 1, File: s.path, Offset: s.text.Off &^ (page - 1)}
	m.Start = base + s.text.Vaddr&^(page-1)
	m.Limit = (base + s.text.Vaddr + s.text.Memsz + page - 1) &^ (page - 1)
	p := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"},
			{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"},
		},
		DefaultSampleType: "inuse_space",
		PeriodType:        &profile.ValueType{Type: "space", Unit: "bytes"},
		Period:            512 << 10,
		TimeNanos:         1_790_000_000_000_000_000,
		Mapping:           []*profile.Mapping{m},
		DropFrames:        "take_memory",
	}
	known := map[string]*profile.Location{}
	location := func(name string) *profile.Location {
		value, ok := s.functions[name]
		if !ok {
			t.Fatalf("no function %s in shop.cc", name)
		}
		if known[name] == nil {
			known[name] = &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: m, Address: base + value + 1}
			p.Location = append(p.Location, known[name])
		}
		return known[name]
	}
	const memory, basket, till, serve = "take_memory", "_ZN4shop6basketEi", "_ZN4shop4tillEi", "_ZN4shop5serveEi"
	for _, sample := range []struct {
		values []int64
		stack  []string
	}{
		{[]int64{100, 102400, 40, 40960}, []string{memory, basket, serve, "main"}},
		{[]int64{7, 7340032, 3, 3145728}, []string{memory, till, serve, "main"}},
		{[]int64{50, 3200, 50, 3200}, []string{memory, till, serve, serve, serve, "main"}}, // recursive
		{[]int64{10, 1000, 0, 0}, []string{memory, serve, "main"}},
		{[]int64{1, 48, 1, 48}, []string{"main"}},
	} {
		row := &profile.Sample{Value: sample.values}
		for _, name := range sample.stack {
			row.Location = append(row.Location, location(name))
		}
		p.Sample = append(p.Sample, row)
	}
	return p
}

func (s *shop) profileBytes(t *testing.T) []byte {
	t.Helper()
	return uncompressed(t, s.profile(t))
}

// withTypes builds a profile with two values per sample, under other names.
func (s *shop) withTypes(t *testing.T, first, second string) []byte {
	t.Helper()
	p := s.profile(t)
	p.SampleType = []*profile.ValueType{{Type: first, Unit: "count"}, {Type: second, Unit: "nanoseconds"}}
	p.DefaultSampleType = second
	for _, sample := range p.Sample {
		sample.Value = sample.Value[:2]
	}
	return uncompressed(t, p)
}

func uncompressed(t *testing.T, p *profile.Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func compress(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return b.Bytes()
}

// lines are the lines of text without trailing blanks.
func lines(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		list = append(list, strings.TrimRight(line, " \n"))
	}
	return list
}
