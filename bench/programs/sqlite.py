"""SQLite: a database in memory: inserts, an index, joins, groups, sorted and concatenated text, updates, deletes.

SQLite allocates every page of its cache, every row that it works on and every compiled statement with malloc.
"""
from .process import expect
from .row import Row

ITEMS = 500_000
SCRIPT = f"""
PRAGMA cache_size = -200000;
CREATE TABLE item (id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ITEMS})
  INSERT INTO item SELECT i, i % 1000, printf('name-%07d', (i * 7919) % {ITEMS}), printf('%.*c', i % 300, 'x') FROM n;
CREATE INDEX item_name ON item (name);
CREATE INDEX item_kind ON item (kind, name);
CREATE TABLE kind (id INTEGER PRIMARY KEY, title TEXT);
INSERT INTO kind SELECT DISTINCT kind, 'title ' || kind FROM item;
SELECT 'join', count(*), count(DISTINCT title) FROM item JOIN kind ON item.kind = kind.id;
SELECT 'self join', count(*) FROM item a JOIN item b ON a.name = b.name AND a.kind = b.kind;
SELECT 'sorted', count(*) FROM (SELECT note, name FROM item ORDER BY substr(name, -3), note, id DESC);
SELECT 'groups', count(*) FROM (SELECT kind, group_concat(name) AS names FROM item GROUP BY kind HAVING length(names) > 9);
SELECT 'json', sum(json_array_length(names)) FROM (SELECT json_group_array(name) AS names FROM item GROUP BY kind);
SELECT 'distinct', count(DISTINCT upper(name) || kind) FROM item;
UPDATE item SET note = note || name WHERE id % 3 = 0;
DELETE FROM item WHERE id % 4 = 1;
SELECT 'left', count(*) FROM item;
"""
ANSWERS = [f"join|{ITEMS}|1000", f"self join|{ITEMS}", f"sorted|{ITEMS}", "groups|1000", f"json|{ITEMS}",
           f"distinct|{ITEMS}", f"left|{ITEMS - ITEMS // 4}"]


def once(run):
    figures, printed = run.measure(["sqlite3", "-batch", ":memory:"], input=SCRIPT)
    expect("what SQLite printed", printed.splitlines(), ANSWERS)
    return {**figures, "metrics": {}}


ROWS = [Row("SQLite in memory", 1, (("sqlite3", "sqlite3"),), once)]
