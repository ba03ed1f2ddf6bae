"""Figures for the tests of the runner, and the end of a test program."""
import sys
import unittest


def figures_of(rows, names, ours=("a",), failed=None, kind="comparison"):
    """Figures as Session stores them: row → (group, threads, {name: [wall_s, …]}); memory is ten times the time."""
    def run(value):
        return {"wall_s": value, "cpu_s": value, "system_s": 0, "peak_mb": value * 10, "minor_faults": 1, "major_faults": 0,
                "voluntary_switches": 1, "involuntary_switches": 1, "others_cpu_s": 0, "disturbed": False, "attempts": 1,
                "metrics": {"kept_mb": value + 1}}
    return {
        "kind": kind, "when": "today", "rounds": 5, "seed": 1, "commit": "", "ours": list(ours),
        "machine": {"cores": 2, "cpu": "x", "memory_gb": 1, "system": "", "kernel": "", "huge_pages": "", "governor": "",
                    "load_at_start": 0},
        "allocators": {name: {"version": "1"} for name in names},
        "rows": {row: {"group": group, "threads": threads, "time": "wall_s", "memory": "peak_mb"}
                 for row, (group, threads, _) in rows.items()},
        "runs": {row: {name: [run(value) for value in values.get(name, [])] for name in names}
                 for row, (_, _, values) in rows.items()},
        "failed": {row: (failed or {}).get(row, {}) for row in rows},
    }


def around(middle, spread=0.01):
    return [middle + spread * step for step in (-1, -0.5, 0, 0.5, 1)]


def run_tests():
    """Runs the tests of the main program, and exits."""
    result = unittest.main(exit=False).result
    lost = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - lost - len(result.skipped)} passed, {lost} failed, {len(result.skipped)} skipped", flush=True)
    sys.exit(1 if lost else 0)
