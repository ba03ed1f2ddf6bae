"""Python: objects.py with PYTHONMALLOC=malloc: JSON, strings, dicts, trees of objects, queues of tuples."""
from .process import expect
from .row import HERE, Row

# Debian's own Python: another python3 may come first in PATH.
PYTHON = "/usr/bin/python3"
PARTS = ["documents", "words", "dicts", "trees", "events"]


def once(run):
    figures, printed = run.measure([PYTHON, "-I", HERE / "objects.py"], PYTHONMALLOC="malloc", PYTHONHASHSEED="1")
    expect("the parts that Python ran", [line.split()[0] for line in printed.splitlines()], PARTS)
    return {**figures, "metrics": {}}


ROWS = [Row("Python, PYTHONMALLOC=malloc", 1, ((PYTHON, "python3"),), once)]
