"""One of the four services of an application that tells users their local time. Standard library only: a thread for each
connection, HTTP/1.0, five connections in the backlog, as services are that nothing was tuned of.

Usage: service.py NAME PORT OUTBOUND USERS
NAME: time, user, log or mytime. OUTBOUND: the port of the balancer by which other services are reached. USERS: a database.
On SIGUSR1 it prints the most requests it had at once since the last time.
"""

import http.client
import http.server
import json
import os
import signal
import sqlite3
import sys
import threading
import time


class Server(http.server.ThreadingHTTPServer):
    """Counts requests from the moment their connection is accepted until it is closed."""

    daemon_threads = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.lock = threading.Lock()
        self.now = self.peak = 0

    def process_request(self, request, client_address):
        with self.lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        super().shutdown_request(request)
        with self.lock:
            self.now -= 1

    def handle_error(self, request, client_address):
        """A client that has gone is no news."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Routes by the name of the service."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        word, _, user = self.path[1:].partition("/")
        if word == "GetTime" and NAME == "time":
            now = time.gmtime()
            self.answer({"hour": now.tm_hour, "minute": now.tm_min})
        elif word == "UserAttr" and NAME == "user":
            found = attributes(user)
            self.answer(found, 200 if found else 404)
        elif word == "MyTime" and NAME == "mytime":
            who, now = call("GET", "/UserAttr/" + user), call("GET", "/GetTime")
            written = call("PUT", "/Log", {"user": user, "meth": "GET", "addr": self.client_address[0]})
            if who and now and written:
                hour = (now["hour"] + who["offset"]) % 24
                self.answer({"hello": who["name"], "time": "%d:%02d" % (hour, now["minute"])})
            else:
                self.answer({"error": "a service did not answer"}, 502)
        else:
            self.answer({"error": "not here"}, 404)

    def do_PUT(self):
        entry = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        who, now = call("GET", "/UserAttr/" + entry["user"]), call("GET", "/GetTime")
        if who and now:
            LINES.append((who["name"], now, entry["meth"], entry["addr"]))
            self.answer({"line": len(LINES)})
        else:
            self.answer({"error": "a service did not answer"}, 502)

    def answer(self, body, status=200):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def attributes(user):
    with sqlite3.connect(USERS) as users:
        row = users.execute("select name, hours from users where id = ?", (user,)).fetchone()
    return row and {"name": row[0], "offset": row[1]}


def call(method, path, body=None):
    """Another service, by the balancer beside this one. None if it does not answer as it should."""
    connection = http.client.HTTPConnection("127.0.0.1", OUTBOUND)
    try:
        connection.request(method, path, body and json.dumps(body), {"Connection": "close"})
        answer = connection.getresponse()
        text = answer.read()
        return json.loads(text) if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class Lines(list):
    """Lines of the log: the last thousand."""

    def append(self, line):
        super().append(line)
        del self[:-1000]


def tell_peak(*_):
    # Without the lock: the signal may come while this very thread holds it. A count that is one off does no harm.
    peak, SERVER.peak = SERVER.peak, SERVER.now
    os.write(1, b"peak %d\n" % peak)


NAME, PORT, OUTBOUND, USERS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
LINES = Lines()
with sqlite3.connect(USERS, timeout=30) as database:
    database.execute("create table if not exists users (id text primary key, name text, hours integer)")
    database.execute("insert or ignore into users values ('bob', 'Bob', 2)")
SERVER = Server(("0.0.0.0", PORT), Handler)
signal.signal(signal.SIGUSR1, tell_peak)
SERVER.serve_forever(0.5)
