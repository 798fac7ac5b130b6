#!/usr/bin/env python3
"""Counts the instructions of one request, by callgrind, for each binary that is named.

    scripts/instructions.py before/evenkeel after/evenkeel [--only keep-alive,h2c]
    scripts/instructions.py --gate target/release/examples/filters

Prints a table with the ratio of every binary to the first. A count is the difference of two runs, so that start and end of the
process do not matter, and it does not depend on other work of the machine. The kernel's share is not in it. Needs valgrind, h2load
and openssl.

With `--gate`, compares one binary with the counts of `instructions.json`, which are of a build by the compiler that it names, and fails
if a case takes 2 % more in each of three tries. `--write` writes them anew; a commit that raises one says why.
"""

import argparse
import base64
import contextlib
import hmac
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from statistics import median
from pathlib import Path

END = b"hello there\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: text/plain\r\n\r\n" + END
LARGE = b"x" * (65536 - len(END)) + END
LARGE_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\nContent-Type: text/plain\r\n\r\n" + LARGE
REQUEST = b"GET /some/path HTTP/1.1\r\nHost: example.com\r\nUser-Agent: count\r\nAccept: */*\r\n\r\n"
LARGE_REQUEST = REQUEST.replace(b"/some/path", b"/large")
# valgrind runs a process some fifty times slower.
START_SECONDS = 180

LOGGED = '[telemetry]\naccess_log = {{ path = "{folder}/access.log" }}\n'
HTTP2 = "protocol = 'h2'\n"
HTTP = '[listener.web]\nbind = ["127.0.0.1:{port}"]\n{listener}\n[pool.web]\nendpoints = ["127.0.0.1:{endpoint}"]\n'
TLS = 'tls = {{ certificates = [{{ cert = "{folder}/cert.pem", key = "{folder}/key.pem" }}] }}'
# A request that passes a limit, a token and changes of its fields.
SECRET = b"no secret: the endpoint and the client of a count have it, too"
PROTECTED = HTTP + '''[[route]]
pool = "web"
limits = [{{ requests = "1000000/s", key = "client" }}]
request_headers = {{ remove = ["X-Debug"], set = {{ X-Real-IP = "{{client.ip}}" }}, add = {{ X-Tag = "count" }} }}
response_headers = {{ remove = ["Server"], set = {{ X-Served-By = "{{endpoint}}" }} }}
jwt = {{ keys = "{folder}/keys.json", algorithms = ["HS256"], issuer = "count", audience = ["count"], claims_to = {{ X-User = "sub" }} }}
'''
ROUTED = HTTP + '[[route]]\npool = "web"\nmatch = {{ prefix = "/some" }}\n'
CACHED = HTTP + '[[route]]\npool = "web"\ncache = {{ ttl = {{ 200 = "1h" }} }}\n'
TCP = '[listener.web]\nmode = "tcp"\npool = "web"\nbind = ["127.0.0.1:{port}"]\n[pool.web]\nendpoints = ["127.0.0.1:{endpoint}"]\n'


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name, value):
    """A field that is not kept in a table."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def receive(sock, end):
    received = b""
    while not received.endswith(end):
        part = sock.recv(65536)
        if not part:
            raise ConnectionError(f"closed after {received!r}")
        received += part
    return received


def exchange(sock, request, requests):
    for _ in range(requests):
        sock.sendall(request)
        receive(sock, END)


def keep_alive(port, requests):
    with socket.create_connection(("127.0.0.1", port)) as sock:
        exchange(sock, REQUEST, requests)


def escape(port, requests):
    with socket.create_connection(("127.0.0.1", port)) as sock:
        exchange(sock, REQUEST.replace(b"/path", b"/p%61th"), requests)


def base64url(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def token():
    claims = {"iss": "count", "aud": "count", "sub": "a", "exp": 4102444800}
    signed = b".".join(base64url(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "1"}, claims))
    return signed + b"." + base64url(hmac.digest(SECRET, signed, "sha256"))


def protected(port, requests):
    request = REQUEST.replace(b"Accept", b"Authorization: Bearer " + token() + b"\r\nAccept")
    with socket.create_connection(("127.0.0.1", port)) as sock:
        exchange(sock, request, requests)


def https(port, requests, request=REQUEST):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as sock, context.wrap_socket(sock) as tls:
        exchange(tls, request, requests)


def https_64k(port, requests):
    https(port, requests, LARGE_REQUEST)


def client_closes(port, requests):
    for _ in range(requests):
        keep_alive(port, 1)


def h2c(port, requests):
    done = subprocess.run(
        ["h2load", f"-n{requests}", "-c1", "-m8", f"http://127.0.0.1:{port}/some/path"], capture_output=True, text=True, check=True
    )
    if f"{requests} succeeded" not in done.stdout:
        raise ConnectionError(done.stdout)


def grpc(port, requests):
    # A message of 100 bytes behind the five of its front.
    with tempfile.NamedTemporaryFile() as message:
        message.write(b"\0\0\0\0d" + b"x" * 100)
        message.flush()
        fields = ["-Hcontent-type: application/grpc", "-Hte: trailers", "-Hgrpc-timeout: 10S"]
        done = subprocess.run(
            ["h2load", f"-n{requests}", "-c1", "-m8", *fields, f"-d{message.name}", f"http://127.0.0.1:{port}/echo.Echo/Say"],
            capture_output=True, text=True, check=True,
        )
    if f"{requests} succeeded" not in done.stdout:
        raise ConnectionError(done.stdout)


# Configuration, keys of the listener, load, requests of the longer and the shorter run.
CASES = {
    "keep-alive": (HTTP, "", keep_alive, 4000, 1000),
    "client-closes": (HTTP, "", client_closes, 2000, 500),
    "with-access-log": (LOGGED + HTTP, "", keep_alive, 4000, 1000),
    "h2c": (HTTP, "h2c = true", h2c, 4000, 1000),
    # A handshake takes more or less by a million instructions, so it is spread over many requests.
    "https": (HTTP, TLS, https, 9000, 1000),
    "https-64k": (HTTP, TLS, https_64k, 1500, 250),
    "grpc": (HTTP + HTTP2, "h2c = true", grpc, 4000, 1000),
    "routed": (ROUTED, "", keep_alive, 4000, 1000),
    # As routed, with an escape in the path.
    "escape": (ROUTED, "", escape, 4000, 1000),
    "cache-hit": (CACHED, "", keep_alive, 4000, 1000),
    "tcp": (TCP, "", client_closes, 2000, 500),
    "protected": (PROTECTED, "", protected, 4000, 1000),
    # As keep-alive; ten filters pass it by only in the example `filters` of the crate `proxy`.
    "filtered": (HTTP.replace("listener.web", "listener.filtered"), "", keep_alive, 4000, 1000),
}


class Endpoint:
    """Answers every request with the same response."""

    def __init__(self):
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            sock, _ = self.listening.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with sock, contextlib.suppress(ConnectionError):
            if sock.recv(3, socket.MSG_PEEK) == b"PRI":
                return self.serve_http2(sock)
            while True:
                head = receive(sock, b"\r\n\r\n")
                sock.sendall(LARGE_RESPONSE if b" /large " in head else RESPONSE)

    def serve_http2(self, sock):
        """Answers each call that has ended with a message and trailers; all that comes together, together."""
        sock.sendall(frame(SETTINGS, 0, 0, b""))
        came = sock.recv(65536)[len(PREFACE) :]
        while True:
            answers = b""
            while len(came) >= 9 and len(came) >= 9 + int.from_bytes(came[:3], "big"):
                end = 9 + int.from_bytes(came[:3], "big")
                kind, flags, stream, payload = came[3], came[4], int.from_bytes(came[5:9], "big"), came[9:end]
                came = came[end:]
                if kind == SETTINGS and not flags & 1:
                    answers += frame(SETTINGS, 1, 0, b"")
                elif kind == PING and not flags & 1:
                    answers += frame(PING, 1, 0, payload)
                elif kind == DATA and payload:
                    answers += frame(WINDOW_UPDATE, 0, 0, len(payload).to_bytes(4, "big"))
                if kind in (DATA, HEADERS) and flags & 1:
                    answers += frame(HEADERS, 4, stream, b"\x88" + literal(b"content-type", b"application/grpc"))
                    answers += frame(DATA, 0, stream, b"\0\0\0\0d" + b"x" * 100)
                    answers += frame(HEADERS, 5, stream, literal(b"grpc-status", b"0") + literal(b"grpc-message", b""))
            sock.sendall(answers)
            part = sock.recv(65536)
            if not part:
                return
            came += part


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def write_certificate(folder):
    """For localhost, with a key."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=folder, capture_output=True, check=True)


def write_keys(folder):
    """As a set of JSON Web Keys."""
    key = {"kty": "oct", "kid": "1", "k": base64url(SECRET).decode()}
    (Path(folder) / "keys.json").write_text(json.dumps({"keys": [key]}))


def run(binary, case, requests, endpoint):
    """Instructions of a process that serves so many requests."""
    config, listener, load, _, _ = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        if listener == TLS:
            write_certificate(folder)
        write_keys(folder)
        text = config.format(port=port, endpoint=endpoint.port, listener=listener.format(folder=folder), folder=folder)
        path = Path(folder) / "evenkeel.toml"
        path.write_text(f"[runtime]\nworkers = 1\n{text}")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", binary, "run", "-c", str(path)]
        with (Path(folder) / "log").open("w+") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                wait_until_it_listens(process, port)
                load(port, requests)
                process.send_signal(signal.SIGTERM)
                process.wait(START_SECONDS)
            except BaseException:
                process.kill()
                process.wait()
                log.seek(0)
                sys.stderr.write(log.read())
                raise
        totals = re.search(r"^(?:summary|totals): (\d+)", (Path(folder) / "out").read_text(), re.MULTILINE)
        return int(totals.group(1))


def wait_until_it_listens(process, port):
    until = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None:
            raise ChildProcessError(f"ended with {process.returncode}")
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        if time.monotonic() > until:
            raise TimeoutError("does not listen")
        time.sleep(0.1)


# Cases of the gate: those with which two runs of a build differ by less than 2 %. How many connections are accepted at once depends on
# the machine, so no case opens one for each request.
GATED = "keep-alive,with-access-log,routed,escape,cache-hit,protected,filtered,h2c,grpc,https,https-64k".split(",")
GATE = Path(__file__).with_name("instructions.json")
SLACK = 1.02
TRIES = 3


def count(binary, case, endpoint):
    """Instructions of a request."""
    _, _, _, more, fewer = CASES[case]
    return (run(binary, case, more, endpoint) - run(binary, case, fewer, endpoint)) / (more - fewer)


def compiler():
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def write_gate(binary, endpoint):
    counts = {case: round(median(count(binary, case, endpoint) for _ in range(TRIES))) for case in GATED}
    GATE.write_text(json.dumps({"compiler": compiler(), "instructions": counts}, indent=2) + "\n")


def check_gate(binary, endpoint):
    """Exit status: 1 if a case takes more than it may."""
    known = json.loads(GATE.read_text())
    if known["compiler"] != compiler():
        print(f"warning: the counts are of {known['compiler']}, and this is {compiler()}: not compared; make instructions WRITE=--write")
        return 0
    status = 0
    print("| instructions per request | committed | now | |\n|---|---|---|---|")
    for case, before in known["instructions"].items():
        now = count(binary, case, endpoint)
        for _ in range(TRIES - 1):
            if now > before * SLACK:
                now = min(now, count(binary, case, endpoint))
        print(f"| {case} | {before:,} | {now:,.0f} | {now / before:.3f} |", flush=True)
        if now > before * SLACK:
            status = 1
            print(f"error: {case} takes more than {SLACK} of its count\nhelp: find the cause by callgrind_annotate; if it is worth its price, "
                  "make instructions WRITE=--write, and let the commit say why", file=sys.stderr)
        elif now < before / SLACK:
            print(f"note: {case} takes less; keep that by make instructions WRITE=--write")
    return status


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("binaries", nargs="+")
    arguments.add_argument("--only", default=",".join(CASES), help=f"cases, of {', '.join(CASES)}")
    arguments.add_argument("--gate", action="store_true", help=f"compare with {GATE.name}")
    arguments.add_argument("--write", action="store_true", help=f"write {GATE.name}")
    asked = arguments.parse_args()
    endpoint = Endpoint()
    if asked.write:
        return write_gate(asked.binaries[0], endpoint)
    if asked.gate:
        return check_gate(asked.binaries[0], endpoint)
    print("| instructions per request |" + "".join(f" {binary} |" for binary in asked.binaries))
    print("|---|" + "---|" * len(asked.binaries))
    for case in asked.only.split(","):
        counts = [count(binary, case, endpoint) for binary in asked.binaries]
        print(f"| {case} |" + "".join(f" {of:,.0f} ({of / counts[0]:.3f}) |" for of in counts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
