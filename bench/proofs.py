"""The proofs that memory is returned automatically, at no cost: which programs run on which allocators, and the criteria
for their figures.

bench/run --proofs imports PROOFS. The purpose of each program is described at the top of bench/workloads/PROGRAM.cc. A
criterion is judged by the figures alone; harness/criteria.py has the verdicts, harness/proof_report.py shows them.
Short runs of the same programs are in tests/programs.
"""
import dataclasses
import typing

from catalog import Row, words
from harness import criteria

TITLE = "Proofs that memory is returned automatically, at no cost"
OPTION, FILE = "--proofs", "bench/proofs.py"

FLAT = 1.10  # time per object, relative to that with the fewest objects
OF_NEVER = 1.10  # the same, relative to purge:never with the same number of objects
RPC_THROUGHPUT, RPC_P99 = 0.99, 1.02  # relative to purge:never
DEAD_RETURNED = 0.80
LARGE_RETURNED = 0.95  # no live block shares a page with a freed large block
OF_BEST_RETURNED = 0.85
GROWTH = 1.05  # resident size, from the end of the first quarter on
CHURN_RSS = 2.0  # relative to the live bytes
MAPPINGS = 1_000
# The number that 1 % of one processor serves at 1 µs each; the report's server had 500,000.
FAULTS_PER_S = 10_000

MILLIONS = (1, 3, 10, 30)
OURS, EAGER, NEVER = "seemalloc", "seemalloc eager", "seemalloc never"
PEERS = ("glibc", "jemalloc", "mimalloc2", "rpmalloc", "gperftools")


@dataclasses.dataclass(frozen=True)
class Column:
    heading: str
    metric: str
    scale: float = 1  # factor on the figure


@dataclasses.dataclass(frozen=True)
class Proof:
    key: str  # of its plot: plots/proof-KEY.svg
    title: str
    what: str  # is measured
    criterion: str
    rows: list[Row]
    columns: tuple[Column, ...]
    judge: typing.Callable  # figures → [Finding]
    plot: str | None = None  # the kind of plot, of harness/proof_plots.py
    axes: tuple = ()  # of the plot: (heading, metric or series, scale) each


MIB = 1 / 1024  # of a figure in KiB


# ---- objects freed in order ----

def objects_row(millions, shuffled):
    # A short run is repeated, each time in a process of its own.
    runs = {1: 5, 3: 3}.get(millions, 1)
    rounds, order = (1, "shuffled") if shuffled else (3, "in order")
    # The variants that return memory take half a minute for 30 M.
    more = () if millions > 10 else ("gperftools rate 10", "gperftools aggressive")
    return Row(f"{millions} M objects, freed {order}", "objects", "ordered_free",
               words(rounds, millions * 1_000_000, int(shuffled), runs, 1), 1,
               subjects=(OURS, EAGER, *(() if shuffled else (NEVER,)), "gperftools", *more, "glibc"))


def sort_row(sort):
    return Row(f"3 M strings, {'sorted' if sort else 'not sorted'}", "strings", "string_sort", words(int(sort), 3_000_000), 1,
               subjects=(OURS, EAGER, "gperftools", "gperftools aggressive", "glibc"))


IN_ORDER = [objects_row(millions, False) for millions in MILLIONS]
SHUFFLED = [objects_row(millions, True) for millions in MILLIONS[:3]]
STRINGS = [sort_row(sort) for sort in (False, True)]


def judge_objects(figures):
    for name in (OURS, EAGER, NEVER):
        for metric, unit in (("ns_per_block", "ns per object"), ("free_ns", "of it the frees")):
            found = criteria.flat(figures, name, metric, [row.name for row in IN_ORDER], FLAT, unit)
            # Without any returning the time grows, too, because of the machine's caches.
            yield criteria.beside(found) if name == NEVER else found
    for row in IN_ORDER:
        yield criteria.at_most(figures, (row.name, OURS), (row.name, NEVER), "ns_per_block", OF_NEVER,
                               f"{OURS} against purge:never: {row.name}: ns per object")
    for name in (OURS, EAGER):
        for one, other in [*zip(IN_ORDER, SHUFFLED), STRINGS]:
            measures = (("drop_s", "the drop"), ("wall_s", "all of it")) if one in STRINGS else (("free_ns", "the frees"),)
            for metric, unit in measures:
                yield criteria.at_most(figures, (one.name, name), (other.name, name), metric, 1.0,
                                       f"{name}: {one.name}, against {other.name.rpartition(', ')[2]}: {unit}")


# ---- an RPC server ----

RPC = Row("RPC echo, 4 KiB to 4 MiB", "rpc", "rpc_echo", words(8, 8_000, 4096), 8, pinned=False,
          subjects=(OURS, EAGER, NEVER, "jemalloc", "jemalloc decay 0", "gperftools", "glibc", "mimalloc2"))
# Each run differs from the one before by 4 %, and the machine by more from one minute to the next: only pairs can
# measure 1 %. Each run takes some ten purge delays, so that most of it is steady state, not start-up.
RPC_PAIRS = Row("RPC echo, in pairs", "rpc", "rpc_echo", words(8, 80_000, 4096), 8, pinned=False, subjects=(OURS, NEVER), turns=5)


def judge_rpc(figures):
    pair = (RPC_PAIRS.name, OURS, NEVER)
    yield criteria.paired(figures, *pair, "requests_per_s", RPC_THROUGHPUT, "at least", "requests/s, default against purge:never")
    yield criteria.paired(figures, *pair, "p99_us", RPC_P99, "at most", "P99, default against purge:never")
    yield criteria.below(figures, RPC_PAIRS.name, OURS, "server_faults_per_s", FAULTS_PER_S, "page faults/s at defaults")


# ---- idle after a load peak ----

IDLE = Row("idle for 5 s", "idle", "idle_return", words(5), 1, time=None, memory="rss_after_kib",
           subjects=(OURS, EAGER, *PEERS, "jemalloc background", "mimalloc3", "snmalloc"))
# The blocks in thread caches, which make threads fast, are returned, too.
IDLE_LARGE = Row("idle for 5 s, blocks of 256 KiB to 1 MiB", "idle", "idle_return", words(5, 600, 200, 256 << 10, 1 << 20), 1, time=None,
                 memory="rss_after_kib", subjects=(OURS, EAGER, *PEERS, "jemalloc background", "mimalloc3", "snmalloc"))
# jemalloc begins after 10 s and is done after 20: the best result of any peer is recorded at that time, too.
IDLE_LONG = Row("idle for 22 s", "idle", "idle_return", words(22), 1, time=None, memory="rss_after_kib", rounds=1,
                subjects=("jemalloc background",))


def judge_idle(figures):
    share = "returned_percent"
    yield criteria.above(figures, IDLE.name, OURS, share, 100 * DEAD_RETURNED, "% of the dead bytes returned in 5 s")
    yield criteria.above(figures, IDLE_LARGE.name, OURS, share, 100 * LARGE_RETURNED, "% of the dead bytes returned in 5 s, large blocks")
    peers = [(row.name, name) for row in (IDLE, IDLE_LONG) for name in ("jemalloc background", "rpmalloc")]
    row, name = max(peers, key=lambda place: criteria.median(figures, *place, share) or 0)
    yield criteria.at_least(figures, (IDLE.name, OURS), (row, name), share, OF_BEST_RETURNED,
                            f"the same, of the best peer's ({name}, {row})")


# ---- in a memory cgroup ----

# At most 200 MiB are live; the same program and limit as the test tests/programs/memory_cgroup.py.
CGROUP = Row("bursts of 200 MiB in 260 MiB", "cgroup", "memory_cgroup", words(200, 3), 2, time=None, memory=None, pinned=False,
             subjects=(OURS, EAGER, NEVER, "glibc", "jemalloc", "gperftools"), cgroup_mib=260)


def judge_cgroup(figures):
    def share(name):
        lived = criteria.values(figures, CGROUP.name, name, "lived")
        return f"{name}: share of the runs that survived", sum(lived) / len(lived) if lived else None

    for name in (OURS, EAGER):
        yield criteria.verdict(*share(name), 1, "at least", "")
    # Validates the limit.
    for name in (NEVER, "glibc"):
        yield criteria.verdict(*share(name), 0, "at most", "")


# ---- busy for long ----

STEADY = Row("busy, 32 MB live", "steady", "steady", words(4, 32, 40_000_000, 48), 4, memory="rss_most_kib",
             subjects=(OURS, EAGER, *PEERS, "snmalloc"))
# Time-based mechanisms, the purge and its delay, have time to work.
STEADY_LONG = Row("busy for a minute, 32 MB live", "steady", "steady", words(4, 32, 1_600_000_000, 48), 4, memory="rss_most_kib", rounds=1,
                  subjects=(OURS, EAGER))


def judge_steady(figures):
    for row in (STEADY_LONG, STEADY):
        for name in (OURS, EAGER):
            yield criteria.no_growth(figures, row.name, name, GROWTH)


# ---- 100 GB through 200 MB ----

CHURN = Row("100 GB through 200 MB", "churn", "churn", words(2, 200, 100), 2, memory="rss_most_kib",
            subjects=(OURS, EAGER, *PEERS))
# The same at a pace that leaves the purge time to work.
CHURN_LONG = Row("100 GB through 200 MB in a minute", "churn", "churn", words(2, 200, 100, 60), 2, time=None, memory="rss_most_kib", rounds=1,
                 subjects=(OURS, EAGER))


def judge_churn(figures):
    for row in (CHURN_LONG, CHURN):
        for name in (OURS, EAGER):
            rss, live = (criteria.median(figures, row.name, name, metric) for metric in ("rss_most_kib", "live_kib"))
            what = f"{name}: {row.name}"
            yield criteria.verdict(f"{what}: largest RSS, relative to the live bytes", live and rss / live, CHURN_RSS, "at most", "×")
            yield criteria.never_above(figures, row.name, name, "mappings_most", MAPPINGS, f"{what}: mappings")
        rate = criteria.rate(figures, row.name, OURS, "faults")
        yield criteria.verdict(f"{row.name}: page faults/s at defaults, second half of the run", rate, FAULTS_PER_S, "at most", "")


# ---- one allocates, another frees ----

ONE_WAY = Row("one way for 5 s", "one way", "one_way", words(5), 2, time=None, memory="rss_most_kib",
              subjects=(OURS, EAGER, "glibc", "jemalloc", "mimalloc2", "gperftools"))
ONE_WAY_LONG = Row("one way for a minute", "one way", "one_way", words(60), 2, time=None, memory="rss_most_kib", rounds=1,
                   subjects=(OURS,))


def judge_one_way(figures):
    for row in (ONE_WAY_LONG, ONE_WAY):
        yield criteria.no_growth(figures, row.name, OURS, GROWTH)


RSS_COLUMNS = (Column("largest RSS, MiB", "rss_most_kib", MIB), Column("most mappings", "mappings_most"))

PROOFS = [
    Proof("objects", "Objects freed in order",
          "Report 1: objects of 32 bytes are allocated and freed in the same order, three times over; for comparison also "
          "freed in random order, and strings built and dropped, sorted and not. Time per object, page faults included; for "
          "short runs the median of several processes. The vector that holds them has its capacity before the clock starts.",
          "At no number of objects more than 10 % above the time per object of 1 M, in both modes that return memory: for the whole life "
          "of an object, and for the frees alone, which took 16 times as long in report 1. "
          f"At each number of objects at most {OF_NEVER - 1:.0%} above `purge:never`, whose time per object is shown beside it: any growth there "
          "is caused by the machine, not by returning memory. "
          "Freeing in order never slower than freeing in random order, and not sorting never slower than sorting: dropping all strings, and the run.",
          [*IN_ORDER, *SHUFFLED, *STRINGS],
          (Column("ns per object", "ns_per_block"), Column("of it freeing", "free_ns"), Column("dropping, s", "drop_s"),
           Column("wall, s", "wall_s"), Column("CPU, s", "cpu_s"), Column("of it system", "system_s")),
          judge_objects, "by_objects"),
    Proof("rpc", "An RPC echo server",
          "Report 3: eight connections on loopback, requests of 4 KiB to 4 MiB, each read into a new block, sent back, and "
          "the block freed. The client is another process, which does not use the measured allocator.",
          f"At defaults at least {RPC_THROUGHPUT} × the throughput of `purge:never`, and at most {RPC_P99} × its P99.",
          [RPC, RPC_PAIRS],
          (Column("requests/s", "requests_per_s"), Column("MB/s", "mb_per_s"), Column("P50, µs", "p50_us"),
           Column("P99, µs", "p99_us"), Column("server's page faults/s", "server_faults_per_s"),
           Column("server's CPU, s", "server_cpu_s"), Column("server's peak, MB", "peak_mb")),
          judge_rpc, "dots",
          (("requests/s", "requests_per_s", 1), ("P99, ms", "p99_us", 1e-3), ("page faults/s", "server_faults_per_s", 1))),
    Proof("idle", "Idle after a load peak",
          "600,000 objects of 16 to 1,015 bytes, all but each 200th freed, then an idle time without any call of malloc or free. Returned: the "
          "decrease of the resident size from the peak to the end of the idle time, in percent of the freed bytes. Afterwards "
          "ten allocations, at which some allocators begin to return memory. The same with 600 blocks of 256 KiB to 1 MiB.",
          f"{DEAD_RETURNED:.0%} of the freed bytes returned, and {OF_BEST_RETURNED:.0%} of the share that the best of jemalloc with its "
          f"background thread (which also gets 22 s) and rpmalloc returns; {LARGE_RETURNED:.0%} for large blocks.",
          [IDLE, IDLE_LONG, IDLE_LARGE],
          (Column("RSS full, MiB", "rss_full_kib", MIB), Column("freed", "rss_freed_kib", MIB),
           Column("after the idle time", "rss_after_kib", MIB), Column("after ten calls", "rss_stirred_kib", MIB),
           Column("returned, %", "returned_percent")),
          judge_idle, "over_time", (("RSS, MiB", "rss_kib", MIB),)),
    Proof("cgroup", "In a memory cgroup",
          "In a cgroup with 1.3 times its need a program allocates and frees bursts of small, huge and large blocks, each of "
          "which takes all of the need, so that memory cached from one burst is in the way of the next. The kernel kills a process that "
          "exceeds the limit.",
          "It survives them, and dies under glibc and with `purge:never`.",
          [CGROUP],
          (Column("survived, % of the runs", "lived", 100), Column("peak of the cgroup, MiB", "cgroup_peak_kib", MIB),
           Column("wall, s", "wall_s")),
          judge_cgroup, "dots", (("survived, % of the runs", "lived", 100), ("peak of the cgroup, MiB", "cgroup_peak_kib", MIB))),
    Proof("steady", "Busy for long",
          "Four threads replace blocks of mixed sizes and lifetimes, whose sizes drift by day and night for 48 days; the live bytes are "
          "constant. 40 million blocks: an hour of 11,000 a second, in seconds; and 40 times as many, for time-based mechanisms. Growth: resident size in the last "
          "eighth of the run, relative to that in the second eighth.",
          f"No growth: at most {GROWTH - 1:.0%}.",
          [STEADY_LONG, STEADY],
          (*RSS_COLUMNS, Column("ns per replacement", "ns_per_operation")),
          judge_steady, "over_run", (("RSS, MiB", "rss_kib", MIB),)),
    Proof("churn", "100 GB through a heap of 200 MB",
          "Two threads replace blocks of 256 bytes to 4 MiB, each page written to, until 100 GB have been allocated and freed: as fast as they can, "
          "and spread over a minute.",
          f"RSS at most {CHURN_RSS:g} × the live bytes, at most {MAPPINGS:,} mappings, and at most {FAULTS_PER_S:,} page faults a "
          "second: the number that 1 % of one processor serves.",
          [CHURN_LONG, CHURN],
          (*RSS_COLUMNS, Column("GB/s", "gb_per_s"), Column("page faults", "minor_faults"), Column("CPU, s", "cpu_s")),
          judge_churn, "over_run", (("RSS, MiB", "rss_kib", MIB), ("mappings", "mappings", 1))),
    Proof("one-way", "One thread allocates, another frees",
          "One thread only allocates and another one only frees, with 254,000 to 262,000 blocks in transit: none is ever freed "
          "by the thread that allocated it. Growth as above.",
          f"RSS flat over a minute: growth at most {GROWTH - 1:.0%}.",
          [ONE_WAY_LONG, ONE_WAY],
          (*RSS_COLUMNS, Column("blocks/s", "blocks_per_s")),
          judge_one_way, "over_time", (("RSS, MiB", "rss_kib", MIB),)),
]
ROWS = [row for proof in PROOFS for row in proof.rows]
