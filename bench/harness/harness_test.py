#!/usr/bin/python3
"""Tests of the runner: what may be called a difference, the order, one run, the tables. `./dev test bench` runs them.

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
from harness import compare, measure, session, tables
from harness.allocators import Allocator


def figures_of(rows, names, ours=("a",), failed=None, kind="comparison"):
    """Figures as Session keeps them: row → (group, threads, {name: [wall_s, …]}); memory is ten times the time."""
    def run(value):
        return {"wall_s": value, "cpu_s": value, "system_s": 0, "peak_mb": value * 10, "minor_faults": 1, "major_faults": 0,
                "voluntary_switches": 1, "involuntary_switches": 1, "others_cpu_s": 0, "disturbed": False, "attempts": 1,
                "metrics": {"kept_mb": value + 1}}
    return {
        "kind": kind, "when": "today", "rounds": 5, "seed": 1, "commit": "", "ours": list(ours),
        "machine": {"cores": 2, "cpu": "x", "memory_gb": 1, "system": "", "kernel": "", "huge_pages": "", "governor": "",
                    "load_at_start": 0},
        "allocators": {name: {"version": "1"} for name in names},
        "rows": {row: {"group": group, "threads": threads, "time": "wall_s", "memory": "peak_mb"}
                 for row, (group, threads, _) in rows.items()},
        "runs": {row: {name: [run(value) for value in values.get(name, [])] for name in names}
                 for row, (_, _, values) in rows.items()},
        "failed": {row: (failed or {}).get(row, {}) for row in rows},
    }


def around(middle, spread=0.01):
    return [middle + spread * step for step in (-1, -0.5, 0, 0.5, 1)]


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
            total = int(row.arguments[0]) * int(row.arguments[1]) if row.program == "random_replace" else row.arguments[1]
            work.setdefault(row.group, set()).add((total, row.arguments[2]))
        self.assertEqual([len(kinds) for kinds in work.values()], [1] * len(work))


class About(unittest.TestCase):
    def test_counts_the_rounds_that_were_made(self):
        figures = figures_of({"row": ("g", 1, {"a": [1, 1, 1], "b": [1, 1, 1]})}, ["a", "b"])
        self.assertEqual(figures["rounds"], 5, "asked for")
        self.assertIn("today, 3 rounds, ", tables.about(figures))


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

    def test_a_failed_allocator_is_not_tried_again(self):
        def run(allocator, _):
            tried.append(allocator.name)
            if allocator.name == "b":
                raise measure.Failed("killed")
            return {"wall_s": 1.0}
        tried = []
        row = types.SimpleNamespace(name="row", group="g", threads=1, pinned=False, time="wall_s", memory="peak_mb", run=run)
        options = types.SimpleNamespace(rounds=3, seed=1, repeats=0, limit=1)
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(session, "say"):
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


# One thread that stays while three come and go, one of them by pthread_exit; prints the CPUs that each may use, main last.
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


class Readme(unittest.TestCase):
    def test_it_counts_the_rows_of_each_group(self):
        from catalog import ROWS
        counts = collections.Counter(row.group for row in ROWS)
        told = re.findall(r"^\| ([a-z, -]+) \| (\d+) \|", (HERE.parent / "README.md").read_text(), re.M)
        self.assertEqual({groups: int(count) for groups, count in told},
                         {groups: sum(counts.pop(group) for group in groups.split(", ")) for groups, _ in told})
        self.assertEqual(set(counts), set())


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
    result = unittest.main(exit=False).result
    lost = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - lost - len(result.skipped)} passed, {lost} failed, {len(result.skipped)} skipped", flush=True)
    sys.exit(1 if lost else 0)
