"""One server whose sampling is switched while it answers: on and off, or everything and nothing recorded, alternating.
Measuring half a percent requires this: two processes differ by several percent just by the addresses of their memory;
one process does not differ from itself.

Blocks sampled in an "on" slice may be freed in an "off" slice: to see the cost of freeing them too, slices must be
long compared with the lifetime of a block. But a machine whose speed changes by a tenth between two slices does so
between short ones as well, and of these there are more: measuring half a percent takes some thousand pairs, in which
both sides share the freeing of sampled blocks, a part of the cost.
"""
import os
import pathlib
import socket
import subprocess
import time

from harness.allocators import OUT

from .process import Failed

ON, OFF, EVERYTHING = "sample:512K", "sample:0", "sample:1"
SOCKET = {"SEEMALLOC_CONF": "at_start:1"}  # the server needs a socket to receive the switches
PAIRS, WARM = 120, 4  # WARM slices before the first pair are discarded
FEW_PAIRS = 30  # enough to measure a fifth
MANY_PAIRS, SHORT_S = 3_000, 0.04
SOCKET_S = 10  # after this time a server that answers has a socket


def cpu_s(pid):
    """CPU time of its current threads: to the nanosecond, unlike /proc/PID/stat."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def order(values, pair):
    """Each value comes first equally often."""
    return values if pair % 2 == 0 else values[::-1]


def tell(server, value):
    tool, until = OUT / "bin/seemalloc", time.monotonic() + SOCKET_S
    while (done := subprocess.run([tool, "set", str(server.pid), value.replace(":", "=")], capture_output=True, text=True)).returncode != 0:
        if time.monotonic() > until:
            raise Failed(done.stderr.strip())
        time.sleep(0.05)


class Switch:
    """Sends commands to a server directly, within microseconds: the tool takes longer to start than a short slice lasts."""

    def __init__(self, server):
        tell(server, ON)  # its socket exists then
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"/tmp/seemalloc-{os.getuid()}/{server.pid}.sock")
        self.answers = self.socket.makefile("rb")
        # The server opens a descriptor whose name is readable only by a client that may inspect the server (core/api/service/control.h).
        name = os.readlink(f"/proc/{server.pid}/fd/{self.ask('prove')}")
        self.ask(f"prove {name.removeprefix('/memfd:seemalloc:').removesuffix(' (deleted)')}")

    def ask(self, line):
        self.socket.sendall(f"{line}\n".encode())
        status, _, size = self.answers.readline().decode().strip().partition(" ")
        if status != "ok":
            raise Failed(f"{line}: {status} {size}")
        return self.answers.read(int(size)).decode()

    def tell(self, value):
        self.ask(f"set {value.replace(':', ' ')}")


def in_short_turns(server, count, between=lambda: None, pairs=MANY_PAIRS):
    """For a server under constant load; count() returns the number of requests it has answered, and the server's clock at
    that moment, in seconds. between() is called between two pairs. Returns value → metrics of its slices, in the order
    of the pairs."""
    switch = Switch(server)
    slices = {ON: [], OFF: []}
    for pair in range(pairs):
        for value in order((ON, OFF), pair):
            switch.tell(value)
            answered, began = count()
            time.sleep(SHORT_S)
            later, ended = count()
            if later == answered:
                raise Failed("the server gets no request")
            slices[value].append({"requests_per_s": (later - answered) / (ended - began)})
        between()
    return slices


def in_turns(run, server, requests, work, after=lambda: None, values=(ON, OFF), pairs=PAIRS):
    """work() sends a fixed number of requests and returns its metrics; after() is not measured. Returns value → metrics
    of its slices, in the order of the pairs."""
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
        one(order(values, slice_)[0])
    slices = {value: [] for value in values}
    for pair in range(pairs):
        for value in order(values, pair):
            slices[value].append(one(value))
    return slices
