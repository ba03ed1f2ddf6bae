"""RocksDB under the load of YCSB (ycsb/ycsb.cc): 200 threads, records of 20 fields, half reads and half updates."""
import functools
import subprocess

from harness import measure

from .process import Failed
from .row import BUILDS, HERE, Row

THREADS, OPERATIONS = 200, 400_000
PROGRAM = BUILDS / "ycsb"


@functools.cache
def prepare():
    """Builds it, where it is not newer than its source."""
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


ROW = Row("RocksDB, YCSB A", 2, (("c++", "g++"),), once, prepare)
