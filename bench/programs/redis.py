"""Redis: one thread that stores 1 KiB values as strings, in a list and in a sorted set, with 50 pipelining clients."""
import csv
import dataclasses
import re
import socket

from . import where_time_goes
from .process import Failed, answers
from .row import Row
from .switched import SOCKET, in_short_turns, in_turns

CLIENTS, PIPELINE, BYTES, KEYS = 50, 16, 1024, 100_000
REQUESTS = {"set": 400_000, "get": 400_000, "lpush": 200_000, "zadd": 400_000}
LONG = 4_000_000  # requests of one test: seconds, so that the two slices of a pair rarely differ in kind
SLICE = {test: requests // 8 for test, requests in REQUESTS.items()}


def start(run, command=("redis-server",), **variables):
    path = run.folder / "socket"
    return path, run.serve([*command, "--port", "0", "--unixsocket", path, "--dir", run.folder, "--save", "",
                            "--appendonly", "no"], lambda _: answers(path), **variables)


def ask(run, path, wanted):
    """Sends this many requests of each test."""
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
        # Otherwise the list would only grow.
        slices = in_turns(run, server, sum(SLICE.values()), lambda: ask(run, path, SLICE),
                          lambda: run.run(["redis-cli", "-s", path, "del", "mylist"]))
    run.stop(server)
    return {**figures, "slices": slices}


class Connection:
    """Another client, which queries the server's state."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.answers = self.socket.makefile("rb")

    def answer(self):
        line = self.answers.readline().decode().strip()
        if line[:1] == "*":
            return [self.answer() for _ in range(int(line[1:]))]
        if line[:1] == "$":
            return self.answers.read(int(line[1:]) + 2).decode()
        if line[:1] not in ("+", ":"):
            raise Failed(f"redis-server answered {line!r}")
        return line[1:]

    def ask(self, *commands):
        """Returns the answer to the last command."""
        self.socket.sendall("".join(f"{command}\r\n" for command in commands).encode())
        return [self.answer() for _ in commands][-1]

    def count(self):
        """The number of commands it has processed, and its clock in seconds, at one moment."""
        (seconds, microseconds), stats = self.ask("MULTI", "TIME", "INFO stats", "EXEC")
        return int(re.search(r"total_commands_processed:(\d+)", stats)[1]), int(seconds) + int(microseconds) / 1e6


def briefly_switched(run):
    path, server = start(run, **SOCKET)
    ask(run, path, REQUESTS)  # creates the keys
    load = ["redis-benchmark", "-s", path, "-t", ",".join(REQUESTS), "-n", LONG, "-r", KEYS, "-d", BYTES, "-P", PIPELINE, "-c", CLIENTS, "-q", "-l"]
    with run.measuring(server) as figures, run.driving(load):
        connection = Connection(path)
        slices = in_short_turns(server, connection.count, lambda: connection.ask("DEL mylist"))
    run.stop(server)
    return {**figures, "slices": slices}


def sampled_by_perf(run):
    path, server = start(run)
    with run.measuring(server) as figures, where_time_goes.watching(run, server):
        ask(run, path, REQUESTS)
    run.stop(server)
    return {**figures, "metrics": where_time_goes.shares(run)}


ROWS = [Row("Redis", 1, (("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")), once)]
SWITCHED = dataclasses.replace(ROWS[0], name="Redis, sampling on and off in turns", once=switched)
BRIEFLY = dataclasses.replace(ROWS[0], name="Redis, sampling on and off every 40 ms", once=briefly_switched)
WHERE = where_time_goes.row(ROWS[0], sampled_by_perf)
