"""Redis: one thread that stores 1 KiB values as strings, in a list and in a sorted set, asked by 50 pipelining clients."""
import csv

from .process import Failed, answers
from .row import Row

CLIENTS, PIPELINE, BYTES, KEYS = 50, 16, 1024, 100_000
REQUESTS = {"set": 400_000, "get": 400_000, "lpush": 200_000, "zadd": 400_000}


def once(run):
    path = run.folder / "socket"
    server = run.serve(["redis-server", "--port", "0", "--unixsocket", path, "--dir", run.folder, "--save", "",
                        "--appendonly", "no"], lambda _: answers(path))
    printed = []
    with run.measuring(server) as figures:
        for test, requests in REQUESTS.items():
            printed.append(run.run(["redis-benchmark", "-s", path, "-t", test, "-n", requests, "-r", KEYS,
                                    "-d", BYTES, "-P", PIPELINE, "-c", CLIENTS, "--csv"]))
    run.stop(server)
    tests = {row["test"].lower(): row for text in printed for row in csv.DictReader(text.splitlines())}
    if set(tests) != set(REQUESTS):
        raise Failed(f"redis-benchmark printed no rate of some test: {printed}")
    metrics = {f"{test}_per_s": float(row["rps"]) for test, row in tests.items()}
    everything = sum(REQUESTS.values())
    metrics["requests_per_s"] = everything / sum(count / metrics[f"{test}_per_s"] for test, count in REQUESTS.items())
    metrics["p99_us"] = sum(count * 1000 * float(tests[test]["p99_latency_ms"]) for test, count in REQUESTS.items()) / everything
    return {**figures, "metrics": metrics}


ROWS = [Row("Redis", 1, (("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")), once)]
