"""One server with sampling on and off in turns, while it answers: what half a percent needs to be told. Two processes differ by
several percent, by where their memory happens to lie alone; one process does not differ from itself.

What was sampled while it was on may be freed while it is off: slices are long against the time that a block lives.
"""
import pathlib
import subprocess
import time

from harness.allocators import OUT

from .process import Failed

ON, OFF = "sample:512K", "sample:0"
SOCKET = {"SEEMALLOC_CONF": "at_start:1"}  # what the server needs to be told which
PAIRS, WARM = 120, 4  # WARM slices before the first pair are not kept
SOCKET_S = 10  # after which a server that answers has a socket


def cpu_s(pid):
    """What the threads that it has now have used: to the nanosecond, unlike /proc/PID/stat."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def order(pair):
    """Each value comes first as often."""
    return (ON, OFF) if pair % 2 == 0 else (OFF, ON)


def tell(server, value):
    tool, until = OUT / "bin/seemalloc", time.monotonic() + SOCKET_S
    while (done := subprocess.run([tool, "set", str(server.pid), value.replace(":", "=")], capture_output=True, text=True)).returncode != 0:
        if time.monotonic() > until:
            raise Failed(done.stderr.strip())
        time.sleep(0.05)


def in_turns(run, server, requests, work, after=lambda: None):
    """work() puts so many requests and returns its metrics; after() is not measured. Returns value → metrics of its slices, in the
    order of the pairs."""
    def one(value):
        tell(server, value)
        before, began = cpu_s(server.pid), time.monotonic()
        metrics = work()
        took = time.monotonic() - began
        figures = {"requests_per_s": requests / took, **metrics, "cpu_us": (cpu_s(server.pid) - before) / requests * 1e6}
        run.check_alive(server)
        after()
        return figures

    for slice_ in range(WARM):
        one(order(slice_)[0])
    slices = {ON: [], OFF: []}
    for pair in range(PAIRS):
        for value in order(pair):
            slices[value].append(one(value))
    return slices
