"""RocksDB under the load of YCSB (ycsb/ycsb.cc): 200 threads, records of 20 fields, half reads and half updates."""
import dataclasses
import functools
import subprocess

from harness import measure

from . import where_time_goes
from .process import Failed, expect
from .row import BUILDS, HERE, Row
from .switched import OFF, ON, WARM

THREADS, OPERATIONS = 200, 400_000
SLICE, PAIRS = 5_000, 900  # of a twelfth of a second: more pairs give a better estimate (switched.py)
PROGRAM = BUILDS / "ycsb"


@functools.cache
def prepare():
    """Builds it, if its source is newer."""
    source = HERE / "ycsb/ycsb.cc"
    if PROGRAM.exists() and PROGRAM.stat().st_mtime > source.stat().st_mtime:
        return None
    BUILDS.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["c++", "-std=c++20", "-O2", "-g", source, "-o", PROGRAM, "-lrocksdb", "-lpthread"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        first = (done.stdout.strip().splitlines() or ["the compiler printed nothing"])[0]
        return f"it does not build: {first} (Debian: librocksdb-dev)"
    return None


def once(run):
    figures, printed = run.measure([PROGRAM, run.folder / "db", THREADS, OPERATIONS])
    metrics = measure.metrics_of(printed)
    if "p99_us" not in metrics:
        raise Failed(f"it printed no latency:\n{printed[-1000:]}")
    return {**figures, "metrics": metrics}


def switched(run):
    """The program switches sampling itself, between slices."""
    figures, printed = run.measure([PROGRAM, run.folder / "db", THREADS, SLICE * (WARM + 2 * PAIRS), WARM, PAIRS, ON, OFF])
    slices = {ON: [], OFF: []}
    for words in (line.split() for line in printed.splitlines()):
        if words[0] == "slice":
            slices[words[1]].append({"operations_per_s": float(words[2]), "p99_us": float(words[3]), "cpu_us": float(words[4])})
    expect("the number of slices", [len(some) for some in slices.values()], [PAIRS, PAIRS])
    return {**figures, "slices": slices}


def sampled_by_perf(run):
    figures, _ = run.measure(where_time_goes.command(run, "--", PROGRAM, run.folder / "db", THREADS, OPERATIONS))
    return {**figures, "metrics": where_time_goes.shares(run)}


ROW = Row("RocksDB, YCSB A", 2, (("c++", "g++"),), once, prepare)
SWITCHED = dataclasses.replace(ROW, name="RocksDB, YCSB A, sampling on and off in turns", once=switched)
WHERE = where_time_goes.row(ROW, sampled_by_perf)
