package cli

import (
	"os"
	"slices"
	"testing"
	"time"

	"seemalloc/tool/perf"
	"seemalloc/tool/report"
)

// A truncated stack, or one that continues outside code, is kept up to the last valid frame and counted.
func TestKernelProfileReportsIncompleteStacks(t *testing.T) {
	k := newKernelProfile(nil, os.Getpid(), 100)
	if len(k.mapped.list) == 0 {
		t.Fatal("this process has no code")
	}
	code := k.mapped.list[0].Start + 100
	k.add(perf.Sample{Thread: 1, User: []uint64{code, code + 8}})
	k.add(perf.Sample{Thread: 1, User: []uint64{code, code + 8, 3}})
	k.add(perf.Sample{Thread: 1, User: []uint64{code, 3}})
	k.add(perf.Sample{Thread: 2, User: slices.Repeat([]uint64{code}, perf.MaxFrames)})
	p := k.finish(time.Now(), 5)
	want := "stacks: 3 distinct, by thread; 1 samples with a truncated stack, 2 samples with a broken unwind"
	if len(p.Comments) != 2 || p.Comments[1] != want {
		t.Errorf("%q, expected %q", p.Comments, want)
	}
	if cpu := report.NewCPU(p); cpu.Lost != 5 || cpu.Truncated != 1 || cpu.Broken != 2 || cpu.Samples != 4 {
		t.Errorf("%+v", cpu)
	}
}
