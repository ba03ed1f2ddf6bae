#!/usr/bin/python3
"""Tests of the runner: significance of differences, the order, one run, the tables. `./dev test bench` runs them.

Ends with "N passed, N failed, N skipped".
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)
import public
from harness import allocators, compare, criteria, measure, readme, session, tables, targets
from harness.allocators import Allocator
from harness.figures_for_test import around, figures_of, run_tests
from programs import process, redis, where_time_goes


class Differences(unittest.TestCase):
    def test_overlapping_spreads_are_no_difference(self):
        self.assertFalse(compare.differ([1, 2, 3, 4, 5], [5, 6, 7, 8, 9], 0.05))
        self.assertTrue(compare.differ([1, 2, 3, 4, 4.9], [5, 6, 7, 8, 9], 0.05))

    def test_fewer_than_five_runs_are_no_difference(self):
        self.assertFalse(compare.differ([1] * 4, [2] * 5, 0.05))
        self.assertTrue(compare.differ([1] * 5, [2] * 5, 0.05))

    def test_small_differences_depend_on_the_threads(self):
        for threads, apart, clear in ((1, 1.04, False), (1, 1.06, True), (2, 1.14, False), (2, 1.16, True), (8, 1.14, False)):
            least = compare.least_difference("wall_s", threads)
            self.assertEqual(compare.differ(around(1, 0.001), around(apart, 0.001), least), clear, (threads, apart))

    def test_memory_needs_no_least_difference(self):
        self.assertTrue(compare.differ([100] * 5, [101] * 5, compare.least_difference("peak_mb", 4)))

    def test_ratios_are_to_the_best_median(self):
        cells = compare.compare({"a": around(2), "b": around(1), "c": around(1.02, 0.05)}, 0.05)
        self.assertAlmostEqual(cells["a"].ratio, 2)
        self.assertEqual([cells[name].best for name in "abc"], [False, True, False])
        self.assertEqual([cells[name].unclear for name in "abc"], [False, False, True])
        self.assertEqual((cells["a"].low, cells["a"].high), (1.99, 2.01))

    def test_nothing_has_a_ratio_too(self):
        self.assertEqual(compare.compare({"a": [0.0] * 5, "b": [0.0] * 5}, 0)["b"].ratio, 1)
        self.assertEqual(compare.compare({}, 0), {})


class Means(unittest.TestCase):
    def test_group_means_are_geometric(self):
        figures = figures_of({"one": ("g", 1, {"a": around(2), "b": around(1)}), "two": ("g", 1, {"a": around(8), "b": around(1)}),
                              "three": ("h", 1, {"a": around(1), "b": around(4)})}, "ab")
        groups, overall = compare.group_means(figures, compare.cells_of(figures, "time"))
        self.assertAlmostEqual(groups["g"]["a"], 4)
        self.assertAlmostEqual(groups["h"]["b"], 4)
        self.assertAlmostEqual(overall["a"], 16 ** (1 / 3))

    def test_what_failed_is_left_out_of_its_mean_only(self):
        figures = figures_of({"one": ("g", 1, {"a": around(2), "b": around(1)}), "two": ("g", 1, {"a": around(1), "b": around(9)})},
                             "ab", failed={"two": {"b": "killed"}})
        _, overall = compare.group_means(figures, compare.cells_of(figures, "time"))
        self.assertAlmostEqual(overall["a"], 2 ** 0.5)
        self.assertAlmostEqual(overall["b"], 1)

    def test_rows_without_a_measure_are_left_out(self):
        figures = figures_of({"one": ("g", 1, {"a": around(2)})}, "a")
        figures["rows"]["one"].update(time=None, memory="kept_mb")
        self.assertEqual(compare.cells_of(figures, "time"), {})
        self.assertEqual(compare.cells_of(figures, "cpu"), {})
        self.assertAlmostEqual(compare.cells_of(figures, "memory")["one"]["a"].median, 3)

    def test_the_worst_come_first(self):
        figures = figures_of({"one": ("g", 1, {"a": around(2), "b": around(1)}), "two": ("g", 1, {"a": around(5), "b": around(1)}),
                              "best": ("g", 1, {"a": around(1), "b": around(2)})}, "ab")
        found = compare.worst(compare.cells_of(figures, "time"), "a", 5)
        self.assertEqual([(row, best) for row, _, best in found], [("two", "b"), ("one", "b")])


class Sampling(unittest.TestCase):
    def test_a_change_counts_only_beyond_what_identical_runs_differ_by(self):
        clear = compare.sampling_difference(around(1.10), around(1.11), around(1), 0.05)
        self.assertTrue(clear.clear)
        self.assertAlmostEqual(clear.change, 0.105)
        self.assertFalse(compare.sampling_difference(around(1.10), around(1.30), around(1), 0.05).change < 0.05)
        self.assertFalse(compare.sampling_difference(around(1.07), around(1.28), around(1), 0.05).clear)
        self.assertFalse(compare.sampling_difference(around(1.10), around(1.02), around(1), 0.05).clear)

    def test_table(self):
        figures = figures_of({"row": ("g", 1, {"on": around(1.1), "on again": around(1.1), "off": around(1)})},
                             ["on", "on again", "off"], kind="sampling")
        text = tables.report(figures)
        self.assertIn("| row | 1.00 | +10.0 % | +0.0 % |", text)
        self.assertIn("*geometric mean*", text)


class Scaling(unittest.TestCase):
    def test_throughput_is_compared_with_the_same_allocators_at_one_thread_per_core(self):
        rows = {"one": ("g", 1, {"a": around(1.9), "b": around(1.9)}), "two": ("g", 2, {"a": around(1), "b": around(1)}),
                "eight": ("g", 8, {"a": around(1.25), "b": around(0.9)})}
        text = tables.report(figures_of(rows, ["a", "b"], kind="scaling", failed={"eight": {"b": "crashed"}}))
        self.assertIn("| 1 | 1.90 s, 0.53 | 1.90 s, 0.53 |", text)
        self.assertIn("| 8 | 1.25 s, 0.80 | failed |", text)
        self.assertIn("| *least* | 0.80 | 1.00 |", text, "one thread cannot be as fast as two; it does not count")

    def test_every_row_does_the_same_work(self):
        import catalog
        work = {}
        for row in catalog.SCALING:
            threads, *rest = map(int, row.arguments)
            live = rest[0] if row.program == "ttest" else threads * rest[0]
            starts = threads * rest[2] if row.program == "server" else None
            work.setdefault(row.group, set()).add((live, rest[1], starts))
        self.assertEqual([len(kinds) for kinds in work.values()], [1] * len(work))


class About(unittest.TestCase):
    def test_counts_the_rounds_that_were_made(self):
        figures = figures_of({"row": ("g", 1, {"a": [1, 1, 1], "b": [1, 1, 1]})}, ["a", "b"])
        self.assertEqual(figures["rounds"], 5, "asked for")
        self.assertIn("today, 3 rounds, ", tables.about(figures))


class Targets(unittest.TestCase):
    def verdicts(self, figures):
        return {one.what: (one.found, one.verdict) for one in targets.findings(figures)}

    def test_the_best_peer_is_another_one_in_each_row(self):
        found = self.verdicts(figures_of({"x": ("g", 1, {"a": around(2), "b": around(1), "c": around(4)}),
                                          "y": ("g", 1, {"a": around(1), "b": around(4), "c": around(2)})}, "abc"))
        self.assertEqual(("1.000 ×", criteria.MET), found["time, to the best peer of each of 2 rows: geometric mean"])
        self.assertEqual(("1: x 2.00×", criteria.MISSED), found["time: rows above 1.15 ×"])
        self.assertEqual(("1: x 2.00×", criteria.MISSED), found["memory: rows above 1.5 ×"])

    def test_a_row_that_cannot_be_told_is_not_missed(self):
        found = self.verdicts(figures_of({"x": ("g", 1, {"a": around(1.3, 0.4), "b": around(1, 0.4)})}, "ab"))
        self.assertEqual(("0; and 1 in which no difference can be called", criteria.UNCLEAR), found["time: rows above 1.15 ×"])
        self.assertEqual(criteria.MISSED, found["time, to the best peer of each of 1 rows: geometric mean"][1])

    def test_a_limit_is_for_what_is_shown(self):
        found = self.verdicts(figures_of({"x": ("g", 1, {"a": around(1.153, 0.001), "b": around(1, 0.001)})}, "ab"))
        self.assertEqual(("0", criteria.MET), found["time: rows above 1.15 ×"])

    def test_peers_with_huge_pages_are_no_measure_for_faults(self):
        figures = figures_of({"ordered free": ("g", 1, {"a": around(1), "b": around(1.4), "c": around(0.9)})}, "abc")
        for run in figures["runs"]["ordered free"]["b"]:
            run["minor_faults"] = run["peak_mb"] * 2**20 / 4096
        what = "ordered free: times as fast as the best peer without huge pages"
        self.assertEqual(("1.400 ×", criteria.MET), self.verdicts(figures)[what + " (b)"])
        for run in figures["runs"]["ordered free"]["b"]:
            run["minor_faults"] = 10
        self.assertEqual(("", criteria.UNKNOWN), self.verdicts(figures)[what])

    def test_without_peers_nothing_is_told(self):
        self.assertEqual([], targets.findings(figures_of({"x": ("g", 1, {"a": around(1)})}, "a")))

    def test_four_percent_by_sampling_counts_where_the_spreads_are_apart(self):
        figures = figures_of({"x": ("g", 4, {"a": around(1.04, 0.001), "b": around(1.04, 0.001), "c": around(1, 0.001)}),
                              "y": ("g", 4, {"a": around(1.04, 0.02), "b": around(1.04, 0.02), "c": around(1, 0.02)})}, "abc", ours="abc", kind="sampling")
        name = "CPU time: rows with more than 3 %"
        self.assertEqual(("1: x +4.0 %; and 1 whose spreads overlap", criteria.MISSED), self.verdicts(figures)[name])
        for kept in ("rows", "runs", "failed"):
            figures[kept].pop("x", None)
        self.assertEqual(("0; and 1 whose spreads overlap", criteria.UNCLEAR), self.verdicts(figures)[name])

    def test_sampling_is_about_rows_in_which_a_difference_can_be_called(self):
        figures = figures_of({"x": ("g", 1, {"a": around(1.2), "b": around(1.2), "c": around(1)}),
                              "y": ("g", 1, {"a": around(1.002), "b": around(1.001), "c": around(1)})}, "abc", ours="abc", kind="sampling")
        self.assertEqual(("1: x +20.0 %", criteria.MISSED),
                         self.verdicts(figures)["wall time: rows with more than 3 %"])
        self.assertEqual(("+9.6 %, -0.0 %", criteria.MISSED), self.verdicts(figures)["wall time: geometric mean of the changes in 2 rows, and of identical runs"])

    def test_a_row_that_fails_is_missed(self):
        figures = figures_of({"x": ("g", 1, {"a": around(1), "b": around(1)}), "y": ("g", 1, {"b": around(1)})}, "ab", failed={"y": {"a": "crashed"}})
        self.assertEqual(("1: y failed", criteria.MISSED), self.verdicts(figures)["time: rows above 1.15 ×"])

    def test_throughput_may_fall_where_it_cannot_be_told(self):
        def rows(group, times):
            return {f"{group} {threads}": (group, threads, {"a": around(time, spread)}) for threads, time, spread in times}
        figures = figures_of(rows("t-test", [(1, 2, 0.01), (2, 1, 0.01), (5, 1.05, 0.01), (20, 1.2, 0.01)]) |
                             rows("other", [(2, 1, 0.1), (8, 1.05, 0.1), (64, 0.9, 0.1)]), "a", kind="scaling")
        found = self.verdicts(figures)
        self.assertEqual(("0.833 ×", criteria.MISSED), found["t-test: least throughput, relative to that with 2 threads (20 threads)"])
        self.assertEqual(("0.952 ×", criteria.UNCLEAR), found["other: least throughput, relative to that with 2 threads (8 threads)"])


class Order(unittest.TestCase):
    names = list("abcdef")

    def test_the_seed_repeats_it(self):
        self.assertEqual(session.order(7, 1, "row", self.names), session.order(7, 1, "row", self.names))
        self.assertEqual(sorted(session.order(7, 1, "row", self.names)), self.names)

    def test_rounds_and_rows_differ(self):
        orders = {tuple(session.order(7, number, row, self.names)) for number in range(5) for row in ("x", "y")}
        self.assertGreater(len(orders), 8)


class Disturbed(unittest.TestCase):
    def observe(self, *others):
        runs = iter({"disturbed": used > 0.05, "others_cpu_s": used} for used in others)
        with mock.patch.object(measure, "observed", lambda _: next(runs)):
            return session.run_undisturbed(None, 2)

    def test_an_undisturbed_run_is_not_repeated(self):
        self.assertEqual(self.observe(0.01)["attempts"], 1)

    def test_repeated_until_undisturbed(self):
        self.assertEqual(self.observe(0.5, 0.02), {"disturbed": False, "others_cpu_s": 0.02, "attempts": 2})

    def test_given_up_after_two_repetitions_keeping_the_least_disturbed(self):
        self.assertEqual(self.observe(0.5, 0.3, 0.9), {"disturbed": True, "others_cpu_s": 0.3, "attempts": 3})


class Runs(unittest.TestCase):
    def run_sh(self, script, limit_s=10):
        return measure.run_once(["/bin/sh", "-c", script], Allocator("glibc").environment(), limit_s)

    def test_figures(self):
        got = self.run_sh("echo peak_kib 2048; echo ops_per_s 12.5; echo a line of text")
        self.assertEqual(got["peak_mb"], 2)
        self.assertEqual(got["metrics"], {"ops_per_s": 12.5})
        self.assertGreater(got["wall_s"], 0)
        self.assertGreater(got["minor_faults"], 0)

    def test_failures_say_why(self):
        for script, limit_s, why in (("echo lost >&2; exit 3", 10, "exit 3: lost"), ("kill -SEGV $$", 10, "killed by SIGSEGV"),
                                     ("sleep 20", 0.1, "not done after 0.1 s")):
            with self.assertRaisesRegex(measure.Failed, why):
                self.run_sh(script, limit_s)

    def test_others_are_what_the_machine_used_beside_us(self):
        with mock.patch.object(measure, "machine_busy_s", side_effect=[100.0, 103.0]), \
             mock.patch.object(measure, "own_cpu_s", side_effect=[1.0, 2.0]):
            got = measure.observed(lambda: {"wall_s": 1})
        self.assertEqual((got["others_cpu_s"], got["disturbed"]), (2.0, True))

    def test_as_much_memory_is_warmed_as_the_largest_run_had(self):
        runs = {"a": [{"peak_mb": 100.0}, {"peak_mb": 400.0}], "b": [{"peak_mb": None}], "c": []}
        self.assertEqual(session.to_warm(runs, 20_000), 500)
        self.assertEqual(session.to_warm(runs, 600), 300)
        self.assertEqual(session.to_warm({"a": []}, 20_000), session.INITIAL_WARM_MIB)

    def test_each_attempt_begins_with_warm_memory(self):
        seen = []
        with mock.patch.object(measure, "observed", lambda _: seen.append("run") or {"disturbed": len(seen) < 4, "others_cpu_s": 1}):
            session.run_undisturbed(None, 2, lambda: seen.append("warm"))
        self.assertEqual(seen, ["warm", "run", "warm", "run"])

    def test_a_failed_allocator_is_not_tried_again(self):
        def run(allocator, _):
            tried.append(allocator.name)
            if allocator.name == "b":
                raise measure.Failed("killed")
            return {"wall_s": 1.0}
        tried = []
        row = types.SimpleNamespace(name="row", group="g", threads=1, pinned=False, time="wall_s", memory="peak_mb",
                                    subjects=(), rounds=None, turns=1, once=(), run=run)
        options = types.SimpleNamespace(rounds=3, seed=1, repeats=0, limit=1)
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(session, "say"), mock.patch.object(session, "warm"):
            kept = pathlib.Path(folder) / "figures.json"
            session.Session([row], [Allocator("a"), Allocator("b")], options, "comparison").run(kept)
            figures = session.load(kept)
        self.assertEqual((tried.count("a"), tried.count("b")), (3, 1))
        self.assertEqual(figures["failed"], {"row": {"b": "killed"}})
        self.assertEqual([run["round"] for run in figures["runs"]["row"]["a"]], [0, 1, 2])

    def test_callers_allocator_options_do_not_reach_the_program(self):
        with mock.patch.dict(os.environ, {"LD_PRELOAD": "x", "MALLOC_CONF": "y", "MIMALLOC_VERBOSE": "1", "HOME": "/h"}):
            environment = Allocator("a", pathlib.Path("/a.so"), options=(("SEEMALLOC_CONF", "sample:0"),)).environment("/pin.so")
        self.assertEqual((environment["LD_PRELOAD"], environment["SEEMALLOC_CONF"]), ("/pin.so:/a.so", "sample:0"))
        self.assertNotIn("MALLOC_CONF", environment)
        self.assertNotIn("MIMALLOC_VERBOSE", environment)
        self.assertIn("HOME", environment)


# One thread that stays while three others start and end, one of them by pthread_exit; prints the CPUs that each may
# use, main last.
PINNED_PROGRAM = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
static pthread_barrier_t barrier;
static void tell(void) {
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  for (int i = 0; i < CPU_SETSIZE; i++) if (CPU_ISSET(i, &cpus)) printf("%d ", i);
  puts("");
}
static void* note(void* unused) { (void)unused; tell(); return 0; }
static void* stay(void* unused) { note(unused); pthread_barrier_wait(&barrier); pthread_barrier_wait(&barrier); return 0; }
static void* leave(void* unused) { (void)unused; tell(); pthread_exit(0); }
int main(void) {
  pthread_t stays, ends;
  pthread_barrier_init(&barrier, 0, 2);
  pthread_create(&stays, 0, stay, 0);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 3; i++) {
    pthread_create(&ends, 0, i == 1 ? leave : note, 0);
    pthread_join(ends, 0);
  }
  pthread_barrier_wait(&barrier);
  pthread_join(stays, 0);
  tell();
}
"""


@unittest.skipUnless(shutil.which("cc"), "no C compiler")
class Public(unittest.TestCase):
    """Rows of programs that are built elsewhere; here shell scripts stand in for them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.checkout = pathlib.Path(folder.name)
        alone = self.checkout / "alone"
        subprocess.run(["cc", "-o", alone, HERE / "alone.c"], check=True)
        for name in ("out/bench", "bench/barnes"):
            (self.checkout / name).mkdir(parents=True)
        self.enterContext(mock.patch.object(public, "ALONE", alone))

    def row(self, name, script):
        row = next(row for row in public.rows_in(self.checkout, 2) if row.name == name)
        program = row.folder / row.program
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return row

    def run_row(self, name, script):
        return self.row(name, script).run(Allocator("glibc").environment(), 10)

    def test_wall_time_and_the_programs_own_peak(self):
        got = self.run_row("cfrac", "echo peak_kib 1")
        self.assertEqual(list(got["metrics"]), [])
        self.assertTrue(0.2 < got["peak_mb"] < 10, got["peak_mb"])

    def test_a_rate_becomes_the_time_of_a_million(self):
        for name, script, seconds in (("larsonN", "echo 'Throughput =  2000000 operations per second, relative'", 0.5),
                                      ("xmalloc-testN", "echo 'rtime: 5.0, free/sec: 4.000 M'", 0.25),
                                      ("glibc-thread", "echo 10000000 iterations", 0.2)):
            self.assertEqual(self.run_row(name, script)["metrics"], {"seconds_per_million": seconds}, name)

    def test_input_folder_and_arguments(self):
        (self.checkout / "bench/barnes/input").write_text("bodies\n")
        self.run_row("barnes", "read line; test $line = bodies && test -x ./barnes")
        self.run_row("t-test1", 'test "$*" = "1000 2 10000 10000 400"')

    def test_failures_say_why(self):
        for name, script, why in (("cfrac", "echo lost >&2; exit 3", "exit 3: lost"), ("cfrac", "kill -SEGV $$", "Segmentation fault"),
                                  ("larsonN", "echo nothing", "no rate in what it printed: nothing")):
            with self.assertRaisesRegex(measure.Failed, why):
                self.run_row(name, script)

    def test_the_program_runs_on_the_allocator(self):
        environment = {**Allocator("glibc").environment(), "LD_PRELOAD": "libm.so.6"}
        self.row("cfrac", 'test "$LD_PRELOAD" = libm.so.6').run(environment, 10)

    def test_what_is_not_there_is_named(self):
        row = next(row for row in public.rows_in(self.checkout) if row.name == "barnes")
        self.assertIn("out/bench/barnes", row.available())
        self.assertIsNone(self.row("cfrac", "").available())


@unittest.skipUnless(shutil.which("cc"), "no C compiler")
class Pinning(unittest.TestCase):
    def test_each_thread_gets_the_emptiest_cpu(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program")
            program.with_suffix(".c").write_text(PINNED_PROGRAM)
            compile = ["cc", "-pthread", "-o"]
            subprocess.run([*compile, f"{folder}/libpin.so", "-shared", "-fPIC", HERE / "pin.c"], check=True)
            subprocess.run([*compile, program, program.with_suffix(".c")], check=True)
            printed = subprocess.run([program], env={"LD_PRELOAD": f"{folder}/libpin.so"}, check=True, capture_output=True).stdout
        told = [[int(word) for word in line.split()] for line in printed.splitlines()]
        self.assertEqual([len(cpus) for cpus in told], [1] * 5)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertEqual(told[4], [min(os.sched_getaffinity(0))])
            self.assertNotIn(told[0], told[1:4])


class Programs(unittest.TestCase):
    def run_row(self, once):
        row = types.SimpleNamespace(name="row", group="g", threads=1, run=lambda environment, _: once())
        return session.Program(row).run(Allocator("glibc"), 10)

    def test_a_figure_that_was_not_printed_is_a_failure(self):
        with self.assertRaisesRegex(measure.Failed, "missing in what it printed: 'rps'"):
            self.run_row(lambda: {}["rps"])
        with self.assertRaisesRegex(measure.Failed, "missing in what it printed: list index"):
            self.run_row(lambda: [][0])

    def test_redis_benchmark_without_a_rate_is_a_failure(self):
        fake = mock.MagicMock()
        fake.run.side_effect = [f'"test","avg_latency_ms"\n"{test.upper()}","1.0"\n' for test in redis.REQUESTS]
        with self.assertRaisesRegex(measure.Failed, "'rps'"):
            self.run_row(lambda: redis.once(fake))

    def test_drivers_get_no_allocators_options(self):
        given = {variable: "x" for _, _, variable, _ in allocators.VARIANTS + allocators.PROFILERS}
        given |= {"LD_PRELOAD": "x", "DUMP_HEAPTRACK_OUTPUT": "x", "HOME": "/h"}
        self.assertEqual(process.without_allocator(given), {"HOME": "/h"})

    def test_before_an_allocator_of_the_programs_own_comes_the_one_under_test_and_the_c_librarys(self):
        own = [(True, {}, ["libc"]), (True, {"LD_PRELOAD": "/a.so"}, ["a.so", "libc"]),
               (False, {}, []), (False, {"LD_PRELOAD": "/a.so"}, ["a.so"])]
        for links, environment, wanted in own:
            with mock.patch.object(process, "links_an_allocator", lambda _: links), process.Run("row", environment, 10) as run:
                got = process.preloaded(run._under_test(["program"], {}))
            self.assertEqual([re.sub(r"[.-][\d.]*so.*", "", os.path.basename(path)) if "libc" in path else os.path.basename(path)
                              for path in got], wanted, (links, environment))


class WhereTimeGoes(unittest.TestCase):
    REPORT = """\
# Overhead  Shared Object         Symbol
    40.00%  redis-server          [.] dictFind                 -      -
     2.80%  libseemalloc.so       [.] malloc                   -      -            
     1.00%  libseemalloc.so       [.] seemalloc::heap::refill
     0.20%  libseemalloc.so       [.] seemalloc::profile::(anonymous namespace)::Walk::step
     0.10%  libseemalloc.so       [.] seemalloc::heap::allocate_sampled
     0.05%  libseemalloc.so       [.] seemalloc::(anonymous namespace)::free_sampled_block
     0.04%  libseemalloc.so       [.] seemalloc::heap::leave_home
     0.01%  libseemalloc.so       [.] seemalloc::record_sample
     7.00%  [kernel.kallsyms]     [k] seemalloc::profile::of_somebody_else
"""

    def test_share_of_sampling(self):
        found = where_time_goes.shares_in(self.REPORT)
        self.assertAlmostEqual(found["allocator_percent"], 4.2)
        self.assertAlmostEqual(found["sampling_percent"], 0.4)

    def test_another_allocator_is_a_failure(self):
        with self.assertRaisesRegex(process.Failed, "malloc"):
            where_time_goes.shares_in(self.REPORT.replace("libseemalloc", "libother"))

    def test_what_serves_samples_is_found_by_its_name(self):
        library = allocators.OUT / "lib/libseemalloc.so"
        if not library.exists():
            self.skipTest(f"{library} is not built")
        names = subprocess.run(["nm", "-C", library], capture_output=True, text=True, check=True).stdout
        for part in ("profile::", "record_sample", "record_sampled_free", "free_sampled_block", "allocate_sampled", "leave_home"):
            self.assertTrue(any(part in line and where_time_goes.SAMPLING.match(line.split(" ", 2)[2]) for line in names.splitlines() if line.count(" ") > 1), part)


class Readme(unittest.TestCase):
    def test_it_counts_the_rows_of_each_group(self):
        from catalog import ROWS
        counts = collections.Counter(row.group for row in ROWS)
        told = re.findall(r"^\| ([a-z, -]+) \| (\d+) \|", (HERE.parent / "README.md").read_text(), re.M)
        self.assertEqual({groups: int(count) for groups, count in told},
                         {groups: sum(counts.pop(group) for group in groups.split(", ")) for groups, _ in told})
        self.assertEqual(set(counts), set())


class FiguresInReadme(unittest.TestCase):
    TEXT = f"# x\n\n{readme.BEGIN}\n| | a |\n|---|\n| peak memory, 9 workloads | 1.00 |\n| other | 2.00 |\n{readme.END}\nrest\n"

    def test_a_comparison_gives_the_means_of_time_and_memory(self):
        figures = figures_of({"one": ("g", 1, {"seemalloc": around(1), "glibc": around(4)}),
                              "two": ("g", 1, {"seemalloc": around(1), "glibc": around(1)})}, ("seemalloc", "glibc"), ours=("seemalloc",))
        lines = dict(readme.of_comparison(figures))
        self.assertEqual(lines["run time"], "| run time, 2 workloads, to the best allocator of each | **1.00** | – | – | – | 2.00 |")
        self.assertIn("peak memory", lines)

    def test_nothing_is_said_without_seemalloc(self):
        self.assertEqual(list(readme.of_comparison(figures_of({"one": ("g", 1, {"glibc": around(1)})}, ("glibc",)))), [])

    def test_the_cost_of_profilers_is_relative_to_glibc_without(self):
        figures = figures_of({"shop": ("p", 1, {"seemalloc": [10.0], "glibc": [8.0], "glibc heaptrack": [2.0]})},
                             ("seemalloc", "glibc", "glibc heaptrack"), ours=("seemalloc",))
        (label, line), = readme.of_profiling(figures, {"shop": "wall_s", "not measured": "wall_s"})
        self.assertTrue(line.endswith("| **0.80** | – | – | – | 4.00 |"), line)
        self.assertTrue(line.startswith(f"| {label}, 1 services"), line)

    def test_a_line_replaces_the_one_of_its_label_and_the_rest_stays(self):
        text = readme.updated(self.TEXT, [("peak memory", "| peak memory, 10 workloads | 3 |"), ("run time", "| run time | 4 |")])
        rows = [one for one in text.splitlines() if one.startswith("|")]
        self.assertEqual(rows[2:], ["| peak memory, 10 workloads | 3 |", "| other | 2.00 |", "| run time | 4 |"])
        self.assertTrue(text.startswith("# x\n") and text.endswith(f"{readme.END}\nrest\n"))
        self.assertEqual(readme.updated(text, [("run time", "| run time | 4 |")]), text)

    def test_a_readme_without_the_marks_is_an_error(self):
        with self.assertRaises(ValueError):
            readme.updated("# x\n", [])

    def test_readme_has_the_marks(self):
        readme.updated(readme.README.read_text(), [])


class Tables(unittest.TestCase):
    def setUp(self):
        self.figures = figures_of({
            "first": ("group one", 1, {"a": around(2), "b": around(1)}),
            "second": ("group two", 2, {"a": around(1.1), "b": around(1)})}, "abc",
            failed={"first": {"c": "killed by SIGSEGV\nmore"}, "second": {"c": "exit 1"}})

    def test_comparison(self):
        text = tables.report(self.figures, [("A title", "plots/x.svg")])
        for part in ("| first | 2.00 2.00×<br><small>1.99–2.01</small> | **1.00**<br><small>0.990–1.01</small> | failed |",
                     "| second | 1.10 ~1.10×", "| group one (1) | 2.00× | **1.00×** |  |", "- first: c: killed by SIGSEGV\n",
                     "![A title](plots/x.svg)", "## Every row", "| first | wall time | 2.00× | b |", "| first: kept_mb | 3.00 | 2.00 |  |"):
            self.assertIn(part, text)

    def test_every_line_of_a_table_has_as_many_columns(self):
        columns = 0
        for line in tables.report(self.figures).splitlines():
            now = line.count("|") if line.startswith("|") else 0
            if columns and now:
                self.assertEqual(now, columns, line)
            columns = now

    def test_numbers(self):
        self.assertEqual([tables.number(value) for value in (1234567, 12.34, 1.234, 0.1234, 0)],
                         ["1,234,567", "12.3", "1.23", "0.123", "0.000"])


if __name__ == "__main__":
    run_tests()
