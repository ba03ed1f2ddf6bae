"""The figures as pictures (SVG): geometric means per group, of time and of memory, and one against the other.

Needs matplotlib (Debian: python3-matplotlib), and is imported only when pictures are requested.
"""
import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot
from matplotlib.ticker import FuncFormatter, NullFormatter

from harness import compare

# Okabe and Ito's colours, which colour-blind people can distinguish; each allocator also has its own marker.
OURS = "#D55E00"
OTHERS = [("#0072B2", "o"), ("#009E73", "s"), ("#CC79A7", "^"), ("#56B4E9", "v"), ("#000000", "P"), ("#E69F00", "X"),
          ("#7F7F7F", "<"), ("#8C6BB1", ">"), ("#B2A000", "h"), ("#5D4037", "p")]
STYLE = {"svg.hashsalt": "seemalloc", "svg.fonttype": "path", "font.size": 10, "axes.spines.top": False,
         "axes.spines.right": False, "figure.facecolor": "white", "axes.facecolor": "white"}


def looks(figures):
    """Name → its drawing style; the same in every picture. seemalloc's marker is large and drawn below, so that it hides
    no other."""
    others = iter(OTHERS * 4)
    found = {}
    for name in figures["allocators"]:
        if name in figures["ours"]:
            found[name] = {"color": OURS, "marker": "D", "s": 80, "zorder": 3, "edgecolors": "black", "linewidths": 1.0}
        else:
            color, marker = next(others)
            found[name] = {"color": color, "marker": marker, "s": 36, "zorder": 4, "alpha": 0.9, "linewidths": 0}
    return found


def as_ratio(axis):
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axis.set_minor_formatter(NullFormatter())


# The roundest first.
TICKS = [1, 2, 10, 100, 1000, 5, 1.5, 3, 20, 50, 200, 500, 1.2, 1.1, 1.3, 7, 30, 4, 1.4, 1.7, 1.05, 1.15, 1.25, 2.5, 70, 300]


def ticks(low, high, apart=0.085):
    """Round ratios, at least that part of the axis apart."""
    chosen = []
    for tick in TICKS:
        if low <= tick <= high and all(abs(math.log(tick / other)) >= apart * math.log(high / low) for other in chosen):
            chosen.append(tick)
    return sorted(chosen)


def log_axis(axes, which, values):
    high = max(max(values) * 1.12, 1.25)
    low = min(0.97, 1 / high ** 0.04)
    axis = getattr(axes, f"{which}axis")
    getattr(axes, f"set_{which}scale")("log")
    getattr(axes, f"set_{which}lim")(low, high)
    axis.set_ticks(ticks(low, high))
    axis.set_ticks([], minor=True)
    as_ratio(axis)


def by_group(figures, kind, title, path):
    """One line per group, one mark per allocator: its ratio to the best, averaged over the group's rows."""
    cells = compare.cells_of(figures, kind)
    if not cells:
        return False
    groups, overall = compare.group_means(figures, cells)
    counts = {group: sum(figures["rows"][row]["group"] == group for row in cells) for group in groups}
    lines = [*((f"{group} ({counts[group]})", means) for group, means in groups.items()), (f"all rows ({len(cells)})", overall)]
    figure, axes = pyplot.subplots(figsize=(8.6, max(3.4, 1.3 + 0.66 * len(lines))), layout="constrained")
    for place in range(len(lines) - 1):
        axes.axhline(place + 0.5, color="#DDDDDD" if place < len(lines) - 2 else "#777777", linewidth=0.8, zorder=1)
    # Each allocator has its own height within a group's band, in the legend's order: equal ones stay visible.
    height = {name: 0.7 * (place / max(len(figures["allocators"]) - 1, 1) - 0.5)
              for place, name in enumerate(figures["allocators"])}
    for name, look in looks(figures).items():
        points = [(means[name], place + height[name]) for place, (_, means) in enumerate(lines) if means[name]]
        if points:
            axes.scatter(*zip(*points), label=name, **look)
    log_axis(axes, "x", [value for _, means in lines for value in means.values() if value])
    axes.set_yticks(range(len(lines)), [label for label, _ in lines])
    axes.get_yticklabels()[-1].set_fontweight("bold")
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#EEEEEE")
    axes.set_axisbelow(True)
    axes.set_xlabel("ratio to the best allocator of each row, geometric mean (log scale; left is better)")
    axes.set_title(title, loc="left", fontweight="bold")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    save(figure, path)
    return True


def time_and_memory(figures, path):
    time, memory = (compare.group_means(figures, cells)[1] if cells else {}
                    for cells in (compare.cells_of(figures, "time"), compare.cells_of(figures, "memory")))
    both = {name: (time[name], memory[name]) for name in figures["allocators"] if time.get(name) and memory.get(name)}
    if not both:
        return False
    figure, axes = pyplot.subplots(figsize=(7.6, 5.2), layout="constrained")
    for name, (x, y) in both.items():
        look = looks(figures)[name]
        axes.scatter([x], [y], label=name, **{**look, "s": look["s"] * 1.5})
    log_axis(axes, "x", [x for x, _ in both.values()])
    log_axis(axes, "y", [y for _, y in both.values()])
    axes.grid(color="#EEEEEE")
    axes.set_axisbelow(True)
    axes.set_xlabel("wall time, ratio to the best, geometric mean (log scale)")
    axes.set_ylabel("memory, ratio to the best, geometric mean (log scale)")
    axes.set_title("Time and memory over all rows (lower left is better)", loc="left", fontweight="bold")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    save(figure, path)
    return True


def save(figure, path):
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def draw(figures, folder, suffix=".svg"):
    """Writes the pictures; (title, path) of each."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [
        ("Time and memory over all rows", "time-and-memory", lambda path: time_and_memory(figures, path)),
        ("Wall time by group", "time", lambda path: by_group(figures, "time", "Wall time by group", path)),
        ("Memory by group", "memory", lambda path: by_group(figures, "memory", "Memory by group", path)),
    ]
    with pyplot.rc_context(STYLE):
        return [(title, folder / (name + suffix)) for title, name, make in pictures if make(folder / (name + suffix))]
