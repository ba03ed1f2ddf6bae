"""The cost of profiling, and the accuracy of profiles: which programs run on which allocators, and the criteria for their
figures.

bench/run --profiling imports PROOFS; see proofs.py, which has the same form. The load is the same with and without a
profiler; peers with their profilers are compared with the same peers without. The cost of seemalloc's sampling is
measured within one process.
"""
import collections
import dataclasses
import json
import math
import subprocess

from catalog import Row, words
from harness import criteria, measure
from harness.allocators import OUT
from harness.session import PROGRAMS as WORKLOADS
from programs import process, redis, row, tokio, ycsb
from programs.switched import EVERYTHING, OFF, ON
from proofs import MIB, Column, Proof

TITLE = "The cost of profiling, and the accuracy of profiles"
OPTION, FILE = "--profiling", "bench/profiling.py"

THROUGHPUT, P99 = 0.99, 1.01  # relative to sample:0
TIME_PERCENT = 1  # the same, where the machine is too restless to measure the throughput
EVERYTHING_RECORDED = 0.8  # throughput, relative to sample:0
METADATA_PERCENT = 1
DUMP_MS, PAUSE_US = 500, 1000
STANDARD_ERRORS = 3
INTERVAL = 512 << 10

OURS, UNSAMPLED, ALL = "seemalloc", "seemalloc sample 0", "seemalloc sample 1"
EVERYBODY = (OURS, UNSAMPLED, ALL, "glibc", "glibc heaptrack", "jemalloc-debian", "jemalloc-debian prof",
             "gperftools-profiler", "gperftools-profiler sampling", "gperftools-profiler HEAPPROFILE")
SLOW = ("glibc heaptrack", "gperftools-profiler HEAPPROFILE")


@dataclasses.dataclass(frozen=True)
class ProgramRow:
    """A real program with the attributes of its runs that a row of the catalogue has."""
    real: row.Row
    subjects: tuple
    rounds: int | None = None
    once: tuple = ()
    turns: int = 1
    time: str | None = "wall_s"  # None: a disturbed run is not repeated

    @property
    def name(self):
        return self.real.name


@dataclasses.dataclass(frozen=True)
class Load:
    """A program on all allocators, and again on seemalloc alone, where sampling is switched on and off while it runs: two
    processes differ by more than 0.5 %."""
    rate: str  # the metric
    everybody: ProgramRow
    switched: ProgramRow
    where: ProgramRow
    recorded: ProgramRow | None = None  # switched between recording everything and nothing
    briefly: ProgramRow | None = None  # switched more often, for the throughput; the driver reports no P99 for such short times

    @property
    def rows(self):
        return [self.everybody, *filter(None, (self.briefly,)), self.switched, self.where, *filter(None, (self.recorded,))]

    def judge(self, figures):
        rated = self.briefly or self.switched
        yield criteria.sliced(figures, (rated.name, OURS), (ON, OFF), self.rate, THROUGHPUT, "at least", "throughput, against sample:0")
        yield criteria.sliced(figures, (self.switched.name, OURS), (ON, OFF), "p99_us", P99, "at most", "P99, against sample:0")
        yield criteria.below(figures, self.where.name, OURS, "sampling_percent", TIME_PERCENT, "sampling's share of its processor time, %")

    def judge_all_recorded(self, figures):
        yield from self.judge(figures)
        yield criteria.sliced(figures, (self.recorded.name, OURS), (EVERYTHING, OFF), self.rate, EVERYTHING_RECORDED, "at least",
                              "throughput with everything recorded (sample:1), against sample:0")


def load(real, switched, where, rate="requests_per_s", recorded=None, briefly=None, rounds=None):
    """rounds: of the switched row; one round has enough pairs."""
    def alone(real, **how):
        return ProgramRow(real, (OURS,), time=None, **how)
    return Load(rate, ProgramRow(real, EVERYBODY, once=SLOW), alone(switched, rounds=rounds), alone(where, rounds=1), recorded and alone(recorded),
                briefly and alone(briefly, rounds=1))


REDIS = load(redis.ROWS[0], redis.SWITCHED, redis.WHERE, briefly=redis.BRIEFLY)
YCSB = load(ycsb.ROW, ycsb.SWITCHED, ycsb.WHERE, "operations_per_s", rounds=1)


def service(of):
    real, switched, recorded, where = of.rows()
    return load(real, switched, where, recorded=recorded)


TOKIO, MINI_REDIS = service(tokio.HTTP), service(tokio.MINI_REDIS)
RATES = {of.everybody.name: of.rate for of in (REDIS, YCSB, TOKIO, MINI_REDIS)}


# ---- accuracy ----

RUNS = 20
# With this many blocks without a sample a function's estimate is normally distributed. With fewer expected it jumps by
# whole blocks: then those are counted.
FEW = 10
WITHIN_PERCENT = 98  # of the estimates; 99.7 are expected
# Of the 360 blocks of 3 MB in all runs 1.2 are expected to have no sample; more than this happens in one of 600
# measurements.
MISSED_BLOCKS = 5


def chance(block):
    """The probability that a block of this size is sampled."""
    return -math.expm1(-block / INTERVAL)


def estimates(profile):
    return {function["name"]: function["cum"] for function in profile["functions"]}


def without_a_sample(total, block):
    """The expected number of blocks without a sample."""
    return total / block * (1 - chance(block))


def deviations(truths, profile):
    """For each function: its name, and the deviation of the estimate in standard errors. A block of b bytes is sampled
    with p = 1 − exp(−b/interval) and counts b/p, so that n of them have the variance n·b²·(1−p)/p."""
    found = estimates(profile)
    for name, total, block in truths:
        if without_a_sample(total, block) < FEW:
            continue
        error = math.sqrt(total * block * (1 - chance(block)) / chance(block))
        yield name, (found.get(name, 0) - total) / max(error, 0.001 * total)  # the printed figure is rounded


def missed_blocks(truths, profile):
    """The number of blocks missing, or in excess, in the other functions."""
    found = estimates(profile)
    return sum(abs(round((total - found.get(name, 0) * chance(block)) / block))
               for name, total, block in truths if without_a_sample(total, block) < FEW)


def truths_of(printed):
    lines = [line.split() for line in printed.splitlines()]
    return [(line[1], int(line[2]), int(line[3])) for line in lines if line[:1] == ["truth"]]


def summary(compared):
    """Of (truths, profile) pairs, one for each run."""
    of_function = collections.defaultdict(list)
    for truths, profile in compared:
        for name, errors in deviations(truths, profile):
            of_function[name].append(errors)
    if not of_function:
        raise process.Failed("known_truth printed no truth")
    every = [errors for some in of_function.values() for errors in some]
    off = sorted(map(abs, every))
    return {"estimates": len(off), "beyond_three": sum(one > STANDARD_ERRORS for one in off), "worst_errors": off[-1], "mean_errors": sum(every) / len(off),
            "bias_errors": max(abs(sum(some)) / math.sqrt(len(some)) for some in of_function.values()),
            "within_three_percent": 100 * sum(one <= STANDARD_ERRORS for one in off) / len(off),
            "missed_blocks": sum(missed_blocks(truths, profile) for truths, profile in compared)}


def compare_with_truth(run):
    compared, metadata, path = [], [], run.folder / "heap.pb"
    for _ in range(RUNS):
        figures, printed = run.measure([WORKLOADS / "known_truth", 1074, path])
        shown = subprocess.run([OUT / "bin/seemalloc", "top", path, "-n", "0", "--json"], capture_output=True, text=True, check=True)
        compared.append((truths_of(printed), json.loads(shown.stdout)))
        metadata.append(measure.metrics_of(printed)["metadata_percent"])
    return {**figures, "metrics": {**summary(compared), "metadata_percent": max(metadata)}}


def built():
    missing = [path for path in (WORKLOADS / "known_truth", OUT / "bin/seemalloc") if not path.exists()]
    return f"not built: {missing[0]}" if missing else None


TRUTH = ProgramRow(row.Row("1 GiB held by eight functions, 20 times", 1, (), compare_with_truth, built), (OURS,), rounds=1)
# The machine stops programs, too: with this many runs also while nothing is written.
STACKS = Row("100,000 stacks", "profiling", "many_stacks", words(100_000, 5), 2, time=None, memory=None, pinned=False, subjects=(ALL,), rounds=12)


def judge_truth(figures):
    yield criteria.below(figures, TRUTH.name, OURS, "bias_errors", STANDARD_ERRORS,
                         f"the worst function's mean of {RUNS}, in standard errors of the mean")
    yield criteria.above(figures, TRUTH.name, OURS, "within_three_percent", WITHIN_PERCENT,
                         f"estimates within {STANDARD_ERRORS} standard errors, %")
    yield criteria.below(figures, TRUTH.name, OURS, "missed_blocks", MISSED_BLOCKS, "blocks of 3 MB without a sample, of 360")
    yield criteria.below(figures, TRUTH.name, OURS, "metadata_percent", METADATA_PERCENT, "records, % of the live bytes")


def judge_stacks(figures):
    yield criteria.never_above(figures, STACKS.name, ALL, "dump_ms", DUMP_MS, "longest time to write the profile, ms")
    yield criteria.never_above_without(figures, STACKS.name, ALL, "longest_pause_held_us", "longest_pause_without_held_us", PAUSE_US,
                                         "longest pause of another thread meanwhile, without the time that other processes took, µs")


LOAD_COLUMNS = (Column("P99, µs", "p99_us"), Column("CPU, s", "cpu_s"), Column("CPU of a request, µs", "cpu_us"), Column("peak, MB", "peak_mb"),
                Column("allocator's share of it, %", "allocator_percent"), Column("sampling, %", "sampling_percent"))
LOAD_CRITERION = f"With sampling at 512 KiB, which is the default, at least {THROUGHPUT} × the throughput without, and at most {P99} × its P99; \
sampling takes at most {TIME_PERCENT} % of its processor time (by perf; on a restless machine only this can be measured)."


def service_proof(key, title, of, what):
    return Proof(key, title, what, f"{LOAD_CRITERION} With everything recorded at least {EVERYTHING_RECORDED} × the throughput without.",
                 of.rows, (Column("requests/s", "requests_per_s"), *LOAD_COLUMNS), of.judge_all_recorded, "dots",
                 (("requests/s", "requests_per_s", 1), ("P99, ms", "p99_us", 1e-3), ("CPU, s", "cpu_s", 1)))


PROOFS = [
    Proof("redis", "Redis", "One thread, values of 1 KiB, 50 pipelining clients; four kinds of requests one after the other.",
          LOAD_CRITERION, REDIS.rows, (Column("requests/s", "requests_per_s"), *LOAD_COLUMNS), REDIS.judge, "dots",
          (("requests/s", "requests_per_s", 1), ("P99, ms", "p99_us", 1e-3), ("CPU, s", "cpu_s", 1))),
    Proof("ycsb", "RocksDB under YCSB's load",
          "200 threads, records of 20 fields of 100 bytes, half reads, half updates of one field; each record is parsed into a map.",
          LOAD_CRITERION, YCSB.rows, (Column("operations/s", "operations_per_s"), *LOAD_COLUMNS), YCSB.judge, "dots",
          (("operations/s", "operations_per_s", 1), ("P99, ms", "p99_us", 1e-3), ("CPU, s", "cpu_s", 1))),
    service_proof("mini-redis", "mini-redis", MINI_REDIS,
                  "The server of the field report, as its authors published it: tokio on two threads, 64 connections, values of up to 8 KiB that are "
                  "stored and read."),
    service_proof("tokio", "An HTTP service in Rust", TOKIO,
                  "tokio on two threads, 64 connections, values of up to 8 KiB that are stored, read, and reported on; each request is parsed into "
                  "49 blocks."),
    Proof("truth", "Accuracy of a profile",
          "Eight functions hold known shares of 1 GiB, 5 % to 30 %, in blocks of 64 bytes to 3 MB; a profile is written and read by "
          "`seemalloc top`. The estimates of seven functions are normally distributed, and in one of three such measurements one of 140 is off by "
          "more than three standard errors by chance; so each function's mean is judged, and the share of estimates within the limit. The eighth holds 18 blocks of 3 MB, nearly "
          "all of which are sampled: there the missing ones are counted. By chance a correct profile fails in one of 40 measurements. "
          "Taken literally, “every function within three standard errors in 20 runs” requires that none be beyond: their number, the number of estimates and the "
          "worst one are in the table. Our own records do not shrink with the heap: for 10 MB held the same way they are 1.08 % (108 KB), for 12 MB 0.99 %, so that in heaps "
          "below 12 to 15 MB, depending on the program, they are more than 1 %.",
          f"Each function's mean within {STANDARD_ERRORS} standard errors of the bytes it holds, {WITHIN_PERCENT} % of the estimates within {STANDARD_ERRORS} of theirs, at "
          f"most {MISSED_BLOCKS} of the large blocks without a sample; our own records at most {METADATA_PERCENT} % of the heap.",
          [TRUTH],
          (Column("estimates", "estimates"), Column("of them beyond three standard errors", "beyond_three"), Column("worst, standard errors", "worst_errors"), Column("mean", "mean_errors"), Column("a function's worst mean", "bias_errors"),
           Column("within three, %", "within_three_percent"), Column("large blocks missed", "missed_blocks"), Column("records, %", "metadata_percent"), Column("peak, MB", "peak_mb")),
          judge_truth),
    Proof("stacks", "A profile of 100,000 stacks",
          "Every allocation is recorded, each with another stack; five profiles are written while another thread allocates and frees. The time that other "
          "processes took, by the kernel's accounting, is subtracted from each of its pauses: if it slept, the time in which it was ready and waited "
          "for a processor (`schedstat`); otherwise all but its running time. Without a profile: the same thread over the same time, with nothing written.",
          f"Each written in {DUMP_MS} ms, and no thread ever stopped for longer than {PAUSE_US / 1000:g} ms.",
          [STACKS],
          (Column("to write one, ms", "dump_ms"), Column("longest pause meanwhile, µs", "longest_pause_us"), Column("without the time of others", "longest_pause_held_us"),
           Column("without a profile, µs", "longest_pause_without_us"), Column("without the time of others", "longest_pause_without_held_us"), Column("peak, MiB", "peak_kib", MIB)),
          judge_stacks),
]
ROWS = [row for proof in PROOFS for row in proof.rows]
