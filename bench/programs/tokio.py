"""tokio: an HTTP service in Rust on two threads (tokio/), asked by 64 connections; Rust's allocator calls malloc."""
import functools
import subprocess

from harness import measure

from .process import expect
from .row import BUILDS, HERE, Row

CONNECTIONS, REQUESTS = 64, 4000
TARGET = BUILDS / "tokio"


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


def once(run):
    # It prints its port once it listens.
    server = run.serve([TARGET / "release/server"], lambda server: server.out.read_text().endswith("\n"))
    client, port = TARGET / "release/client", server.out.read_text().strip()
    with run.measuring(server) as figures:
        printed = run.run([client, port, CONNECTIONS, REQUESTS])
    run.stop(server, ask=lambda: run.run([client, port, "quit"]))
    said = measure.metrics_of(printed)
    expect("the number of answers", said.get("answers"), CONNECTIONS * REQUESTS)
    return {**figures, "metrics": {"requests_per_s": CONNECTIONS * REQUESTS / figures["wall_s"], "p99_us": said["p99_us"]}}


ROWS = [Row("tokio HTTP service", 2, (("cargo", "cargo-web"),), once, prepare)]
