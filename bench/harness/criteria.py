"""Whether figures meet a criterion: a limit, a ratio to another run, no growth over time. Each answer is a Finding.

A limit is compared with the median; a limit that may never be exceeded, with the largest run. A ratio that misses its
limit is not called missed where the spreads (smallest to largest) of the two overlap: then the runs do not decide. A
ratio of a few per mille is judged in pairs, by the median of the pairs' ratios. Without figures there is no answer
either.
"""
import dataclasses
import math
import statistics

from harness import compare

MET, MISSED, UNKNOWN = "met", "**missed**", "not measured"
UNCLEAR, INTERVAL_REACHES_LIMIT = "unclear: the spreads overlap", "unclear: the interval reaches the limit"
TOO_FEW = "unclear: too few pairs"
AS_WITHOUT = "unclear: the same without"
NOT_JUDGED = "for comparison"
CONFIDENCE = 0.95
# Figures have noise in their last digits, and a limit of 1.00 applies to the rounded figure.
DIGITS = 3


@dataclasses.dataclass(frozen=True)
class Finding:
    what: str
    found: str
    limit: str
    verdict: str


def values(figures, row, name, metric):
    runs = figures["runs"].get(row, {}).get(name, [])
    found = [compare.value_of(run, metric) for run in runs]
    return [] if name in figures["failed"].get(row, {}) else [value for value in found if value is not None]


def median(figures, row, name, metric):
    some = values(figures, row, name, metric)
    return statistics.median(some) if some else None


def text(value, digits=2):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}f}"


def verdict(what, value, limit, side, unit):
    """`side`: "at most" or "at least"."""
    # Limits of ratios have three digits: 0.995 is not 0.99.
    digits, unit = DIGITS if unit == "×" else 2, f" {unit}".rstrip()
    bound = f"{side} {text(limit, digits)}{unit}"
    if value is None:
        return Finding(what, "", bound, UNKNOWN)
    met = round(value, DIGITS) <= limit if side == "at most" else round(value, DIGITS) >= limit
    return Finding(what, text(value, digits) + unit, bound, MET if met else MISSED)


def below(figures, row, name, metric, limit, what):
    return verdict(what, median(figures, row, name, metric), limit, "at most", "")


def never_above(figures, row, name, metric, limit, what):
    return verdict(what, max(values(figures, row, name, metric), default=None), limit, "at most", "")


def never_above_without(figures, row, name, metric, without, limit, what):
    """Missed only if the largest value is also above that of the same run `without`: the machine stops programs, too."""
    found = never_above(figures, row, name, metric, limit, what)
    if found.verdict != MISSED:
        return found
    largest, machine = (max(values(figures, row, name, one), default=0) for one in (metric, without))
    return dataclasses.replace(found, verdict=AS_WITHOUT) if largest <= machine else found


def above(figures, row, name, metric, limit, what):
    return verdict(what, median(figures, row, name, metric), limit, "at least", "")


def overlap(one, other):
    return min(one) <= max(other) and min(other) <= max(one)


def ratio(figures, one, other, metric, limit, side, what):
    """`one` and `other` are (row, name)."""
    above, beneath = (values(figures, *place, metric) for place in (one, other))
    base = statistics.median(beneath) if beneath else 0
    found = verdict(what, statistics.median(above) / base if above and base else None, limit, side, "×")
    if found.verdict == MISSED and min(len(above), len(beneath)) > 1 and overlap(above, beneath):
        return dataclasses.replace(found, verdict=UNCLEAR)
    return found


def at_most(figures, one, other, metric, limit, what):
    return ratio(figures, one, other, metric, limit, "at most", what)


def at_least(figures, one, other, metric, limit, what):
    return ratio(figures, one, other, metric, limit, "at least", what)


# ---- in pairs ----

def pairs(figures, row, one, other, metric):
    """The ratio of one to the other in each turn in which both ran, one right after the other: disturbances of the
    machine that last for minutes affect both."""
    def by_turn(name):
        runs = [] if name in figures["failed"].get(row, {}) else figures["runs"].get(row, {}).get(name, [])
        return {(run["round"], run["turn"]): compare.value_of(run, metric) for run in runs}
    above, beneath = by_turn(one), by_turn(other)
    return sorted(above[turn] / beneath[turn] for turn in above.keys() & beneath.keys()
                  if above[turn] is not None and beneath[turn])


def interval(ordered):
    """The two values between which the true median lies with probability CONFIDENCE, for any distribution. None: too few
    values."""
    count, rank, chance = len(ordered), 0, 0.0  # the probability that at most `rank` of them are below the median
    while (chance := chance + math.comb(count, rank) / 2**count) <= (1 - CONFIDENCE) / 2:
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else None


def judge_pairs(ratios, limit, side, what):
    """The median of the pairs' ratios. Missed if the whole interval is beyond the limit: never if there are too few pairs
    for an interval."""
    found = verdict(what, statistics.median(ratios) if ratios else None, limit, side, "×")
    between = interval(ratios)
    if not between:
        return dataclasses.replace(found, found=f"{found.found} ({len(ratios)} pairs)",
                                   verdict=TOO_FEW if found.verdict == MISSED else found.verdict) if ratios else found
    reaches = between[0] <= limit if side == "at most" else between[1] >= limit
    return dataclasses.replace(found, found=f"{found.found} ({between[0]:.3f}–{between[1]:.3f}, {len(ratios)} pairs)",
                               verdict=INTERVAL_REACHES_LIMIT if found.verdict == MISSED and reaches else found.verdict)


def paired(figures, row, one, other, metric, limit, side, what):
    """In pairs, of runs that alternated, one right after the other."""
    return judge_pairs(pairs(figures, row, one, other, metric), limit, side, what)


def slices(figures, place, value, metric):
    """The slices of all runs of `place`, a (row, name), in which a switch had that value, in their order."""
    row, name = place
    runs = [] if name in figures["failed"].get(row, {}) else figures["runs"].get(row, {}).get(name, [])
    return [one[metric] for run in runs for one in run["slices"][value] if metric in one]


def sliced(figures, place, values, metric, limit, side, what):
    """In pairs, of slices of one process in which a switch had the one value and the other."""
    above, beneath = (slices(figures, place, value, metric) for value in values)
    return judge_pairs(sorted(one / other for one, other in zip(above, beneath, strict=True)), limit, side, what)


def flat(figures, name, metric, rows, limit, what):
    """The largest of the rows' medians, relative to the first row's; a smaller one is no harm. Overlapping spreads of the
    two are a doubt."""
    medians = [median(figures, row, name, metric) for row in rows]
    what = f"{name}: {what}"
    if None in medians:
        return verdict(what, None, limit, "at most", "×")
    worst = rows[medians.index(max(medians))]
    found = at_most(figures, (worst, name), (rows[0], name), metric, limit, what)
    return dataclasses.replace(found, found=f"{found.found} ({' · '.join(text(value) for value in medians)})")


def beside(finding):
    """The same figure without a limit: for a row that is not subject to the criterion, for comparison."""
    return finding if finding.verdict == UNKNOWN else dataclasses.replace(finding, limit="", verdict=NOT_JUDGED)


# ---- over time ----

def part(points, begin, end):
    """The values between these parts of the run."""
    last = points[-1][0]
    return [value for seconds, value in points if begin * last <= seconds <= end * last]


def growth(points):
    """The median of the last eighth, relative to that of the second eighth: the first eighth is for growing. None: too
    few points."""
    if not points:
        return None
    early, late = part(points, 1 / 8, 1 / 4), part(points, 7 / 8, 1)
    return statistics.median(late) / max(statistics.median(early), compare.FLOOR) if early and late else None


def series(figures, row, name, which):
    """The points of each run."""
    return [run["series"][which] for run in figures["runs"].get(row, {}).get(name, []) if which in run.get("series", {})]


def no_growth(figures, row, name, limit):
    grown = [value for value in map(growth, series(figures, row, name, "rss_kib")) if value is not None]
    return verdict(f"{name}: growth of RSS, {row}", statistics.median(grown) if grown else None, limit, "at most", "×")


def rate(figures, row, name, which):
    """The rate of a count in the second half, per second."""
    rates = []
    for points in series(figures, row, name, which):
        late = [point for point in points if point[0] >= points[-1][0] / 2]
        if len(late) > 1:
            rates.append((late[-1][1] - late[0][1]) / max(late[-1][0] - late[0][0], compare.FLOOR))
    return statistics.median(rates) if rates else None
