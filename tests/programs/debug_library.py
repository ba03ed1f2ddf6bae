"""Redis, SQLite and Python under the debug library, which walks its structures all the time; it finds a write to freed memory.
"""
import re
import signal
import socket

NEEDS = ["redis-server", "redis-benchmark", "sqlite3", "/usr/bin/python3"]
LIBRARY = "libseemalloc_debug.so"
CONFS = ["sample:64K"]
TIMEOUT = 60

SQL = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, body BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
  INSERT INTO item SELECT i, printf('name-%06d', (i * 7919) % 100000), zeroblob(i % 200) FROM n;
CREATE INDEX item_name ON item (name);
SELECT count(*), count(DISTINCT name), sum(id) FROM item;
SELECT length(group_concat(name, '')) FROM (SELECT name FROM item ORDER BY body, name);
DELETE FROM item WHERE id % 3 = 0;
VACUUM;
PRAGMA integrity_check;
"""

# Threads that hand objects of all sizes to each other, JSON, and a child of fork that continues.
PYTHON = """
import json, os, queue, threading
boxes = queue.Queue(16)
def make(seed):
    for i in range(600):
        boxes.put([bytes((seed * 7919 + i * k) % 5000) for k in range(40)])
    boxes.put(None)
makers = [threading.Thread(target=make, args=(n,)) for n in range(3)]
for maker in makers: maker.start()
lists, ended = 0, 0
while ended < 3:
    some = boxes.get()
    if some is None: ended += 1
    else: lists += len(some)
for maker in makers: maker.join()
rows = [{"number": n, "text": "x" * (n % 300), "list": list(range(n % 20))} for n in range(4000)]
same = json.loads(json.dumps(rows)) == rows
child = os.fork()
if child == 0:
    rows = [bytes(n % 3000) for n in range(20000)]
    os._exit(0 if len(rows) == 20000 else 1)
print(lists, same, os.waitpid(child, 0)[1])
"""


def check(session):
    if not session.library.exists():
        raise session.skipped(f"no {LIBRARY}: ./dev build debug makes it")
    often = {"SEEMALLOC_VERIFY_EVERY": "64"}
    redis(session, often)

    done = session.run(["sqlite3", "-batch", session.folder / "items.db"], input=SQL, env=often)
    session.expect("what SQLite printed", done.stdout.splitlines(), ["100000|100000|5000050000", "1100000", "ok"])

    done = session.run(["/usr/bin/python3", "-c", PYTHON], env={**often, "PYTHONMALLOC": "malloc"})
    session.expect("what Python printed", done.stdout.split(), ["72000", "True", "0"])

    write_to_freed_memory(session)


def redis(session, often):
    port = session.free_port()
    server = session.start(["redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", session.folder, "--save", ""], env=often)
    address = ["redis-benchmark", "-h", "127.0.0.1", "-p", port]
    session.wait_until(server, lambda: socket.create_connection(("127.0.0.1", port)).close() is None, "Redis answers")
    tests = "set,get,lpush,rpop,sadd,hset,zadd,mset"
    bench = session.run([*address, "-t", tests, "-n", 30000, "-r", 20000, "-d", 300, "-P", 8, "-c", 10, "-q"], preload=False)
    rates = re.findall(r"([A-Z]+)[^:\r\n]*: [\d.]+ requests per second", bench.stdout)
    session.expect("tests of redis-benchmark that ended", sorted(set(rates)), sorted(tests.upper().split(",")))
    session.stop(server)


# The links in the midst of a free list are followed by no fast path for a long time: the walk meets the one that was written to.
def write_to_freed_memory(session):
    program = session.compile("debug_library")
    for every, status in (("1", -signal.SIGABRT), ("0", 0)):
        done = session.run([program], env={"SEEMALLOC_VERIFY_EVERY": every}, status=status, says="invariant span.2: ")
        session.expect(f"walks every {every} operations find it", "invariant span.2: " in done.stderr, status != 0)
