"""A program sampled by perf: the share of its time that sampling takes. Measures it to a few hundredths of a percent in
seconds, on a machine whose speed changes by a tenth from one half second to the next, where a few per mille of
throughput take hours.

Not counted in instructions (callgrind): its clock is fifty times slower than the program's, and the recorder remembers
stacks only while samples follow each other fast (docs/decisions/0051). Not included: the effect of sampling on the
caches of other code, and the kernel's part.
"""
import contextlib
import dataclasses
import pathlib
import re
import signal
import subprocess
import time

from .process import Failed

EVERY_HZ = 9_999
BEGINS_S = 0.3  # until perf records
# All code that runs for sampled blocks only: deciding, finding a slot for the block, recording it, and freeing it.
SAMPLING = re.compile(r"seemalloc::(profile::|record_sample|\(anonymous namespace\)::(free_)?sampled_block|heap::(\(anonymous namespace\)::)?\w*(sample|_home))")
OURS = re.compile(r"libseemalloc\w*\.so")
LINE = re.compile(r"\s*(\d+\.\d+)%\s+(\S+)\s+\[(.)\]\s+(.+?)(?:\s+-)*\s*$")  # some versions print empty columns at the end


def row(real, once):
    return dataclasses.replace(real, name=f"{real.name}, where its time goes", needs=(*real.needs, ("perf", "linux-perf")), once=once)


def path(run):
    return pathlib.Path(run.folder) / "perf.data"


def recording(data, *words):
    return ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(EVERY_HZ), "-o", data, *words]


def command(run, *words):
    return recording(path(run), *words)


@contextlib.contextmanager
def watching(run, server):
    """Samples a server to the end of the `with`."""
    with open(path(run).with_suffix(".said"), "w") as said:
        perf = subprocess.Popen([str(word) for word in command(run, "-p", server.pid)], stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    time.sleep(BEGINS_S)
    try:
        yield
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()


def samples_in(report):
    """Parses the output of perf report: (percent, file, whether in the kernel, function), the largest first."""
    return [(float(found[1]), found[2], found[3] == "k", found[4]) for found in map(LINE.match, report.splitlines()) if found]


def report_of(data, percent_limit):
    done = subprocess.run(["perf", "report", "-i", data, "--stdio", "--sort", "dso,symbol", "--percent-limit", str(percent_limit)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"perf report: {done.stderr.strip()}")
    return done.stdout


def shares_in(report):
    """The same, as metrics."""
    ours = [(percent, name) for percent, file, _, name in samples_in(report) if OURS.fullmatch(file)]
    if not any(name == "malloc" for _, name in ours):
        raise Failed("perf saw no malloc of ours: another allocator has run, or there are no symbols")
    return {"allocator_percent": sum(percent for percent, _ in ours), "sampling_percent": sum(percent for percent, name in ours if SAMPLING.match(name))}


def shares(run):
    """Of the run that has ended."""
    return shares_in(report_of(path(run), 0))
