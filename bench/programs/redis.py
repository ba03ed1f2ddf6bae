"""Redis: one thread that stores 1 KiB values as strings, in a list and in a sorted set, asked by 50 pipelining clients."""
import csv
import dataclasses

from . import counted
from .process import Failed, answers
from .row import Row
from .switched import SOCKET, in_turns

CLIENTS, PIPELINE, BYTES, KEYS = 50, 16, 1024, 100_000
REQUESTS = {"set": 400_000, "get": 400_000, "lpush": 200_000, "zadd": 400_000}
COUNTED_REQUESTS = dict.fromkeys(REQUESTS, 100_000)
SLICE = {test: requests // 8 for test, requests in REQUESTS.items()}


def start(run, command=("redis-server",), **variables):
    path = run.folder / "socket"
    return path, run.serve([*command, "--port", "0", "--unixsocket", path, "--dir", run.folder, "--save", "",
                            "--appendonly", "no"], lambda _: answers(path), **variables)


def ask(run, path, wanted):
    """Puts so many requests of each test."""
    printed = [run.run(["redis-benchmark", "-s", path, "-t", test, "-n", requests, "-r", KEYS, "-d", BYTES, "-P", PIPELINE,
                        "-c", CLIENTS, "--csv"]) for test, requests in wanted.items()]
    tests = {row["test"].lower(): row for text in printed for row in csv.DictReader(text.splitlines())}
    if set(tests) != set(wanted):
        raise Failed(f"redis-benchmark printed no rate of some test: {printed}")
    metrics = {f"{test}_per_s": float(row["rps"]) for test, row in tests.items()}
    everything = sum(wanted.values())
    metrics["requests_per_s"] = everything / sum(count / metrics[f"{test}_per_s"] for test, count in wanted.items())
    metrics["p99_us"] = sum(count * 1000 * float(tests[test]["p99_latency_ms"]) for test, count in wanted.items()) / everything
    return metrics


def once(run):
    path, server = start(run)
    with run.measuring(server) as figures:
        metrics = ask(run, path, REQUESTS)
    run.stop(server)
    return {**figures, "metrics": metrics}


def switched(run):
    path, server = start(run, **SOCKET)
    with run.measuring(server) as figures:
        # The list would only grow.
        slices = in_turns(run, server, sum(SLICE.values()), lambda: ask(run, path, SLICE),
                          lambda: run.run(["redis-cli", "-s", path, "del", "mylist"]))
    run.stop(server)
    return {**figures, "slices": slices}


def under_callgrind(run):
    path, server = start(run, counted.command(run, "redis-server"))
    with run.measuring(server) as figures:
        ask(run, path, COUNTED_REQUESTS)
    run.stop(server)
    return {**figures, "metrics": counted.shares(run)}


ROWS = [Row("Redis", 1, (("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")), once)]
SWITCHED = dataclasses.replace(ROWS[0], name="Redis, sampling on and off in turns", once=switched)
COUNTED = counted.row(ROWS[0], under_callgrind)
