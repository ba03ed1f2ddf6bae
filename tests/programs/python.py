"""Python: part of its own test suite, with PYTHONMALLOC=malloc so that small objects are allocated by malloc as well.
"""
import re

from session import Failed

# Debian's own Python: the tests belong to it, and another python3 may come first in PATH.
PYTHON = "/usr/bin/python3"
NEEDS = [PYTHON]
TIMEOUT = 360
TESTS = """test_json test_re test_threading test_thread test_subprocess test_dict test_list test_set test_pickle
  test_zlib test_bytes test_unicode test_deque test_gc test_ctypes test_fork1 test_mmap test_weakref test_queue
  test_io""".split()


def check(session):
    tests = [name for name in TESTS if session.run(
        [PYTHON, "-c", f"import importlib.util as u, sys; sys.exit(0 if u.find_spec('test.{name}') else 9)"],
        preload=False, status=None).status == 0]
    if "test_json" not in tests:
        raise Failed("Python's own tests are not installed (Debian: libpython3.11-testsuite)")
    # Its tests inspect their own environment, so the environment is minimal.
    environment = {"PYTHONMALLOC": "malloc", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(session.folder)}
    # test_subprocess lists the descriptors that are open in a child: our socket and our descriptor for memory pressure
    # would be unexpected.
    run(session, [name for name in tests if name != "test_subprocess"], environment)
    if "test_subprocess" in tests:
        run(session, ["test_subprocess"], environment | {"SEEMALLOC_CONF": "sample:64K,socket:0,pressure:0"})


def run(session, tests, environment):
    # Some of its tests depend on timing: failed tests are run again, alone (-w).
    done = session.run([PYTHON, "-m", "test", "-j2", "-w", "--timeout", "900", *tests], env=environment)
    text = done.stdout + done.stderr
    if not re.search(r"[Rr]esult: (FAILURE then )?SUCCESS", text):
        raise Failed("Python's test-suite does not say SUCCESS\n" + text[-3000:])
    passed = re.findall(r"^(?:All )?(\d+) tests? OK\.$|^(\d+) re-run tests?:$", text, re.MULTILINE)
    session.expect("number of tests run", sum(int(at_first or again) for at_first, again in passed), len(tests))
