"""Rust: libseemalloc.a as the global allocator, linked by rustc, dynamically and statically: the example of docs/linking.md.
"""
import re

NEEDS = ["rustc"]


def check(session):
    source = session.source / "rust_archive/main.rs"
    document = (session.root / "docs/linking.md").read_text()
    # The document shows parts of the program that is built here.
    shown = re.search(r"```rust\n(.*?)```", document, re.S).group(1)
    for part in shown.split("    …  // alloc_zeroed and realloc: with calloc and realloc, where malloc's alignment will do\n"):
        if part not in source.read_text():
            session.expect("the program of docs/linking.md", part, "a part of rust_archive/main.rs")
    builds = session.builds / "rust_archive"
    builds.mkdir(parents=True, exist_ok=True)
    archive = session.library.parent
    for way, flags in (("dynamic", []), ("static", ["-C", "target-feature=+crt-static"])):
        program = builds / way
        session.build(f"the Rust program ({way})",
                      ["rustc", "--edition", "2021", "-O", "-g", "-L", archive, *flags, source, "-o", program])
        dump = session.folder / f"{way}.heap.pb.gz"
        # Linked, not preloaded.
        done = session.run([program, dump], preload=False)
        lines = done.stdout.splitlines()
        session.expect("the version", bool(re.fullmatch(r"seemalloc \d+\.\d+\.\d+", lines[0])), True)
        session.expect("the cache", lines[1], "20000 entries, 20000000 bytes")
        top = session.run([archive.parent / "bin/seemalloc", "top", dump, "-n", "0"], preload=False).stdout
        session.expect("who fills the cache", "main::fill_cache" in top, True)
        handed_out = float(re.search(r"exact live bytes: ([\d.]+) MiB", top).group(1))
        session.at_least("MiB handed out", handed_out, 19)
        session.at_most("MiB handed out", handed_out, 40)
