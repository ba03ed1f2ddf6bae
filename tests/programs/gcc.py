"""GCC: compiles the largest files of this project's core; the objects must be the same to the byte.
"""
NEEDS = ["g++"]
CONFS = ["", "sample:64K"]
FILES = 4


def check(session):
    sources = [path for path in session.root.glob("core/**/*.cc") if not path.stem.endswith(("_test", "_fuzz"))]
    sources.sort(key=lambda path: (-path.stat().st_size, path.name))
    flags = ["-std=c++20", "-O2", "-g", "-fPIC", "-w", "-frandom-seed=seemalloc", f"-I{session.root}",
             f"-I{session.root}/core/include", f"-I{session.root}/core/arch/generic", '-DSEEMALLOC_VERSION="0"']
    for source in sources[:FILES]:
        objects = {}
        for preload in (False, True):
            target = session.folder / "object.o"
            session.run(["g++", *flags, "-c", source, "-o", target], preload=preload)
            objects[preload] = target.read_bytes()
        session.expect(f"the object of {source.name}", objects[True] == objects[False], True)
