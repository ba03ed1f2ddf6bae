#!/usr/bin/env python3
"""Computes how much stack malloc, free and related functions can use, from the machine code of a built library (x86-64).

  tests/abi/stack_budget.py LIBRARY                  the maximum of each entry point; exits with 1 if one exceeds the limit
  tests/abi/stack_budget.py LIBRARY --entry NAME     one function, which may be internal

The unwind tables give the size of a function's frame at each instruction, and so the depth of the stack at each call. The
deepest path is the sum along a chain of calls. The tables below add the facts that machine code does not show: the targets
of calls through pointers, the needs of C library functions, and where chains end that look endless.
"""
import argparse
import bisect
import collections
import re
import subprocess
import sys

# A signal frame takes up to 3.5 KiB of an alternate stack of 8 KiB (AVX-512).
LIMIT = 4608

ENTRIES = """malloc calloc realloc reallocarray aligned_alloc posix_memalign memalign valloc pvalloc free free_sized
free_aligned_sized malloc_usable_size malloc_trim mallopt operator.new operator.new[] operator.delete
operator.delete[] mallocx rallocx xallocx sallocx dallocx sdallocx nallocx cfree tc_malloc tc_free tc_calloc tc_realloc tc_memalign
tc_posix_memalign tc_valloc tc_pvalloc tc_new tc_delete seemalloc_pool_alloc seemalloc_pool_free""".split()
# Entry points that the C library and the kernel call: thread exit, fork, the CPU profiler's signal, the signal that
# requests a dump.
CALLED_FROM_OUTSIDE = ["on_thread_exit", "before_fork", "after_fork_in_parent", "after_fork_in_child", "on_interrupt", "on_signal"]

# Calls through pointers: function → its possible targets. All indirect calls of a function reach all of its targets. A
# number is the stack in bytes that a target outside the library needs. "inner": the function is called within
# ScopedNestedCall.
POINTERS = {
    # A call site that cannot be refused reaches the hook, which is called only where it is set.
    "os::counted_call": ["record_call"],
    "os::bump": ["record_call"],  # counted_call is inlined into it
    "heap::tick": ["on_slow_free_in_child"],
    "heap::span_countdown_slow": ["on_slow_free_in_child"],
    "heap::LargeCache::put_evicting": ["on_slow_free_in_child"],
    "heap::large_sample_due": ["draw"],
    "heap::redraw_sample": ["draw"],
    "heap::refill": ["draw"],
    "heap::reduce_sample_backoff": ["draw"],
    "profile::find_module": [192],         # glibc's _dl_find_object
    "profile::record_alloc": [],           # Python's own PyGILState_GetThisThreadState, which reads a word or two
    "profile::record_free_stack": [],             # the same
    "profile::PythonWalk::PythonWalk": [],  # the same
    "profile::StackCache::enlarge": ["os::arena_allocate", "os::arena_allocate_prefaulted"],
    "abort_now": ["detach_heap_before_abort"],
    "os::bump": [("inner", "pages::region_for_records")],
    "os::map_report": [("inner", "pages::region_for_records")],
    "os::read_clock": [192, "os::clock_by_system_call"],  # the vDSO's function, or the system call
    "os::for_each_thread": ["note_thread"],
    "pages::for_each_huge_span": [],
    "pages::RegionWalk::next": [],
    "options::parse": ["warn"],
    "set_option_value": ["warn"],
    "seemalloc_bare_clone": [],  # runs on the stack of the helper thread
    "warn_bad_value": ["warn"],
    "read_foreign_options": ["warn"],
    "report_ignored_settings": ["warn"],
    "report_pair": ["warn"],
    "JemallocConf::set": ["warn"],
    "read_options_once": [],  # the other targets store options: a few stores
    "describe": [],            # a switch
    "dump_by_prefix": ["write_gperftools_text", "write_jemalloc_text"],
    "write_kind": ["heap_profile"],  # automatic dumps are of that kind
    "profile::take_snapshot_once": ["profile::has_samples"],
    "profile::heap_profile_to_buffer": ["profile::heap_values"],
    "profile::CommentWriter::add": ["profile::ProfileEncoder::comment"],
    "for_each_sample_row": ["write_sample"],  # the text formats of core/compat
    "for_each_sample_row_since": ["write_sample"],
    "profile::for_each_row_since_reset": ["write_sample"],
    "profile::for_each_growth": ["write_growth"],
    "for_each_growth_stack": ["write_growth"],
    "for_each_unloaded_code_range": ["append_unloaded"],
    "profile::write_growth_comments": ["profile::CommentWriter::add"],
    "throw_bad_alloc": [],  # throws
    "new_slow": [],          # the program's new_handler, and the throw
    "new_nothrow_slow": [],
    "free_foreign": [],      # another allocator's free
    "find_other_allocators": [512],  # glibc's mallopt; its first malloc as a whole needs 360
    "foreign_usable_bytes": [],
    "reallocate_foreign": ["allocate_slow", "allocate_large_slow"],
}
# Tables of pointers are data; [] stands for a call that is not made while malloc runs, or that leads out of the
# library. The values below are the stack that functions of other libraries need, in bytes below the call
# (lifecycle/stack_depth.c measures the large ones).
OUTSIDE = {
    "memcpy": 64, "memmove": 64, "memset": 64, "memcmp": 64, "strlen": 64, "strchr": 64, "__errno_location": 16, "getauxval": 64,
    "_dl_find_object": 192,
    "sigemptyset": 16, "sigfillset": 16, "sigaddset": 16, "sigdelset": 16, "sigismember": 16, "pthread_sigmask": 320, "__sigaction": 512,
    "pthread_key_create": 64,
    "pthread_setspecific": 96, "__cxa_thread_atexit_impl": 96, "__pthread_key_create": 64, "pthread_key_delete": 64,
    "_IO_list_lock": 64, "_IO_list_unlock": 64, "_IO_list_resetlock": 64,
    # Operators that the program has replaced.
    **dict.fromkeys("""_Znwm _Znam _ZnwmSt11align_val_t _ZnamSt11align_val_t _ZdlPv _ZdaPv _ZdlPvSt11align_val_t
                       _ZdaPvSt11align_val_t""".split(), 0),
    "dlopen": 0, "dlsym": 0, "__cxa_begin_catch": 0, "__cxa_end_catch": 0, "__cxa_allocate_exception": 0, "__cxa_throw": 0,  # only to throw bad_alloc, which needs the unwinder of libgcc
}
# External functions that call malloc, with the bytes that they need above that call: for a thread's storage, and for
# keys from the 32nd on. The slow paths around them are marked (ScopedNestedCall in core/api/malloc/slow_path.h).
ALLOCATE = {"pthread_setspecific": 96, "__cxa_thread_atexit_impl": 96}
# (caller, callee) where the chain ends, with the bytes that the callee still needs, and the reason.
ENDS = {
    ("*", "os::sandbox::calls_are_limited_slow"): (8, "a filter is looked for once, when the options are read; afterwards it is a leaf"),
    ("heap::release_orphaned_heaps", "heap::release_everything"): (800, "in the walk gate, where tick() returns at once"),
    ("heap::release_abandoned_heaps", "heap::release_everything"): (800, "the same"),
    ("profile::heap_profile_to_buffer", "profile::write_lifetime_rows"): (0, "of a kind that nothing dumps unasked"),
    ("profile::heap_profile_to_buffer", "profile::write_thread_rows"): (0, "the same"),
    # The deepest paths lead through a traced call. A trace is started by the socket's thread, whose calls have already
    # passed this point. No other path with this call comes within 300 bytes of the limit.
    ("profile::make_frame_index", "profile::read_description"): (560, "the program's own tables are read in place"),
    ("profile::make_frame_index", "os::map"): (440, "mappings of the unwinder are not traced"),
}
REPORT_MEMORY = ("profile::GrowArray", "profile::LocationTable", "os::map_report", "os::grow_report", "os::unmap_report")
NOT_TRACED = 440, "mappings for a report are not traced"
INNER_ENDS = {
    ("*", "start_helper"): (424, "returns at once"),
    ("thread_heap", "start_process"): (8, "the process has started"),
    ("thread_heap", "register_thread_exit"): (8, "the thread has a heap"),
    ("allocate_by_refill_or_sample", "register_thread_exit"): (8, "the same"),
    ("large_span", "register_thread_exit"): (8, "the same"),
    ("record_sample", "profile::record_alloc"): (0, "inner calls have no recorder"),
    ("record_sample", "check_dump_due"): (0, "the same"),
    ("record_growth", "profile::record_growth"): (0, "inner calls leave it to the outer one"),
    ("profile::record_free_stack", "profile::find_free_stack_by_walk"): (0, "inner calls have no recorder"),
    ("record_call", "call_stack"): (0, "not traced"),
    ("check_pressure", "heap::check_memory_pressure"): (0, "does not check"),
    ("LimitAttempt::handle_failure", "dump_at_limit"): (0, "NonFatalScope"),
    ("LimitAttempt::handle_failure", "fatal_text"): (0, "NonFatalScope"),
    ("LimitAttempt::handle_failure", "dump_after_failure"): (0, "NonFatalScope"),
}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Function:
    def __init__(self, name):
        self.name = name
        self.frame = 8        # at its deepest instruction, with the return address
        self.calls = []       # (depth at the call, address or "*symbol" or "*")


def short(name):
    """seemalloc::(anonymous namespace)::f(int) [clone .x] → f"""
    name = re.sub(r" \[clone [^]]*\]", "", name)
    name = name.replace("(anonymous namespace)::", "").replace("seemalloc::", "")
    name = re.sub(r"^[\w:<>,&* ]+ (?=[\w:~]+\()", "", name) if not name.startswith("operator") else name
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name and "operator" not in name:
        name = shorter
    return re.sub(r"\((?!\)::).*", "", name).replace("operator new", "operator.new").replace("operator delete", "operator.delete")


def frame_rows(library):
    """The sorted addresses where the distance from the stack pointer to the caller's changes, and the distance at each."""
    rows = {}
    for line in output("readelf", "--debug-dump=frames-interp", library).splitlines():
        if row := re.match(r"([0-9a-f]{16}) rsp\+(\d+) ", line):
            rows[int(row[1], 16)] = int(row[2])
        elif row := re.match(r"([0-9a-f]{16}) (\S+) +\S", line):
            rows[int(row[1], 16)] = row[2]  # a frame pointer or an expression
        elif entry := re.search(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", line):
            rows[int(entry[1], 16)] = 8
            rows.setdefault(int(entry[2], 16), None)
    return sorted(rows), rows


INSTRUCTION = re.compile(r"\s+([0-9a-f]+):\s+(?:(?:addr32|notrack|bnd|data16|cs|ds|rep|lock) )*(\S+)\s*(.*)$")


def read_code(library):
    """The library's functions by address. Parts that the compiler split off (.cold) belong to their function."""
    addresses, rows = frame_rows(library)

    def depth_at(pc):
        at = bisect.bisect_right(addresses, pc) - 1
        return rows[addresses[at]] if at >= 0 else None

    bodies, body = {}, None
    for line in output("objdump", "-d", "--no-show-raw-insn", library).splitlines():
        if head := re.match(r"([0-9a-f]+) <(.*)>:$", line):
            body = bodies[int(head[1], 16)] = (head[2], [])
        elif body and (found := INSTRUCTION.match(line)):
            body[1].append((int(found[1], 16), found[2], found[3]))
    starts = sorted(bodies)
    start_of = lambda pc: starts[bisect.bisect_right(starts, pc) - 1]
    names = [name for name, _ in bodies.values()]
    plain = dict(zip(names, subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True).stdout.splitlines()))
    functions = {}
    for start, (name, instructions) in bodies.items():
        function = functions[start] = Function(short(plain[name]))
        pushed = 0
        for pc, operation, argument in instructions:
            # With a frame pointer the tables do not give the end of the stack. Counted instead: the bytes that the
            # function pushes, and a cache line for alignment.
            if operation == "push":
                pushed += 8
            elif argument.endswith(",%rsp") and operation in ("sub", "and"):
                pushed += int(argument[3:-5], 16) if operation == "sub" and argument.startswith("$0x") else 64
            depth = depth_at(pc)
            depth = 8 if depth is None else 16 + pushed if isinstance(depth, str) else depth
            function.frame = max(function.frame, depth)
            if operation != "call" and not operation.startswith("j"):
                continue
            if target := re.match(r"([0-9a-f]+) <", argument):
                target = int(target[1], 16)
                inner = start_of(target)
                below = 0 if operation == "call" else depth_at(target)
                if operation == "call" or inner != start:
                    function.calls.append((depth - (below if isinstance(below, int) else 8), inner, operation == "call"))
            elif argument.startswith("*") and (operation == "call" or depth == 8):  # other jumps belong to a switch
                symbol = re.search(r"# [0-9a-f]+ <([^@+>]*)", argument)
                function.calls.append((depth - (0 if operation == "call" else 8), "*" + (symbol[1] if symbol else ""), True))
    # A cold part is entered by jumps from its function, at the depth that the function has there.
    homes = {}
    for start, (name, _) in bodies.items():
        if not name.endswith(".cold"):
            continue
        from_there = [other for other in functions if other != start and any(t == start for _, t, c in functions[other].calls if not c)]
        homes[start] = next((other for other in from_there if bodies[other][0] == name[:-5]), from_there[0] if from_there else start)
    for start, home in homes.items():
        functions[home].frame = max(functions[home].frame, functions[start].frame)
        functions[home].calls += functions[start].calls
    for start, function in functions.items():
        function.calls = [(depth, homes.get(target, target), call) for depth, target, call in function.calls
                          if call or homes.get(target, target) != start]
    return {start: function for start, function in functions.items() if homes.get(start, start) == start}


class Budget:
    def __init__(self, functions, ends, inner=None):
        self.functions, self.ends, self.inner = functions, ends, inner
        self.by_name = collections.defaultdict(list)
        for start, function in functions.items():
            self.by_name[function.name].append(start)
        self.known = {}
        self.problems = set()

    def targets(self, function, target):
        """Addresses of the functions that a call may reach; a negative number is the number of bytes that it needs."""
        if not isinstance(target, str):
            name = self.functions[target].name
            end = self.ends.get((function.name, name)) or self.ends.get(("*", name))
            if end is None and function.name.startswith(REPORT_MEMORY):
                end = NOT_TRACED if name in ("os::map", "os::remap", "os::unmap", "os::purge") else None
            return [target] if end is None else [-end[0]]
        symbol = target[1:]
        if symbol in ALLOCATE and self.inner is not None:
            return [-OUTSIDE[symbol]] + [(ALLOCATE[symbol], name) for name in ("malloc", "calloc", "free")]
        if symbol in OUTSIDE:
            return [-OUTSIDE[symbol]]
        names = POINTERS.get(function.name)
        if names is None:
            self.problems.add(f"{function.name} calls through a pointer ({symbol or 'in a register'}): POINTERS does not say where it goes")
            return []
        found = []
        for name in names:
            if isinstance(name, int):
                found.append(-name)
            elif isinstance(name, tuple) and self.inner is not None:
                found.append((0, name[1]))
            else:
                found += self.by_name[name[1] if isinstance(name, tuple) else name]
        return found

    def need(self, start, chain=()):
        """The bytes below the caller's stack pointer, and the chain of (name, depth)."""
        if start in self.known:
            return self.known[start]
        function = self.functions[start]
        if start in chain:
            names = [self.functions[link].name for link in chain[chain.index(start):]]
            self.problems.add("an endless chain, with no end in ENDS: " + " → ".join(names + [function.name]))
            return 0, []
        best = function.frame, [(function.name, function.frame)]
        for depth, target, _ in function.calls:
            for callee in self.targets(function, target):
                if isinstance(callee, tuple):  # a callback, from outside
                    below, links = max(self.inner.need(start) for start in self.by_name[callee[1]])
                    below, links = below + callee[0], [(target[1:], callee[0])] + links
                elif callee <= 0:
                    below, links = -callee, [(target[1:] if isinstance(target, str) else self.functions[target].name, -callee)]
                else:
                    below, links = self.need(callee, chain + (start,))
                if depth + below > best[0]:
                    best = depth + below, [(function.name, depth)] + links
        self.known[start] = best
        return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--limit", type=int, default=LIMIT)
    parser.add_argument("--entry", action="append", help="only this function")
    options = parser.parse_args()
    functions = read_code(options.library)
    budget = Budget(functions, ENDS, Budget(functions, ENDS | INNER_ENDS))
    found = [(budget.need(start), name) for name in options.entry or ENTRIES + CALLED_FROM_OUTSIDE for start in budget.by_name[name]]
    for (need, links), name in sorted(found, key=lambda one: -one[0][0]):
        print(f"{need:6} {name}" + ("" if need <= options.limit else f"   more than {options.limit}"))
    worst, links = max(found)[0]
    print("the deepest path:")
    for name, depth in links:
        print(f"{depth:6} {name}")
    for problem in sorted(budget.problems):
        print("not known:", problem)
    missing = [name for name in ("malloc", "free", "realloc") if not budget.by_name[name]]
    if missing:
        print("no such function:", *missing)
    sys.exit(1 if budget.problems or missing or worst > options.limit else 0)


if __name__ == "__main__":
    main()
