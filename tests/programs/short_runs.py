"""Short runs: some 300 processes that end as soon as they have started, while the library itself is still starting.
"""
NEEDS = ["git", "g++", "redis-server", "/usr/bin/python3"]
# The helper thread starts with the process, so that both start at the same time: a race would show here.
CONFS = ["", "at_start:1,sample:1"]


def check(session):
    for number in range(50):
        session.run(["true"])
        done = session.run(["git", "--version"])
        session.expect("start of the version", done.stdout[:12], "git version ")
        done = session.run(["sh", "-c", "echo $((6 * 7)); ls / > ls.txt & wait"])
        session.expect("what sh printed", done.stdout, "42\n")
        session.run(["g++", "--version"])
        for _ in range(2):
            # Its libraries allocate in their constructors, before those of this library have run.
            done = session.run(["redis-server", "--version"])
            session.expect("start of Redis's version", done.stdout[:14], "Redis server v")
    for number in range(10):
        done = session.run(["/usr/bin/python3", "-c", "import threading; threading.Thread(target=print, args=('x',)).start()"])
        session.expect("what Python printed", done.stdout, "x\n")
