"""C++: an RPC server that reads each request into a new block runs with few page faults.
"""
NEEDS = ["g++"]
ALONE = True
CONFS = ["", "sample:64K"]
TIMEOUT = 300
CONNECTIONS, REQUESTS, LARGEST_KIB = 4, 4000, 4096
MEAN_KIB = 600  # the same number of sizes in each octave
PAGES = REQUESTS * MEAN_KIB / 4


def check(session):
    binary = session.workload("rpc_echo")
    command = [binary, CONNECTIONS, REQUESTS, LARGEST_KIB]
    figures, _ = session.measure(command)
    session.at_least("requests a second", figures["requests_per_s"], 1)
    session.at_most("the server's page faults, of the pages that it received", figures["server_faults"] / PAGES, 0.1)
    # One request each, the block that the last one left, and the same again for the blocks of sizes in between.
    session.at_most("the server's peak in KiB", figures["peak_kib"], 3 * CONNECTIONS * LARGEST_KIB + (16 << 10))
    # Validates the figure: with purge:eager nearly each page causes a fault.
    figures, _ = session.measure(command, env={"SEEMALLOC_CONF": "purge:eager"})
    session.at_least("the same with purge:eager", figures["server_faults"] / PAGES, 0.1)
