"""The public allocator benchmarks as rows: mimalloc-bench's programs and t-test1. bench/run --public FOLDER imports
rows_in().

None of them is part of this repository. FOLDER is a checkout of github.com/daanx/mimalloc-bench built by its own
script (programs in out/bench), with t-test1 of ptmalloc3 (www.malloc.de) added. Arguments are those of
mimalloc-bench's bench.sh; N is the number of CPUs. For a program that works for a fixed time and prints a rate, the
time is that for a million operations.
"""
import dataclasses
import os
import pathlib
import re

from harness import measure
from harness.session import PROGRAMS

ALONE = PROGRAMS / "alone"  # harness/alone.c
N = len(os.sched_getaffinity(0))
RATES = {  # from the program's output: the figure, and the seconds for a million operations
    "larson": (r"Throughput = +(\d+)", lambda rate: 1e6 / rate),
    "larson-sized": (r"Throughput = +(\d+)", lambda rate: 1e6 / rate),
    "xmalloc-test": (r"free/sec: ([\d.]+) M", lambda rate: 1 / rate),
    "glibc-thread": (r"^(\d+) iterations$", lambda count: 2e6 / count),  # in two seconds
}


def lines(n):
    """name, threads, words of the command; the first is the program."""
    yield "cfrac", 1, "cfrac 17545186520507317056371138836327483792789528"
    yield "espresso", 1, "espresso {bench}/espresso/largest.espresso"
    yield "barnes", 1, "barnes"
    yield "larsonN", n, f"larson 5 8 1000 5000 100 4141 {n}"
    yield "larsonN-sized", n, f"larson-sized 5 8 1000 5000 100 4141 {n}"
    yield "alloc-test1", 1, "alloc-test 1"
    yield "alloc-testN", n, f"alloc-test {n}"
    yield "xmalloc-testN", n, f"xmalloc-test -w {n} -t 5 -s 64"
    yield "mstressN", n, f"mstress {n} 50 25"
    yield "rptestN", n, f"rptest {n} 0 1 2 500 1000 100 8 16000"
    yield "glibc-simple", 1, "glibc-simple"
    yield "glibc-thread", n, f"glibc-thread {n}"
    yield "t-test1", n, f"t-test1 1000 {n} 10000 10000 400"
    yield "cache-scratch1", 1, f"cache-scratch 1 1000 1 2000000 {n}"
    yield "cache-scratchN", n, f"cache-scratch {n} 1000 1 2000000 {n}"
    yield "cache-thrash1", 1, f"cache-thrash 1 1000 1 2000000 {n}"
    yield "cache-thrashN", n, f"cache-thrash {n} 1000 1 2000000 {n}"
    yield "malloc-large", 1, "malloc-large"


INPUTS = {"barnes": "barnes/input"}  # read from standard input


@dataclasses.dataclass(frozen=True)
class Row:
    """The part of session.Program that a program must implement."""
    name: str
    threads: int
    folder: pathlib.Path  # of the programs
    command: list[str]
    input: pathlib.Path
    group: str = "public"

    @property
    def time(self):
        return "seconds_per_million" if self.program in RATES else "wall_s"

    def available(self):
        """The reason why it cannot run here; None when it can."""
        missing = [path for path in (ALONE, self.folder / self.program, self.input) if not path.exists()]
        return f"no {missing[0]}" if missing else None

    def figures_in(self, printed):
        peak = re.search(r"^alone: peak_kib (\d+)$", printed, re.M)
        if peak is None:
            raise measure.Failed("the program's peak is missing")
        found = {"peak_kib": float(peak[1])}
        if self.program in RATES:
            pattern, seconds = RATES[self.program]
            rate = re.search(pattern, printed, re.M)
            if rate is None:
                raise measure.Failed(f"no rate in what it printed: {printed.strip()[-200:]}")
            found["seconds_per_million"] = seconds(float(rate[1]))
        return found

    @property
    def program(self):
        return self.command[0]

    def started(self, environment):
        """(words, environment) that start it on the allocator of that environment."""
        clean = {key: value for key, value in environment.items() if key != "LD_PRELOAD"}
        words = [ALONE, environment.get("LD_PRELOAD", ""), self.folder, self.input, f"./{self.program}", *self.command[1:]]
        return [str(word) for word in words], clean

    def run(self, environment, limit_s):
        words, clean = self.started(environment)
        return measure.run_once(words, clean, limit_s, self.figures_in)


def rows_in(checkout, n=N):
    checkout = pathlib.Path(checkout).resolve()
    bench = checkout / "bench"
    return [Row(name, threads, checkout / "out/bench", [word.format(bench=bench) for word in command.split()],
                bench / INPUTS[name] if name in INPUTS else pathlib.Path(os.devnull))
            for name, threads, command in lines(n)]
