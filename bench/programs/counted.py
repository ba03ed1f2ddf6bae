"""A program under callgrind: which share of its instructions sampling takes. That is the same on a machine whose speed changes by a tenth from
one half second to the next, where a few per mille of throughput take hours to be told.

Not in it: what sampling does to caches, and the kernel's part. In it: unwinding each stack for the first time, which a longer run
does not do more often.
"""
import dataclasses
import pathlib
import re
import subprocess

from .process import Failed

# All that is done for a sampled block and for no other: finding it a place, recording it, and freeing it (core/heap/sampled.cc, core/api/).
SAMPLING = ("seemalloc::heap::allocate_sampled(", "seemalloc::record_sample(", "seemalloc::(anonymous namespace)::free_sampled_block(")
LINE = re.compile(r"\s*([\d,]+) \([^)]*\)  (?:\S+?:)?(.+)")


def row(real, once):
    return dataclasses.replace(real, name=f"{real.name}, instructions counted", needs=(*real.needs, ("valgrind", "valgrind")), once=once)


def command(run, *words):
    return ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={path(run)}", *words]


def path(run):
    return pathlib.Path(run.folder) / "callgrind.out"


def shares_in(annotated):
    """Of what callgrind_annotate --inclusive=yes prints, as metrics. An inlined function has a line for each file: the largest is the whole one's."""
    counts = {}
    for line in annotated.splitlines():
        if found := LINE.match(line):
            count, name = int(found[1].replace(",", "")), found[2]
            counts[name] = max(count, counts.get(name, 0))

    def of(start):
        some = [count for name, count in counts.items() if name.startswith(start)]
        if not some:
            raise Failed(f"callgrind saw no {start}…): nothing was sampled, or it has another name now")
        return max(some)

    everything = of("PROGRAM TOTALS")
    return {"instructions_m": everything / 1e6, "sampling_percent": 100 * sum(map(of, SAMPLING)) / everything}


def shares(run):
    """Of the run that has ended."""
    done = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", path(run)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"callgrind_annotate: {done.stderr.strip()}")
    return shares_in(done.stdout)
