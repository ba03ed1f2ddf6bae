#!/usr/bin/env python3
"""Checks from the machine code of a built library (x86-64) which functions of the C library the helper thread may call.

  tests/abi/helper_calls.py LIBRARY                lists the functions, each with the shortest chain of calls to it; exit
                                                   status 1 if one of them is not allowed
  tests/abi/helper_calls.py LIBRARY --from NAME    lists the functions that function NAME may call

The C library does not know of this thread (core/os/runtime/bare_thread.h): its locks may not be atomic, and the thread
has no thread-local memory of other libraries. The script follows calls and jumps, addresses of functions that code
takes, and tables of functions whose address it takes. So it finds more than can happen. It does not follow pointers that
another thread has stored: HOOKS names their targets.
"""
import argparse
import bisect
import collections
import re
import subprocess
import sys

# The allowed functions, with the reason why each does no harm.
ALLOWED = {
    "__errno_location": "a distance from the thread pointer: errno is there (core/os/runtime/bare_thread.cc)",
    "environ __libc_stack_end __libc_single_threaded": "data",
    "Py_Version PyBytes_Type PyCode_Type PyUnicode_Type _PyRuntime": "data of the interpreter's",
    "PyGILState_GetThisThreadState": "its address alone; the helper does not call it (active_python)",
    "getauxval": "only without glibc's dynamic linker, where no library is in front (core/os/kernel/auxiliary_vector.cc)",
    "_dl_find_object": "only in static programs; otherwise glibc's own, by its address (core/profile/code/modules.cc)",
}
# Functions that the helper thread calls through variables in which other threads store them.
HOOKS = ["on_slow_free_in_child", "detach_heap_before_abort", "record_call", "draw", "warn", "write_gperftools_text", "write_jemalloc_text"]
# A test of the script itself: calls that it must find, in libraries that have the function.
KNOWN = {"dlclose": {"dlsym", "dl_iterate_phdr"}, "library_loaded": {"__register_atfork", "dlsym"}}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def short(name):
    """seemalloc::(anonymous namespace)::f(int) [clone .x] → f"""
    name = re.sub(r" \[clone [^]]*\]", "", name).replace("(anonymous namespace)::", "").replace("seemalloc::", "")
    return re.sub(r"\(.*", "", name)


class Library:
    def __init__(self, path):
        self.sections = {}
        for line in output("readelf", "-SW", path).splitlines():
            if row := re.match(r"\s+\[\s*\d+\] (\S+)\s+\S+\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", line):
                self.sections[row[1]] = range(int(row[2], 16), int(row[2], 16) + int(row[3], 16))
        self.sections.pop(".tbss", None)  # takes no addresses
        self._read_code(path)
        self._read_data(path)

    def _read_code(self, path):
        self.names, self.mentions, function = {}, collections.defaultdict(set), None
        for line in output("objdump", "-dC", "--no-show-raw-insn", path).splitlines():
            if head := re.match(r"([0-9a-f]+) <(.*)>:$", line):
                function = int(head[1], 16)
                self.names[function] = short(head[2])
            else:
                self.mentions[function].update(int(at, 16) for at in re.findall(r"(?:# |\s)([0-9a-f]+) <", line))
        self.starts = sorted(self.names)

    def _read_data(self, path):
        self.imports, self.tables = {}, collections.defaultdict(set)
        objects = sorted((int(at, 16), int(size, 16)) for at, size, kind in
                         re.findall(r"^([0-9a-f]+) ([0-9a-f]+) ([dDrRbBvVuw]) ", output("nm", "-S", path), re.M))
        self.objects = objects
        for line in output("readelf", "-rW", path).splitlines():
            words = line.split()
            if len(words) < 4 or not words[2].startswith("R_X86_64_"):
                continue
            at = int(words[0], 16)
            if words[2] in ("R_X86_64_GLOB_DAT", "R_X86_64_JUMP_SLOT"):
                self.imports[at] = words[4].partition("@")[0]
            elif words[2] == "R_X86_64_RELATIVE" and int(words[3], 16) in self.names:
                self.tables[self._object_of(at)].add(int(words[3], 16))
            elif words[2] == "R_X86_64_64":
                self.tables[self._object_of(at)].update(start for start, name in self.names.items() if name == words[4].partition("@")[0])

    def _object_of(self, at):
        """The start of the variable at the address, or the address itself."""
        place = bisect.bisect_right(self.objects, (at, sys.maxsize)) - 1
        start, size = self.objects[place] if place >= 0 else (at, 0)
        return start if start <= at < start + size else at

    def _function_of(self, at):
        return self.starts[bisect.bisect_right(self.starts, at) - 1] if at >= self.starts[0] and self._is_code(at) else None

    def _is_code(self, at):
        return any(at in self.sections.get(name, ()) for name in (".text", ".plt", ".plt.got", ".init", ".fini"))

    def called_from(self, roots):
        """Imported name → the chain of functions that leads to it."""
        todo = collections.deque(start for start, name in self.names.items() if name in roots)
        callers, found = dict.fromkeys(todo), {}
        while todo:
            function = todo.popleft()
            for at in self.mentions[function]:
                if at in self.imports:
                    found.setdefault(self.imports[at], self._chain(callers, function))
                    continue
                code = self._function_of(at)
                for callee in [code] if code is not None else self.tables.get(self._object_of(at), ()):
                    if callee not in callers:
                        callers[callee] = function
                        todo.append(callee)
        return found, len(callers)

    def _chain(self, callers, function):
        names = []
        while function is not None:
            names.append(self.names[function])
            function = callers[function]
        return " → ".join(reversed(names))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--from", dest="entry", help="only this function")
    options = parser.parse_args()
    library = Library(options.library)
    found, functions = library.called_from([options.entry] if options.entry else ["run_helper", *HOOKS])
    for name, chain in sorted(found.items()):
        print(f"{name}: {chain}")
    if options.entry:
        return 0
    print(f"{functions} of {len(library.names)} functions")
    allowed = {name for names in ALLOWED for name in names.split()}
    problems = [f"not allowed: {name}, by {chain}" for name, chain in found.items() if name not in allowed]
    if functions < 300:
        problems.append("the helper does more than that: calls are not found")
    for function, known in KNOWN.items():
        if function in library.names.values() and not known <= set(library.called_from([function])[0]):
            problems.append(f"the check is blind: {function} calls {', '.join(known)}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
