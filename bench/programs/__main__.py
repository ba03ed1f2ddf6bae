"""Runs rows once, to try them: bench/run does this many times, alternating, with all allocators.

  python3 bench/programs [WORD…]                            those whose name contains a word, on the C library's allocator
  python3 bench/programs --preload LIBRARY [WORD…]          on this one
  python3 bench/programs --list
"""
import argparse
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from programs import ROWS, Failed  # noqa: E402 (the path above comes first)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("words", nargs="*")
    arguments.add_argument("--preload", type=pathlib.Path)
    arguments.add_argument("--limit", type=int, default=120, help="seconds for one run")
    arguments.add_argument("--list", action="store_true")
    options = arguments.parse_args()
    rows = [row for row in ROWS if not options.words or any(word.lower() in row.name.lower() for word in options.words)]
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if options.preload:
        environment["LD_PRELOAD"] = str(options.preload.resolve(strict=True))
    failed = 0
    for row in rows:
        reason = row.available()
        if reason or options.list:
            print(f"{row.name:44}" + (f" not here: {reason}" if reason else ""), flush=True)
            continue
        try:
            figures = row.run(environment, options.limit)
        except Failed as problem:
            print(f"{row.name:44} FAILED: {problem}", flush=True)
            failed += 1
            continue
        metrics = figures.pop("metrics")
        print(f"{row.name:44} {figures['wall_s']:6.2f} s, CPU {figures['cpu_s']:6.2f} s (system {figures['system_s']:5.2f} s), "
              f"{figures['peak_mb']:6.1f} MB, {figures['faults']:7} faults, {figures['switches']:7} switches"
              + "".join(f"; {name} {value:,.1f}" for name, value in metrics.items()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
