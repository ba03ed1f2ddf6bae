#!/usr/bin/python3
"""Tests of the proofs: their criteria, series, reports and the cgroup that some run in. `./dev test bench` runs them.

Ends with "N passed, N failed, N skipped".
"""
import collections
import math
import pathlib
import random
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)
import profiling
import proofs
from harness import allocators, cgroup, criteria, measure, proof_report, session
from harness.allocators import Allocator
from harness.figures_for_test import figures_of, run_tests


def proof_figures(runs, failed=None, options=None):
    """Figures of proofs: row → {name: [metrics, …]}; a metric that is a list is a series."""
    def run(place, metrics):
        series = {name: value for name, value in metrics.items() if isinstance(value, list)}
        plain = {name: value for name, value in metrics.items() if name not in series}
        return {"wall_s": 1.0, "others_cpu_s": 0, "disturbed": False, "attempts": 1, "metrics": plain,
                "round": plain.pop("round", place), "turn": plain.pop("turn", 0), **({"series": series} if series else {})}
    names = sorted({name for some in runs.values() for name in some})
    figures = figures_of({row: ("g", 1, {}) for row in runs}, names, failed=failed, kind="proofs")
    figures["runs"] = {row: {name: [run(*one) for one in enumerate(some)] for name, some in row_runs.items()} for row, row_runs in runs.items()}
    for name, described in figures["allocators"].items():
        described["options"] = (options or {}).get(name, {})
    return figures


def line(first, last, count=64):
    """A series over a minute that moves from one value to the other."""
    return [[60 * i / (count - 1), first + (last - first) * i / (count - 1)] for i in range(count)]


class Criteria(unittest.TestCase):
    def test_a_limit_holds_for_the_median_and_for_equality(self):
        figures = proof_figures({"row": {"a": [{"x": 3}, {"x": 9}, {"x": 5}]}})
        for limit, verdict in ((6, criteria.MET), (5, criteria.MET), (4, criteria.MISSED)):
            self.assertEqual(criteria.below(figures, "row", "a", "x", limit, "").verdict, verdict)
        self.assertEqual(criteria.above(figures, "row", "a", "x", 5, "").verdict, criteria.MET)
        self.assertEqual(criteria.above(figures, "row", "a", "x", 6, "").verdict, criteria.MISSED)

    def test_what_may_never_be_exceeded_is_compared_with_the_largest(self):
        figures = proof_figures({"row": {"a": [{"x": 3}, {"x": 9}, {"x": 5}]}})
        for limit, verdict in ((9, criteria.MET), (8, criteria.MISSED)):
            self.assertEqual(criteria.never_above(figures, "row", "a", "x", limit, "").verdict, verdict)
        self.assertEqual(criteria.never_above(figures, "row", "b", "x", 9, "").verdict, criteria.UNKNOWN)

    def test_a_ratio_is_shown_as_exactly_as_its_limit(self):
        figures = proof_figures({"row": {"a": [{"x": 994}], "b": [{"x": 1000}]}})
        found = criteria.at_least(figures, ("row", "a"), ("row", "b"), "x", 0.995, "")
        self.assertEqual((found.found, found.limit, found.verdict), ("0.994 ×", "at least 0.995 ×", criteria.MISSED))

    def test_without_figures_nothing_is_met(self):
        figures = proof_figures({"row": {"a": [{"x": 1}], "b": [{"y": 1}]}}, failed={"row": {"a": "killed"}})
        for row, name in (("row", "a"), ("row", "b"), ("row", "c"), ("another", "a")):
            self.assertEqual(criteria.below(figures, row, name, "x", 9, "").verdict, criteria.UNKNOWN)
            self.assertEqual(criteria.at_most(figures, (row, name), ("row", "b"), "x", 9, "").verdict, criteria.UNKNOWN)
            self.assertEqual(criteria.no_growth(figures, row, name, 9).verdict, criteria.UNKNOWN)

    def test_a_missed_ratio_counts_only_where_the_spreads_are_apart(self):
        for one, verdict in (([5, 5.2, 5.3], criteria.MET), ([5.6, 5.7, 5.8], criteria.MISSED), ([5.1, 5.7, 5.8], criteria.UNCLEAR)):
            both = {"a": one, "b": [4.9, 5, 5.1]}
            figures = proof_figures({"row": {name: [{"x": value} for value in some] for name, some in both.items()}})
            self.assertEqual(criteria.at_most(figures, ("row", "a"), ("row", "b"), "x", 1.1, "").verdict, verdict, one)

    def test_one_run_each_is_compared_as_it_is(self):
        figures = proof_figures({"row": {"a": [{"x": 8}], "b": [{"x": 10}]}})
        self.assertEqual(criteria.at_least(figures, ("row", "a"), ("row", "b"), "x", 0.9, "").verdict, criteria.MISSED)
        self.assertEqual(criteria.at_least(figures, ("row", "a"), ("row", "b"), "x", 0.8, "").verdict, criteria.MET)

    def paired(self, ratios, limit=0.99, base=lambda turn: 100 + 50 * turn):
        def runs(value):
            return [{"round": turn // 4, "turn": turn % 4, "x": value(turn)} for turn in range(len(ratios))]
        figures = proof_figures({"row": {"a": runs(lambda turn: base(turn) * ratios[turn]), "b": runs(base)[::-1]}})
        return criteria.paired(figures, "row", "a", "b", "x", limit, "at least", "")

    def test_pairs_are_judged_by_the_interval_of_their_median(self):
        # The machine doubles its speed meanwhile: the spreads of the two are meaningless.
        for ratios, verdict, found in (([0.995] * 12, criteria.MET, "0.995 × (0.995–0.995, 12 pairs)"),
                                       ([0.98] * 12, criteria.MISSED, "0.980 × (0.980–0.980, 12 pairs)"),
                                       ([0.97, 0.98, 1.0] * 4, criteria.INTERVAL_REACHES_LIMIT, "0.980 × (0.970–1.000, 12 pairs)"),
                                       ([0.97, 1.0, 1.0] * 4, criteria.MET, "1.000 × (0.970–1.000, 12 pairs)"),
                                       ([0.98] * 5, criteria.TOO_FEW, "0.980 × (5 pairs)"),
                                       ([0.995] * 5, criteria.MET, "0.995 × (5 pairs)"),
                                       ([0.98] * 6, criteria.MISSED, "0.980 × (0.980–0.980, 6 pairs)")):
            got = self.paired(ratios)
            self.assertEqual((got.verdict, got.found), (verdict, found))
        self.assertEqual(self.paired([]).verdict, criteria.UNKNOWN)

    def test_a_turn_in_which_one_did_not_run_is_no_pair(self):
        runs = [{"round": 0, "turn": turn, "x": 10} for turn in range(4)]
        figures = proof_figures({"row": {"a": runs, "b": runs[2:] + [{"round": 1, "turn": 0, "x": 10}]}})
        self.assertEqual(criteria.pairs(figures, "row", "a", "b", "x"), [1, 1])

    def test_slices_of_one_process_are_pairs(self):
        def run(on, off):
            return {"slices": {"on": [{"x": one} for one in on], "off": [{"x": one, "y": 1} for one in off]}}
        figures = proof_figures({"row": {"a": [{}, {}]}})
        for place, slices in enumerate((run([99, 198, 396], [100, 200, 400]), run([990, 99, 9.9], [1000, 100, 10]))):
            figures["runs"]["row"]["a"][place].update(slices)

        def judged(*values):
            return criteria.sliced(figures, ("row", "a"), values, "x", 0.995, "at least", "")
        self.assertEqual((judged("on", "off").found, judged("on", "off").verdict), ("0.990 × (0.990–0.990, 6 pairs)", criteria.MISSED))
        self.assertEqual(judged("off", "on").verdict, criteria.MET)
        columns = [proofs.Column("speed", "x"), proofs.Column("other", "y"), proofs.Column("nobody's", "z")]
        self.assertEqual([line.replace(" ", "") for line in proof_report.row_table(figures, "row", columns).splitlines()[2:]],
                         ["||speed|other|", "|---|--:|--:|", "|a,on|148<br><small>9.90–990</small>||", "|a,off|150<br><small>10–1,000</small>|1|"])
        figures["failed"]["row"] = {"a": "killed"}
        self.assertEqual(judged("on", "off").verdict, criteria.UNKNOWN)

    def test_the_interval_has_the_true_median_in_95_of_100_measurements(self):
        some = random.Random(1)
        inside = 0
        for _ in range(2000):
            low, high = criteria.interval(sorted(some.lognormvariate(0, 1) for _ in range(21)))
            inside += low <= 1 <= high
        self.assertTrue(0.94 < inside / 2000 < 0.99, inside)
        self.assertIsNone(criteria.interval([1, 2, 3, 4, 5]))  # all on one side: once in 16
        self.assertEqual(criteria.interval([1, 2, 3, 4, 5, 6]), (1, 6))

    def test_flat_is_about_the_worst_row_against_the_first(self):
        rows = ("1", "3", "10")
        for values, verdict in (((10, 11, 10), criteria.MET), ((10, 12, 10), criteria.MISSED), ((10, 8, 6), criteria.MET)):
            figures = proof_figures({row: {"a": [{"x": value}]} for row, value in zip(rows, values)})
            self.assertEqual(criteria.flat(figures, "a", "x", rows, 1.1, "").verdict, verdict, values)
        self.assertEqual(criteria.flat(figures, "a", "x", (*rows, "30"), 1.1, "").verdict, criteria.UNKNOWN)

    def test_growth_is_from_the_end_of_the_first_quarter_to_the_end(self):
        self.assertEqual(criteria.growth(line(100, 100)), 1)
        self.assertAlmostEqual(criteria.growth(line(0, 100)), 0.9375 / 0.1875, delta=0.2)
        warming_up = [[i, 10 if i < 8 else 100] for i in range(65)]
        self.assertEqual(criteria.growth(warming_up), 1)
        self.assertIsNone(criteria.growth([]))
        self.assertIsNone(criteria.growth([[0.0, 1], [1.0, 1]]))

    def test_a_leak_is_growth(self):
        for last, verdict in ((104, criteria.MET), (120, criteria.MISSED)):
            figures = proof_figures({"row": {"a": [{"rss_kib": line(100, last)}]}})
            self.assertEqual(criteria.no_growth(figures, "row", "a", 1.05).verdict, verdict)

    def test_a_rate_is_of_the_second_half(self):
        points = [[0, 0], [10, 90_000], [20, 100_000], [30, 110_000]]
        self.assertEqual(criteria.rate(proof_figures({"row": {"a": [{"faults": points}]}}), "row", "a", "faults"), 1000)
        self.assertIsNone(criteria.rate(proof_figures({"row": {"a": [{}]}}), "row", "a", "faults"))


class Series(unittest.TestCase):
    def test_points_are_read_and_other_lines_are_not(self):
        printed = "series rss_kib 0.5 100\nseries rss_kib 1.0 200\nseries maps 0.5 7\nrss_most_kib 200\nseries torn 1\n"
        self.assertEqual(measure.series_of(printed), {"rss_kib": [[0.5, 100], [1.0, 200]], "maps": [[0.5, 7]]})
        self.assertEqual(measure.metrics_of(printed), {"rss_most_kib": 200})


class Proofs(unittest.TestCase):
    def setUp(self):
        base = ("seemalloc", "glibc", "mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "jemalloc", "gperftools")
        self.names = {*base, *(f"{name} {variant}" for name, variant, _, _ in allocators.VARIANTS)}

    def test_rows_have_names_of_their_own_and_run_on_allocators_that_exist(self):
        names = [row.name for row in proofs.ROWS]
        self.assertEqual(len(names), len(set(names)))
        for row in proofs.ROWS:
            self.assertTrue(row.subjects)
            self.assertLessEqual(set(row.subjects), self.names, row.name)

    def test_every_variant_is_used(self):
        used = {name for row in proofs.ROWS for name in row.subjects}
        self.assertLessEqual({f"{name} {variant}" for name, variant, _, _ in allocators.VARIANTS}, used)

    def test_nothing_is_met_without_figures(self):
        for suite in (proofs, profiling):
            figures = proof_figures({row.name: {} for row in suite.ROWS})
            for proof in suite.PROOFS:
                findings = list(proof.judge(figures))
                self.assertTrue(findings, proof.key)
                self.assertEqual({one.verdict for one in findings}, {criteria.UNKNOWN}, proof.key)
            self.assertIn(f"# {suite.TITLE}\n", proof_report.report(figures, suite))

    def objects(self, **factors):
        """The findings for objects freed in order: 10 ns each with 1 M of them, and `factors` times that with more, by
        allocator."""
        def run(name, row):
            return {"ns_per_block": 10 * (factors.get(name, 1) if row != proofs.IN_ORDER[0] else 1), "free_ns": 2, "wall_s": 1, "drop_s": 0.1}
        runs = {row.name: {name: [run(name, row)] for name in row.subjects} for row in (*proofs.IN_ORDER, *proofs.SHUFFLED, *proofs.STRINGS)}
        runs[proofs.STRINGS[0].name][proofs.OURS][0]["drop_s"] = factors.get("drop", 1) * 0.1
        return list(proofs.judge_objects(proof_figures(runs)))

    def test_what_purge_never_grows_by_is_shown_and_not_judged(self):
        def missed(**factors):
            return [one.what for one in self.objects(**factors) if one.verdict == criteria.MISSED]
        never = [one for one in self.objects(**{proofs.NEVER: 1.5}) if one.verdict == criteria.NOT_JUDGED]
        self.assertEqual([(one.what, one.found[:7], one.limit) for one in never],
                         [("seemalloc never: ns per object", "1.500 ×", ""), ("seemalloc never: of it the frees", "1.000 ×", "")])
        self.assertEqual(missed(**{proofs.NEVER: 1.5}), [])
        self.assertEqual(missed(**{proofs.OURS: 1.5, proofs.NEVER: 1.5}), ["seemalloc: ns per object"], "the machine's, not the purge's")
        self.assertEqual(missed(**{proofs.OURS: 1.2})[1:],
                         [f"seemalloc against purge:never: {row.name}: ns per object" for row in proofs.IN_ORDER[1:]])
        figures = proof_figures({row.name: {} for row in proofs.ROWS})
        self.assertEqual({one.verdict for one in proofs.judge_objects(figures)}, {criteria.UNKNOWN})

    def test_strings_that_are_not_sorted_are_dropped_as_fast(self):
        missed = [one.what for one in self.objects(drop=1.1) if one.verdict == criteria.MISSED]
        self.assertEqual(missed, ["seemalloc: 3 M strings, not sorted, against sorted: the drop"])

    def test_each_proof_has_a_picture(self):
        for proof in proofs.PROOFS:
            self.assertTrue(proof.plot, proof.key)
            self.assertEqual(bool(proof.axes), proof.plot != "by_objects", proof.key)

    def test_profiles_are_measured_on_allocators_that_exist_each_at_least_once(self):
        names = {f"{name} {variant}" for name, variant, _, _ in allocators.PROFILERS}
        names |= {"seemalloc", "glibc", "glibc heaptrack", "jemalloc-debian", "gperftools-profiler"}
        used = {name for row in profiling.ROWS for name in row.subjects}
        self.assertEqual(used, names)

    def test_an_estimate_is_compared_with_what_is_held(self):
        # Blocks of the interval's size: p = 1 − 1/e; 1000 of them have a standard error of 24.1 blocks.
        block, total = profiling.INTERVAL, 1000 * profiling.INTERVAL
        truths = profiling.truths_of(f"peak_kib 7\ntruth right {total} {block}\ntruth off {total} {block}\ntruth gone {total} {block}\n")
        functions = [{"name": "right", "cum": total}, {"name": "off", "cum": total - 48 * block}, {"name": "other", "cum": 9}]
        right, off, gone = [errors for _, errors in profiling.deviations(truths, {"functions": functions})]
        self.assertEqual(right, 0)
        self.assertAlmostEqual(off, -1.99, 2)
        self.assertAlmostEqual(gone, -41.5, 1)

    def judged_truth(self, rng, factor=1.0, only=None):
        """The verdicts on 20 made-up profiles of the blocks of known_truth; all estimates, or those of one block size,
        times the factor."""
        compared = []
        for _ in range(profiling.RUNS):
            truths, functions = [], []
            for percent, block in ((30, 96), (20, 256), (15, 1024), (10, 64), (8, 5120), (7, 32768), (5, 303104), (5, 3_006_464)):
                count, p = math.ceil(1074e4 * percent / block), profiling.chance(block)
                sampled = (sum(rng.random() < p for _ in range(count)) if count < 1000
                           else round(rng.gauss(count * p, math.sqrt(count * p * (1 - p)))))
                truths.append((str(block), count * block, block))
                wrong = factor if only in (None, block) else 1
                functions.append({"name": str(block), "cum": round(wrong * sampled * block / p)})
            compared.append((truths, {"functions": functions}))
        figures = proof_figures({profiling.TRUTH.name: {profiling.OURS: [{**profiling.summary(compared), "metadata_percent": 0.5}]}})
        return [one.verdict for one in profiling.judge_truth(figures)]

    def test_right_profiles_meet_the_criterion_and_wrong_ones_do_not(self):
        rng = random.Random(2)
        right = [set(self.judged_truth(rng)) == {criteria.MET} for _ in range(500)]
        self.assertGreaterEqual(sum(right), 475, "by chance one in 40 is missed")
        for factor in (0.94, 1.06):
            self.assertEqual(self.judged_truth(rng, factor, only=96)[0], criteria.MISSED, factor)
        self.assertEqual(self.judged_truth(rng, 0.5), [criteria.MISSED] * 3 + [criteria.MET])

    def test_one_dump_that_takes_too_long_misses(self):
        def judged(longest, without=250):
            # Waiting for a processor is caused by other processes, however long it takes.
            runs = [{"dump_ms": 90, "longest_pause_us": 9000 + pause, "longest_pause_held_us": pause, "longest_pause_without_us": 200,
                     "longest_pause_without_held_us": without} for pause in (300, 200, longest, 300, 200)]
            return [one.verdict for one in profiling.judge_stacks(proof_figures({profiling.STACKS.name: {profiling.ALL: runs}}))]
        self.assertEqual(judged(900), [criteria.MET, criteria.MET])
        self.assertEqual(judged(1100), [criteria.MET, criteria.MISSED])
        self.assertEqual(judged(1100, 1050), [criteria.MET, criteria.MISSED])
        self.assertEqual(judged(1100, 4900), [criteria.MET, criteria.AS_WITHOUT])

    def test_report(self):
        runs = {row.name: {name: [{"requests_per_s": 100 if name == proofs.OURS else 101, "p99_us": 10, "rss_kib": line(1, 1)}]
                           for name in row.subjects} for row in proofs.ROWS}
        figures = proof_figures(runs, {proofs.RPC.name: {"glibc": "killed"}}, {"seemalloc eager": {"SEEMALLOC_CONF": "purge:eager"}})
        text = proof_report.report(figures, proofs, [("An RPC echo server", "plots/proof-rpc.svg")])
        for part in ("| requests/s, default against purge:never | 0.990 × (1 pairs) | at least 0.990 × | met |",
                     "![An RPC echo server](plots/proof-rpc.svg)",
                     "- seemalloc eager: `SEEMALLOC_CONF=purge:eager`", "| glibc | failed |", "(#an-rpc-echo-server) | ",
                     f"| seemalloc: growth of RSS, {proofs.ONE_WAY.name} | 1.000 × | at most 1.050 × | met |"):
            self.assertIn(part, text)
        columns = 0
        for one in text.splitlines():
            now = one.count("|") if one.startswith("|") else 0
            self.assertTrue(not columns or not now or now == columns, one)
            columns = now

    def test_a_row_runs_on_its_own_allocators_and_for_its_own_rounds(self):
        def row(name, **more):
            run = lambda allocator, _: ran.append((name, allocator.name)) or {"wall_s": 1.0}  # noqa: E731
            return types.SimpleNamespace(name=name, group="g", threads=1, pinned=False, time=None, memory=None, run=run,
                                         **{"subjects": (), "rounds": None, "turns": 1, "once": (), **more})
        ran = []
        options = types.SimpleNamespace(rounds=2, seed=1, repeats=0, limit=1)
        rows = [row("all"), row("some", subjects=("b",)), row("once", rounds=1), row("often", subjects=("a",), turns=3), row("slow", once=("b",))]
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(session, "say"), mock.patch.object(session, "warm"):
            kept = pathlib.Path(folder) / "figures.json"
            figures = session.Session(rows, [Allocator("a"), Allocator("b")], options, "proofs").run(kept)
        self.assertEqual(collections.Counter(ran), {("all", "a"): 2, ("all", "b"): 2, ("some", "b"): 2, ("once", "a"): 1, ("once", "b"): 1,
                                                    ("often", "a"): 6, ("slow", "a"): 2, ("slow", "b"): 1})
        self.assertEqual(list(figures["runs"]["some"]), ["b"])


class InCgroup(unittest.TestCase):
    def run_in(self, script, kills):
        row = cgroup.InCgroup(next(row for row in proofs.ROWS if row.cgroup_mib))
        row.command = ["/bin/sh", "-c", script]
        folder = types.SimpleNamespace(command=lambda *words: ["sh", *words[1:]], kills=lambda: kills, peak_bytes=lambda: 3 << 20)
        return row.run_in(folder, Allocator("glibc"), 10)

    def test_killed_by_the_limit_is_a_result(self):
        self.assertEqual(self.run_in("kill -KILL $$", 1)["metrics"], {"lived": 0, "cgroup_peak_kib": 3072})
        lived = self.run_in("true", 0)
        self.assertEqual((lived["metrics"]["lived"], lived["wall_s"] > 0), (1, True))

    def test_any_other_failure_is_one(self):
        with self.assertRaisesRegex(measure.Failed, "exit 3"):
            self.run_in("exit 3", 0)


if __name__ == "__main__":
    run_tests()
