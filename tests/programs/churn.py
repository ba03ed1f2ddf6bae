"""C++: resident memory and the number of mappings depend on the live objects, not on the number of past allocations.
"""
from proofs import MAPPINGS

NEEDS = ["g++"]
ALONE = True
CONFS = ["", "purge:eager"]
TIMEOUT = 300
RSS = 2.5  # times the live bytes; a small heap has relatively more overhead than the benchmark's


def check(session):
    figures, series = session.measure([session.workload("churn"), "2", "100", "15"])
    session.at_most("largest RSS, of what is alive", figures["rss_most_kib"] / figures["live_kib"], RSS)
    session.at_most("mappings", figures["mappings_most"], MAPPINGS)
    if session.conf == "":
        # 15 GB in pages; hardly any page may fault in twice.
        session.at_most("page faults, of the pages allocated", series["faults"][-1][1] / (15e9 / 4096), 0.1)
