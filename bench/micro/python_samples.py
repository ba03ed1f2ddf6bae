#!/usr/bin/env python3
"""Measures what a sample costs in a Python program: the CPU time of each block that it allocates, with every block sampled.

  bench/micro/python_samples.py [--python PROGRAM] [--lib LIBRARY] [--rounds N]

Rows: 20 calls of one function; 50 functions that call each other; 57 functions that call each other through C (sorted).
Columns: without samples; with them, but without Python's functions; with both. Each figure is the minimum of the rounds.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BLOCKS = 10_000
CONFIGURATIONS = {"no samples": "sample:0", "without": "sample:1,python_frames:0", "with": "sample:1,python_frames:1"}


def allocate():
    began = time.thread_time_ns()
    for _ in range(BLOCKS):
        bytearray(2000)
    return (time.thread_time_ns() - began) / BLOCKS


def one_function(depth):
    return allocate() if depth == 0 else one_function(depth - 1)


def chain(count, text):
    """The outermost of `count` functions made from the text: each has code of its own."""
    space = {"inner": allocate}
    for number in range(count):
        exec(text.format(name=f"f{number}"), space)
        space["inner"] = space[f"f{number}"]
    return space["inner"]


PLAIN = """
def {name}(inner=inner):
    return inner()
"""
THROUGH_C = """
def {name}(inner=inner):
    found = []
    def key_of_{name}(_):
        found.append(inner())
    sorted([0], key=key_of_{name})
    return found[0]
"""
STACKS = {
    "20 calls of one function": lambda: one_function(20),
    "50 functions": chain(50, PLAIN),
    "57 functions, through C": chain(28, THROUGH_C),
}


def measure(arguments, conf):
    """Microseconds by stack."""
    environment = {**os.environ, "LD_PRELOAD": str(arguments.lib), "SEEMALLOC_CONF": conf + ",helper:0"}
    command = [arguments.python, __file__, "--child", "--rounds", str(arguments.rounds)]
    lines = subprocess.check_output(command, env=environment, text=True).splitlines()
    return {name: float(figure) for figure, name in (line.split(" ", 1) for line in lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--lib", type=pathlib.Path, default=ROOT / "out/lib/libseemalloc.so")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        for name, stack in STACKS.items():
            print(f"{min(stack() for _ in range(arguments.rounds)) / 1000:.2f} {name}")
        return 0
    figures = {column: measure(arguments, conf) for column, conf in CONFIGURATIONS.items()}
    print("| µs per block | " + " | ".join(figures) + " |")
    print("|---|" + "--:|" * len(figures))
    for name in STACKS:
        print(f"| {name} | " + " | ".join(f"{column[name]:.2f}" for column in figures.values()) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
