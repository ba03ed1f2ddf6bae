"""memcached: two threads serve values of 400 B to eight clients, one key and many keys at a time.

Its values are in slabs of its own; malloc serves connections, buffers of requests and answers, and slab pages.
"""
from .process import answers, expect
from .row import Row

CLIENTS, KEYS = 8, 15_000
TESTS = ("set", "get", "mget")


def once(run):
    path = run.folder / "socket"
    server = run.serve(["memcached", "-s", path, "-t", "2", "-m", "512", "-u", "root"], lambda _: answers(path))
    rates = {}
    with run.measuring(server) as figures:
        for test in TESTS:
            printed = run.run(["memcslap", f"--servers={path}", f"--concurrency={CLIENTS}", f"--execute-number={KEYS}",
                               f"--test={test}"])
            # "Time to set          200000 keys by    4 threads:     2.508 seconds."
            lines = [line.split() for line in printed.splitlines() if line.startswith(f"Time to {test} ") and " by " in line]
            expect(f"what memcslap says of {test}", [line[3] for line in lines], [str(CLIENTS * KEYS)])
            rates[f"{test}_per_s"] = CLIENTS * KEYS / float(lines[0][-2])
    run.stop(server)
    return {**figures, "metrics": rates}


ROWS = [Row("memcached", 2, (("memcached", "memcached"), ("memcslap", "libmemcached-tools")), once)]
