"""The figures as Markdown."""
import statistics

from harness import compare, targets

KINDS = {  # heading, what its values are
    "time": ("Wall time", "s"),
    "cpu": ("CPU time (user + system)", "s"),
    "memory": ("Memory", "MB"),
}
REST = [  # key, heading, format
    ("system_s", "system time, s", "{:.2f}"),
    ("minor_faults", "page faults", "{:,.0f}"),
    ("voluntary_switches", "voluntary context switches", "{:,.0f}"),
    ("involuntary_switches", "involuntary ones", "{:,.0f}"),
    ("others_cpu_s", "CPU used by others, s", "{:.2f}"),
]
FAILED = "failed"
WORST = 8


def number(value):
    """Three significant digits, more for whole numbers."""
    for digits, limit in ((0, 100), (1, 10), (2, 1)):
        if abs(value) >= limit:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"


def ratio(cell):
    return f"{'~' if cell.unclear else ''}{cell.ratio:.2f}×"


def table(header, lines):
    """Rows of texts as a Markdown table; the first column is text, the others are numbers."""
    ruler = "|---" + "|--:" * (len(header) - 1) + "|"
    return "\n".join(["| " + " | ".join(header) + " |", ruler, *("| " + " | ".join(line) + " |" for line in lines)])


def grouped(figures, rows):
    """(group, its rows), both in the catalogue's order."""
    groups = {}
    for row in rows:
        groups.setdefault(figures["rows"][row]["group"], []).append(row)
    return groups.items()


def row_label(figures, row, kind):
    measure = figures["rows"][row]["memory"]
    return f"{row} ({measure})" if kind == "memory" and measure != "peak_mb" else row


def cell_text(cell):
    value = f"**{number(cell.median)}**" if cell.best else f"{number(cell.median)} {ratio(cell)}"
    spread = f"{number(cell.low)}–{number(cell.high)}"
    return value + (f"<br><small>{spread}</small>" if cell.low != cell.high else "")


def measure_table(figures, kind):
    names = list(figures["allocators"])
    cells = compare.cells_of(figures, kind)
    if not cells:
        return ""
    lines = []
    for group, rows in grouped(figures, cells):
        lines.append([f"**{group}**", *[""] * len(names)])
        for row in rows:
            lines.append([row_label(figures, row, kind), *(
                FAILED if name in figures["failed"][row] else cell_text(cells[row][name]) if name in cells[row] else ""
                for name in names)])
    heading, unit = KINDS[kind]
    return f"### {heading}, {unit}\n\n" + table(["row", *names], lines)


def summary_table(figures, kind):
    """Geometric means of the ratios to the best of each row, per group and over all rows."""
    names = list(figures["allocators"])
    cells = compare.cells_of(figures, kind)
    if not cells:
        return ""
    by_group, overall = compare.group_means(figures, cells)

    def line(label, means):
        least = min(value for value in means.values() if value)
        return [label, *("" if not means[name] else f"**{means[name]:.2f}×**" if means[name] == least
                         else f"{means[name]:.2f}×" for name in names)]
    counts = {group: len(rows) for group, rows in grouped(figures, cells)}
    lines = [line(f"{group} ({counts[group]})", means) for group, means in by_group.items()]
    return f"### {KINDS[kind][0]} by group\n\n" + table(
        ["group (rows)", *names], [*lines, line(f"**all rows** ({len(cells)})", overall)])


def worst_table(figures, name):
    lines = []
    for kind in ("time", "memory"):
        for row, cell, best in compare.worst(compare.cells_of(figures, kind), name, WORST):
            lines.append([row_label(figures, row, kind), KINDS[kind][0].lower(), ratio(cell), best])
    return f"### Where {name} is furthest from the best\n\n" + table(["row", "measure", "ratio", "best"], lines) if lines else ""


def rest_tables(figures):
    names = list(figures["allocators"])
    parts = []
    for key, heading, form in REST:
        lines = []
        for row, runs in figures["runs"].items():
            values = {name: [run[key] for run in some if key in run] for name, some in runs.items()}
            if any(values.values()):
                lines.append([row, *(form.format(statistics.median(values[name])) if values[name] else "" for name in names)])
        if lines:
            parts.append(f"#### {heading[0].upper()}{heading[1:]}\n\n" + table(["row", *names], lines))
    lines = []
    for row, runs in figures["runs"].items():
        for metric in sorted({metric for some in runs.values() for run in some for metric in run.get("metrics", {})}):
            values = {name: [run["metrics"][metric] for run in some if metric in run.get("metrics", {})]
                      for name, some in runs.items()}
            lines.append([f"{row}: {metric}", *(number(statistics.median(values[name])) if values[name] else ""
                                                for name in names)])
    if lines:
        parts.append("#### Figures that the programs print\n\n" + table(["row: figure", *names], lines))
    return "\n\n".join(["<details><summary>Medians of the other figures</summary>", *parts, "</details>"]) if parts else ""


def failures(figures):
    lines = [f"- {row}: {name}: {why.splitlines()[0]}" for row, some in figures["failed"].items() for name, why in some.items()]
    return "Failed, and left out of the means of that allocator:\n\n" + "\n".join(lines) if lines else ""


def about(figures):
    machine = figures["machine"]
    described = [f"{machine['cores']} × {machine['cpu']}", f"{machine['memory_gb']} GB", machine["system"],
                 f"Linux {machine['kernel']}", machine["huge_pages"] and f"huge pages: {machine['huge_pages']}",
                 machine["governor"] and f"governor: {machine['governor']}"]
    versions = ", ".join(f"{name} {one['version']}".strip() for name, one in figures["allocators"].items())
    marked, count = compare.disturbed(figures)
    runs = [run for row in figures["runs"].values() for some in row.values() for run in some]
    again = sum(run["attempts"] - 1 for run in runs)
    # A run that was stopped has fewer rounds than requested.
    rounds = max((len(some) for row in figures["runs"].values() for some in row.values()), default=0)
    return "\n".join([
        f"- {figures['when']}, {rounds} rounds, seed {figures['seed']}, "
        f"{count} runs in {figures.get('took_s', 0) / 60:.0f} min",
        f"- {', '.join(part for part in described if part)}; load at the start {machine['load_at_start']}",
        f"- {versions}",
        f"- other processes used more than 5 % of a CPU during {marked} of {count} runs ({again} runs were repeated for this reason)"])


LEGEND = """Medians; in a row **bold** is the best, the others show their ratio to it; in small print the smallest and the largest run. \
`~`: no difference to the best can be called: the spreads overlap, or times differ by less than 5 % (one thread) or 15 % \
(two or more), or there are fewer than five runs."""


def targets_table(figures):
    lines = [[one.what, one.found, one.limit, one.verdict] for one in targets.findings(figures)]
    return "### Targets\n\n" + table(["target", "found", "limit", ""], lines) if lines else ""


def comparison(figures, plots=()):
    """All of a comparison; `plots` are (title, path relative to the text)."""
    pictures = "\n\n".join(f"![{title}]({path})" for title, path in plots)
    ours = [worst_table(figures, name) for name in figures["ours"]]
    return joined("# seemalloc and other allocators", about(figures), pictures, targets_table(figures),
                  "Ratios to the best of each row, as geometric means; 1.00× is the best in every row.",
                  summary_table(figures, "time"), summary_table(figures, "cpu"), summary_table(figures, "memory"),
                  failures(figures), *ours, "## Every row", LEGEND,
                  *(measure_table(figures, kind) for kind in KINDS), rest_tables(figures))


def percent(value):
    return f"{value * 100:+.1f} %"


def sampling_table(figures, kind):
    differences, _ = compare.sampling_differences(figures, kind)
    if not differences:
        return ""
    lines = [[row_label(figures, row, kind), number(found.off), ("" if found.clear else "~") + percent(found.change), percent(found.identical)]
             for row, found in differences.items()]
    heading, unit = KINDS[kind]
    mean = ["*geometric mean*", "", *map(percent, compare.mean_changes(differences.values()))]
    return f"### {heading}, {unit}\n\n" + table(["row", "without sampling", "with", "the same twice"], [*lines, mean])


def sampling(figures):
    return joined("# The cost of sampling", about(figures),
                  "Medians: without sampling, the change by sampling at its default, and the difference of two series of "
                  "identical runs (both with sampling). `~`: no difference can be called: the spreads overlap, identical runs "
                  "differed by more, it is less than half a percent, or there are fewer than five runs.", targets_table(figures),
                  *(sampling_table(figures, kind) for kind in KINDS), failures(figures))


def scaling_table(figures, group, rows):
    """Each row's time, and the throughput relative to that of the same allocator with one thread per core."""
    names = list(figures["allocators"])
    cores = figures["machine"]["cores"]
    threads = {row: figures["rows"][row]["threads"] for row in rows}
    medians = {row: {name: statistics.median(values) for name, values in compare.values_of(figures, row, "wall_s").items()}
               for row in rows}
    base = next((row for row in rows if threads[row] == cores), None)
    lines, least = [], {}
    for row in rows:
        cells = []
        for name in names:
            taken, reference = medians[row].get(name), medians[base].get(name) if base else None
            if taken is None or reference is None:
                cells.append(FAILED if taken is None else number(taken))
                continue
            if threads[row] >= cores:
                least[name] = min(least.get(name, 1), reference / taken)
            cells.append(f"{number(taken)} s, {reference / taken:.2f}")
        lines.append([str(threads[row]), *cells])
    lines.append(["*least*", *(f"{least[name]:.2f}" if name in least else "" for name in names)])
    return f"### {group}\n\n" + table(["threads", *names], lines)


def scaling(figures):
    cores = figures["machine"]["cores"]
    return joined("# The same work with more threads", about(figures),
                  f"Median times, and the throughput relative to that of the same allocator with {cores} threads, one per core: 1.00 "
                  f"if more threads cost nothing. The last line is the least with {cores} threads or more.", targets_table(figures),
                  *(scaling_table(figures, group, rows) for group, rows in grouped(figures, figures["rows"])), failures(figures))


def joined(*parts):
    return "\n\n".join(part for part in parts if part) + "\n"


def report(figures, plots=()):
    if figures["kind"] == "scaling":
        return scaling(figures)
    return sampling(figures) if figures["kind"] == "sampling" else comparison(figures, plots)
