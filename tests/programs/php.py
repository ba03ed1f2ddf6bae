"""PHP: its extensions resolve symbols in the C library first (RTLD_DEEPBIND). A script, FFI, and php-fpm under load, also during a reload.
"""
import hashlib
import json
import os
import pathlib
import pwd
import signal
import socket
import struct
import textwrap
import threading
import zlib

NEEDS = ["php"]
TIMEOUT = 180

WORKERS, CLIENTS, REQUESTS = 4, 6, 120

# Without PHP's own heap each value is a block of malloc.
SCRIPT = r"""
$rows = [];
for ($i = 0; $i < 20000; $i++) $rows[] = ['id' => $i, 'key' => md5((string)$i), 'words' => [str_repeat('x', $i % 300), (float)$i / 4]];
usort($rows, fn($a, $b) => strcmp($a['key'], $b['key']));
$again = json_decode(json_encode($rows), true);
if ($again != $rows) exit(2);
$text = implode("\n", array_column($rows, 'key'));
if (gzuncompress(gzcompress($text, 6)) !== $text) exit(3);
if (iconv('UTF-16LE', 'UTF-8', iconv('UTF-8', 'UTF-16LE', $text)) !== $text) exit(4);
$found = preg_match_all('/^(a[0-9]+)([b-f]+)/m', $text, $matches);
for ($i = 0; $i < 200; $i++) $day = (new DateTimeImmutable('2024-01-31', new DateTimeZone('Europe/Berlin')))->modify("+$i days");
$key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
openssl_sign($text, $signature, $key, OPENSSL_ALGO_SHA256);
$details = openssl_pkey_get_details($key);
if (openssl_verify($text, $signature, $details['key'], OPENSSL_ALGO_SHA256) !== 1) exit(5);
echo json_encode(['md5' => md5($text), 'found' => $found, 'day' => $day->format('Y-m-d')]);
"""

# Functions found through the C library's handle. They take blocks that the C library has allocated by its own calls of
# malloc.
FFI = r"""
$c = FFI::cdef('char* strdup(const char*); void free(void*); void* realloc(void*, size_t); void* malloc(size_t);
                size_t malloc_usable_size(void*);', 'libc.so.6');
for ($i = 1; $i < 20000; $i++) {
  $text = str_repeat('y', $i % 3000);
  $copy = $c->strdup($text);
  if (FFI::string($copy) !== $text || $c->malloc_usable_size($copy) < strlen($text) + 1) exit(2);
  $c->free($i % 3 ? $copy : $c->realloc($copy, 2 * $i));
  $c->free($c->malloc($i));
}
echo 'ok';
"""

PAGE = r"""<?php
$n = (int)($_GET['n'] ?? 0);
$body = file_get_contents('php://input');
$rows = [];
for ($i = 0; $i < 500; $i++) $rows["k$n.$i"] = str_repeat(chr(97 + $i % 26), ($n + $i) % 700);
ksort($rows);
if (json_decode(json_encode($rows), true) !== $rows) http_response_code(500);
header('X-Worker: ' . getmypid());
echo md5(implode(',', $rows)), ' ', crc32($body), ' ', bin2hex(gzcompress($body));
"""


def page(n, body):
    """The expected answer of PAGE."""
    rows = {f"k{n}.{i}": chr(97 + i % 26) * ((n + i) % 700) for i in range(500)}
    text = ",".join(rows[key] for key in sorted(rows))
    return hashlib.md5(text.encode()).hexdigest(), str(zlib.crc32(body)), body


def check_page(session, n, body, answer):
    md5, crc, packed = answer.split(b"\r\n\r\n", 1)[1].split()
    session.expect(f"answer to request {n}", (md5.decode(), crc.decode(), zlib.decompress(bytes.fromhex(packed.decode()))), page(n, body))


# ---- FastCGI: records of type, request and length ----

BEGIN, PARAMETERS, STDIN, STDOUT, STDERR, END = 1, 4, 5, 6, 7, 3


def record(kind, content):
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def request(path, script, query, body):
    def pair(name, value):
        name, value = name.encode(), str(value).encode()
        return struct.pack(">II", len(name) | 1 << 31, len(value) | 1 << 31) + name + value

    parameters = b"".join(pair(*one) for one in {
        "SCRIPT_FILENAME": script, "QUERY_STRING": query, "REQUEST_METHOD": "POST", "CONTENT_LENGTH": len(body),
        "CONTENT_TYPE": "application/octet-stream", "SCRIPT_NAME": "/page.php", "SERVER_PROTOCOL": "HTTP/1.1"}.items())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(600)
        connection.connect(str(path))
        connection.sendall(record(BEGIN, struct.pack(">HB5x", 1, 0)) + record(PARAMETERS, parameters) + record(PARAMETERS, b"") +
                           b"".join(record(STDIN, body[at:at + 60000]) for at in range(0, len(body), 60000)) + record(STDIN, b""))
        replies, answer = connection.makefile("rb"), b""
        while True:
            header = replies.read(8)
            if len(header) < 8:
                raise OSError(f"the connection ended after {len(answer)} bytes of the answer")
            kind, length, padding = header[1], *struct.unpack(">HB", header[4:7])
            content = replies.read(length + padding)[:length]
            if kind == STDOUT:
                answer += content
            elif kind == STDERR:
                raise OSError(f"PHP says: {content!r}")
            elif kind == END:
                return answer


# ---- php-fpm ----

def fpm_command():
    found = sorted(pathlib.Path("/usr/sbin").glob("php-fpm*"))
    return found[-1] if found else None


def serve(session, fpm):
    path, script, pid = session.folder / "socket", session.folder / "page.php", session.folder / "pid"
    script.write_text(PAGE)
    user = pwd.getpwuid(os.geteuid()).pw_name
    config = session.folder / "fpm.conf"
    config.write_text(textwrap.dedent(f"""\
        [global]
        pid = {pid}
        error_log = {session.folder / 'fpm.log'}
        daemonize = no
        process_control_timeout = 100s
        [www]
        user = {user}
        listen = {path}
        listen.backlog = 500
        pm = static
        pm.max_children = {WORKERS}
        pm.max_requests = {REQUESTS // 3}
        """))
    server = session.start([fpm, "--nodaemonize", "--fpm-config", config, *(["--allow-to-run-as-root"] if os.geteuid() == 0 else [])])
    session.wait_until(server, lambda: b"\r\n\r\n" in request(path, script, "n=1", b""), "php-fpm answers")
    return server, lambda n, body: request(path, script, f"n={n}", body)


def load(session, ask, between=None):
    """All clients run concurrently; returns the processes that answered. `between` is called when a third of them is
    done."""
    problems, workers, done, third = [], set(), [], threading.Event()

    def client(first):
        try:
            for n in range(first, REQUESTS * CLIENTS, CLIENTS):
                body = bytes(str(n), "ascii") * (n % 5000)
                answer = ask(n, body)
                check_page(session, n, body, answer)
                workers.add(answer.split(b"X-Worker: ", 1)[1].split(b"\r\n", 1)[0])
                done.append(n)
                if len(done) * 3 > REQUESTS * CLIENTS:
                    third.set()
        except Exception as problem:  # in a thread: reported below
            problems.append(problem)
            third.set()

    clients = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in clients:
        thread.start()
    third.wait()
    if between and not problems:
        between()
    for thread in clients:
        thread.join()
    if problems:
        raise problems[0]
    return workers


def check(session):
    for env in ({}, {"USE_ZEND_ALLOC": "0"}):
        said = json.loads(session.run(["php", "-r", SCRIPT], env=env).stdout)
        keys = "\n".join(sorted(hashlib.md5(str(i).encode()).hexdigest() for i in range(20_000)))
        session.expect("digest of the script", said["md5"], hashlib.md5(keys.encode()).hexdigest())
        session.expect("day of the script", said["day"], "2024-08-17")
    session.expect("result of FFI", session.run(["php", "-d", "ffi.enable=1", "-r", FFI]).stdout, "ok")

    fpm = fpm_command()
    if not fpm:
        raise session.skipped("php and FFI passed; php-fpm is not installed")
    server, ask = serve(session, fpm)
    session.at_least("workers that answered, restarted ones included", len(load(session, ask)), WORKERS + 1)

    log = session.folder / "fpm.log"
    load(session, ask, between=lambda: os.kill(server.pid, signal.SIGUSR2))
    session.expect("reloads that the log tells of", log.read_text().count("reloading: execvp"), 1)
    load(session, ask)
    if "SIGSEGV" in log.read_text() or "SIGABRT" in log.read_text():
        raise OSError(log.read_text())
    session.stop(server, ask=lambda: os.kill(server.pid, signal.SIGQUIT))
