"""C++: one thread only allocates, another only frees; RSS stays bounded."""
from harness import criteria

NEEDS = ["g++"]
ALONE = True
CONFS = ["", "sample:64K"]
TIMEOUT = 300
GROWTH = 1.25


def check(session):
    figures, series = session.measure([session.workload("one_way"), "4", "128"])
    session.at_least("blocks a second", figures["blocks_per_s"], 1)
    session.at_most("growth of RSS", criteria.growth(series["rss_kib"]), GROWTH)
