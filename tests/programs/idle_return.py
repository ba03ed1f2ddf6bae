"""C++: the memory of a program that has freed most of its objects and then does nothing is returned automatically.
"""
from proofs import DEAD_RETURNED, LARGE_RETURNED

NEEDS = ["g++"]
ALONE = True
CONFS = ["", "sample:64K", "purge:eager"]
TIMEOUT = 300


def check(session):
    binary = session.workload("idle_return")
    figures, _ = session.measure([binary, "6", "200000"])
    session.at_least("% of the dead bytes returned", figures["returned_percent"], 100 * DEAD_RETURNED)
    figures, _ = session.measure([binary, "6", "300", "200", str(256 << 10), str(1 << 20)])
    session.at_least("% of the dead bytes returned, large blocks", figures["returned_percent"], 100 * LARGE_RETURNED)
    # Validates the figure: with nothing returned it must be small.
    figures, _ = session.measure([binary, "2", "200000"], env={"SEEMALLOC_CONF": "purge:never"})
    session.at_most("% of the dead bytes returned with purge:never", figures["returned_percent"], 5)
