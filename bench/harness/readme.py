"""The table of measured figures in README.md. Each published measurement replaces its own lines; the rest stays."""
import re

from harness import compare
from harness.allocators import ROOT

README = ROOT / "README.md"
BEGIN, END = "<!-- figures: written by ./dev bench --publish -->", "<!-- end of figures -->"
# Columns, with the names of the same allocator in a comparison, and with its own heap profiler in the measurement of
# profiling.
COLUMNS = {
    "seemalloc": ("seemalloc", "seemalloc"),
    "jemalloc": ("jemalloc", "jemalloc-debian prof"),
    "gperftools": ("gperftools", "gperftools-profiler sampling"),
    "mimalloc": ("mimalloc2", None),
    "glibc": ("glibc", "glibc heaptrack"),
}
UNPROFILED = "glibc"


def line(label, values):
    """A row of the table; values: by column, None where there is none."""
    least = min((value for value in values.values() if value is not None), default=None)
    return "| " + " | ".join([label, *("–" if value is None else f"**{value:.2f}**" if value == least else f"{value:.2f}"
                                      for value in values.values())]) + " |"


def of_comparison(figures):
    """Label → line: the geometric means of the ratios to the best of each workload."""
    for kind, label in (("time", "run time"), ("memory", "peak memory")):
        cells = compare.cells_of(figures, kind)
        _, means = compare.group_means(figures, cells)
        values = {column: means.get(name) for column, (name, _) in COLUMNS.items()}
        if cells and values["seemalloc"] is not None:
            yield label, line(f"{label}, {len(cells)} workloads, to the best allocator of each", values)


def of_profiling(figures, rates):
    """rates: row → metric of the services' throughput. The time of a request with a heap profiler on, relative to glibc's
    malloc without one."""
    ratios = {column: [] for column in COLUMNS}
    for row, metric in rates.items():
        if row not in figures["rows"]:
            continue
        rate = {name: compare.statistics.median(values) for name, values in compare.values_of(figures, row, metric).items()}
        for column, (_, name) in COLUMNS.items():
            if name in rate and UNPROFILED in rate:
                ratios[column].append(rate[UNPROFILED] / rate[name])
    services = max(map(len, ratios.values()))
    values = {column: compare.geometric_mean(some) if len(some) == services else None for column, some in ratios.items()}
    if services and values["seemalloc"] is not None:
        label = "time of a request with a heap profiler on"
        yield label, line(f"{label}, {services} services, to glibc without; glibc's is heaptrack, the others sample", values)


def updated(text, lines):
    """README's text with these lines: each replaces the one with the same label, or becomes the last one."""
    before, _, rest = text.partition(BEGIN + "\n")
    block, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{README}: no lines {BEGIN} and {END}")
    kept = [one for one in block.splitlines() if one.startswith("|")][2:]
    for label, new in lines:
        places = [i for i, one in enumerate(kept) if re.match(rf"\| {re.escape(label)}(,| \|)", one)]
        kept[places[0] if places else len(kept):(places[0] if places else len(kept)) + 1] = [new]
    header = "| | " + " | ".join(COLUMNS) + " |\n|---|" + "--:|" * len(COLUMNS) + "\n"
    return before + BEGIN + "\n" + header + "".join(one + "\n" for one in kept) + END + after


def update(lines):
    README.write_text(updated(README.read_text(), list(lines)))
