// Command bigprofile writes a profile with many samples, to measure how long opening it takes: `go run
// ./bench/page/bigprofile FILE SAMPLES`. Its stacks are paths down a tree of calls, 12 to 28 deep, of 20,000 functions;
// nearly every stack is different, as when all allocations of a large program are recorded.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"

	"github.com/google/pprof/profile"
)

const functions = 20_000

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bigprofile:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("expected FILE SAMPLES, got %q", args)
	}
	samples, err := strconv.Atoi(args[1])
	if err != nil || samples < 1 {
		return fmt.Errorf("%q: expected a number of samples", args[1])
	}
	file, err := os.Create(args[0])
	if err != nil {
		return err
	}
	if err := made(samples).Write(file); err != nil {
		return err
	}
	return file.Close()
}

func made(samples int) *profile.Profile {
	random := rand.New(rand.NewSource(1))
	program := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x4000000, File: "/opt/big/bin/big", HasFunctions: true, HasFilenames: true, HasLineNumbers: true}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}, {Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 512 << 10, TimeNanos: 1_700_000_000e9, DefaultSampleType: "inuse_space",
		DropFrames: "malloc|operator new.*", // as the library writes it; no function matches
		Mapping:    []*profile.Mapping{program},
	}
	for i := range functions {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("part%d::Class%d::method_%d", i%40, i%500, i), Filename: fmt.Sprintf("/src/file%d.cc", i%300)}
		p.Function = append(p.Function, f)
		p.Location = append(p.Location, &profile.Location{ID: f.ID, Mapping: program, Address: uint64(0x400000 + 16*i), Line: []profile.Line{{Function: f, Line: int64(i % 1000)}}})
	}
	for range samples {
		sample := &profile.Sample{Location: make([]*profile.Location, 12+random.Intn(16))}
		node := uint64(1)
		for depth := range sample.Location {
			child := uint64(random.ExpFloat64() * 1.2) // the first of a function's callees is called most
			sample.Location[len(sample.Location)-1-depth] = p.Location[(node*2654435761+child*40503)>>7%functions]
			node = node*31 + child + 1
		}
		bytes := int64(random.ExpFloat64()*4096) + 16
		sample.Value = []int64{3, 3 * bytes, 1, bytes}
		p.Sample = append(p.Sample, sample)
	}
	return p
}
