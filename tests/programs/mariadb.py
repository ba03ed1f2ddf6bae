"""MariaDB: a new data folder, 20,000 rows, ten clients sorting joins by RAND() at the same time, checked sums.
"""
import getpass
import socket as sockets

NEEDS = ["mariadbd", "mariadb", "mariadb-install-db"]
TIMEOUT = 180

ROWS = 20_000
CLIENTS = 10


def check(session):
    data, socket = session.folder / "data", session.folder / "socket"
    (session.folder / "tmp").mkdir()
    session.run(["mariadb-install-db", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}",
                 "--auth-root-authentication-method=normal", "--skip-test-db",
                 "--force"])  # a minimal machine may not know its own name
    server = session.start(["mariadbd", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}", f"--socket={socket}",
                            f"--tmpdir={session.folder / 'tmp'}", "--bind-address=127.0.0.1",
                            f"--port={session.free_port()}", "--skip-name-resolve", "--innodb-buffer-pool-size=64M"])
    client = ["mariadb", "--no-defaults", "-u", "root", f"--socket={socket}", "--batch", "--skip-column-names"]

    def sql(text):
        return session.run([*client, "-e", text], preload=False).stdout.split()

    def listens():  # the existence of the file does not prove it
        with sockets.socket(sockets.AF_UNIX) as connection:
            connection.connect(str(socket))
        return True

    session.wait_until(server, listens, "MariaDB answers")
    sql(f"""CREATE DATABASE shop; USE shop;
        CREATE TABLE item (id INT PRIMARY KEY, kind INT, name VARCHAR(80), note TEXT, KEY (kind)) ENGINE=InnoDB;
        INSERT INTO item SELECT seq, seq % 50, CONCAT('name-', seq), REPEAT('x', seq % 500) FROM seq_1_to_{ROWS};
        CREATE TABLE kind (id INT PRIMARY KEY, title VARCHAR(40)) ENGINE=InnoDB;
        INSERT INTO kind SELECT seq - 1, CONCAT('kind-', seq) FROM seq_1_to_50;""")
    session.expect("rows and their sum", sql("SELECT COUNT(*), SUM(id), SUM(LENGTH(note)) FROM shop.item"),
                   [str(ROWS), str(ROWS * (ROWS + 1) // 2), str(sum(range(500)) * ROWS // 500)])
    # The bug report behind this test: these joins took 20 s on one allocator and 2 s on another.
    join = """SELECT SUM(id), COUNT(DISTINCT title) FROM (SELECT item.id, kind.title, item.note
              FROM item JOIN kind ON item.kind = kind.id ORDER BY RAND() LIMIT 1000000) AS mixed;""" * 4
    answers = session.run_all([[*client, "shop", "-e", join]] * CLIENTS, preload=False)
    for answer in answers:
        session.expect("answer of a join sorted by RAND()", answer.stdout.split(),
                       [str(ROWS * (ROWS + 1) // 2), "50"] * 4)
    session.expect("check of the table", sql("CHECK TABLE shop.item")[-1], "OK")
    session.stop(server, ask=lambda: sql("SHUTDOWN"))
