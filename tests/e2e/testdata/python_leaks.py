"""Leaks whose function and line python_leaks_test.go knows.

  python_leaks.py dict               a dictionary grows, by objects in Python only
  python_leaks.py extension FOLDER   the extension module `leaky` in FOLDER forgets a buffer in each call
  python_leaks.py numpy              a list of NumPy arrays grows
"""
import sys
import time


class Sessions:
    def __init__(self):
        self.by_id = {}
        self.number = 0

    def remember(self):
        self.number += 1
        self.by_id[self.number] = list(map(str, range(self.number, self.number + 20)))  # line: dict


def parse(leaky):
    leaky.parse("x" * 3000)  # line: extension


def collect(arrays, numpy):
    arrays.append(numpy.ones(1000))  # line: numpy


def main(way, *rest):
    if way == "dict":
        step = Sessions().remember
    elif way == "extension":
        sys.path.insert(0, rest[0])
        import leaky
        step = lambda: parse(leaky)
    else:
        import numpy
        arrays = []
        step = lambda: collect(arrays, numpy)
    print("ready", flush=True)
    while True:
        for _ in range(20):
            step()
        time.sleep(0.02)


main(*sys.argv[1:])
