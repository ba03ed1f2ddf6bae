"""memcached: two of its threads serve 40,000 values of many sizes; every value must come back intact.
"""
import socket

NEEDS = ["memcached"]


def value(number):
    return (b"%08d" % number) * (1 + number % 300)


def check(session):
    port = session.free_port()
    server = session.start(["memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "2", "-m", "256", "-u", "root"])
    connection = None

    def connect():
        nonlocal connection
        connection = socket.create_connection(("127.0.0.1", port), timeout=600)
        return True

    session.wait_until(server, connect, "memcached answers")
    replies = connection.makefile("rb")
    for first in range(0, 40_000, 500):
        batch = range(first, first + 500)
        connection.sendall(b"".join(b"set key%d 0 0 %d\r\n%s\r\n" % (i, len(value(i)), value(i)) for i in batch))
        for _ in batch:
            session.expect("reply to set", replies.readline(), b"STORED\r\n")
    for first in range(0, 40_000, 500):
        batch = range(first, first + 500)
        connection.sendall(b"get " + b" ".join(b"key%d" % i for i in batch) + b"\r\n")
        for i in batch:
            size = int(replies.readline().split()[3])
            session.expect(f"value of key{i}", replies.read(size + 2), value(i) + b"\r\n")
        session.expect("end of values", replies.readline(), b"END\r\n")
    connection.close()
    session.stop(server)
