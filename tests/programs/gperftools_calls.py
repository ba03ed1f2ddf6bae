"""gperftools: a C++ program built against its headers, linked with -ltcmalloc -lprofiler, runs on this library (by its names, by LD_PRELOAD) and on theirs.
"""
import pathlib

LIBRARY = "libseemalloc_compat.so"
HEADER = pathlib.Path("/usr/include/gperftools/malloc_extension.h")
STEPS = ["properties", "release", "sizes", "C calls", "texts", "names", "derived", "heap profiler"]


def run(session, program, folder, environment, preload):
    folder.mkdir()
    # The real profiler's signal handler is installed from the start, so our profiler refuses to start.
    done = session.run([program, folder], preload=preload, env=environment, says="the program handles SIGPROF itself" if preload else None)
    lines = done.stdout.splitlines()
    session.expect("steps", lines[:5] + lines[6:-1], STEPS)
    session.expect("the text of tc_version", "seemalloc" in lines[5], True)
    for name in ("heap.0001.heap", "heap.0002.heap"):
        session.expect(f"start of {name}", (folder / name).read_text()[:13], "heap profile:")
    if lines[-1] == "CPU profiler":
        session.at_least("bytes of the CPU profile", (folder / "cpu.prof").stat().st_size, 500)
    else:
        session.expect("the last step", lines[-1], "no CPU profiler")
    return done


def run_on_theirs(session, program):
    """The expectations hold on gperftools, too: it defines the behaviour. In two parts, since its CPU profiler sometimes
    ends the process when the heap profiler has run before."""
    folder = session.folder / "theirs"
    folder.mkdir()
    for part, steps in (("heap", STEPS), ("cpu", ["CPU profiler"])):
        done = session.run([program, folder, part], preload=False, env={"TCMALLOC_SAMPLE_PARAMETER": "524288"})
        lines = [line for line in done.stdout.splitlines() if not line.startswith("version ")]
        session.expect(f"gperftools' own steps ({part})", lines, steps)


def check(session):
    if not HEADER.exists():
        raise session.skipped("libgoogle-perftools-dev is not installed")
    # Built as for gperftools itself: the program loads gperftools' libraries when it starts.
    program = session.compile("gperftools_calls", "-fno-builtin", "-Wl,--no-as-needed", "-ltcmalloc", "-lprofiler")
    run_on_theirs(session, program)
    names = session.library.parent / "seemalloc-compat"
    run(session, program, session.folder / "by_name", {"LD_LIBRARY_PATH": str(names)}, preload=False)
    # Preloaded beside the libraries that the program was linked with.
    run(session, program, session.folder / "preloaded", {}, preload=True)
    # Linked with seemalloc under gperftools' library names: the program then loads seemalloc by its own name.
    ours = session.compile("gperftools_calls", "-fno-builtin", f"-L{names}", "-Wl,--no-as-needed", "-ltcmalloc_and_profiler")
    run(session, ours, session.folder / "linked", {"LD_LIBRARY_PATH": str(session.library.parent)}, preload=False)
