"""The runner behind bench/run: the allocators measured (allocators), one run (measure), all runs in their order
(session), the evaluation of the figures (compare), and their presentation (tables, plots)."""


class Refused(Exception):
    """The request cannot be fulfilled; the text gives the reason."""
