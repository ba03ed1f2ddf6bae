"""One run of one program: its directory, its environment, its processes and the checks on each.

A process started through run() or start() gets LD_PRELOAD; it must have the library mapped (checked in /proc while it
runs), must end in time and as expected, and must leave no line of seemalloc on stderr. When the session ends, the processes
it started are ended by process id, whatever happens.
"""
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

# The workloads, their output format and their criteria are those of the benchmarks.
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from harness import measure  # noqa: E402 (the path above comes first)

TAIL_LINES = 25
# Programs are slower on a busy machine: each may take this many times its stated time.
TIMEOUT_FACTOR = 5
# Preloaded libraries are mapped before the C library. Checked twice, since the kernel reports mappings in pieces.
CHECKS_WITHOUT_LIBRARY = 2


_given, _ports = set(), threading.Lock()


class Failed(Exception):
    """The program did not behave as required; the text describes how, and shows the end of its output."""


class Skipped(Exception):
    """This machine lacks something that the program needs; the text names it."""


class Finished:
    """A process that has ended: its status and its output."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr


class Session:
    def __init__(self, name, root, library, conf, timeout):
        self.name, self.root, self.library, self.conf = name, pathlib.Path(root), pathlib.Path(library), conf
        self.source = self.root / "tests/programs"
        # Builds outlive a session: Rust and Go builds take longer than the run.
        self.builds = self.root / "build/programs"
        self.timeout = TIMEOUT_FACTOR * timeout
        self.deadline = time.monotonic() + self.timeout
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"seemalloc-{name}-"))
        self.processes = []
        self.seen = self.too_short_to_check = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            self._end(process)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def mapped_note(self):
        return f"mapped in {self.seen}" + (f", {self.too_short_to_check} too short to look" if self.too_short_to_check else "")

    # ---- called by a program's check() ----

    def build(self, what, command, cwd=None, env=None):
        """Runs a build step without the library; its failure is a failure of the program."""
        self.builds.mkdir(parents=True, exist_ok=True)
        # The time of a build does not count: a fresh machine downloads first.
        began = time.monotonic()
        done = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **(env or {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=3600)
        self.deadline += time.monotonic() - began
        if done.returncode != 0:
            raise Failed(f"{what} does not build: {words(command)}\n{tail(done.stdout)}")

    def fetch(self, what, command, cwd):
        """Runs a build step that downloads; retried when a server does not answer."""
        for pause in (5, 20, 60, None):
            try:
                return self.build(what, command, cwd=cwd)
            except Failed:
                if pause is None:
                    raise
            time.sleep(pause)
            self.deadline += pause

    def compile(self, name, *flags):
        """Compiles the C++ program NAME.cc beside this file and returns the path of the binary."""
        binary = self.folder / name
        self.build(name, ["g++", "-std=c++20", "-O2", "-g", "-pthread", self.source / f"{name}.cc", "-o", binary, *flags])
        return binary

    def workload(self, name):
        """Compiles the benchmark program NAME and returns the path of the binary."""
        binary = self.folder / name
        self.build(name, ["g++", "-std=c++20", "-O2", "-g", "-pthread", "-fno-builtin-malloc", "-fno-builtin-free",
                          self.root / f"bench/workloads/{name}.cc", "-o", binary])
        return binary

    def measure(self, command, **options):
        """Runs a workload; returns the metrics that it printed, by name, and series of [seconds, value] by name."""
        printed = self.run(command, **options).stdout
        return measure.metrics_of(printed), measure.series_of(printed)

    def run(self, command, input=None, env=None, cwd=None, status=0, preload=True, says=None):
        """Runs a command to its end and checks it (any status is accepted if None is expected); returns its output. The library may
        print only lines that contain the text `says`."""
        process = self._launch(command, env, cwd, input, preload)
        self._wait(process)
        return self._finished(process, status, says)

    def run_all(self, commands, **options):
        """Runs commands side by side, then checks each; returns their outputs."""
        processes = [self._launch(command, None, None, None, options.get("preload", True)) for command in commands]
        for process in processes:
            self._wait(process)
        return [self._finished(process, 0) for process in processes]

    def start(self, command, env=None, cwd=None, preload=True):
        """Starts a server; stop() ends and checks it."""
        return self._launch(command, env, cwd, None, preload)

    def has_library(self, process):
        """Whether a server has the library mapped, by whatever means."""
        self._check_mapped(process)
        return process.mapped

    def stop(self, process, status=0, ask=None):
        """Ends a server through `ask` (a function) or SIGTERM, and checks how it ended."""
        self.alive(process)
        self._check_mapped(process)
        if ask:
            ask()
        else:
            process.terminate()
        self._wait(process)
        return self._finished(process, status)

    def wait_until(self, process, ready, what):
        """Waits until ready() is true; a server that ended or is too slow is a failure."""
        while True:
            try:
                if ready():
                    break
            except OSError:
                pass
            self.alive(process)
            if time.monotonic() > self.deadline:
                raise Failed(f"{what}: not within {self.timeout} s\n{self._output(process)}")
            time.sleep(0.05)

    def alive(self, process):
        if process.poll() is not None:
            raise Failed(f"ended early ({how(process.returncode)}): {process.title}\n{self._output(process)}")

    @staticmethod
    def free_port():
        # Below the range that the system uses for connections, of which the programs beside this one make many. No port
        # is given out twice: the owner may start listening later.
        for _ in range(100):
            port = random.randrange(10_000, 30_000)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            with _ports:
                if port not in _given:
                    _given.add(port)
                    return port
        raise Failed("no port is free")

    @staticmethod
    def expect(what, got, wanted):
        if got != wanted:
            raise Failed(f"{what}: got {str(got)[:400]!r}, expected {str(wanted)[:400]!r}")

    @staticmethod
    def skipped(why):
        return Skipped(why)

    @staticmethod
    def at_most(what, got, limit):
        if got is None or got > limit:
            raise Failed(f"{what}: {got if got is None else round(got, 3)}, expected at most {limit}")

    @staticmethod
    def at_least(what, got, limit):
        if got is None or got < limit:
            raise Failed(f"{what}: {got if got is None else round(got, 3)}, expected at least {limit}")

    # ---- processes ----

    def _environment(self, extra, preload):
        environment = {**os.environ, "LC_ALL": "C.UTF-8", **(extra or {})}
        for name in ("LD_PRELOAD", "SEEMALLOC_CONF"):
            environment.pop(name, None)
        if preload:
            environment["LD_PRELOAD"] = str(self.library)
            conf = (extra or {}).get("SEEMALLOC_CONF", self.conf)
            if conf:
                environment["SEEMALLOC_CONF"] = conf
        return environment

    def _launch(self, command, env, cwd, input, preload):
        number = len(self.processes)
        out, err = self.folder / f"{number}.stdout", self.folder / f"{number}.stderr"
        feed = subprocess.DEVNULL
        if input is not None:
            feed_path = self.folder / f"{number}.stdin"
            feed_path.write_text(input)
            feed = open(feed_path, "rb")
        # Files, not pipes: no reader is needed while /proc is read, and a server's output cannot block it.
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            process = subprocess.Popen([str(word) for word in command], cwd=cwd or self.folder, stdin=feed,
                                       stdout=stdout, stderr=stderr, env=self._environment(env, preload),
                                       start_new_session=True)
        if feed is not subprocess.DEVNULL:
            feed.close()
        process.title, process.out, process.err = words(command), out, err
        process.preload, process.mapped, process.without = preload, False, 0
        self.processes.append(process)
        return process

    def _check_mapped(self, process):
        try:
            executed = os.readlink(f"/proc/{process.pid}/exe") != os.readlink("/proc/self/exe")
            maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        except OSError:
            return
        if str(self.library) in maps:
            process.mapped = True
        elif executed and "/libc.so" in maps:
            process.without += 1

    def _wait(self, process):
        pause = 0.002
        while process.poll() is None:
            if not process.mapped:
                self._check_mapped(process)
            elif pause < 0.02:
                pause = 0.02
            if time.monotonic() > self.deadline:
                where = self._where(process)
                self._end(process)
                raise Failed(f"not ended after {self.timeout} s: {process.title}\n{where}{self._output(process)}")
            time.sleep(pause)

    def _finished(self, process, status, says=None):
        stdout, stderr = process.out.read_text(errors="replace"), process.err.read_text(errors="replace")
        if status is not None and process.returncode != status:
            raise Failed(f"{how(process.returncode)}: {process.title}\n{self._output(process)}")
        if process.preload:
            ours = [line for line in (stdout + "\n" + stderr).splitlines()
                    if line.startswith("seemalloc:") and not (says and says in line)]
            if ours:
                raise Failed(f"printed by seemalloc in: {process.title}\n" + "\n".join(ours[:TAIL_LINES]))
            if process.mapped:
                self.seen += 1
            elif process.without < CHECKS_WITHOUT_LIBRARY:
                self.too_short_to_check += 1  # it ended before it could be checked
            else:
                raise Failed(f"{self.library.name} was never mapped in: {process.title}")
        return Finished(process.returncode, stdout, stderr)

    def _output(self, process):
        text = ""
        for name, path in (("stdout", process.out), ("stderr", process.err)):
            content = path.read_text(errors="replace")
            if content.strip():
                text += f"---- the end of its {name} ----\n{tail(content)}\n"
        return text or "(it printed nothing)\n"

    def _where(self, process):
        """The kernel function that each thread waits in: distinguishes a deadlock (futex) from slowness."""
        text = []
        for task in sorted(pathlib.Path(f"/proc/{process.pid}/task").glob("*"))[:12]:
            try:
                state = (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
                text.append(f"thread {task.name}: state {state}, in {(task / 'wchan').read_text() or '?'}")
            except OSError:
                pass
        return "\n".join(text) + "\n"

    @staticmethod
    def _end(process):
        # The process leads its own session and group: the processes that it started end with it.
        if process.poll() is None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def words(command):
    text = " ".join(str(word) for word in command)
    return text if len(text) < 300 else text[:300] + " …"


def how(status):
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def tail(text):
    return "\n".join(text.splitlines()[-TAIL_LINES:])
