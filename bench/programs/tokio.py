"""tokio: an HTTP service in Rust on two threads (tokio/), asked by 64 connections; Rust's allocator calls malloc."""
import dataclasses
import functools
import subprocess

from harness import measure

from . import where_time_goes
from .process import expect
from .row import BUILDS, HERE, Row
from .switched import EVERYTHING, FEW_PAIRS, OFF, SOCKET, in_turns

CONNECTIONS, REQUESTS, SLICE = 64, 4000, 500  # of each connection
TARGET = BUILDS / "tokio"
CLIENT = TARGET / "release/client"


@functools.cache
def prepare():
    """Builds the server and its client, with what is in Cargo.lock; the first time that downloads it."""
    TARGET.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", TARGET], cwd=HERE / "tokio",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["it printed nothing"])[-1]
        return f"the server does not build: {last} (cargo build --release --locked in bench/programs/tokio)"
    return None


def start(run, command=(TARGET / "release/server",), **variables):
    """It prints its port once it listens."""
    server = run.serve(command, lambda server: server.out.read_text().endswith("\n"), **variables)
    return server.out.read_text().strip(), server


def ask(run, port, requests):
    said = measure.metrics_of(run.run([CLIENT, port, CONNECTIONS, requests]))
    expect("the number of answers", said.get("answers"), CONNECTIONS * requests)
    return {"p99_us": said["p99_us"]}


def stop(run, port, server):
    run.stop(server, ask=lambda: run.run([CLIENT, port, "quit"]))


def once(run):
    port, server = start(run)
    with run.measuring(server) as figures:
        metrics = ask(run, port, REQUESTS)
    stop(run, port, server)
    return {**figures, "metrics": {"requests_per_s": CONNECTIONS * REQUESTS / figures["wall_s"], **metrics}}


def switched(run, **how):
    port, server = start(run, **SOCKET)
    with run.measuring(server) as figures:
        slices = in_turns(run, server, CONNECTIONS * SLICE, lambda: ask(run, port, SLICE), **how)
    stop(run, port, server)
    return {**figures, "slices": slices}


def recorded(run):
    return switched(run, values=(EVERYTHING, OFF), pairs=FEW_PAIRS)


def sampled_by_perf(run):
    port, server = start(run)
    with run.measuring(server) as figures, where_time_goes.watching(run, server):
        ask(run, port, REQUESTS)
    stop(run, port, server)
    return {**figures, "metrics": where_time_goes.shares(run)}


ROWS = [Row("tokio HTTP service", 2, (("cargo", "cargo-web"),), once, prepare)]
SWITCHED = dataclasses.replace(ROWS[0], name="tokio HTTP service, sampling on and off in turns", once=switched)
RECORDED = dataclasses.replace(ROWS[0], name="tokio HTTP service, everything recorded and nothing in turns", once=recorded)
WHERE = where_time_goes.row(ROWS[0], sampled_by_perf)
