"""The proofs as pictures (SVG), one each: times by number of objects, figures by allocator, memory over time.

Needs matplotlib, and is imported only when pictures are requested.
"""
import statistics

from harness import criteria, plots
from harness.plots import pyplot

# A variant has its allocator's colour.
DASHES = ["-", (0, (4, 1.5)), (0, (1, 1.2))]


def lines(figures):
    """Name → its line style; the same in every picture."""
    colors, seen, found = {}, {}, {}
    others = iter(plots.OTHERS * 4)
    for name in figures["allocators"]:
        base = name.partition(" ")[0]
        if base not in colors:
            colors[base] = (plots.OURS, "D") if name in figures["ours"] else next(others)
        color, marker = colors[base]
        variant = seen[base] = seen.get(base, -1) + 1
        ours = name in figures["ours"]
        found[name] = {"color": color, "marker": marker, "linestyle": DASHES[variant % len(DASHES)], "label": name,
                       "linewidth": 2.2 if ours else 1.2, "markersize": 5 if ours else 4, "zorder": 4 if ours else 3}
    return found


def panels(count, height=3.6):
    figure, axes = pyplot.subplots(1, count, figsize=(2.4 + 4.0 * count, height), layout="constrained", squeeze=False)
    for one in axes[0]:
        one.grid(color="#EEEEEE")
        one.set_axisbelow(True)
    return figure, axes[0]


def finish(figure, axes, title, path):
    found = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels()):
            found.setdefault(label, handle)
    axes[-1].legend(found.values(), found.keys(), loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    plots.save(figure, path)


def by_objects(figures, proof, path):
    """Time per object by their number: in order, and shuffled."""
    looks = lines(figures)
    figure, axes = panels(2)
    for one, order in zip(axes, ("in order", "shuffled")):
        rows = [row for row in proof.rows if row.name.endswith(order) and row.name in figures["runs"]]
        for name, look in looks.items():
            points = [(int(row.arguments[1]) / 1e6, criteria.median(figures, row.name, name, "ns_per_block")) for row in rows]
            points = [point for point in points if point[1] is not None]
            if points:
                one.plot(*zip(*points), **look)
        one.set_xscale("log")
        ticks = sorted({int(row.arguments[1]) / 1e6 for row in rows})
        one.set_xticks(ticks, [f"{tick:g} M" for tick in ticks])
        one.set_xticks([], minor=True)
        one.set_ylim(bottom=0)
        one.set_title(f"freed {order}", loc="left", fontsize=10)
        one.set_xlabel("objects")
    axes[0].set_ylabel("ns per object")
    finish(figure, axes, proof.title, path)


def dots(figures, proof, path):
    """One panel per figure, one line per allocator: the median, and the smallest and largest."""
    row, looks = next(row.name for row in proof.rows if row.name in figures["runs"]), lines(figures)
    names = [name for name in figures["runs"][row] if figures["runs"][row][name]]
    figure, axes = panels(len(proof.axes), 1.2 + 0.36 * len(names))
    for one, (heading, metric, scale) in zip(axes, proof.axes):
        for place, name in enumerate(names):
            found = [value * scale for value in criteria.values(figures, row, name, metric)]
            if found:
                one.plot([min(found), max(found)], [place, place], color=looks[name]["color"], linewidth=1.5)
                one.plot([statistics.median(found)], [place], color=looks[name]["color"], marker=looks[name]["marker"])
        one.set_yticks(range(len(names)), names if one is axes[0] else [""] * len(names))
        one.set_ylim(len(names) - 0.5, -0.5)
        one.set_xlim(left=0)
        one.set_title(heading, loc="left", fontsize=10)
    figure.suptitle(proof.title, x=0.01, ha="left", fontweight="bold")
    plots.save(figure, path)


def over(figures, proof, path, relative):
    """One panel per series and row; of several runs the last one."""
    rows = [row.name for row in proof.rows if row.name in figures["runs"]]
    looks = lines(figures)
    figure, axes = panels(len(rows) * len(proof.axes))
    places = iter(axes)
    for row in rows:
        for heading, which, scale in proof.axes:
            one = next(places)
            for name in figures["runs"][row]:
                for points in criteria.series(figures, row, name, which)[-1:]:
                    whole = points[-1][0] / 100 if relative else 1
                    one.plot([at / whole for at, _ in points], [value * scale for _, value in points],
                             **{**looks[name], "marker": ""})
            one.set_ylim(bottom=0)
            one.set_ylabel(heading)
            one.set_xlabel("part of the run, %" if relative else "s")
            one.set_title(row, loc="left", fontsize=10)
    finish(figure, axes, proof.title, path)


def over_time(figures, proof, path):
    over(figures, proof, path, False)


def over_run(figures, proof, path):
    over(figures, proof, path, True)


KINDS = {"by_objects": by_objects, "dots": dots, "over_time": over_time, "over_run": over_run}


def draw(figures, proofs, folder, suffix=".svg"):
    """Writes the pictures; (title, path) of each."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with pyplot.rc_context(plots.STYLE):
        for proof in proofs:
            if proof.plot and any(row.name in figures["runs"] for row in proof.rows):
                path = folder / f"proof-{proof.key}{suffix}"
                KINDS[proof.plot](figures, proof, path)
                made.append((proof.title, path))
    return made
