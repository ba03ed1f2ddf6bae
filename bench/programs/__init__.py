"""Real programs as rows of the comparison. `from programs import ROWS`; each is a row.Row. README.md describes them."""
from . import gcc, mariadb, memcached, node, python, redis, rocksdb, sqlite, tokio, tools, z3
from .process import Failed

PROGRAMS = (redis, memcached, sqlite, rocksdb, mariadb, gcc, z3, python, node, tokio, tools)
ROWS = [row for program in PROGRAMS for row in program.ROWS]
__all__ = ["ROWS", "Failed"]
