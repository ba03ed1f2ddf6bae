"""What profiling costs, and how right its profiles are: which programs run on whom, and what their figures must show.

bench/run --profiling imports PROOFS; see proofs.py, which has the same form. The load is the same with and without a profiler;
peers run with theirs beside themselves without.
"""
import dataclasses
import json
import math
import subprocess

from catalog import Row, words
from harness import criteria, measure
from harness.allocators import OUT
from harness.session import PROGRAMS as WORKLOADS
from programs import process, redis, row, tokio, ycsb
from proofs import MIB, Column, Proof

TITLE = "What profiling costs, and how right its profiles are"
OPTION, FILE = "--profiling", "bench/profiling.py"

THROUGHPUT, P99 = 0.995, 1.01  # of sample:0
EVERYTHING_RECORDED = 0.8  # throughput, of sample:0
METADATA_PERCENT = 1
DUMP_MS, PAUSE_US = 500, 1000
STANDARD_ERRORS = 3
INTERVAL = 512 << 10

OURS, OFF, ALL = "seemalloc", "seemalloc sample 0", "seemalloc sample 1"
EVERYBODY = (OURS, "seemalloc again", OFF, ALL, "glibc", "glibc heaptrack", "jemalloc-debian", "jemalloc-debian prof",
             "gperftools-profiler", "gperftools-profiler sampling", "gperftools-profiler HEAPPROFILE")


@dataclasses.dataclass(frozen=True)
class ProgramRow:
    """A real program with what a row of the catalogue says of its runs."""
    real: row.Row
    subjects: tuple
    rounds: int | None = None

    @property
    def name(self):
        return self.real.name


def judge_load(name):
    def judge(figures):
        yield criteria.at_least(figures, (name, OURS), (name, OFF), rate_of(name), THROUGHPUT, "throughput, against sample:0")
        yield criteria.at_most(figures, (name, OURS), (name, OFF), "p99_us", P99, "P99, against sample:0")
        if name == TOKIO.name:
            yield criteria.at_least(figures, (name, ALL), (name, OFF), rate_of(name), EVERYTHING_RECORDED,
                                    "throughput with everything recorded (sample:1), against sample:0")
    return judge


def rate_of(name):
    return "operations_per_s" if name == YCSB.name else "requests_per_s"


REDIS = ProgramRow(redis.ROWS[0], EVERYBODY)
YCSB = ProgramRow(ycsb.ROW, EVERYBODY)
TOKIO = ProgramRow(tokio.ROWS[0], EVERYBODY)


# ---- how right ----

RUNS = 20


def deviations(truths, profile):
    """Of each function: by how many standard errors the estimate is off. A block of b bytes is sampled with p = 1 − exp(−b/interval)
    and counts b/p, so that n of them have the variance n·b²·(1−p)/p."""
    found = {function["name"]: function["cum"] for function in profile["functions"]}
    for name, total, block in truths:
        chance = -math.expm1(-block / INTERVAL)
        error = math.sqrt(total * block * (1 - chance) / chance)
        yield (found.get(name, 0) - total) / max(error, 0.001 * total)  # what is printed is rounded


def truths_of(printed):
    lines = [line.split() for line in printed.splitlines()]
    return [(line[1], int(line[2]), int(line[3])) for line in lines if line[:1] == ["truth"]]


def compare_with_truth(run):
    all_off, metadata, path = [], [], run.folder / "heap.pb"
    for _ in range(RUNS):
        figures, printed = run.measure([WORKLOADS / "known_truth", 1074, path])
        shown = subprocess.run([OUT / "bin/seemalloc", "top", path, "-n", "0", "--json"], capture_output=True, text=True, check=True)
        all_off += deviations(truths_of(printed), json.loads(shown.stdout))
        metadata.append(measure.metrics_of(printed)["metadata_percent"])
    if not all_off:
        raise process.Failed("known_truth printed no truth")
    off = sorted(map(abs, all_off))
    return {**figures, "metrics": {"estimates": len(off), "worst_errors": off[-1], "mean_errors": sum(all_off) / len(off),
                                   "within_three_percent": 100 * sum(one <= STANDARD_ERRORS for one in off) / len(off),
                                   "metadata_percent": max(metadata)}}


def built():
    missing = [path for path in (WORKLOADS / "known_truth", OUT / "bin/seemalloc") if not path.exists()]
    return f"not built: {missing[0]}" if missing else None


TRUTH = ProgramRow(row.Row("1 GiB held by eight functions, 20 times", 1, (), compare_with_truth, built), (OURS,), rounds=1)
STACKS = Row("100,000 stacks", "profiling", "many_stacks", words(100_000, 5), 2, time=None, memory=None, pinned=False, subjects=(ALL,))


def judge_truth(figures):
    yield criteria.below(figures, TRUTH.name, OURS, "worst_errors", STANDARD_ERRORS,
                         f"the worst of {RUNS * 8} estimates, in standard errors")
    yield criteria.below(figures, TRUTH.name, OURS, "metadata_percent", METADATA_PERCENT, "records, % of what is held")


def judge_stacks(figures):
    yield criteria.below(figures, STACKS.name, ALL, "dump_ms", DUMP_MS, "time to write the profile, ms")
    yield criteria.below(figures, STACKS.name, ALL, "longest_pause_us", PAUSE_US, "longest pause of another thread meanwhile, µs")


LOAD_COLUMNS = (Column("P99, µs", "p99_us"), Column("CPU, s", "cpu_s"), Column("peak, MB", "peak_mb"))
LOAD_CRITERION = f"With sampling at 512 KiB, which is the default, at least {THROUGHPUT} × the throughput without, and at most {P99} × its P99."

PROOFS = [
    Proof("redis", "Redis", "One thread, values of 1 KiB, 50 pipelining clients; four kinds of requests one after the other.",
          LOAD_CRITERION, [REDIS], (Column("requests/s", "requests_per_s"), *LOAD_COLUMNS), judge_load(REDIS.name), "dots",
          (("requests/s", "requests_per_s", 1), ("P99, ms", "p99_us", 1e-3), ("CPU, s", "cpu_s", 1))),
    Proof("ycsb", "RocksDB under YCSB's load",
          "200 threads, records of 20 fields of 100 bytes, half reads, half updates of one field; each record is taken apart into a map.",
          LOAD_CRITERION, [YCSB], (Column("operations/s", "operations_per_s"), *LOAD_COLUMNS), judge_load(YCSB.name), "dots",
          (("operations/s", "operations_per_s", 1), ("P99, ms", "p99_us", 1e-3), ("CPU, s", "cpu_s", 1))),
    Proof("tokio", "An HTTP service in Rust",
          "tokio on two threads, 64 connections, values of up to 8 KiB that are stored, read, and reported on.",
          f"{LOAD_CRITERION} With everything recorded at least {EVERYTHING_RECORDED} × the throughput without.",
          [TOKIO], (Column("requests/s", "requests_per_s"), *LOAD_COLUMNS), judge_load(TOKIO.name), "dots",
          (("requests/s", "requests_per_s", 1), ("P99, ms", "p99_us", 1e-3), ("CPU, s", "cpu_s", 1))),
    Proof("truth", "How right a profile is",
          "Eight functions hold known shares of 1 GiB, 5 % to 30 %, in blocks of 64 bytes to 3 MB; a profile is written and read by "
          "`seemalloc top`. Of 160 estimates that are right on average, one in two such measurements has one that is off by more than "
          "three standard errors by chance.",
          f"Each function within {STANDARD_ERRORS} standard errors of what it holds; our own records at most {METADATA_PERCENT} % of the heap.",
          [TRUTH],
          (Column("estimates", "estimates"), Column("worst, standard errors", "worst_errors"), Column("mean", "mean_errors"),
           Column("within three, %", "within_three_percent"), Column("records, %", "metadata_percent"), Column("peak, MB", "peak_mb")),
          judge_truth),
    Proof("stacks", "A profile of 100,000 stacks",
          "Every allocation is recorded, each with another stack; five profiles are written while another thread allocates and frees.",
          f"Written in {DUMP_MS} ms, and nobody stopped for longer than {PAUSE_US / 1000:g} ms.",
          [STACKS],
          (Column("to write one, ms", "dump_ms"), Column("longest pause meanwhile, µs", "longest_pause_us"),
           Column("without, µs", "longest_pause_without_us"), Column("peak, MiB", "peak_kib", MIB)),
          judge_stacks),
]
ROWS = [row for proof in PROOFS for row in proof.rows]
