"""The workloads that allocators are compared with: which programs run, with which arguments, and which of their figures
count.

bench/run imports ROWS. The purpose of each program, and the meaning of its arguments, is described at the top of
bench/workloads/PROGRAM.cc. Arguments are chosen so that one run takes 0.5 to 2 s on one 2 GHz core with a good
allocator, except where memory is the point, and for string sort, which keeps the size of the report it reproduces.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    group: str
    program: str
    arguments: list[str]
    threads: int  # that work at the same time
    time: str | None = "wall_s"  # the metric compared for time; None where time is meaningless
    memory: str | None = "peak_mb"  # the metric compared for space: this, or one that the program prints
    metrics: tuple[str, ...] = ()  # further metrics to show
    pinned: bool | None = None  # None: if there is more than one thread
    subjects: tuple[str, ...] = ()  # the allocators it runs on; empty: all
    rounds: int | None = None  # None: all rounds
    turns: int = 1  # in each round
    once: tuple[str, ...] = ()  # allocators that run in the first round only: they take minutes, and differ by factors
    cgroup_mib: int | None = None  # the limit of the memory cgroup that it runs in


def bytes_text(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count // unit} {name}"
    return f"{count} B"


def threads_text(count):
    return f"{count} thread{'s' if count > 1 else ''}"


def words(*values):
    return [str(value) for value in values]


def ping_pong():
    # One block at a time: the resident memory is the base cost, which the row "trivial program" measures.
    for group, bytes_, operations in (
            ("ping-pong small", 16, 200_000_000), ("ping-pong small", 64, 200_000_000),
            ("ping-pong small", 256, 200_000_000), ("ping-pong small", 1 << 10, 150_000_000),
            ("ping-pong medium", 4 << 10, 50_000_000), ("ping-pong medium", 32 << 10, 40_000_000),
            ("large", 256 << 10, 5_000_000), ("large", 1 << 20, 3_000_000)):
        yield Row(f"ping-pong {bytes_text(bytes_)}", group, "ping_pong", words(bytes_, operations), 1, memory=None)


def large():
    for percent in (100, 10):
        yield Row(f"large blocks, {percent} % written", "large", "large_blocks", words(percent, 2_000), 1)


def random_replacement():
    for threads, live, operations in ((1, 1_000, 100_000_000), (1, 10_000, 60_000_000), (1, 100_000, 30_000_000),
                                      (1, 1_000_000, 8_000_000), (2, 1_000, 150_000_000), (2, 10_000, 100_000_000),
                                      (2, 100_000, 50_000_000), (8, 10_000, 100_000_000), (64, 1_000, 100_000_000)):
        size = f"{live // 1_000} k" if live < 1_000_000 else "1 M"
        yield Row(f"random replace, {threads_text(threads)}, {size} live", "random replacement", "random_replace",
                  words(threads, live, operations), threads)


def bulk():
    yield Row("ordered free", "bulk", "ordered_free", words(3, 10_000_000), 1)
    yield Row("bulk, shuffled free", "bulk", "bulk_shuffled", words(2_000_000, 6), 1)
    yield Row("string build and sort", "bulk", "string_sort", words(1, 10_000_000), 1)
    yield Row("string build, no sort", "bulk", "string_sort", words(0, 10_000_000), 1)


def cross_thread():
    for ring, text in ((1 << 10, "1 k"), (128 << 10, "128 k")):
        yield Row(f"producer and consumer, {text} in flight", "cross-thread", "producer_consumer",
                  words(1, 20_000_000, ring), 2)
    for producers, consumers in ((2, 2), (4, 4), (8, 2)):
        yield Row(f"{producers} producers, {consumers} consumers", "cross-thread", "n_to_m",
                  words(producers, consumers, 40_000_000), producers + consumers)


def server():
    for threads, operations in ((1, 60_000_000), (4, 60_000_000), (16, 50_000_000)):
        yield Row(f"server, {threads_text(threads)}", "server", "server", words(threads, 5_000, operations, 100), threads)


def ttest():
    for threads, most, operations in ((1, 64, 20_000_000), (4, 64, 40_000_000), (20, 64, 40_000_000),
                                      (2, 1 << 10, 40_000_000), (8, 1 << 10, 40_000_000), (4, 8 << 10, 20_000_000),
                                      (20, 8 << 10, 20_000_000), (1, 128 << 10, 3_000_000), (8, 128 << 10, 4_000_000)):
        yield Row(f"t-test, {threads_text(threads)}, up to {bytes_text(most)}", "t-test", "ttest",
                  words(threads, most, operations, 10), threads)


def threads():
    yield Row("short-lived threads", "threads", "short_threads", words(20_000, 2, 200), 2)
    for name, larger, keep in (("64 sizes", 0, 0), ("73 sizes", 1, 0), ("73 sizes kept", 1, 1)):
        yield Row(f"1,000 idle threads, {name}", "threads", "idle_threads", words(larger, keep, 1_000, 2_000), 1_000,
                  time=None, memory="rss_kib_per_thread", metrics=("rss_after_exit_percent",))


def growth():
    yield Row("vectors up to 64 KiB", "growth", "vector_growth", words(64, 4_000_000), 1)
    yield Row("vectors up to 4 MiB", "growth", "vector_growth", words(4096, 30_000), 1)
    yield Row("calloc, small, fresh", "growth", "calloc_fresh_reused", words(0, 0, 2_000_000), 1)
    yield Row("calloc, small, reused", "growth", "calloc_fresh_reused", words(1, 0, 50_000_000), 1)
    # Few, because an allocator that zeroes all of it needs 1 GB.
    yield Row("calloc, large, fresh", "growth", "calloc_fresh_reused", words(0, 1, 2_000), 1)
    yield Row("calloc, large, reused", "growth", "calloc_fresh_reused", words(1, 1, 30_000), 1)
    yield Row("grow heap to 500 MB", "growth", "grow_heap", words(500, 1), 1)
    yield Row("grow heap to 1 GB, 2 threads", "growth", "grow_heap", words(1000, 2), 2)


def memory():
    # The peak of both phases is compared, not growth_percent: that is 0 at its best, and has no ratio then.
    yield Row("phase change, first threads idle", "memory", "phase_change", words(0, 4, 300), 4, time=None,
              metrics=("growth_percent",))
    yield Row("phase change, first threads ended", "memory", "phase_change", words(1, 4, 300), 4, time=None,
              metrics=("growth_percent",))
    yield Row("sparse survivors, other sizes at once", "memory", "sparse_survivors", words(0, 400, 100), 1,
              metrics=("rss_kib", "rss_again_kib"))
    yield Row("sparse survivors, after 2 s", "memory", "sparse_survivors", words(2_000, 400, 100), 1, time=None,
              memory="rss_kib", metrics=("rss_again_kib",))
    yield Row("20 M objects of 8 B", "memory", "small_objects", words(8, 20_000_000), 1, memory="bytes_per_object")
    yield Row("trivial program", "memory", "trivial", [], 1, time=None)


def single_threaded():
    # What a thread of the allocator's costs a program that has one; ordinary tools are in programs/tools.py.
    yield Row("copies of shared_ptr", "single-threaded", "shared_pointers", words(150_000_000, 100_000), 1)
    yield Row("putc", "single-threaded", "characters", words(300_000_000, 20), 1)


def scaling():
    """The same work and the same number of live blocks in all threads together, with an increasing number of threads."""
    for threads in (1, 2, 4, 8, 16, 32, 64):
        yield Row(f"random replace, {threads_text(threads)}", "random replacement, 64 k live", "random_replace",
                  words(threads, 64_000 // threads, 60_000_000), threads, memory=None)
    for most, operations in ((64, 20_000_000), (1 << 10, 20_000_000), (8 << 10, 20_000_000), (128 << 10, 3_000_000)):
        for threads in (1, 2, 5, 10, 20):
            yield Row(f"t-test, {threads_text(threads)}, up to {bytes_text(most)}", f"t-test, up to {bytes_text(most)}", "ttest",
                      words(threads, most, operations, 10), threads, memory=None)
    for threads in (1, 2, 4, 8, 16, 32, 64):
        yield Row(f"server, {threads_text(threads)}", "server, 64 k live", "server", words(threads, 64_000 // threads, 30_000_000, 640 // threads),
                  threads, memory=None)


SCALING = list(scaling())
ROWS = [row for rows in (ping_pong, large, random_replacement, bulk, cross_thread, server, ttest, threads, growth, memory,
                          single_threaded)
        for row in rows()]
