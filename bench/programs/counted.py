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

# All that is done for a sampled block and for no other, when it is allocated and when it is freed (core/api/).
ALLOCATING, FREEING = "seemalloc::record_sample(", "seemalloc::(anonymous namespace)::free_sampled_block("
LINE = re.compile(r"\s*([\d,]+) \([^)]*\)  (?:\S+?:)?(.+)")


def row(real, once):
    return dataclasses.replace(real, name=f"{real.name}, instructions counted", needs=(*real.needs, ("valgrind", "valgrind")), once=once)


def command(run, *words):
    return ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={path(run)}", *words]


def path(run):
    return pathlib.Path(run.folder) / "callgrind.out"


def shares(run):
    """Of the run that has ended, as metrics."""
    done = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", path(run)], capture_output=True, text=True)
    counts = {}
    for line in done.stdout.splitlines():
        if found := LINE.match(line):
            count, name = int(found[1].replace(",", "")), found[2]
            counts[name] = max(count, counts.get(name, 0))

    def of(start):
        some = [count for name, count in counts.items() if name.startswith(start)]
        if not some:
            raise Failed(f"callgrind saw no {start}…): {done.stderr.strip() or 'nothing was sampled, or it has another name now'}")
        return max(some)

    everything = of("PROGRAM TOTALS")
    return {"instructions_m": everything / 1e6, "sampling_percent": 100 * (of(ALLOCATING) + of(FREEING)) / everything}
