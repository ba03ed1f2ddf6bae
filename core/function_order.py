#!/usr/bin/env python3
"""Writes core/function_order.txt: the order of the library's functions in memory.

  core/function_order.py LIBRARY WORKLOADS     LIBRARY: out/lib/libseemalloc.so; WORKLOADS: the folder with the benchmarks' programs
  core/function_order.py --check LIBRARY       checks the order, and that malloc and free start at a cache line: exit 1 if not

The kernel maps the pages of a file in groups of 64 KiB, and all of them count as memory of the process. So the functions that every
process runs come first, then those that most programs run when their heaps grow, are sampled and purged. All others follow in the
order of the linker. callgrind finds the functions in a few short runs. The file may be out of date: functions that no longer exist
match nothing, and new ones are placed with the others.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

TARGET = pathlib.Path(__file__).with_suffix(".txt")
# The first represents every process.
RUNS = ("trivial", "ttest 4 8192 200000 10", "random_replace 2 10000 1000000", "producer_consumer 1 300000 1024",
        "server 4 2000 400000 10", "large_blocks 10 200", "string_sort 1 200000", "vector_growth 4096 300", "short_threads 200 2 200",
        "calloc_fresh_reused 0 1 50")
# Code of the compiler and the C library, a few hundred bytes. core/CMakeLists.txt inserts these lines into a linker script.
HEAD = """    /* Written by core/function_order.py: the functions that every process runs, then those that most programs run. */
    *(.text.startup .text.startup.* .text.exit .text.exit.*)
    *crtbegin*.o(.text .text.*)
    *libgcc.a:*(.text .text.*)
    *libc_nonshared.a:*(.text .text.*)
"""


def run(*command, **more):
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def functions_that_ran(library, command, folder, options):
    """Mangled names of the library's functions that the command ran."""
    counts = pathlib.Path(folder, "callgrind.out")
    run("valgrind", "--tool=callgrind", "--soname-synonyms=somalloc=nouserintercepts", "--demangle=no", f"--callgrind-out-file={counts}",
        *command, env={"LD_PRELOAD": str(library), "PATH": "/usr/bin:/bin", "SEEMALLOC_CONF": options}, stderr=subprocess.DEVNULL)
    names = set()
    for line in run("callgrind_annotate", "--threshold=100", counts).splitlines():
        found = re.match(r"\s*[\d,]+ \(.*?\)\s+\S*?:([^0\s]\S*) \[.*" + re.escape(library.name) + r"\]$", line)
        if found:
            names.add(found[1].split("'")[0])  # 'N: recursion
    counts.unlink()
    return names


def check(library):
    names = set(re.findall(r"\(\.text\.(_?\w+)\)", TARGET.read_text()))
    functions = [(int(at, 16), int(size, 16), name) for at, size, name in re.findall(r"^(\w+) (\w+) [tT] (\S+)$", run("nm", "-S", library), re.M)]
    for at, _, name in functions:
        if name in ("malloc", "free") and at % 64 != 0:
            sys.exit(f"function_order.py: {library}: {name} begins at {at:#x}, within a cache line")
    places = [(at, size) for at, size, name in functions if name in names]
    if len(places) < len(names) / 2:
        sys.exit(f"function_order.py: {library}: has {len(places)} of {len(names)} functions")
    extent, used = max(at + size for at, size in places) - min(places)[0], sum(size for _, size in places)
    print(f"{library}: {len(places)} functions of {used} bytes within {extent}")
    if extent > 1.5 * used:
        sys.exit("function_order.py: they are too far apart")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--check":
        return check(sys.argv[2])
    library, workloads = map(lambda path: pathlib.Path(path).resolve(), sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        # Every process draws sampling points, but only one in ten processes of this size takes a sample.
        ran = [functions_that_ran(library, [workloads / words.split()[0], *words.split()[1:]], folder,
                                  "sample:1G" if words is RUNS[0] else "sample:512K") for words in RUNS]
    if not ran[0]:
        sys.exit(f"function_order.py: {library}: no function of it ran")
    every, most = ran[0], {}
    for names in ran[1:]:
        for name in names - every:
            most[name] = most.get(name, 0) + 1
    # The compiler numbers parts of functions (.constprop.0) arbitrarily.
    order = dict.fromkeys(re.sub(r"\.\d+(?=\.|$)", ".*", name)
                          for name in [*sorted(every), *sorted(most, key=lambda name: (-most[name], name))])
    TARGET.write_text(HEAD + "".join(f"    *(.text.{name})\n" for name in order))
    print(f"{TARGET}: {len(every)} functions that every process runs, {len(most)} others")


main()
