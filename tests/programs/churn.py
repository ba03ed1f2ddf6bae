"""C++: what is resident, and how many mappings there are, depends on what is alive, not on what has passed through.
"""
from proofs import MAPPINGS

NEEDS = ["g++"]
ALONE = True
CONFS = ["", "purge:eager"]
TIMEOUT = 300
RSS = 2.5  # of what is alive; a small heap has more beside it than the benchmark's


def check(session):
    figures, series = session.measure([session.workload("churn"), "2", "100", "15"])
    session.at_most("largest RSS, of what is alive", figures["rss_most_kib"] / figures["live_kib"], RSS)
    session.at_most("mappings", figures["mappings_most"], MAPPINGS)
    if session.conf == "":
        # 15 GB in pages; hardly any of them may have to be brought twice.
        session.at_most("page faults, of the pages allocated", series["faults"][-1][1] / (15e9 / 4096), 0.1)
