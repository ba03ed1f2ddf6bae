"""Rust: an echo service on tokio with two worker threads; Rust's System allocator calls malloc.
"""
NEEDS = ["cargo"]
CONFS = ["", "sample:64K"]


def check(session):
    target = session.builds / "rust_tokio"
    session.fetch("the Rust program", ["cargo", "fetch", "--locked"], cwd=session.source / "rust_tokio")
    session.build("the Rust program", ["cargo", "build", "--release", "--locked", "--target-dir", target],
                  cwd=session.source / "rust_tokio")
    done = session.run([target / "release/rust_tokio"])
    session.expect("what it printed", done.stdout, "64 clients, 12800 messages, 52428800 bytes, 2016 sums\n")
    session.expect("stderr", done.stderr, "")
