package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/perf"
	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
	"seemalloc/tool/unwind"
)

// recordKernel samples the process until wait returns. Kernel functions have names in the result; the program's
// functions are not symbolized yet.
func recordKernel(process *attach.Process, flags cpuFlags, wait func()) (*profile.Profile, error) {
	kernel, err := symbolize.ReadKernel()
	if err != nil {
		return nil, fmt.Errorf("%s: no symbols for the kernel's functions: %w: this requires root, or kernel.kptr_restrict of 0 and kernel.perf_event_paranoid of 1 or less",
			process, err)
	}
	maker := newKernelProfile(kernel, process.PID, flags.hz)
	recorder, err := perf.Open(process.PID, flags.hz)
	if err != nil {
		return nil, perf.Explain(err, process.String())
	}
	defer recorder.Close()
	began := time.Now()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		recorder.Follow(stop, maker.add)
		close(done)
	}()
	wait()
	close(stop)
	<-done
	return maker.finish(began, recorder.Lost), nil
}

// kernelProfile builds a profile from the kernel's samples.
type kernelProfile struct {
	p             *profile.Profile
	kernel        *symbolize.Kernel
	kernelMapping *profile.Mapping
	mapped        *processCode
	tables        *processTables
	locations     map[location]*profile.Location
	functions     map[string]*profile.Function
	samples       map[string]*profile.Sample
	pid           int
	threads       map[int]string // thread names, read when the thread first appears
	period        int64
	// Counts of samples with a truncated stack, and of samples with a broken one (not unwound to its end).
	truncated, broken int
}

type location struct {
	address  uint64
	mapping  *profile.Mapping // nil for kernel code
	inKernel bool
}

func newKernelProfile(kernel *symbolize.Kernel, pid, hz int) *kernelProfile {
	period := int64(time.Second) / int64(hz)
	time := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	mapped := newProcessCode(func() []*profile.Mapping { return symbolize.Mappings(pid) })
	return &kernelProfile{
		p: &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, time}, PeriodType: time, Period: period, DefaultSampleType: "cpu",
		},
		kernel: kernel, period: period, pid: pid, threads: map[int]string{},
		mapped: mapped, tables: newProcessTables(mapped, pid),
		kernelMapping: &profile.Mapping{File: report.KernelFile, HasFunctions: true},
		locations:     map[location]*profile.Location{}, functions: map[string]*profile.Function{}, samples: map[string]*profile.Sample{},
	}
}

func (k *kernelProfile) add(s perf.Sample) {
	var stack []*profile.Location
	key := fmt.Sprintf("%d: ", s.Thread)
	push := func(address uint64, inKernel bool) {
		l := k.location(address, inKernel)
		stack = append(stack, l)
		key += fmt.Sprintf("%d ", l.ID)
	}
	for i, address := range s.Kernel {
		if i > 0 {
			address-- // an address inside the call instruction
		}
		push(address, true)
	}
	user, outcome := k.userStack(s)
	for i, address := range user {
		// In a system call the innermost address is behind the instruction, as for a caller.
		if i > 0 || len(s.Kernel) > 0 {
			address--
		}
		push(address, false)
	}
	switch outcome {
	case unwind.Truncated:
		k.truncated++
	case unwind.Broken:
		k.broken++
	}
	sample := k.samples[key]
	if sample == nil {
		sample = &profile.Sample{Location: stack, Value: []int64{0, 0}, Label: map[string][]string{report.ThreadLabel: {k.thread(s.Thread)}},
			NumLabel: map[string][]int64{report.TIDLabel: {int64(s.Thread)}}, NumUnit: map[string][]string{report.TIDLabel: {"count"}}}
		k.samples[key] = sample
		k.p.Sample = append(k.p.Sample, sample)
	}
	sample.Value[0]++
	sample.Value[1] += k.period
}

// userStack returns the user-space part of the stack, innermost first. The addresses of callers are return addresses.
func (k *kernelProfile) userStack(s perf.Sample) ([]uint64, unwind.Outcome) {
	if s.Registers != nil && len(s.Stack) != 0 {
		return unwind.Walk(k.tables, *s.Registers, s.Stack)
	}
	// This is the kernel's own unwind. Without frame pointers it may treat arbitrary data as the next frame.
	for i, address := range s.User {
		if i > 0 && k.mapped.find(address-1) == nil {
			return s.User[:i], unwind.Broken
		}
	}
	if len(s.Kernel)+len(s.User) >= perf.MaxFrames {
		return s.User, unwind.Truncated
	}
	return s.User, unwind.Complete
}

// thread returns the name of a thread, even after the thread has ended.
func (k *kernelProfile) thread(tid int) string {
	if name, known := k.threads[tid]; known {
		return name
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", k.pid, tid))
	name := cmp.Or(strings.TrimSuffix(string(text), "\n"), "(no name)")
	k.threads[tid] = name
	return name
}

func (k *kernelProfile) location(address uint64, inKernel bool) *profile.Location {
	key := location{address: address, inKernel: inKernel}
	if !inKernel {
		key.mapping = k.mapped.find(address)
	}
	if l := k.locations[key]; l != nil {
		return l
	}
	l := &profile.Location{ID: uint64(len(k.p.Location) + 1), Address: address}
	if inKernel {
		l.Mapping = k.kernelMapping
		name := k.kernel.Name(address)
		if name == "" {
			name = fmt.Sprintf("%#x", address)
		}
		l.Line = []profile.Line{{Function: k.function(name)}}
	} else {
		l.Mapping = key.mapping
	}
	k.locations[key] = l
	k.p.Location = append(k.p.Location, l)
	return l
}

func (k *kernelProfile) function(name string) *profile.Function {
	f := k.functions[name]
	if f == nil {
		f = &profile.Function{ID: uint64(len(k.p.Function) + 1), Name: name, SystemName: name, Filename: report.KernelFile}
		k.functions[name] = f
		k.p.Function = append(k.p.Function, f)
	}
	return f
}

func (k *kernelProfile) finish(began time.Time, lost int64) *profile.Profile {
	for key, l := range k.locations { // addresses that were not resolved because the mappings had been read too recently
		if !key.inKernel && l.Mapping == nil {
			l.Mapping = k.mapped.known(key.address)
		}
	}
	k.p.Mapping = append(k.mapped.list, k.kernelMapping)
	for i, m := range k.p.Mapping {
		m.ID = uint64(i + 1)
	}
	k.p.TimeNanos = began.UnixNano()
	k.p.DurationNanos = time.Since(began).Nanoseconds()
	k.p.Comments = []string{
		fmt.Sprintf("seemalloc: CPU time by the kernel's clock, the kernel's stacks included; lost %d", lost),
		// The same text as in core/profile/pprof/profile_encoder.cc.
		fmt.Sprintf("stacks: %d distinct, by thread; %d samples with a truncated stack, %d samples with a broken unwind", len(k.p.Sample), k.truncated, k.broken),
	}
	return k.p
}
