"""Services in Rust on tokio, two threads each, with 64 connections; Rust's allocator calls malloc: an HTTP service
(tokio/), and mini-redis as its authors published it (mini_redis/)."""
import dataclasses
import functools
import subprocess

from harness import measure

from . import where_time_goes
from .process import expect
from .row import BUILDS, HERE, Row
from .switched import EVERYTHING, FEW_PAIRS, OFF, SOCKET, in_turns

CONNECTIONS, REQUESTS, SLICE = 64, 4000, 500  # of each connection
NEEDS = (("cargo", "cargo-web"),)


@functools.cache
def build(folder):
    """Builds a server and its client, with the versions in Cargo.lock; the first build downloads them."""
    target = BUILDS / folder
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", target], cwd=HERE / folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["it printed nothing"])[-1]
        return f"the server does not build: {last} (cargo build --release --locked in bench/programs/{folder})"
    return None


@dataclasses.dataclass(frozen=True)
class Service:
    name: str
    folder: str
    by_request: bool  # it is ended by a request instead of a signal

    @property
    def client(self):
        return BUILDS / self.folder / "release/client"

    def start(self, run, **variables):
        """It prints its port once it listens."""
        server = run.serve((BUILDS / self.folder / "release/server",), lambda server: server.out.read_text().endswith("\n"), **variables)
        return server.out.read_text().strip(), server

    def ask(self, run, port, requests):
        said = measure.metrics_of(run.run([self.client, port, CONNECTIONS, requests]))
        expect("the number of answers", said.get("answers"), CONNECTIONS * requests)
        return {"p99_us": said["p99_us"]}

    def stop(self, run, port, server):
        run.stop(server, ask=(lambda: run.run([self.client, port, "quit"])) if self.by_request else None)

    def once(self, run):
        port, server = self.start(run)
        with run.measuring(server) as figures:
            metrics = self.ask(run, port, REQUESTS)
        self.stop(run, port, server)
        return {**figures, "metrics": {"requests_per_s": CONNECTIONS * REQUESTS / figures["wall_s"], **metrics}}

    def switched(self, run, **how):
        port, server = self.start(run, **SOCKET)
        with run.measuring(server) as figures:
            slices = in_turns(run, server, CONNECTIONS * SLICE, lambda: self.ask(run, port, SLICE), **how)
        self.stop(run, port, server)
        return {**figures, "slices": slices}

    def recorded(self, run):
        return self.switched(run, values=(EVERYTHING, OFF), pairs=FEW_PAIRS)

    def sampled_by_perf(self, run):
        port, server = self.start(run)
        with run.measuring(server) as figures, where_time_goes.watching(run, server):
            self.ask(run, port, REQUESTS)
        self.stop(run, port, server)
        return {**figures, "metrics": where_time_goes.shares(run)}

    def row(self, what="", once=None):
        return Row(self.name + what, 2, NEEDS, once or self.once, functools.partial(build, self.folder))

    def rows(self):
        """Alone; with sampling switched on and off; with recording switched between everything and nothing; and by perf."""
        return (self.row(), self.row(", sampling on and off in turns", self.switched),
                self.row(", everything recorded and nothing in turns", self.recorded), where_time_goes.row(self.row(), self.sampled_by_perf))


HTTP = Service("tokio HTTP service", "tokio", by_request=True)
MINI_REDIS = Service("mini-redis", "mini_redis", by_request=False)

ROWS = [HTTP.row()]
