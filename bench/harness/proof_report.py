"""The proofs as Markdown: the measurements, their criteria, whether these are met, and all figures."""
import statistics

from harness import compare, criteria, tables


def summary(figures, proofs):
    lines = []
    for proof in proofs:
        verdicts = [finding.verdict for finding in proof.judge(figures) if finding.verdict != criteria.NOT_JUDGED]
        counts = [f"{verdicts.count(kind)} {kind}" for kind in dict.fromkeys(verdicts)]
        shown = "all met" if set(verdicts) == {criteria.MET} else ", ".join(counts)
        lines.append(f"| [{proof.title}](#{anchor(proof.title)}) | {shown} |")
    return "\n".join(["| proof | criteria |", "|---|---|", *lines])


def anchor(title):
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def findings_table(findings):
    lines = [f"| {one.what} | {one.found} | {one.limit} | {one.verdict} |" for one in findings]
    return "\n".join(["| criterion | found | limit | |", "|---|---|---|---|", *lines])


def number(value):
    return f"{value:,.0f}" if value == round(value) else tables.number(value)


def cell(values, scale):
    if not values:
        return ""
    values = [value * scale for value in values]
    low, middle, high = min(values), statistics.median(values), max(values)
    spread = f"<br><small>{number(low)}–{number(high)}</small>" if low != high else ""
    return number(middle) + spread


def values_by_line(figures, row, columns):
    """The label of each line of the row's table, and its values of each column: of an allocator, or of one with a switch
    at a value."""
    for name, runs in figures["runs"][row].items():
        if any("slices" in run for run in runs):
            for value in runs[0]["slices"]:
                yield f"{name}, {value}", name, [criteria.slices(figures, (row, name), value, column.metric) for column in columns]
        else:
            yield name, name, [criteria.values(figures, row, name, column.metric) for column in columns]


def row_table(figures, row, columns):
    """One line per allocator; columns without any figure are left out. Growth has one where RSS was recorded."""
    failed = figures["failed"].get(row, {})
    found = list(values_by_line(figures, row, columns))
    shown = [place for place in range(len(columns)) if any(values[place] for _, _, values in found)]
    watched = any(criteria.series(figures, row, name, "rss_kib") for _, name, _ in found)
    lines = []
    for title, name, values in found:
        if name in failed:
            lines.append([title, tables.FAILED, *[""] * (len(shown) - 1 + watched)])
            continue
        line = [title, *(cell(values[place], columns[place].scale) for place in shown)]
        if watched:
            line.append(cell([grown for points in criteria.series(figures, row, name, "rss_kib")
                              if (grown := criteria.growth(points)) is not None], 1))
        lines.append(line)
    headings = ["", *(columns[place].heading for place in shown), *(["RSS grows, ×"] if watched else [])]
    return f"**{row}**\n\n" + tables.table(headings, lines)


def section(figures, proof, plots):
    rows = [row.name for row in proof.rows if row.name in figures["runs"]]
    pictures = [f"![{title}]({path})" for title, path in plots if title == proof.title]
    if not rows:
        return ""
    return tables.joined(f"## {proof.title}", proof.what, f"Criterion: {proof.criterion}", findings_table(proof.judge(figures)),
                         *pictures, *(row_table(figures, row, proof.columns) for row in rows)).rstrip()


def options(figures):
    lines = [f"- {name}: " + ", ".join(f"`{variable}={value}`" for variable, value in one["options"].items())
             for name, one in figures["allocators"].items() if one["options"]]
    return "Options, where they are not the defaults:\n\n" + "\n".join(lines) if lines else ""


def legend(suite):
    return (f"Medians; in small print the smallest and the largest run. All by `./dev bench {suite.OPTION} --publish`; verdicts are computed "
            f"from the figures, by the limits in `{suite.FILE}`.")


def report(figures, suite, plots=()):
    """`suite`: the module that has the proofs."""
    present = [proof for proof in suite.PROOFS if any(row.name in figures["runs"] for row in proof.rows)]
    return tables.joined(f"# {suite.TITLE}", tables.about(figures), legend(suite),
                         summary(figures, present), options(figures), tables.failures(figures),
                         *(section(figures, proof, plots) for proof in present))
