package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/owner"
)

// CPU holds the comments of a CPU profile.
type CPU struct {
	Samples  int64 `json:"samples"`
	Duration int64 `json:"duration_ns"`
	Period   int64 `json:"period_ns"`
	// Used is the process's CPU time as counted by the kernel, or 0 if the profile does not report it.
	Used int64 `json:"process_cpu_ns,omitempty"`
	Lost int64 `json:"lost"`
	// Samples with a truncated stack, and samples with a broken one (not unwound to its end).
	Truncated  int64  `json:"truncated"`
	Broken     int64  `json:"broken"`
	Refused    int64  `json:"threads_without_timer"`
	Unprofiled int64  `json:"unprofiled_processes_ns,omitempty"`
	Ended      string `json:"ended_early,omitempty"`
	// Part is set if the samples cover only some threads, while Used covers all of them.
	Part bool `json:"-"`
}

var cpuComments = map[string]*regexp.Regexp{
	"lost":      regexp.MustCompile(`^seemalloc: .* lost (\d+)$`),
	"used":      regexp.MustCompile(`^cpu: the process used (\d+) ns`),
	"truncated": regexp.MustCompile(`(\d+) samples with a truncated stack`),
	"broken":    regexp.MustCompile(`(\d+) samples with a broken unwind`),
	"refused":   regexp.MustCompile(`^threads: .* (\d+) were refused one`),
	"elsewhere": regexp.MustCompile(`^cpu: processes without a profile used (\d+) ns`),
	"ended":     regexp.MustCompile(`^ended early: (.*)$`),
}

// NewCPU parses the profile's comments. The values of merged profiles of several processes are added up.
func NewCPU(p *profile.Profile) CPU {
	c := CPU{Duration: p.DurationNanos, Period: p.Period}
	into := map[string]*int64{"lost": &c.Lost, "used": &c.Used, "truncated": &c.Truncated, "broken": &c.Broken, "refused": &c.Refused, "elsewhere": &c.Unprofiled}
	for _, comment := range p.Comments {
		for name, pattern := range cpuComments {
			match := pattern.FindStringSubmatch(comment)
			if match == nil {
				continue
			}
			if sum := into[name]; sum != nil {
				n, _ := strconv.ParseInt(match[1], 10, 64)
				*sum += n
			} else {
				c.Ended = match[1]
			}
		}
	}
	for _, sample := range p.Sample {
		c.Samples += sample.Value[0]
	}
	return c
}

// Unprofiled returns a comment for the merged profile of a run, if a large part of the CPU time of the run's processes
// is missing from it. used is the total CPU time of these processes. Each profile lacks a little of its process's start
// and end.
func Unprofiled(p *profile.Profile, used time.Duration) []string {
	const minimum, share = 100 * time.Millisecond, 0.1
	rest := used - time.Duration(NewCPU(p).Used)
	if rest < minimum || float64(rest) < share*float64(used) {
		return nil
	}
	return []string{fmt.Sprintf("cpu: processes without a profile used %d ns", rest.Nanoseconds())}
}

// Text formats the lines above the table: the amount of data, its accuracy, and the losses. total is the time in the
// table.
func (c CPU) Text(total int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Total %s of CPU time in %s: %s samples, one per %s of a thread's CPU time", FormatNanos(total), FormatNanos(c.Duration), Count(c.Samples), FormatNanos(c.Period))
	if c.Used > 0 {
		fmt.Fprintf(&b, "; the process used %s", FormatNanos(c.Used))
	}
	b.WriteByte('\n')
	var missing []string
	for _, part := range []struct {
		n    int64
		what string
	}{
		{c.Lost, "samples lost for lack of space"},
		{c.Truncated, "truncated stacks (option stack_depth; with --kernel below the top 16 KiB)"},
		{c.Broken, "stacks whose unwinding failed"},
		{c.Refused, "threads without a timer (ulimit -i)"},
	} {
		if part.n > 0 {
			missing = append(missing, Count(part.n)+" "+part.what)
		}
	}
	// The missing time belongs to threads that block SIGPROF, or that ended between two ticks.
	const shown = 0.8
	if !c.Part && c.Used > int64(time.Second) && float64(total) < shown*float64(c.Used) {
		missing = append(missing, Percent(float64(c.Used-total), float64(c.Used))+" of the CPU time (threads that block SIGPROF, or that live for milliseconds)")
	}
	if c.Unprofiled > 0 {
		missing = append(missing, FormatNanos(c.Unprofiled)+" of CPU time of processes that left no profile (killed, ended with _exit, or ended soon after fork)")
	}
	if len(missing) > 0 {
		fmt.Fprintf(&b, "Missing: %s\n", strings.Join(missing, ", "))
	}
	if c.Ended != "" {
		fmt.Fprintf(&b, "Ended early: %s\n", c.Ended)
	}
	return b.String()
}

// ---- the kernel's side ----

// KernelFile is the name of the mapping that holds the kernel's functions.
const KernelFile = "[kernel.kallsyms]"

// KernelEntry is one kind of entry into the kernel: a system call, page faults, or interrupts.
type KernelEntry struct {
	Name  string `json:"name"`
	NS    int64  `json:"ns"`
	Inner []Row  `json:"functions"` // kernel functions, by self time
	From  []Row  `json:"from"`      // the program's functions that entered the kernel
}

var (
	systemCall = regexp.MustCompile(`^(?:__(?:x64|ia32|arm64|se)_(?:compat_)?sys|ksys)_(\w+)$`)
	libcPrefix = regexp.MustCompile(`^_*(GI_+)?(libc_)?`)
	pageFault  = regexp.MustCompile(`^(asm_)?exc_page_fault$|^do_user_addr_fault$|^do_page_fault$|^el0_da$|^do_mem_abort$`)
	interrupt  = regexp.MustCompile(`^asm_sysvec_|^asm_common_interrupt$|^el0_interrupt$|^irqentry_exit|^asm_exc_nmi$|^el0_irq`)
)

// kernelEntryOf names the entry by the kernel part of a stack, innermost first.
func kernelEntryOf(kernel []string) string {
	for i := len(kernel) - 1; i >= 0; i-- {
		if match := systemCall.FindStringSubmatch(kernel[i]); match != nil {
			return match[1]
		}
		if pageFault.MatchString(kernel[i]) {
			return "page faults"
		}
		if interrupt.MatchString(kernel[i]) {
			return "interrupts"
		}
	}
	return "other"
}

// userFrame is a function of the program, or of a library that is not charged for the time.
type userFrame struct {
	name    string
	library bool
}

// systemLibrary matches the libraries through which a program enters the kernel: the C library, its loader, the
// compiler's runtime, and allocators.
var systemLibrary = regexp.MustCompile(`/(libc|libm|libpthread|ld-linux|ld|libgcc_s|libstdc\+\+|libc\+\+|libc\+\+abi|lib(see|je|tc|mi|sn|rp)malloc\w*)[-.][^/]*$`)

// splitStack splits a stack into its kernel and user parts, each with the innermost function first.
func splitStack(sample *profile.Sample) (kernel []string, user []userFrame) {
	for _, loc := range sample.Location {
		for _, frame := range Frames(&profile.Sample{Location: []*profile.Location{loc}}) {
			if loc.Mapping != nil && loc.Mapping.File == KernelFile {
				kernel = append(kernel, frame.Name)
			} else {
				user = append(user, userFrame{frame.Name, owner.Classify(frame).IsLibrary() || loc.Mapping != nil && systemLibrary.MatchString(loc.Mapping.File)})
			}
		}
	}
	return kernel, user
}

// userCaller names the program's function that entered the kernel, and the library function that it used: "fill (by
// memset)". If the stack has no function of the program, it names the innermost function other than the C library's
// wrapper with the name of the system call.
func userCaller(user []userFrame, entry string) string {
	if len(user) == 0 {
		return "(no stack)"
	}
	of := slices.IndexFunc(user, func(f userFrame) bool { return !f.library })
	// Above a thread's first function are only library functions that started the thread.
	if of > 0 && user[of].name != "_start" {
		return fmt.Sprintf("%s (by %s)", user[of].name, user[of-1].name)
	}
	for _, f := range user {
		if libcPrefix.ReplaceAllString(f.name, "") != entry {
			return f.name
		}
	}
	return user[len(user)-1].name
}

// KernelEntries groups a profile's kernel time by kind of entry, the largest first.
func KernelEntries(p *profile.Profile, index int) []KernelEntry {
	type sums struct {
		ns          int64
		inner, from map[string]int64
	}
	groups := map[string]*sums{}
	for _, sample := range p.Sample {
		kernel, user := splitStack(sample)
		if len(kernel) == 0 {
			continue
		}
		entry := kernelEntryOf(kernel)
		from := userCaller(user, entry)
		group := groups[entry]
		if group == nil {
			group = &sums{inner: map[string]int64{}, from: map[string]int64{}}
			groups[entry] = group
		}
		group.ns += sample.Value[index]
		group.inner[kernel[0]] += sample.Value[index]
		group.from[from] += sample.Value[index]
	}
	var entries []KernelEntry
	for name, group := range groups {
		entries = append(entries, KernelEntry{name, group.ns, rowsOf(group.inner), rowsOf(group.from)})
	}
	slices.SortFunc(entries, func(a, b KernelEntry) int {
		if a.NS != b.NS {
			return compareDown(a.NS, b.NS)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return entries
}

func rowsOf(sums map[string]int64) []Row {
	t := Top{}
	for name, ns := range sums {
		t.Rows = append(t.Rows, Row{Name: name, Flat: ns, Cum: ns})
	}
	t.Sort("flat")
	return t.Rows
}

// KernelText formats the entries into the kernel with their largest functions. total is the time of the whole profile.
func KernelText(entries []KernelEntry, total int64) string {
	var b strings.Builder
	sum := int64(0)
	for _, entry := range entries {
		sum += entry.NS
	}
	fmt.Fprintf(&b, "\nIn the kernel: %s, %s of the time\n", FormatNanos(sum), Percent(float64(sum), float64(total)))
	for _, entry := range entries {
		fmt.Fprintf(&b, "%12s %7s  %s\n", FormatNanos(entry.NS), Percent(float64(entry.NS), float64(total)), entry.Name)
		fmt.Fprintf(&b, "%22s  in   %s\n", "", shares(entry.Inner, entry.NS))
		fmt.Fprintf(&b, "%22s  from %s\n", "", shares(entry.From, entry.NS))
	}
	return b.String()
}

func shares(rows []Row, total int64) string {
	const limit = 4
	var parts []string
	for _, row := range rows[:min(limit, len(rows))] {
		parts = append(parts, fmt.Sprintf("%s %.0f%%", row.Name, 100*float64(row.Flat)/float64(total)))
	}
	if len(rows) > limit {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}
