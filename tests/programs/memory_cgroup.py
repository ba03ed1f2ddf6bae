"""C++: in a memory cgroup with 1.3 times its need, a program survives bursts that kill it under glibc or with purge:never.
"""
import atexit
import os
import pathlib
import signal
import time

from session import Failed, Skipped

NEEDS = ["g++"]
ALONE = True
CONFS = ["", "helper:0", "sample:64K"]
TIMEOUT = 120

BURST_MIB = 200
LIMIT_MIB = 260
PREFIX = "seemalloc-test-"


class MemoryCgroup:
    """A cgroup with a memory limit (None: no limit), of the version that the machine has; its directory is always removed
    at the end."""

    def __init__(self, limit_bytes):
        reasons = []
        for make in (self._make_v1, self._make_v2):
            try:
                self.folder = make(limit_bytes)
                atexit.register(self.remove)
                return
            except (OSError, LookupError) as problem:
                reasons.append(f"{make.__name__[-2:]}: {problem}")
        raise Skipped("no memory cgroup can be made: " + "; ".join(reasons))

    @staticmethod
    def _mount(type_, option):
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            if kind == type_ and (not option or option in options.split(",")):
                return pathlib.Path(before.split()[4])
        raise LookupError(f"no {type_} {option}".strip() + " is mounted")

    @classmethod
    def _fresh(cls, parent):
        # Removes cgroups that killed runs left behind.
        for old in parent.glob(PREFIX + "*"):
            if not pathlib.Path("/proc", old.name[len(PREFIX):].split("-")[0]).exists():
                cls._rmdir(old)
        folder = parent / f"{PREFIX}{os.getpid()}-{time.monotonic_ns()}"
        folder.mkdir()
        return folder

    def _make_v1(self, limit_bytes):
        folder = self._fresh(self._mount("cgroup", "memory"))
        try:
            (folder / "memory.limit_in_bytes").write_text(str(limit_bytes or -1))
        except OSError:
            self._rmdir(folder)
            raise
        try:
            (folder / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes or -1))  # nothing may be hidden in swap
        except OSError:
            pass
        return folder

    def _make_v2(self, limit_bytes):
        parent = self._mount("cgroup2", "")
        if "memory" not in (parent / "cgroup.controllers").read_text().split():
            raise LookupError("its memory controller is not there")
        if "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            (parent / "cgroup.subtree_control").write_text("+memory")
        folder = self._fresh(parent)
        try:
            (folder / "memory.max").write_text(str(limit_bytes or "max"))
        except OSError:
            self._rmdir(folder)
            raise
        try:
            (folder / "memory.swap.max").write_text("0")
        except OSError:
            pass
        return folder

    def command(self, *words):
        """Runs in the cgroup: a shell enters it and executes the program."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', self.folder / "cgroup.procs", *words]

    def limit(self, limit_bytes):
        name = next(name for name in ("memory.limit_in_bytes", "memory.max") if (self.folder / name).exists())
        (self.folder / name).write_text(str(limit_bytes))

    def kills(self):
        """The number of processes that the limit has killed here; None where the kernel does not report it."""
        for name in ("memory.oom_control", "memory.events"):
            if (self.folder / name).exists():
                for line in (self.folder / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return None

    def peak_bytes(self):
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            if (self.folder / name).exists():
                return int((self.folder / name).read_text())
        return None

    def remove(self):
        atexit.unregister(self.remove)
        self._rmdir(self.folder)

    @staticmethod
    def _rmdir(folder):
        # A killed process stays in the cgroup until the kernel has removed it.
        for _ in range(100):
            try:
                folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)


def run_in_cgroup(session, binary, *words, status, preload=True, env=None):
    cgroup = MemoryCgroup(LIMIT_MIB << 20)
    try:
        done = session.run(cgroup.command(binary, *words), status=status, preload=preload, env=env)
        kills = cgroup.kills()
        if kills is not None and kills != (1 if status == -9 else 0):
            raise Failed(f"{kills} processes killed by the limit: {' '.join(str(word) for word in words)}")
        return done
    finally:
        cgroup.remove()


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def limit_while_idle(session, binary):
    """A limit is set while the process is idle, just above its usage: it returns memory that it would have kept for ten
    minutes."""
    cgroup = MemoryCgroup(None)
    conf = "purge_delay:600000" + ("," + session.conf if session.conf else "")
    try:
        process = session.start(cgroup.command(binary, BURST_MIB, "idle"), env={"SEEMALLOC_CONF": conf})
        session.wait_until(process, lambda: process.out.read_text() == "idle\n", "the burst")
        time.sleep(3)  # by then it has checked for a limit, and found none
        session.at_least("MiB resident while there is no limit", resident_bytes(process.pid) >> 20, BURST_MIB * 3 // 4)
        cgroup.limit(resident_bytes(process.pid) * 21 // 20 + (4 << 20))
        session.wait_until(process, lambda: resident_bytes(process.pid) >> 20 < BURST_MIB // 4, "giving back under a limit")
        session.stop(process, status=-signal.SIGTERM)
    finally:
        cgroup.remove()


def check(session):
    binary = session.compile("memory_cgroup")
    if session.conf != "helper:0":
        limit_while_idle(session, binary)
    for words in (["3"], ["1", "elsewhere"]) if session.conf != "helper:0" else (["3"],):
        done = run_in_cgroup(session, binary, BURST_MIB, *words, status=0)
        session.expect("what it printed", done.stdout, f"{words[0]} cycles of {BURST_MIB} MiB\n")
        session.expect("stderr", done.stderr, "")
    # Validates the limit: the same program dies when it keeps its free memory.
    conf = "purge:never" + ("," + session.conf if session.conf else "")
    run_in_cgroup(session, binary, BURST_MIB, "3", status=-9, env={"SEEMALLOC_CONF": conf})
    run_in_cgroup(session, binary, BURST_MIB, "3", status=-9, preload=False)
