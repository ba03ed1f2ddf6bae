"""Holds memory and burns time in functions of every kind; python_test.go knows their names, lines and amounts.

  frames.py hold            holds, prints "ready" and waits for its standard input to end
  frames.py burn SECONDS    burns CPU time, two parts in burn_two for each one in burn_one
  frames.py stress SECONDS  difficult cases for the frame walk: threads, exceptions, recursion, short-lived code
  frames.py late            leaves threads behind that work while Python is finalised
"""
import sys
import threading
import time
import zlib

KIB = 1024
kept = []


class Keeper:
    def hold(self, kib):
        kept.append(bytearray(kib * KIB))  # line: Keeper.hold


def recurse(depth):
    if depth == 0:
        Keeper().hold(64)
    else:
        recurse(depth - 1)


def produce(blocks):
    for _ in range(blocks):
        yield bytearray(32 * KIB)  # line: produce


def consume():
    kept.extend(produce(4))


def weigh(item):
    kept.append(bytearray(16 * KIB))  # line: weigh
    return -item


def order():
    return sorted([3, 1, 2], key=weigh)


def größe():
    kept.append(bytearray(128 * KIB))


def in_thread():
    kept.append(bytearray(256 * KIB))


def from_text():
    space = {"kept": kept}
    # Its code object is freed before the profile is taken.
    exec(compile("def made_up():\n\n    kept.append(bytearray(96 << 10))\nmade_up()\n", "made_up.py", "exec"), space)
    # Functions whose code is at the same address, one after the other.
    for pages in range(1, 31):
        exec(f"def pages_{pages:02}():\n    kept.append(bytearray({pages} << 12))\npages_{pages:02}()\ndel pages_{pages:02}\n", {"kept": kept})


def hold():
    small = lambda: kept.append(bytearray(8 * KIB))
    small()
    recurse(5)
    consume()
    order()
    größe()
    from_text()
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    Keeper().hold(100)


def burn_one(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def burn_two(n):
    return burn_one_more(2 * n)


def burn_one_more(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        # Long enough not to be in step with the kernel's ticks.
        burn_two(100000)
        burn_one(100000)


def fail(depth):
    if depth == 0:
        raise ValueError(depth)
    try:
        fail(depth - 1)
    finally:
        kept_here = [depth] * 3


def stir(end):
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        space = {}
        exec(f"def f{rounds}(x):\n    return [g for g in (y * y for y in range(x))]\n", space)
        space[f"f{rounds}"](50)
        try:
            fail(rounds % 40)
        except ValueError:
            pass
        sorted(range(30), key=lambda n: -n)
        recurse_only(rounds % 200)
        zlib.compress(bytes(5000))


def recurse_only(depth):
    return depth if depth == 0 else recurse_only(depth - 1)


def stress(seconds):
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=stir, args=(end,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        short = [threading.Thread(target=stir, args=(time.monotonic() + 0.01,)) for _ in range(3)]
        for thread in short:
            thread.start()
        for thread in short:
            thread.join()
    for thread in threads:
        thread.join()


def compress_for_ever():
    data = bytes(range(256)) * 4000
    while True:
        zlib.compress(data)


def late():
    for _ in range(4):
        threading.Thread(target=compress_for_ever, daemon=True).start()
    burn(0.2)


if __name__ == "__main__":
    command = sys.argv[1]
    if command == "hold":
        hold()
        print("ready", flush=True)
        sys.stdin.read()
    else:
        globals()[command](*map(float, sys.argv[2:]))
    print("done")
