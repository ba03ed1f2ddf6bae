"""One run of one real program: its directory, its processes, and the cost of the one under test.

Two kinds of programs: measure() runs one to its end; serve() starts a server, and measuring() takes its cost while
drivers, started by run(), send it requests. Only the program under test gets the environment of the allocator; drivers
run without. When the `with` of a Run is left, all started processes have ended, and the directory is removed.

Figures: wall_s, cpu_s, user_s, system_s, peak_mb (VmHWM), faults (minor_faults + major_faults), switches
(voluntary_switches + involuntary_switches). Of a server all but the peak are those between the two ends of
measuring(); its times come in the kernel's ticks of 10 ms.
"""
import contextlib
import ctypes
import glob
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from harness import allocators

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS = 0.05
OWN_ALLOCATORS = ("libjemalloc", "libtcmalloc", "libmimalloc")
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(RuntimeError):
    """The program crashed, gave a wrong answer or took too long; the text describes it, and shows the end of its output."""


def become_child():
    """In the child: a server must not outlive a runner that was killed, and gets the highest limit of open files, for
    connections."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20_000) if most != resource.RLIM_INFINITY else 20_000, most))


def without_allocator(environment):
    """Drivers may be linked with one of the allocators, and would apply its options to themselves."""
    return {key: value for key, value in environment.items() if not key.startswith(allocators.OPTIONS)}


def preloaded(environment):
    """The files of its LD_PRELOAD, as a process's maps name them."""
    return [os.path.realpath(path) for path in re.split(r"[: ]", environment.get("LD_PRELOAD", "")) if path]


def links_an_allocator(program):
    """Whether the program contains its own allocator, as Debian's Redis does."""
    done = subprocess.run(["ldd", shutil.which(program)], capture_output=True, text=True)
    return any(name in done.stdout for name in OWN_ALLOCATORS)


def c_library():
    """The C library's file: preloaded, it comes before an allocator that the program is linked with, and a library that
    only wraps an allocator (heaptrack) finds it next."""
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if re.search(r"/libc(-[\d.]+)?\.so", line))


def figures(wall_s, user_s, system_s, peak_kib, minor, major, voluntary, involuntary):
    return {"wall_s": wall_s, "cpu_s": user_s + system_s, "user_s": user_s, "system_s": system_s, "peak_mb": peak_kib / 1024,
            "faults": minor + major, "minor_faults": minor, "major_faults": major,
            "switches": voluntary + involuntary, "voluntary_switches": voluntary, "involuntary_switches": involuntary}


def status_field(text, name):
    match = re.search(rf"^{name}:\s+(\d+)", text, re.M)
    return int(match.group(1)) if match else 0


def cost_of(pid):
    """The cost of a running process so far; context switches are those of its current threads."""
    folder = pathlib.Path(f"/proc/{pid}")
    # After the name, which may contain anything: state, parent, … (proc(5)).
    fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
    minor, major, user, system = int(fields[7]), int(fields[9]), int(fields[11]) / TICKS, int(fields[12]) / TICKS
    voluntary = involuntary = 0
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with contextlib.suppress(OSError):  # the thread has just ended
            text = pathlib.Path(path).read_text()
            voluntary += status_field(text, "voluntary_ctxt_switches")
            involuntary += status_field(text, "nonvoluntary_ctxt_switches")
    peak_kib = status_field((folder / "status").read_text(), "VmHWM")
    return figures(time.monotonic(), user, system, peak_kib, minor, major, voluntary, involuntary)


class Run:
    def __init__(self, name, environment, limit_s):
        self.environment, self.limit_s = {**environment, "LC_ALL": "C.UTF-8"}, limit_s
        self.deadline = time.monotonic() + limit_s
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"bench-{re.sub(r'[^a-z0-9]+', '-', name.lower())}-"))
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            end(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- called by rows ----

    def measure(self, command, input=None, cwd=None, **variables):
        """Runs the program under test to its end; returns its figures and its output."""
        floor_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.monotonic()
        process = self._start(command, self._under_test(command, variables), input, cwd)
        descriptor = os.pidfd_open(process.pid)
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        seen_kib, mapped = 0, not preloaded(process.environment)
        try:
            while not ended.poll(LOOK_SECONDS * 1000):
                with contextlib.suppress(OSError):
                    seen_kib = status_field(pathlib.Path(f"/proc/{process.pid}/status").read_text(), "VmHWM") or seen_kib
                    mapped = mapped or self._has_mapped(process)
                self._check_time(process)
        finally:
            os.close(descriptor)
        wall = time.monotonic() - began
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise Failed(f"{how(process.returncode)}: {process.title}\n{output_of(process)}")
        if not mapped and wall > 10 * LOOK_SECONDS:
            raise Failed(f"ran without the allocator: {process.title}")
        # The kernel's figure for a child begins with the size of its parent: it is valid only above that.
        peak_kib = usage.ru_maxrss if usage.ru_maxrss > floor_kib else seen_kib
        return figures(wall, usage.ru_utime, usage.ru_stime, peak_kib, usage.ru_minflt, usage.ru_majflt, usage.ru_nvcsw,
                       usage.ru_nivcsw), process.out.read_text(errors="replace")

    def serve(self, command, ready, cwd=None, **variables):
        """Starts the server under test and returns it once ready(server) is true; an OSError means not yet."""
        process = self._start(command, self._under_test(command, variables), None, cwd)
        self._wait_until_ready(process, ready)
        if not self._has_mapped(process):
            raise Failed(f"runs without the allocator: {process.title}")
        return process

    @contextlib.contextmanager
    def measuring(self, server):
        """Measures the cost of a server from here to the end of the `with`; the result is in the dict that it yields."""
        result = {}
        before = cost_of(server.pid)
        yield result
        self.check_alive(server)
        after = cost_of(server.pid)
        result.update({key: after[key] - before[key] for key in after}, peak_mb=after["peak_mb"])

    def run(self, command, input=None, cwd=None, **variables):
        """Runs a driver, without the allocator; returns its output."""
        process = self._start(command, {**without_allocator(self.environment), **variables}, input, cwd)
        return self._finish(process)

    @contextlib.contextmanager
    def driving(self, command):
        """The same for a driver that runs until the end of the `with`, and must still be running then."""
        process = self._start(command, without_allocator(self.environment), None, None)
        yield process
        self.check_alive(process)
        end(process)

    def stop(self, server, ask=None):
        """Ends a server by SIGTERM or by calling `ask`, and checks that it ends well: frees at exit are tested, too."""
        self.check_alive(server)
        if ask:
            ask()
        else:
            server.terminate()
        self._finish(server)

    def check_alive(self, process):
        if process.poll() is not None:
            raise Failed(f"ended early ({how(process.returncode)}): {process.title}\n{output_of(process)}")

    # ---- processes ----

    def _wait_until_ready(self, process, ready):
        while True:
            with contextlib.suppress(OSError):
                if ready(process):
                    return
            self.check_alive(process)
            self._check_time(process)
            time.sleep(0.02)

    def _under_test(self, command, variables):
        environment = {**self.environment, **variables}
        if links_an_allocator(command[0]):
            environment["LD_PRELOAD"] = ":".join([*preloaded(environment), c_library()])
        return environment

    def _start(self, command, environment, input, cwd):
        number = len(self.processes)
        out, err = self.folder / f"{number}.stdout", self.folder / f"{number}.stderr"
        feed = self.folder / f"{number}.stdin"
        feed.write_text(input or "")
        # Files, not pipes: no reader is needed, and no process blocks on one.
        with open(feed, "rb") as stdin, open(out, "wb") as stdout, open(err, "wb") as stderr:
            process = subprocess.Popen([str(word) for word in command], cwd=cwd or self.folder, stdin=stdin, stdout=stdout,
                                       stderr=stderr, env=environment, start_new_session=True, preexec_fn=become_child)
        process.title, process.out, process.err, process.environment = words(command), out, err, environment
        self.processes.append(process)
        return process

    @staticmethod
    def _has_mapped(process):
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        return all(path in maps for path in preloaded(process.environment))

    def _finish(self, process):
        try:
            process.wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._check_time(process)
        if process.returncode != 0:
            raise Failed(f"{how(process.returncode)}: {process.title}\n{output_of(process)}{self._servers_say(process)}")
        return process.out.read_text(errors="replace")

    def _check_time(self, process):
        if time.monotonic() >= self.deadline:
            said = output_of(process) + self._servers_say(process)
            raise Failed(f"not done after {self.limit_s} s: {process.title}\n{where(process)}{said}")

    def _servers_say(self, process):
        """When a driver fails, its server may be the cause."""
        said = ""
        for other in self.processes:
            if other is not process and other.poll() != 0:
                state = "still runs" if other.returncode is None else how(other.returncode)
                said += f"{state}: {other.title}\n{where(other)}{output_of(other)}"
        return said


def end(process):
    # The process leads its own session and group: the processes that it started end with it.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def where(process):
    """The kernel function that each of its threads waits in: distinguishes a deadlock (futex) from slowness."""
    lines = []
    for task in sorted(glob.glob(f"/proc/{process.pid}/task/*"))[:12]:
        with contextlib.suppress(OSError, IndexError):
            state = pathlib.Path(task, "stat").read_text().rsplit(")", 1)[1].split()[0]
            waits = pathlib.Path(task, "wchan").read_text() or "?"
            lines.append(f"thread {os.path.basename(task)}: state {state}, in {waits}\n")
    return "".join(lines)


def output_of(process):
    text = ""
    for name, path in (("stdout", process.out), ("stderr", process.err)):
        content = path.read_text(errors="replace").strip()
        if content:
            text += f"---- the end of its {name} ----\n" + "\n".join(content.splitlines()[-20:])[-4000:] + "\n"
    return text


def how(status):
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def words(command):
    text = " ".join(str(word) for word in command)
    return text if len(text) < 400 else text[:400] + " …"


def answers(path):
    """Whether a process listens on the socket; for Run.serve."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        return True


def expect(what, got, wanted):
    if got != wanted:
        raise Failed(f"{what}: got {str(got)[:300]!r}, expected {str(wanted)[:300]!r}")
