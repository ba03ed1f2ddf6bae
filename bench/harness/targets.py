"""The targets of seemalloc relative to the best peer of each row, and whether they are met: for each kind of results that
has targets.

The best peer differs from row to row: no single peer reaches all of this. Rows in which no difference can be called
count in the means; if only such rows are beyond a limit, the verdict is unclear. A row in which seemalloc failed is
missed.
"""
import dataclasses
import statistics

from harness import compare, criteria

TIME, CPU, MEMORY = "time", "cpu", "memory"  # kinds, as in compare
MEAN = {TIME: 1.00, MEMORY: 1.20}
ROW = {TIME: 1.15, MEMORY: 1.5}
MOST_NAMED = 20
FLAT, NEVER_FALLS = 0.90, 1.00
FLAT_GROUPS = "t-test"  # its throughput may fall by a tenth; others' may not fall
MOST_MIB = 1.0  # figures shown as MB are MiB
PRESENT = 0.9  # page faults of 4 KiB for this part of the peak: no huge pages


def best_peer(figures, values):
    """The name of the fastest or smallest peer; None without any."""
    peers = {name: statistics.median(some) for name, some in values.items() if name not in figures["ours"]}
    return min(peers, key=peers.get) if peers else None


def against_best_peer(figures, ours, kind):
    """Row → (ratio to the best peer, whether a difference can be called)."""
    found = {}
    for row, about in figures["rows"].items():
        measure, least = compare.measure_of(about, kind)
        values = compare.values_of(figures, row, measure) if measure else {}
        peer = best_peer(figures, values)
        if ours not in values or peer is None:
            continue
        ratio = max(statistics.median(values[ours]), compare.FLOOR) / max(statistics.median(values[peer]), compare.FLOOR)
        found[row] = ratio, compare.differ(values[ours], values[peer], least)
    return found


def mean_and_rows(figures, ours, kind):
    ratios = against_best_peer(figures, ours, kind)
    what = f"{kind}, to the best peer of each of {len(ratios)} rows"
    yield criteria.verdict(f"{what}: geometric mean", compare.geometric_mean(ratio for ratio, _ in ratios.values()), MEAN[kind], "at most", "×")
    beyond = {row: one for row, one in ratios.items() if round(one[0], 2) > ROW[kind]}
    clear = sorted((row for row, (_, called) in beyond.items() if called), key=lambda row: -beyond[row][0])
    missed = [f"{row} failed" for row, failed in figures["failed"].items() if ours in failed] + [f"{row} {beyond[row][0]:.2f}×" for row in clear]
    found = counted(missed) + more(len(beyond) - len(clear), "in which no difference can be called")
    verdict = criteria.MISSED if missed else criteria.UNKNOWN if not ratios else criteria.UNCLEAR if beyond else criteria.MET
    yield criteria.Finding(f"{kind}: rows above {ROW[kind]} ×", found if missed or ratios else "", "none", verdict)


def counted(names):
    return f"{len(names)}" + (": " + ", ".join(names[:MOST_NAMED]) if names else "") + (", …" if len(names) > MOST_NAMED else "")


def more(count, which):
    return f"; and {count} {which}" if count else ""


def metric_of_rows(figures, ours, start, metric, limit, what, unit):
    for row in figures["rows"]:
        if row.startswith(start):
            yield criteria.verdict(f"{row}: {what}", criteria.median(figures, row, ours, metric), limit, "at most", unit)


def small_programs(figures, ours):
    row = "trivial program"
    if row in figures["rows"] and "glibc" in figures["allocators"]:
        own, theirs = (criteria.median(figures, row, name, "peak_mb") for name in (ours, "glibc"))
        yield criteria.verdict(f"{row}: MB more than with glibc", None if None in (own, theirs) else own - theirs, MOST_MIB, "at most", "MB")


def without_huge_pages(figures, row, name):
    """It had a fault for nearly each page of its peak."""
    faults, peak = criteria.median(figures, row, name, "minor_faults"), criteria.median(figures, row, name, "peak_mb")
    return faults is not None and peak is not None and faults * 4096 >= PRESENT * peak * 2**20


def batched_faults(figures, ours):
    """A heap that grows, compared with the best peer that has no huge pages."""
    row = "ordered free"
    if row not in figures["rows"]:
        return
    measure = figures["rows"][row]["time"]
    values = compare.values_of(figures, row, measure)
    small = {name: some for name, some in values.items() if name in figures["ours"] or without_huge_pages(figures, row, name)}
    peer = best_peer(figures, small)
    what = f"{row}: times as fast as the best peer without huge pages"
    if peer is None:
        yield criteria.verdict(what, None, 1.3, "at least", "×")
        return
    yield criteria.at_least(figures, (row, peer), (row, ours), measure, 1.3, f"{what} ({peer})")
    yield criteria.at_most(figures, (row, ours), (row, peer), "peak_mb", 1.03, f"{row}: memory, to that peer")


def large_ping_pong(figures, ours):
    ratios = against_best_peer(figures, ours, TIME)
    for row in ("ping-pong 256 KiB", "ping-pong 1 MiB"):
        if row in figures["rows"]:
            ratio, called = ratios.get(row, (None, True))
            found = criteria.verdict(f"{row}: time, to the best peer", ratio, 1.2, "at most", "×")
            yield found if called or found.verdict != criteria.MISSED else dataclasses.replace(found, verdict=criteria.UNCLEAR)


def of_comparison(figures):
    for ours in figures["ours"]:
        if len(figures["allocators"]) < 2:
            continue
        yield from mean_and_rows(figures, ours, TIME)
        yield from mean_and_rows(figures, ours, MEMORY)
        yield from small_programs(figures, ours)
        yield from metric_of_rows(figures, ours, "1,000 idle threads, 64", "rss_kib_per_thread", 64, "KiB for each", "KiB")
        yield from metric_of_rows(figures, ours, "1,000 idle threads, 73", "rss_kib_per_thread", 100, "KiB for each", "KiB")
        yield from metric_of_rows(figures, ours, "1,000 idle threads", "rss_after_exit_percent", 110, "resident after they have ended, relative to before", "%")
        yield from metric_of_rows(figures, ours, "20 M objects of 8 B", "bytes_per_object", 1.02 * 8, "bytes for each", "B")
        yield from metric_of_rows(figures, ours, "phase change", "growth_percent", 5, "growth in the second phase", "%")
        yield from batched_faults(figures, ours)
        yield from large_ping_pong(figures, ours)


# Limits for the cost of sampling: over all rows, and in one row.
SAMPLING_MEAN, SAMPLING_ROW = 0.01, 0.03


def of_sampling(figures):
    """Rows in which a difference can be called; and the difference over all rows together, beside that of identical runs."""
    for kind, what in ((TIME, "wall time"), (CPU, "CPU time"), (MEMORY, "memory")):
        found, fewest = compare.sampling_differences(figures, kind)
        if found:
            change, identical = compare.mean_changes(found.values())
            met = change <= SAMPLING_MEAN or change <= abs(identical)
            yield criteria.Finding(f"{what}: geometric mean of the changes in {len(found)} rows, and of identical runs",
                                   f"{change * 100:+.1f} %, {identical * 100:+.1f} %", "at most +1 %, or as identical ones",
                                   criteria.MET if met else criteria.MISSED)
        above = sorted((row for row, one in found.items() if one.change > SAMPLING_ROW), key=lambda row: -found[row].change)
        clear = [row for row in above if found[row].clear]
        enough = fewest >= compare.LEAST_RUNS and not above
        verdict = criteria.UNKNOWN if not found else criteria.MISSED if clear else criteria.MET if enough else criteria.UNCLEAR
        named = counted([f"{row} {found[row].change * 100:+.1f} %" for row in clear])
        yield criteria.Finding(f"{what}: rows with more than 3 %", named + more(len(above) - len(clear), "whose spreads overlap"), "none", verdict)


def of_scaling(figures):
    """The least throughput of seemalloc with one thread per core or more, relative to that with one per core."""
    cores = figures["machine"]["cores"]
    groups = {}
    for row, about in figures["rows"].items():
        groups.setdefault(about["group"], {})[about["threads"]] = row
    for ours in figures["ours"]:
        for group, rows in groups.items():
            limit = FLAT if group.startswith(FLAT_GROUPS) else NEVER_FALLS
            base = rows.get(cores)
            found = {threads: criteria.at_least(figures, (base, ours), (row, ours), "wall_s", limit, f"{group}: least throughput, relative to that with {cores} threads")
                     for threads, row in rows.items() if base and threads > cores}
            known = {threads: one for threads, one in found.items() if one.found}
            for row in rows.values():
                if ours in figures["failed"].get(row, {}):
                    yield criteria.Finding(f"{group}: {row}", "failed", f"at least {limit:.2f} ×", criteria.MISSED)
            if not known:
                yield criteria.verdict(group, None, limit, "at least", "×")
                continue
            least = min(known, key=lambda threads: (known[threads].verdict != criteria.MISSED, -criteria.median(figures, rows[threads], ours, "wall_s")))
            finding = known[least]
            yield criteria.Finding(f"{finding.what} ({least} threads)", finding.found, finding.limit, finding.verdict)


OF_KIND = {"comparison": of_comparison, "sampling": of_sampling, "scaling": of_scaling}


def findings(figures):
    return list(OF_KIND[figures["kind"]](figures)) if figures["kind"] in OF_KIND else []
