"""What the figures say, and what they do not: medians, ratios to the best of a row, and whether a difference may be called.

With five runs each, two allocators that are the same come apart (no run of one between those of the other) once in 126
times; with three, once in ten. And identical programs differ from one start to the next by where their memory happens to
lie. So no difference is called
1. with fewer than five runs of either;
2. where the smallest-to-largest spreads overlap;
3. where times differ by less than 5 %, or by less than 15 % with two threads or more (of sampling on and off: by less than half a percent).
"""
import dataclasses
import math
import statistics

LEAST_RUNS = 5
LEAST_DIFFERENCE = {"one": 0.05, "more": 0.15}
LEAST_OF_SAMPLING = 0.005  # the same library, and two series of the one kind: their spreads tell
TIMES = ("wall_s", "cpu_s")
FLOOR = 1e-6  # a time or a size of nothing has no ratio


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
        return 0.0  # of memory: what a program takes up hardly changes from run to run
    return LEAST_DIFFERENCE["one" if threads < 2 else "more"]


def differ(one, two, least):
    """Whether these two lists of values may be called different."""
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
    """A measure of ours, or a metric that the program printed; None if it has neither."""
    return run[measure] if measure in run else run.get("metrics", {}).get(measure)


def values_of(figures, row, measure):
    """Allocator → its values in that row; without those that failed."""
    found = {}
    for name, runs in figures["runs"][row].items():
        values = [value for value in (value_of(run, measure) for run in runs) if value is not None]
        if values and name not in figures["failed"][row]:
            found[name] = values
    return found


def measure_of(about, kind):
    """What a row says that it measures as "time", "cpu" or "memory", and the least difference of that; (None, …) where it does not."""
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
    """How many runs others disturbed and how many there are."""
    runs = [run for row in figures["runs"].values() for some in row.values() for run in some]
    return sum(run["disturbed"] for run in runs), len(runs)


@dataclasses.dataclass(frozen=True)
class Difference:
    """Of sampling on to off in one row; `identical`: of sampling on to itself, measured twice."""
    off: float
    change: float
    identical: float
    clear: bool


def sampling_difference(on, again, off, least):
    """Clear where the rule allows it against both runs of the same, and it is more than what those differ by."""
    medians = [statistics.median(values) for values in (on, again, off)]
    base = max(medians[2], FLOOR)
    change, identical = statistics.median(on + again) / base - 1, medians[1] / max(medians[0], FLOOR) - 1
    clear = differ(on, off, least) and differ(again, off, least) and abs(change) > abs(identical)
    return Difference(medians[2], change, identical, clear)


def sampling_differences(figures, kind):
    """Row → its Difference, and the fewest runs there are of any."""
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
    """Geometric means of the changes by sampling and of what identical runs differ by, less one."""
    return tuple(geometric_mean(1 + value for value in some) - 1 for some in
                 ([one.change for one in differences], [one.identical for one in differences]))
