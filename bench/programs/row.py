"""A row of the comparison: one program, its requirements, and how one run of it goes."""
import dataclasses
import pathlib
import shutil
import typing

from .process import Run

HERE = pathlib.Path(__file__).resolve().parent
# Build results that take long to make and are the same for every run; below build/, so that `./dev clean` removes them.
BUILDS = HERE.parent.parent / "build/bench-programs"


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    threads: int  # of the program under test, as far as they matter
    needs: tuple  # (command, Debian package) pairs
    # One run: takes a process.Run, returns its figures with the program's own under "metrics"; raises process.Failed.
    once: typing.Callable
    # Builds missing parts; returns the reason if that is impossible, or None.
    prepare: typing.Callable = lambda: None
    group: str = "programs"

    def available(self):
        """The reason why it cannot run here; None when it can."""
        for command, package in self.needs:
            if not shutil.which(command):
                return f"{command} is not installed (Debian: {package})"
        return self.prepare()

    def run(self, environment, limit_s=120):
        """One run under the allocator of the environment; raises process.Failed, a RuntimeError."""
        with Run(self.name, environment, limit_s) as run:
            return self.once(run)
