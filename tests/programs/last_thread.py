"""C++: a process ends when the last of its own threads ends, whichever that is, whatever threads the library has.
"""
NEEDS = ["g++"]
CONFS = ["", "at_start:1"]
TIMEOUT = 30


def check(session):
    binary = session.compile("last_thread")
    for how in ("main-leaves-first", "child-of-a-thread"):
        done = session.run([binary, how])
        session.expect("what it printed", done.stdout.splitlines()[-1:], ["exit handler ran"])
        session.expect("stderr", done.stderr, "")
