"""Workloads in a memory cgroup, whose limit kills them: whether they survive is measured.

The cgroup is made by the code of the test that uses the same program (tests/programs/memory_cgroup.py).
"""
import sys

from harness import measure, session
from harness.allocators import ROOT


def cgroups():
    """The class that makes cgroups, and the exception that it raises where none can be made."""
    sys.path.append(str(ROOT / "tests/programs"))
    from memory_cgroup import MemoryCgroup, Skipped
    return MemoryCgroup, Skipped


class InCgroup(session.Workload):
    def __init__(self, row):
        super().__init__(row)
        self.limit_bytes = row.cgroup_mib << 20

    def unavailable(self):
        make, refused = cgroups()
        try:
            make(self.limit_bytes).remove()
        except refused as reason:
            return str(reason)
        return super().unavailable()

    def run(self, allocator, limit_s):
        cgroup = cgroups()[0](self.limit_bytes)
        try:
            return self.run_in(cgroup, allocator, limit_s)
        finally:
            cgroup.remove()

    def run_in(self, cgroup, allocator, limit_s):
        """A process killed by the limit is a result; any other failure raises."""
        _, *command = map(str, cgroup.command(*self.command))
        try:
            found = measure.run_once(["/bin/sh", *command], allocator.environment(), limit_s)
        except measure.Failed:
            if not cgroup.kills():
                raise
            found = {"metrics": {}}
        found["metrics"]["lived"] = 0 if cgroup.kills() else 1
        peak = cgroup.peak_bytes()
        if peak is not None:
            found["metrics"]["cgroup_peak_kib"] = peak / 1024
        return found
