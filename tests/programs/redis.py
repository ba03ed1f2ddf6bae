"""Redis: a benchmark over all its types, DUMP and RESTORE, a save from a forked child, and reading the file back.
"""
import re
import socket

NEEDS = ["redis-server", "redis-benchmark"]


class Client:
    """The part of Redis's protocol that is needed here, on one connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=600)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        self.send(*words)
        return self.reply()

    def send(self, *words):
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise OSError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        raise OSError(f"not a reply: {line!r}")

    def info(self, section):
        return dict(line.split(":", 1) for line in self("INFO", section).decode().splitlines() if ":" in line)


def start(session):
    port = session.free_port()
    server = session.start(["redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", session.folder,
                            "--save", "", "--enable-debug-command", "yes"])
    session.wait_until(server, lambda: Client(port)("PING") == "PONG", "Redis answers")
    return port, server


def check(session):
    port, server = start(session)
    tests = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset"
    bench = session.run(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", tests, "-n", 60000, "-r", 50000,
                         "-d", 300, "-P", 8, "-c", 20, "-q"], preload=False)
    rates = re.findall(r"([A-Z]+)[^:\r\n]*: [\d.]+ requests per second", bench.stdout)
    session.expect("tests of redis-benchmark that ended", sorted(set(rates)), sorted(tests.upper().split(",")))

    client = Client(port)
    client("SET", "text", b"x" * 100_000)
    for i in range(2000):
        client("HSET", "hash", f"field{i}", f"value{i}" * (i % 50))
        client("RPUSH", "list", f"item{i}")
        client("ZADD", "ranks", i * 1.5, f"member{i}")
        client("SADD", "set", f"element{i}")
        client("XADD", "stream", f"{i + 1}-0", "number", i)
    for key in ("text", "hash", "list", "ranks", "set", "stream"):
        client("RESTORE", key + ".copy", 0, client("DUMP", key))
        # DEBUG DIGEST-VALUE does not depend on the order inside hashes and sets.
        one, two = client("DEBUG", "DIGEST-VALUE", key, key + ".copy")
        session.expect(f"{key} after DUMP and RESTORE", two, one)
    session.expect("length of the restored list", client("LLEN", "list.copy"), 2000)

    # BGSAVE forks; the parent continues to write, so pages are copied while the child walks the heap.
    client("BGSAVE")
    for i in range(20000):
        client.send("SET", f"later{i}", b"y" * (i % 500))
    for i in range(20000):
        client.reply()
    session.wait_until(server, lambda: client.info("persistence")["rdb_bgsave_in_progress"] == "0", "BGSAVE")
    session.expect("BGSAVE", client.info("persistence")["rdb_last_bgsave_status"], "ok")
    digest, keys = client("DEBUG", "DIGEST"), client("DBSIZE")
    client("SAVE")
    session.stop(server)

    port, server = start(session)
    client = Client(port)
    session.expect("keys read back", client("DBSIZE"), keys)
    session.expect("digest of what was read back", client("DEBUG", "DIGEST"), digest)
    client("FLUSHALL")
    session.stop(server)
