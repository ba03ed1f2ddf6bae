"""SQLite: builds, indexes, joins, aggregates, deletes and vacuums a table of 300,000 rows; the answers are arithmetic.
"""
NEEDS = ["sqlite3"]
CONFS = ["", "sample:64K"]

ROWS = 300_000
SCRIPT = f"""
PRAGMA journal_mode = wal;
PRAGMA cache_size = -65536;
CREATE TABLE item (id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, body BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
  INSERT INTO item SELECT i, i % 100, printf('name-%06d', (i * 7919) % {ROWS}), zeroblob(i % 200) FROM n;
CREATE INDEX item_name ON item (name);
CREATE INDEX item_kind ON item (kind, name);
SELECT 'rows', count(*), sum(id), sum(length(body)) FROM item;
SELECT 'names', count(DISTINCT name) FROM item;
SELECT 'first', name FROM item ORDER BY name LIMIT 1;
SELECT 'sorted', count(*) FROM (SELECT name, body FROM item ORDER BY substr(name, -3), body, id DESC);
SELECT 'join', count(*) FROM item a JOIN item b ON a.name = b.name AND a.kind = b.kind;
SELECT 'groups', count(*), min(c), max(c) FROM (SELECT count(*) AS c FROM item GROUP BY kind);
SELECT 'text', length(group_concat(name, '')) FROM item;
SELECT 'json', json_array_length(json_group_array(name)) FROM item WHERE kind = 7;
DELETE FROM item WHERE id % 3 = 0;
VACUUM;
SELECT 'left', count(*) FROM item;
PRAGMA integrity_check;
"""


def check(session):
    done = session.run(["sqlite3", "-batch", session.folder / "items.db"], input=SCRIPT)
    session.expect("what SQLite printed", done.stdout.splitlines(), [
        "wal",
        f"rows|{ROWS}|{ROWS * (ROWS + 1) // 2}|{sum(range(200)) * ROWS // 200}",
        f"names|{ROWS}",  # 7919 is a prime that does not divide the number of rows
        "first|name-000000",
        f"sorted|{ROWS}",
        f"join|{ROWS}",
        f"groups|100|{ROWS // 100}|{ROWS // 100}",
        f"text|{ROWS * 11}",
        f"json|{ROWS // 100}",
        f"left|{ROWS - ROWS // 3}",
        "ok"])
    session.expect("stderr", done.stderr, "")
