"""RocksDB: its own db_bench with two threads: random writes, flushes and compactions, reads, scans of the written data."""
import re

from .process import Failed
from .row import Row

TESTS = ("fillrandom", "readrandom", "seekrandom", "overwrite")
THREADS, KEYS, BYTES = 2, 100_000, 400


def once(run):
    figures, printed = run.measure([
        "db_bench", f"--benchmarks={','.join(TESTS)}", f"--db={run.folder / 'db'}", f"--num={KEYS}", f"--value_size={BYTES}",
        f"--threads={THREADS}", "--seed=1", "--compression_type=none", f"--cache_size={64 << 20}", "--cache_numshardbits=4",
        f"--write_buffer_size={8 << 20}", f"--reads={KEYS // 2}", "--seek_nexts=10", "--disable_wal=1", "--histogram=0"])
    # "fillrandom   :       2.345 micros/op 426400 ops/sec 0.938 seconds 400000 operations;  167.5 MB/s"
    rates = dict(re.findall(r"^(\w+) +: .* (\d+) ops/sec", printed, re.M))
    if set(rates) != set(TESTS):
        raise Failed(f"db_bench printed no rate of some test:\n{printed[-2000:]}")
    return {**figures, "metrics": {f"{test}_per_s": float(rate) for test, rate in rates.items()}}


ROWS = [Row("RocksDB", THREADS, (("db_bench", "rocksdb-tools"),), once)]
