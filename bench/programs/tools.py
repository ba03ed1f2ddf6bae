"""Ordinary tools of one thread, as scripts and builds use them: ten of Debian's, each for about half a second.

Each has a heap of more than 2 MiB, so that what an allocator does beside the program has begun. What they read is made here, from a
fixed seed; what they answer is checked where it can be known.
"""
import functools
import random
import subprocess

from .process import Failed, expect
from .python import PYTHON
from .row import Row

GROUP = "single-threaded"
LINES = 300_000


@functools.cache
def content(lines):
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 10))) for _ in range(5000)]
    return "".join(f"{chance.choice(words)} {chance.choice(words)} {number % 1000} {chance.choice(words)}\n" for number in range(lines))


def text(run, lines=LINES):
    """A file of lines of words and numbers; some lines are equal."""
    path = run.folder / "lines.txt"
    path.write_text(content(lines))
    return path


def result(figures):
    return {**figures, "metrics": {}}


def sort(run):
    path = text(run)
    figures, _ = run.measure(["sort", "--parallel=1", "-k2,2", "-k3,3n", "-o", run.folder / "sorted", path])
    expect("the size of what sort wrote", (run.folder / "sorted").stat().st_size, path.stat().st_size)
    return result(figures)


def awk(run):
    program = '{count[$1]++; sum[$2] += $3; all[NR] = $4} END {for (word in count) n += count[word]; print n}'
    figures, printed = run.measure(["awk", program, text(run)])
    expect("what awk counted", printed.strip(), str(LINES))
    return result(figures)


def perl(run):
    program = 'my %h; while (<>) { my @f = split; push @{$h{$f[0]}}, $f[3]; print "$f[1] $f[2]\\n" } print STDERR scalar(keys %h) > 4000'
    figures, printed = run.measure(["perl", "-e", program, text(run)])
    expect("the lines that perl printed", printed.count("\n"), LINES)
    return result(figures)


def gcc(run):
    source = run.folder / "functions.c"
    parts = [f"""struct s{i} {{ int a[{i % 7 + 1}]; double b; struct s{i} *next; }};
int f{i}(struct s{i} *p, int n) {{
  int sum = 0;
  for (int k = 0; k < n; k++) {{
    switch (p->a[k % {i % 7 + 1}] & 7) {{ case 0: sum += k * {i}; break; case 1: sum ^= k; break; case 5: p = p->next; break; default: sum -= p->b > k; }}
    if (sum > {i * 1000}) sum /= k + 1;
  }}
  return sum;
}}""" for i in range(120)]
    source.write_text("\n".join(parts))
    compiler = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
    figures, _ = run.measure([compiler, "-quiet", "-O1", source, "-o", run.folder / "functions.s"])
    if (run.folder / "functions.s").stat().st_size < 10_000:
        raise Failed("cc1 wrote next to nothing")
    return result(figures)


def sqlite3(run):
    script = """CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000) INSERT INTO t SELECT i, 'name ' || (i * 7919 % 150000), i % 997 FROM n;
CREATE INDEX tb ON t (b);
SELECT count(*), count(DISTINCT c) FROM t;
SELECT b FROM t ORDER BY c, b DESC;
"""
    figures, printed = run.measure(["sqlite3", "-batch", ":memory:"], input=script)
    expect("the lines that sqlite3 printed", printed.count("\n"), 150_001)
    return result(figures)


def xz(run):
    path = text(run, 40_000)
    figures, _ = run.measure(["xz", "-T1", "-6", "-k", path])
    if not path.with_name(path.name + ".xz").stat().st_size:
        raise Failed("xz wrote nothing")
    return result(figures)


def python3(run):
    program = """
import collections, json, re, sys
words = collections.Counter()
rows = []
for line in open(sys.argv[1]):
    fields = line.split()
    words.update(fields[:2])
    rows.append({"name": fields[0], "size": int(fields[2])})
rows.sort(key=lambda row: (row["size"], row["name"]))
print(len(json.loads(json.dumps(rows))), len(re.findall("ab+", json.dumps(words))) > 0)
"""
    figures, printed = run.measure([PYTHON, "-I", "-c", program, text(run, 120_000)])
    expect("what Python counted", printed.strip(), "120000 True")
    return result(figures)


def git(run):
    """Makes a pack of many objects."""
    folder = run.folder / "repository"
    run.run(["git", "init", "-q", folder])
    commits = ["commit refs/heads/main\ncommitter A <a@b> 0 +0000\ndata 0\n"]
    chance = random.Random(3)
    for number in range(4000):
        body = " ".join(str(chance.randrange(10**6)) for _ in range(80))
        commits.append(f"M 100644 inline d{number % 50}/f{number}\ndata {len(body)}\n{body}\n")
    run.run(["git", "-C", folder, "-c", "pack.threads=1", "fast-import", "--quiet"], input="".join(commits))
    figures, printed = run.measure(["git", "-C", folder, "pack-objects", "--all", "--threads=1", "--no-reuse-delta", "--no-reuse-object", "-q",
                                    "--window=40", "--depth=50", run.folder / "pack"])
    expect("the length of the pack's name", len(printed.strip()), 40)
    return result(figures)


def sed(run):
    figures, printed = run.measure(["sed", "-E", "-n", r"H; s/([a-z]+) ([a-z]+)/\2 \1/; s/[aeiou]{2}/-/gp", text(run, 150_000)])
    expect("that sed printed much", printed.count("\n") > 10_000, True)
    return result(figures)


def jq(run):
    source = run.folder / "rows.json"
    chance = random.Random(5)
    with open(source, "w") as file:
        file.write("[" + ",".join(f'{{"id":{i},"name":"{chance.randrange(10**9)}","tags":["a","b{i % 9}"]}}' for i in range(40_000)) + "]")
    figures, printed = run.measure(["jq", "-c", "group_by(.tags[1]) | map({tag: .[0].tags[1], count: length, names: [.[].name]}) | length", source])
    expect("what jq grouped", printed.strip(), "9")
    return result(figures)


NEEDS = {sort: ("sort", "coreutils"), awk: ("awk", "mawk"), perl: ("perl", "perl"), gcc: ("gcc", "gcc"), sqlite3: ("sqlite3", "sqlite3"),
         xz: ("xz", "xz-utils"), python3: (PYTHON, "python3"), git: ("git", "git"), sed: ("sed", "sed"), jq: ("jq", "jq")}
ROWS = [Row(once.__name__, 1, (needs,), once, group=GROUP) for once, needs in NEEDS.items()]
