"""libfaketime: its clock_gettime calls dlsym, which allocates. The program sees the fake time, and the profiler runs beside it.
"""
import os
import pathlib
import time

from session import Skipped

NEEDS = ["faketime", "date", "python3"]
CONFS = ["", "sample:1"]
DAYS = 15
DAY = 24 * 3600

PROGRAM = """
import os, subprocess, threading, time
def use():
    for size in range(0, 3000000, 50000):
        bytearray(size)
        time.time(), time.monotonic()
threads = [threading.Thread(target=use) for _ in range(3)]
for thread in threads: thread.start()
child = os.fork()
if child == 0:
    use()
    os._exit(0)
for thread in threads: thread.join()
print(os.waitpid(child, 0)[1], int(time.time()))
"""


def libraries():
    found = sorted(path for name in ("libfaketime.so.1", "libfaketimeMT.so.1") for path in pathlib.Path("/usr/lib").glob(f"*/faketime/{name}"))
    if not found:
        raise Skipped("no libfaketime.so.1 below /usr/lib")
    return found


def check(session):
    for library in libraries():
        for preload in (f"{library}:{session.library}", f"{session.library}:{library}"):
            def run(*words):
                variables = [f"LD_PRELOAD={preload}", f"SEEMALLOC_CONF={session.conf}", f"FAKETIME=-{DAYS}d"]
                return session.run(["env", *variables, *words], preload=False).stdout.split()

            for words in (["date", "+%s"], ["python3", "-c", PROGRAM]):
                before = time.time()
                shown = run(*words)
                late = int(shown[-1]) + DAYS * DAY - before
                session.expect(f"{words[0]} under {os.path.basename(preload.split(':')[0])} is {DAYS} days back", -2 < late < 600, True)
                if len(shown) == 2:
                    session.expect("the child's exit", shown[0], "0")
