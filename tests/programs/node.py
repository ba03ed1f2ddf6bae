"""Node: buffers, zlib and worker threads, all of which allocate outside V8's own heap.
"""
NEEDS = ["node"]
CONFS = ["", "sample:64K"]


def check(session):
    done = session.run(["node", session.source / "node/buffers.js"])
    session.expect("what Node printed", done.stdout, "buffers 3000000 zlib 400 workers 4 sum 19999900000\n")
    session.expect("stderr", done.stderr, "")
