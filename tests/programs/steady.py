"""C++: a busy process with a live heap of constant size does not grow, whatever it allocates and frees.
"""
from harness import criteria

NEEDS = ["g++"]
ALONE = True
CONFS = ["", "purge:eager", "sample:64K"]
TIMEOUT = 300
GROWTH = 1.2  # for a small heap and a short run, of which a quarter is hardly enough to warm up


def check(session):
    figures, series = session.measure([session.workload("steady"), "4", "16", "40000000", "96"])
    session.at_most("growth of RSS", criteria.growth(series["rss_kib"]), GROWTH)
    session.at_most("mappings", figures["mappings_most"], 300)
