"""The runner behind bench/run: who is measured (allocators), one run (measure), all of them in their order (session), what
the figures say (compare), and how that is shown (tables, plots)."""


class Refused(Exception):
    """What was asked for cannot be done; the text says why."""
