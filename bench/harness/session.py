"""A whole measurement: every row with every allocator, several rounds, and the stored results.

In each round each row runs with all allocators in random order: a run that leaves the machine's memory cold or
fragmented then affects each of the others occasionally, instead of always the same one. The order depends only on the
seed, the round and the row's name.
"""
import json
import os
import pathlib
import platform
import random
import subprocess
import sys
import time

from harness import Refused, measure
from harness.allocators import ROOT, output_of

PROGRAMS = ROOT / "build/release/bench"
PIN, WARM = PROGRAMS / "libpin.so", PROGRAMS / "warm"
FORMAT = 2  # of the stored figures


def say(*words):
    print("bench:", *words, file=sys.stderr, flush=True)


def not_built(*paths):
    missing = [path for path in paths if not os.path.exists(path)]
    return f"not built: {missing[0]} (./dev bench builds it)" if missing else None


class Workload:
    """A row of the catalogue, run by this runner."""

    def __init__(self, row):
        self.name, self.group, self.threads = row.name, row.group, row.threads
        self.time, self.memory = row.time, row.memory
        self.pinned = row.threads > 1 if row.pinned is None else row.pinned
        self.subjects, self.rounds, self.turns = row.subjects, row.rounds, row.turns
        self.once = row.once
        self.command = [str(PROGRAMS / row.program), *row.arguments]

    def unavailable(self):
        return not_built(self.command[0], PIN, WARM)

    def run(self, allocator, limit_s):
        preload = [PIN] if self.pinned else []
        return measure.run_once(self.command, allocator.environment(*preload), limit_s)


class Program:
    """A real program, which implements its own run and measurement. Its threads are not pinned: each of its processes
    would begin at the first CPU, and a server's driver needs a CPU, too."""
    memory, pinned = "peak_mb", False

    def __init__(self, row, subjects=(), rounds=None, turns=1, once=(), time="wall_s"):
        self.time = time
        self.row, self.name, self.group, self.threads = row, row.name, row.group, row.threads
        self.subjects, self.rounds, self.turns, self.once = subjects, rounds, turns, once

    def unavailable(self):
        return not_built(WARM) or self.row.available()

    def run(self, allocator, limit_s):
        try:
            return self.row.run(allocator.environment(), limit_s)
        except LookupError as problem:  # its text is only the key
            raise measure.Failed(f"something is missing in what it printed: {problem}") from problem
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as problem:
            raise measure.Failed(str(problem) or type(problem).__name__) from problem


def subjects_of(row, names):
    """The allocators that run that row, in the order of the names."""
    return [name for name in names if not row.subjects or name in row.subjects]


def order(seed, when, row, names):
    """The order in which the allocators take their turns: a different one in each round, and in each turn of a round."""
    names = list(names)
    random.Random(f"{seed}/{when}/{row}").shuffle(names)
    return names


def first_line(path, prefix=""):
    try:
        with open(path) as file:
            return next((line.partition(":")[2].strip() if prefix else line.strip()
                         for line in file if line.startswith(prefix)), "")
    except OSError:
        return ""


INITIAL_WARM_MIB, WARM_MARGIN = 1024, 1.25


def to_warm(runs, memory):
    """The MiB that a run of that row may need, by the earlier runs (name → its runs); `memory`: MiB that the machine can
    spare."""
    peaks = [run["peak_mb"] for some in runs.values() for run in some if run.get("peak_mb")]
    return max(1, round(min(max(peaks) * WARM_MARGIN if peaks else INITIAL_WARM_MIB, memory / 2)))


def available_mib():
    return int(first_line("/proc/meminfo", "MemAvailable:").split()[0]) // 1024


def warm(mib):
    """Has the machine's free memory touched, so that no run pays for memory that the host reclaimed before it."""
    subprocess.run([WARM, str(mib)], check=False)  # a machine without that much memory continues without it


def run_undisturbed(run, repeats, before=lambda: None):
    """Repeats a run while other processes use the machine, `repeats` times at most; keeps the least disturbed run."""
    attempts = []
    while not attempts or (attempts[-1]["disturbed"] and len(attempts) <= repeats):
        before()
        attempts.append(measure.observed(run))
    kept = min(attempts, key=lambda one: (one["disturbed"], one["others_cpu_s"]))
    return {**kept, "attempts": len(attempts)}


def machine():
    def bracketed(text):
        return text.partition("[")[2].partition("]")[0]
    return {
        "cpu": first_line("/proc/cpuinfo", "model name") or platform.machine(), "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(), "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "huge_pages": bracketed(first_line("/sys/kernel/mm/transparent_hugepage/enabled")),
        "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


class Session:
    def __init__(self, rows, allocators, options, kind):
        self.rows, self.allocators, self.options = rows, {one.name: one for one in allocators}, options
        self.runs = {row.name: {name: [] for name in subjects_of(row, self.allocators)} for row in rows}
        self.failed = {row.name: {} for row in rows}
        self.figures = {
            "format": FORMAT, "kind": kind, "when": time.strftime("%Y-%m-%d %H:%M"), "machine": machine(),
            "rounds": options.rounds, "seed": options.seed, "commit": output_of("git", "rev-parse", "--short=10", "HEAD"),
            "ours": [one.name for one in allocators if one.ours],
            "allocators": {one.name: one.described() for one in allocators},
            "rows": {row.name: {"group": row.group, "threads": row.threads, "pinned": row.pinned, "time": row.time,
                                "memory": row.memory}
                     for row in rows},
            "runs": self.runs, "failed": self.failed,
        }

    def take_turn(self, number, row, turn):
        for place, name in enumerate(order(self.options.seed, (number, turn), row.name, self.runs[row.name])):
            if name in self.failed[row.name] or (number > 0 and name in row.once):
                continue
            # Only a time is worth another try: resident memory does not depend on other processes. In a pair both runs
            # are disturbed alike, as one follows the other.
            repeats = self.options.repeats if row.time and row.turns == 1 else 0

            def before():
                if row.time:
                    warm(to_warm(self.runs[row.name], available_mib()))
            try:
                figures = run_undisturbed(lambda: row.run(self.allocators[name], self.options.limit), repeats, before)
            except measure.Failed as problem:
                self.failed[row.name][name] = str(problem)
                say(f"FAILED: {row.name} on {name}: {problem}")
                continue
            self.runs[row.name][name].append({"round": number, "turn": turn, "place": place, **figures})

    def run(self, keep_in):
        """All rounds; the results so far are stored after each."""
        began = time.monotonic()
        for number in range(self.options.rounds):
            for row in self.rows:
                if row.rounds is not None and number >= row.rounds:
                    continue
                for turn in range(row.turns):
                    self.take_turn(number, row, turn)
                latest = {name: runs[-1] for name, runs in self.runs[row.name].items() if runs}
                say(f"round {number + 1}/{self.options.rounds}: {row.name}: " + ", ".join(
                    f"{name} {run['wall_s']:.2f}{'!' if run['disturbed'] else ''}"
                    for name, run in latest.items() if run["round"] == number and "wall_s" in run) + " s")
            took = time.monotonic() - began
            self.figures["took_s"] = round(took)
            keep(self.figures, keep_in)
            left = took / (number + 1) * (self.options.rounds - number - 1)
            if left > 60:
                say(f"about {left / 60:.0f} minutes to go")
        return self.figures


def keep(figures, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(figures, indent=1) + "\n")
    new.rename(path)


def load(path):
    try:
        figures = json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as problem:
        raise Refused(f"{path}: {problem}") from problem
    if figures.get("format") != FORMAT:
        raise Refused(f"{path}: not figures of this runner")
    return figures
