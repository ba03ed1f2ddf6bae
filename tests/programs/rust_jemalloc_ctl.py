"""Rust: tikv-jemallocator and tikv-jemalloc-ctl, linked with this library in place of the jemalloc they bring (JEMALLOC_OVERRIDE), and with the system's jemalloc.
"""
import shutil
import subprocess

from session import Skipped

NEEDS = ["cargo"]
LIBRARY = "libseemalloc_compat.so"


def run(session, folder, dump, library, features, variables):
    """Builds the program in the directory, and runs all of its steps."""
    target = session.builds / folder
    session.build(f"the Rust program ({folder})", ["cargo", "build", "--release", "--locked", *features, "--target-dir", target],
                  cwd=session.source / "rust_jemalloc_ctl", env={"JEMALLOC_OVERRIDE": str(library)})
    program = target / "release/rust_jemalloc_ctl"
    # Linked, not preloaded.
    done = session.run([program, dump], preload=False, env=variables)
    lines = done.stdout.splitlines()
    session.expect("steps", [line.split()[0] for line in lines],
                   ["figures", "threads", "version", "settings", "profiles", "blocks"])
    return program, done, lines


def check(session):
    session.fetch("the Rust program", ["cargo", "fetch", "--locked"], cwd=session.source / "rust_jemalloc_ctl")
    # The expectations hold on jemalloc itself: it defines the behaviour.
    theirs = subprocess.run(["cc", "-print-file-name=libjemalloc.so"], capture_output=True, text=True, check=True).stdout.strip()
    if "/" not in theirs:
        raise Skipped("no libjemalloc.so for the linker")
    run(session, "rust_on_jemalloc", session.folder / "theirs.heap", theirs, ["--features", "system_jemalloc"],
        {"MALLOC_CONF": "prof:true,background_thread:true"})
    dump = session.folder / "rust.heap"
    program, done, lines = run(session, "rust_jemalloc_ctl", dump, session.library, [],
                               {"LD_LIBRARY_PATH": str(session.library.parent)})
    if "seemalloc" not in lines[2]:
        session.expect("the version's text", lines[2], "a version that names seemalloc")
    if "Begin jemalloc statistics" not in done.stderr:
        session.expect("malloc_stats_print", done.stderr, "statistics")

    # jeprof reads the file that prof.dump has written.
    text = dump.read_text()
    session.expect("the profile's first line", text.splitlines()[0], "heap_v2/524288")
    if shutil.which("jeprof"):
        shown = session.run(["jeprof", "--text", "--show_bytes", program, dump], preload=False).stdout
        total = int(shown.splitlines()[0].split()[1])
        session.at_least("bytes in use that jeprof sees", total, 20_000_000)
        session.at_most("bytes in use that jeprof sees", total, 80_000_000)
