"""MariaDB: a thread for each of 64 and of 512 connections, all busy; sysbench's read-only transactions, and joins with
rows picked by ORDER BY RAND() (order_by_rand.lua).

The data directory is made once, on the C library's allocator; each run gets a copy of it.
"""
import atexit
import functools
import getpass
import os
import pathlib
import re
import shutil
import tempfile

from .process import Failed, Run, answers, without_allocator
from .row import HERE, Row

READ_ONLY = ["oltp_read_only", "--tables=4", "--table-size=5000"]
ORDER_BY_RAND = [HERE / "order_by_rand.lua"]
NEEDS = (("mariadbd", "mariadb-server-core"), ("mariadb-install-db", "mariadb-server-core"),
         ("mariadb", "mariadb-client-core"), ("sysbench", "sysbench"))


def server_command(run, data):
    (run.folder / "tmp").mkdir(exist_ok=True)
    return ["mariadbd", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}",
            f"--socket={run.folder / 'socket'}", f"--tmpdir={run.folder / 'tmp'}", "--skip-networking",
            "--max-connections=600", "--thread-cache-size=600", "--back-log=600",
            "--tmp-table-size=64M", "--max-heap-table-size=64M", "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0"]


def client(run, *more):
    return ["mariadb", "--no-defaults", "--user=root", f"--socket={run.folder / 'socket'}", *more]


def sysbench(run, script, action, *more):
    return run.run(["sysbench", "--db-driver=mysql", "--mysql-user=root", f"--mysql-socket={run.folder / 'socket'}",
                    "--mysql-db=bench", *more, *script, action])


def serve(run, data):
    return run.serve(server_command(run, data), lambda _: answers(run.folder / "socket"))


def stop(run, server):
    run.stop(server, ask=lambda: run.run(client(run, "--execute=SHUTDOWN")))


@functools.cache
def prepared_data():
    """A data directory with the tables of both scripts; removed when the runner ends."""
    parent = pathlib.Path(tempfile.mkdtemp(prefix="bench-mariadb-data-"))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    data = parent / "data"
    with Run("MariaDB data", without_allocator(os.environ), 120) as run:
        run.run(["mariadb-install-db", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}",
                 "--auth-root-authentication-method=normal", "--skip-test-db", "--force",
                 "--innodb-log-file-size=16M"])  # forced: a minimal machine may not know its own name
        server = serve(run, data)
        run.run(client(run, "--execute=CREATE DATABASE bench"))
        for script in (READ_ONLY, ORDER_BY_RAND):
            sysbench(run, script, "prepare")
        stop(run, server)
    return data


def row(title, script, connections, events):
    def once(run):
        shutil.copytree(prepared_data(), run.folder / "data")
        server = serve(run, run.folder / "data")
        with run.measuring(server) as figures:
            printed = sysbench(run, script, "run", f"--threads={connections}", f"--events={events}", "--time=0",
                               "--rand-seed=1", "--percentile=95")
        stop(run, server)
        found = {name: re.search(rf"^\s*{said}:\s+([\d.]+)", printed, re.M)
                 for name, said in (("events", "total number of events"), ("latency_p95_ms", "95th percentile"))}
        if not all(found.values()) or float(found["events"].group(1)) < events:
            raise Failed(f"sysbench did not run its {events} events:\n{printed[-2000:]}")
        return {**figures, "metrics": {"events_per_s": events / figures["wall_s"],
                                       "latency_p95_ms": float(found["latency_p95_ms"].group(1))}}

    return Row(f"MariaDB {title}, {connections} connections", connections, NEEDS, once)


ROWS = [row("read-only", READ_ONLY, 64, 6000), row("read-only", READ_ONLY, 512, 6000),
        row("ORDER BY RAND()", ORDER_BY_RAND, 64, 6000), row("ORDER BY RAND()", ORDER_BY_RAND, 512, 5000)]
