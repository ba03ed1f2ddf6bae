"""C++: eight threads fork while all of them allocate; every child allocates, checks, starts threads and exits.
"""
NEEDS = ["g++"]
CONFS = ["", "sample:1", "sample:64K"]


def check(session):
    done = session.run([session.compile("fork_threads")])
    session.expect("what it printed", done.stdout, "320 children ended well\n")
    session.expect("stderr", done.stderr, "")
