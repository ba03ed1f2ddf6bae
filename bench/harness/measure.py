"""One run of one program: its cost, the figures that it prints, and the load by other processes meanwhile."""
import os
import resource
import signal
import tempfile
import time

# CPU use by other processes is ignored below this: the kernel counts the machine's time in ticks, a process's exactly.
RESOLUTION_S = 0.03
DISTURBED = 0.05  # of one CPU


class Failed(Exception):
    """The program crashed, reported a failure, or took too long."""


def machine_busy_s():
    """CPU time used by all processes since boot, including the time that the host took from this machine."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_cpu_s():
    """CPU time used by this process and by all its descendants that have ended."""
    return sum(usage.ru_utime + usage.ru_stime
               for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def observed(run):
    """The result of `run`, with the CPU use of other processes while it ran."""
    busy, own, began = machine_busy_s(), own_cpu_s(), time.monotonic()
    measures = run()
    wall = time.monotonic() - began
    others = max(0.0, (machine_busy_s() - busy) - (own_cpu_s() - own))
    return {**measures, "others_cpu_s": round(others, 3), "disturbed": others > DISTURBED * wall + RESOLUTION_S}


def ending(status):
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit {os.waitstatus_to_exitcode(status)}"


def metrics_of(printed):
    """The lines "NAME VALUE" that the program printed."""
    found = {}
    for line in printed.splitlines():
        name, _, value = line.strip().partition(" ")
        try:
            found[name] = float(value)
        except ValueError:
            pass
    return found


def series_of(printed):
    """The lines "series NAME SECONDS VALUE" that the program printed: name → [[seconds, value], …]."""
    found = {}
    for line in printed.splitlines():
        words = line.split()
        if len(words) == 4 and words[0] == "series":
            found.setdefault(words[1], []).append([float(words[2]), float(words[3])])
    return found


def run_once(command, environment, limit_s, read=metrics_of):
    """Runs a workload; its measures, or Failed. `read` finds metrics in what it prints."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors, open(os.devnull) as nothing:
        began = time.monotonic()
        process = os.posix_spawn(command[0], command, environment, setpgroup=0, file_actions=[
            (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0), (os.POSIX_SPAWN_DUP2, writing, 1),
            (os.POSIX_SPAWN_DUP2, errors.fileno(), 2), (os.POSIX_SPAWN_CLOSE, reading)])
        os.close(writing)
        late = []

        def give_up(*_):
            late.append(True)
            os.killpg(process, signal.SIGKILL)

        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            with open(reading, errors="replace") as pipe:
                printed = pipe.read()
            _, status, usage = os.wait4(process, 0)
        except BaseException:
            os.killpg(process, signal.SIGKILL)
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        wall = time.monotonic() - began
        if status != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()[-3:]
            why = f"not done after {limit_s} s" if late else ending(status)
            raise Failed(": ".join([why, *said]))
    metrics, series = read(printed), series_of(printed)
    # The kernel's figure for a child begins with the size of its parent: the program's own figure is better.
    peak_kib = metrics.pop("peak_kib", usage.ru_maxrss)
    return {
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime, "user_s": usage.ru_utime, "system_s": usage.ru_stime,
        "peak_mb": peak_kib / 1024,
        "minor_faults": usage.ru_minflt, "major_faults": usage.ru_majflt,
        "voluntary_switches": usage.ru_nvcsw, "involuntary_switches": usage.ru_nivcsw,
        "metrics": metrics, **({"series": series} if series else {}),
    }
