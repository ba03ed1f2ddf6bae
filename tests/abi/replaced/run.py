#!/usr/bin/env python3
"""Links every_form.cc with subsets of own_operators.cc and runs each: programs that replace some operators new and delete.

  run.py --cxx COMPILER --out FOLDER --subsets all|some [--env NAME=VALUE]... [--link FLAG]...

all: each of the 256 subsets of the eight operators that other operators call, each other operator alone, all 20, and 60
random subsets of all 20. some: 40 of them, among them each operator alone. Prints "N passed, N failed"; exits with 1 when
a run failed.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
COMPILE = ["-std=c++20", "-O1", "-fPIE", "-fno-builtin", "-fsized-deallocation", "-Wall", "-Wextra"]


def forms():
    """The symbols of the operators, in the order of the enumeration."""
    order = re.findall(r"\bk[A-Z]\w+", re.search(r"enum Form \{(.*?)\}", (HERE / "forms.h").read_text(), re.S).group(1))
    symbols = {form: symbol for symbol, form in re.findall(r"^OWN\(\S+, (\w+), (\w+)", (HERE / "own_operators.cc").read_text(), re.M)}
    return [symbols[form] for form in order if form != "kForms"]


def subsets(which):
    drawn = random.Random(20)
    masks = list(range(256)) + [1 << bit for bit in range(8, 20)] + [drawn.getrandbits(20) for _ in range(60)] + [(1 << 20) - 1]
    # The usual subsets in programs: new and delete, the four base operators, only the news, only the deletes.
    if which == "all":
        return masks
    return [0x00, 0x11, 0x55, 0x0f, 0xf0, (1 << 20) - 1] + [1 << bit for bit in range(20)] + drawn.sample(masks, 14)


def build_and_run(options, symbols, mask):
    """Returns a description of the problem, or None."""
    names = options.out / f"names.{mask:05x}"
    operators = options.out / f"operators.{mask:05x}.o"
    program = options.out / f"program.{mask:05x}"
    names.write_text("".join(f"own{symbol} {symbol}\n" for bit, symbol in enumerate(symbols) if mask >> bit & 1))
    try:
        for command in ([options.objcopy, f"--redefine-syms={names}", options.out / "own_operators.o", operators],
                        [options.cxx, options.out / "every_form.o", operators, "-o", program, *options.link]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                return f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}"
        environment = {**os.environ, **dict(entry.split("=", 1) for entry in options.env)}
        done = subprocess.run([program, hex(mask)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=300)
        if done.returncode != 0 or not done.stdout.startswith("ok "):
            return f"status {done.returncode}: {done.stdout[-2000:]}"
    finally:
        for path in (names, operators, program):
            path.unlink(missing_ok=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--objcopy", default="objcopy")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--subsets", required=True, choices=("all", "some"))
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--link", action="append", default=[])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for source in ("every_form", "own_operators"):
        subprocess.run([options.cxx, *COMPILE, "-c", HERE / f"{source}.cc", "-o", options.out / f"{source}.o"], check=True)
    symbols = forms()
    if len(symbols) != 20:
        sys.exit(f"{len(symbols)} operators, not 20")
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        masks = subsets(options.subsets)
        for mask, problem in zip(masks, pool.map(lambda mask: build_and_run(options, symbols, mask), masks)):
            if problem is None:
                passed += 1
            else:
                failed += 1
                if failed <= 3:
                    print(f"FAILED   replaced {mask:#x}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
