"""Go with cgo: C memory allocated, checked and freed by goroutines on changing threads, callbacks included.
"""
NEEDS = ["go", "gcc"]
CONFS = ["", "sample:64K"]


def check(session):
    binary = session.folder / "go_cgo"
    session.build("the Go program", ["go", "build", "-buildvcs=false", "-o", binary, "."],
                  cwd=session.source / "go_cgo", env={"CGO_ENABLED": "1"})
    done = session.run([binary])
    session.expect("what it printed", done.stdout, "blocks 160000 strings 80000 callbacks 80000 threads 200\n")
    session.expect("stderr", done.stderr, "")
