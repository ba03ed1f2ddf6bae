"""Node: buffers.js: buffers outside V8's heap, JSON, strings, zlib, and three worker threads that make buffers."""
from .process import expect
from .row import HERE, Row

PARTS = ["buffers", "json", "strings", "packed", "workers"]


def once(run):
    figures, printed = run.measure(["node", HERE / "buffers.js"])
    expect("the parts that Node ran", [line.split()[0] for line in printed.splitlines()], PARTS)
    return {**figures, "metrics": {}}


ROWS = [Row("Node", 4, (("node", "nodejs"),), once)]
