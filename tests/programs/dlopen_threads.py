"""C++: four threads that open and close eight libraries with constructors, destructors and thread-local memory.
"""
NEEDS = ["g++"]
CONFS = ["", "sample:1", "sample:64K"]


def check(session):
    for number in range(8):
        # Different files with different names: the dynamic linker really loads and unloads each.
        session.build("a library", ["g++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-DNUMBER={number}",
                                    # Without this a unique symbol of libstdc++'s templates would keep the library
                                    # loaded forever.
                                    "-fno-gnu-unique", session.source / "dlopen_threads_library.cc",
                                    "-o", session.folder / f"library{number}.so"])
    binary = session.compile("dlopen_threads", "-ldl")
    done = session.run([binary, session.folder])
    session.expect("what it printed", done.stdout, "opened 1000 closed 1000 unloaded all\n")
    session.expect("stderr", done.stderr, "")
