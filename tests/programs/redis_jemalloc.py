"""Redis as Debian builds it, with jemalloc's calls: this library in jemalloc's place serves the figures of INFO and MEMORY, and its purge.
"""
import redis

NEEDS = ["redis-server"]
LIBRARY = "libseemalloc_compat.so"


def start(session, preload):
    port = session.free_port()
    environment = {} if preload else {"LD_LIBRARY_PATH": str(session.library.parent / "seemalloc-compat")}
    command = ["redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", session.folder, "--save", "",
               "--jemalloc-bg-thread", "yes"]
    server = session.start(command, env=environment, preload=preload)
    session.wait_until(server, lambda: redis.Client(port)("PING") == "PONG", "Redis answers")
    session.expect("the library is mapped", session.has_library(server), True)
    return server, redis.Client(port)


def figures(session, server, client, what, are_so):
    """INFO's section, as soon as it has these figures: Redis updates them by a timer."""
    found = {}

    def taken():
        found.update({key: int(value) for key, value in client.info("memory").items()
                      if key.startswith("allocator_") and value.lstrip("-").isdigit()})
        return are_so(found["allocator_allocated"], found["allocator_resident"])

    session.wait_until(server, taken, what)
    return found


def check_server(session, preload):
    server, client = start(session, preload)
    if not client.info("memory")["mem_allocator"].startswith("jemalloc"):
        session.stop(server)
        raise session.skipped("this Redis was not built with jemalloc's calls")
    for i in range(100):
        client("SET", f"key{i}", b"x" * 1_000_000)
    full = figures(session, server, client, "100 MB are allocated", lambda allocated, _: allocated >= 100_000_000)
    session.at_most("allocator_allocated", full["allocator_allocated"], 130_000_000)
    session.at_least("allocator_active", full["allocator_active"], full["allocator_allocated"])
    session.at_least("allocator_resident", full["allocator_resident"], full["allocator_active"] // 2)
    text = client("MEMORY", "MALLOC-STATS").decode()
    session.expect("MEMORY MALLOC-STATS", "Allocated: " in text and "resident: " in text, True)
    session.expect("MEMORY DOCTOR", isinstance(client("MEMORY", "DOCTOR"), bytes), True)

    client("FLUSHALL")
    session.expect("MEMORY PURGE", client("MEMORY", "PURGE"), "OK")
    figures(session, server, client, "after MEMORY PURGE at most 20 MB are allocated, and 40 MB resident",
            lambda allocated, resident: allocated <= 20_000_000 and resident <= 40_000_000)
    stats = client("MEMORY", "STATS")
    stats = dict(zip(stats[::2], stats[1::2]))
    session.at_least("MEMORY STATS: allocator.allocated", stats[b"allocator.allocated"], 1)
    session.stop(server)


def check(session):
    for preload in (False, True):
        check_server(session, preload)
