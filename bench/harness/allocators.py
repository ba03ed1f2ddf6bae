"""The allocators measured: seemalloc, the C library's own allocator and every peer that is installed, each with its
version.

Each is a shared object under LD_PRELOAD, with its own defaults: options for allocators in the caller's environment do
not reach the programs.
"""
import dataclasses
import glob
import hashlib
import json
import os
import pathlib
import subprocess

from harness import Refused

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = pathlib.Path(os.environ.get("SEEMALLOC_OUT", ROOT / "out"))

# name, library, Debian package
DEBIAN = [
    ("gperftools", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("jemalloc-debian", "libjemalloc.so.2", "libjemalloc2"),
    ("mimalloc-debian", "libmimalloc.so.2*", "libmimalloc2.0"),
]
# Variants that the proofs compare in addition to the defaults: the allocator's name, the suffix, variable, value.
VARIANTS = [
    ("seemalloc", "eager", "SEEMALLOC_CONF", "purge:eager"),
    ("seemalloc", "never", "SEEMALLOC_CONF", "purge:never"),
    ("jemalloc", "decay 0", "MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0"),
    ("jemalloc", "background", "MALLOC_CONF", "background_thread:true"),
    ("gperftools", "rate 10", "TCMALLOC_RELEASE_RATE", "10"),
    ("gperftools", "aggressive", "TCMALLOC_AGGRESSIVE_DECOMMIT", "1"),
]
# Profilers that seemalloc's is compared with: the libraries that have one, and the variable that enables it. No file is
# written.
ANNOUNCED = "Starting tracking the heap"  # gperftools' message
PROFILERS = [
    ("seemalloc", "sample 0", "SEEMALLOC_CONF", "sample:0"),
    ("seemalloc", "sample 1", "SEEMALLOC_CONF", "sample:1"),
    ("jemalloc-debian", "prof", "MALLOC_CONF", "prof:true,lg_prof_sample:19"),
    ("gperftools-profiler", "sampling", "TCMALLOC_SAMPLE_PARAMETER", "524288"),
    ("gperftools-profiler", "HEAPPROFILE", "HEAPPROFILE", "/nonexistent/heap"),
]
OPTIONS = ("LD_PRELOAD", "HEAPPROFILE", "HEAP_PROFILE_", "DUMP_HEAPTRACK_OUTPUT", "SEEMALLOC_CONF", "MALLOC_", "_RJEM_MALLOC_CONF", "MIMALLOC_", "TCMALLOC_", "GLIBC_TUNABLES")


@dataclasses.dataclass(frozen=True)
class Allocator:
    name: str
    library: pathlib.Path | None = None  # None: the C library's own
    version: str = ""
    ours: bool = False
    options: tuple = ()  # (variable, value) pairs of its environment

    def environment(self, *preload):
        """The environment of a program on this allocator; `preload` are libraries to be preloaded before it."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(OPTIONS)}
        libraries = [str(path) for path in (*preload, self.library) if path]
        return {**clean, **dict(self.options), **({"LD_PRELOAD": ":".join(libraries)} if libraries else {})}

    def loads(self):
        """Whether a program runs on it at all. The loader continues without a library that it cannot preload."""
        done = subprocess.run(["cat", "/proc/self/maps"], env=self.environment(), capture_output=True, text=True)
        return done.returncode == 0 and (self.library is None or str(self.library) in done.stdout)

    def complaint(self):
        """Its messages about the given options at start: an allocator that knows the options prints nothing."""
        done = subprocess.run(["cat", os.devnull], env=self.environment(), capture_output=True, text=True)
        return done.stderr.strip()

    def described(self):
        return {"version": self.version, "options": dict(self.options),
                "library": self.library and self.library.name,
                "sha256": self.library and hashlib.sha256(self.library.read_bytes()).hexdigest()}


def output_of(*command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def seemalloc(name="seemalloc", *options):
    library = (OUT / "lib/libseemalloc.so").resolve()
    commit = output_of("git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*")
    return Allocator(name, library, commit, True, options) if library.exists() else None


def glibc():
    return Allocator("glibc", version=(os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc "))


def built_peers(folder=OUT / "peers"):
    """The allocators that bench/peers/build has built."""
    kept = folder / "versions.json"
    versions = json.loads(kept.read_text()) if kept.exists() else {}
    return [Allocator(name, (folder / f"{name}.so").resolve(), version) for name, version in versions.items()
            if (folder / f"{name}.so").exists()]


def find_library(pattern):
    for folder in ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        found = sorted(glob.glob(f"{folder}/{pattern}"))
        if found:
            return pathlib.Path(found[0]).resolve()
    return None


def debian_peers(say):
    for name, pattern, package in DEBIAN:
        library = find_library(pattern)
        if library:
            yield Allocator(name, library, output_of("dpkg-query", "-W", "-f", "${Version}", package))
        else:
            say(f"{name} is not installed (Debian: {package})")


def all_of_them(peers, say):
    """Every allocator that is installed and loads, seemalloc first; `peers` are NAME=PATH texts. Reports the missing
    ones."""
    ours = seemalloc()
    if ours is None:
        say(f"no {OUT / 'lib/libseemalloc.so'}: ./dev build makes it; measuring the peers alone")
    built = built_peers()
    if not built:
        say("no peers in out/peers: ./dev bench --peers builds them")
    found = [*([ours] if ours else []), glibc(), *built, *debian_peers(say)]
    for peer in peers:
        name, separator, path = peer.partition("=")
        if not separator or not name or not pathlib.Path(path).is_file():
            raise Refused(f"--peer wants NAME=PATH of a library: {peer}")
        found = [one for one in found if one.name != name] + [Allocator(name, pathlib.Path(path).resolve())]
    for one in found:
        if not one.loads():
            say(f"{one.name} left out: {one.library} does not load")
    return [one for one in found if one.loads()]


def for_proofs(peers, say):
    """Every installed allocator, each followed by its variants with other options, if it knows them."""
    return with_variants(all_of_them(peers, say), VARIANTS, say)


def with_variants(everyone, variants, say):
    found = []
    for one in everyone:
        found.append(one)
        for base, name, variable, value in variants:
            if base != one.name:
                continue
            variant = dataclasses.replace(one, name=f"{base} {name}", options=((variable, value),))
            complaint = variant.complaint()
            if complaint and not complaint.startswith(ANNOUNCED):
                say(f"{variant.name} left out: {complaint.splitlines()[0]}")
            else:
                found.append(variant)
    return found


def for_profiling(peers, say):
    """The allocators that have a profiler, with and without it."""
    everyone = [one for one in all_of_them(peers, say) if one.name in ("seemalloc", "glibc", "jemalloc-debian")]
    for base, name, pattern, package in (("gperftools-profiler", "", "libtcmalloc.so.4", "libgoogle-perftools4"),
                                         ("glibc", " heaptrack", "heaptrack/libheaptrack_preload.so", "heaptrack")):
        library = find_library(pattern)
        if library is None:
            say(f"{base}{name} is not installed (Debian: {package})")
            continue
        options = (("DUMP_HEAPTRACK_OUTPUT", os.devnull),) if name else ()
        everyone.append(Allocator(base + name, library, output_of("dpkg-query", "-W", "-f", "${Version}", package), options=options))
    return with_variants(everyone, PROFILERS, say)


def for_sampling():
    """seemalloc three times: with sampling, with sampling again (to measure the difference of identical runs), without."""
    on = ("SEEMALLOC_CONF", "sample:524288")
    return [seemalloc("sampling", on), seemalloc("sampling again", on), seemalloc("no sampling", ("SEEMALLOC_CONF", "sample:0"))]
