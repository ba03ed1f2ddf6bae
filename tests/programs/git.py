"""git: imports 600 commits, clones, repacks with two threads, and checks every object.
"""
NEEDS = ["git"]
CONFS = ["", "sample:64K"]

COMMITS = 600
FILES = 40
# The hash of the last commit depends on the contents of all commits.
HEAD = "da7a981c02b8a0e0afe48f7392d881d32f034409"


def history():
    """A stream for git fast-import, the same each time, so that the hash of the last commit is known."""
    parts = []
    for commit in range(COMMITS):
        message = f"commit {commit}\n"
        parts.append(f"commit refs/heads/main\nmark :{commit + 1}\n"
                     f"committer A Tester <tester@example.org> {1_600_000_000 + commit} +0000\n"
                     f"data {len(message)}\n{message}\n")
        if commit:
            parts.append(f"from :{commit}\n")
        for change in range(4):
            number = (commit * 7 + change * 13) % FILES
            body = "".join(f"line {line} of file {number} at {commit * (line % 5 == change)}\n" for line in range(300))
            parts.append(f"M 100644 inline folder{number % 5}/file{number}.txt\ndata {len(body)}\n{body}\n")
    return "".join(parts)


def check(session):
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(session.folder), "GIT_CONFIG_GLOBAL": "/dev/null"}

    def git(*words, where="origin", input=None):
        return session.run(["git", "-C", session.folder / where, *words], env=environment, input=input).stdout

    (session.folder / "origin").mkdir()
    git("init", "-q", "--initial-branch=main", ".")
    git("fast-import", "--quiet", input=history())
    head = git("rev-parse", "main").strip()
    session.expect("the last commit", head, HEAD)
    git("clone", "-q", "--no-local", "origin", "copy", where=".")
    session.expect("the clone's last commit", git("rev-parse", "HEAD", where="copy").strip(), head)
    git("-c", "pack.threads=2", "gc", "-q", "--aggressive", "--prune=now", where="copy")
    git("fsck", "--full", "--strict", where="copy")
    session.expect("commits in the clone", git("rev-list", "--count", "HEAD", where="copy").strip(), str(COMMITS))
    session.expect("files that differ", git("status", "--porcelain", where="copy"), "")
    blame = git("blame", "-s", "HEAD", "--", "folder3/file3.txt", where="copy").splitlines()
    session.expect("lines of git blame", len(blame), 300)
    grep = git("grep", "-c", "line 299 of", where="copy").splitlines()
    session.expect("files found by git grep", len(grep), FILES)

