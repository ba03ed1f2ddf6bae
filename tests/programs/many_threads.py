"""C++: 2,000 threads come and go, pass blocks to each other and free in thread-local destructors; memory stays bounded.
"""
NEEDS = ["g++"]
CONFS = ["", "sample:1", "sample:64K"]


def check(session):
    done = session.run([session.compile("many_threads")])
    session.expect("what it printed", done.stdout, "2000 threads, blocks all accounted for, memory bounded\n")
    session.expect("stderr", done.stderr, "")
