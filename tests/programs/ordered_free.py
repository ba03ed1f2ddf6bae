"""C++: the kernel calls for returning memory are linear in the objects freed, in any order and also with purge:eager.
"""
import json
import shutil

from session import Skipped

NEEDS = ["g++"]
ALONE = True
CONFS = ["purge:eager"]
TIMEOUT = 300
MILLION = 1_000_000
LINEAR = 1.5  # O(n²) would be 4; a machine that stalls makes some difference


def calls_per_million(session, tool, binary, objects, shuffled):
    done = session.run([tool, "activity", "--json", "--lib", session.library, "--conf", session.conf, "--",
                        binary, "1", objects, shuffled], preload=False)
    system = json.loads(done.stderr)["stats"]["system"]
    return (system["purge_calls"] + system["unmap_calls"]) / (objects / MILLION)


def check(session):
    tool = session.library.parent.parent / "bin/seemalloc"
    if not shutil.which(tool):
        raise Skipped(f"no {tool} beside the library, to count system calls")
    binary = session.workload("ordered_free")
    for shuffled in (0, 1):
        few, many = (calls_per_million(session, tool, binary, objects, shuffled) for objects in (MILLION, 4 * MILLION))
        session.at_least("calls that give memory back, per million objects", few, 10)
        session.at_most("the same for four times as many objects", many, few * LINEAR)
