"""Evaluates figures: medians, ratios to the best of a row, and whether a difference is significant.

With five runs each, two identical allocators come apart (no run of one between those of the other) once in 126 times; with
three, once in ten. And identical programs differ from one start to the next by the addresses of their memory. So no
difference is called
1. with fewer than five runs of either;
2. where the smallest-to-largest spreads overlap;
3. where times differ by less than 5 %, or by less than 15 % with two threads or more (sampling on and off: by less than half a percent).
"""
import dataclasses
import math
import statistics

LEAST_RUNS = 5
LEAST_DIFFERENCE = {"one": 0.05, "more": 0.15}
LEAST_OF_SAMPLING = 0.005  # the same library, and two series of the same kind: their spreads decide
TIMES = ("wall_s", "cpu_s")
FLOOR = 1e-6  # a time or a size of zero has no ratio


@dataclasses.dataclass(frozen=True)
class Cell:
    median: float
    low: float
    high: float
    ratio: float  # of the medians, to the best
    best: bool
    unclear: bool  # no difference to the best can be called


def least_difference(measure, threads):
    if measure not in TIMES:
        return 0.0  # memory: a program's usage hardly changes from run to run
    return LEAST_DIFFERENCE["one" if threads < 2 else "more"]


def differ(one, two, least):
    """Whether these two lists of values differ significantly."""
    if min(len(one), len(two)) < LEAST_RUNS or (min(one) <= max(two) and min(two) <= max(one)):
        return False
    small, large = sorted((statistics.median(one), statistics.median(two)))
    return large - small >= least * max(small, FLOOR)


def compare(values, least):
    """Name → list of values, to name → Cell."""
    medians = {name: statistics.median(some) for name, some in values.items()}
    if not medians:
        return {}
    best = min(medians, key=medians.get)
    return {name: Cell(medians[name], min(some), max(some), max(medians[name], FLOOR) / max(medians[best], FLOOR),
                       name == best, name != best and not differ(some, values[best], least))
            for name, some in values.items()}


def value_of(run, measure):
    """A measure of the runner, or a metric that the program printed; None if it is neither."""
    return run[measure] if measure in run else run.get("metrics", {}).get(measure)


def values_of(figures, row, measure):
    """Allocator → its values in that row; without allocators that failed."""
    found = {}
    for name, runs in figures["runs"][row].items():
        values = [value for value in (value_of(run, measure) for run in runs) if value is not None]
        if values and name not in figures["failed"][row]:
            found[name] = values
    return found


def measure_of(about, kind):
    """The measure that a row uses for "time", "cpu" or "memory", and its least significant difference; (None, …) where it
    has none."""
    measure = {"time": about["time"], "cpu": about["time"] in TIMES and "cpu_s", "memory": about["memory"]}[kind]
    return measure, least_difference("wall_s" if kind == "time" else measure, about["threads"])


def cells_of(figures, kind):
    """Row → name → Cell, for "time", "cpu" or "memory"; only rows that measure it."""
    found = {}
    for row, about in figures["rows"].items():
        measure, least = measure_of(about, kind)
        cells = measure and compare(values_of(figures, row, measure), least)
        if cells:
            found[row] = cells
    return found


def geometric_mean(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def group_means(figures, cells):
    """Group → name → geometric mean of the ratios (rows that failed are left out), and the same over all rows."""
    groups = {}
    for row in cells:
        groups.setdefault(figures["rows"][row]["group"], []).append(row)

    def means(rows):
        return {name: geometric_mean(cells[row][name].ratio for row in rows if name in cells[row])
                for name in figures["allocators"]}
    return {group: means(rows) for group, rows in groups.items()}, means(list(cells))


def worst(cells, name, count):
    """The rows where `name` is furthest from the best: (row, its cell, the best one's name), the worst first."""
    found = [(row, some[name], next(other for other, cell in some.items() if cell.best))
             for row, some in cells.items() if name in some and not some[name].best]
    return sorted(found, key=lambda one: -one[1].ratio)[:count]


def disturbed(figures):
    """The number of disturbed runs, and of all runs."""
    runs = [run for row in figures["runs"].values() for some in row.values() for run in some]
    return sum(run["disturbed"] for run in runs), len(runs)


@dataclasses.dataclass(frozen=True)
class Difference:
    """The change from sampling off to on in one row; `identical`: between two measurements of sampling on."""
    off: float
    change: float
    identical: float
    clear: bool


def sampling_difference(on, again, off, least):
    """Significant if it is so against both runs with sampling, and it is larger than their difference."""
    medians = [statistics.median(values) for values in (on, again, off)]
    base = max(medians[2], FLOOR)
    change, identical = statistics.median(on + again) / base - 1, medians[1] / max(medians[0], FLOOR) - 1
    clear = differ(on, off, least) and differ(again, off, least) and abs(change) > abs(identical)
    return Difference(medians[2], change, identical, clear)


def sampling_differences(figures, kind):
    """Row → its Difference, and the smallest number of runs of any row."""
    names = list(figures["allocators"])
    found, fewest = {}, math.inf
    for row, about in figures["rows"].items():
        measure, _ = measure_of(about, kind)
        values = values_of(figures, row, measure) if measure else {}
        if len(values) == len(names):
            found[row] = sampling_difference(*(values[name] for name in names), LEAST_OF_SAMPLING)
            fewest = min(fewest, *map(len, values.values()))
    return found, fewest


def mean_changes(differences):
    """Geometric means of the changes by sampling and of the differences of identical runs, minus one."""
    return tuple(geometric_mean(1 + value for value in some) - 1 for some in
                 ([one.change for one in differences], [one.identical for one in differences]))
