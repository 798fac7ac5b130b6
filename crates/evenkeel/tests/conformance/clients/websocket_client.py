"""wsproto as a client of WebSockets, over a socket or over a stream of h2: DOOR ADDRESS CA; prints a line for each case."""

import hashlib
import socket
import ssl
import sys

import h2.config
import h2.connection
import h2.events
import h2.settings
from wsproto import WSConnection
from wsproto.connection import Connection, ConnectionType
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, RejectConnection, Request, TextMessage

door, address, ca = sys.argv[1:]
host, port = address.rsplit(":", 1)


def dial():
    connection = socket.create_connection((host, int(port)), timeout=60)
    if door in ("h1", "h2c"):
        return connection
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2" if door == "h2" else "http/1.1"])
    return context.wrap_socket(connection, server_hostname=host)


class One:
    """A WebSocket that has a connection of HTTP/1.1 for itself."""

    def __init__(self, path):
        self.socket, self.ws, self.ended = dial(), WSConnection(ConnectionType.CLIENT), False
        self.socket.sendall(self.ws.send(Request(host=address, target=path)))
        self.status, self.early = None, []
        while self.status is None:
            self.more()
            for event in self.ws.events():
                if isinstance(event, AcceptConnection):
                    self.status = 101
                elif isinstance(event, RejectConnection):
                    self.status = event.status_code
                else:
                    self.early.append(event)

    def send(self, event):
        self.socket.sendall(self.ws.send(event))

    def more(self):
        data = self.socket.recv(65536)
        self.ended = not data
        self.ws.receive_data(data or None)

    # No more bytes from here.
    def end(self):
        if isinstance(self.socket, ssl.SSLSocket):
            self.socket = self.socket.unwrap()
        else:
            self.socket.shutdown(socket.SHUT_WR)


class Two:
    """A WebSocket that is a stream of HTTP/2 (RFC 8441)."""

    def __init__(self, path):
        self.socket, self.ended, self.status, self.allowed, self.reset = dial(), False, None, False, False
        if door == "h2" and self.socket.selected_alpn_protocol() != "h2":
            sys.exit("no h2 by ALPN")
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        self.ws, self.early = Connection(ConnectionType.CLIENT), []
        while not self.allowed:
            self.more()
        self.stream = self.h2.get_next_available_stream_id()
        scheme = "https" if door == "h2" else "http"
        self.h2.send_headers(self.stream, [
            (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", scheme), (":path", path),
            (":authority", address), ("sec-websocket-version", "13"),
        ])
        self.flush()
        while self.status is None:
            self.more()
        # What came with the head.
        self.early = list(self.ws.events())

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def send(self, event):
        data = memoryview(self.ws.send(event))
        while data:
            room = min(self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size, len(data))
            if room == 0:
                self.more()
                continue
            self.h2.send_data(self.stream, bytes(data[:room]))
            data = data[room:]
            self.flush()

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            self.ended = True
            self.ws.receive_data(None)
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.RemoteSettingsChanged):
                changed = event.changed_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL)
                self.allowed = self.allowed or bool(changed and changed.new_value == 1)
            elif isinstance(event, h2.events.ResponseReceived):
                self.status = int(dict(event.headers)[":status"])
            elif isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if event.data:
                    self.ws.receive_data(event.data)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended = True
            elif isinstance(event, h2.events.StreamReset):
                # A whole answer before the request's end is followed by NO_ERROR.
                if event.error_code != 0:
                    sys.exit(f"stream reset: {event.error_code}")
                self.ended = self.reset = True
            elif isinstance(event, h2.events.ConnectionTerminated):
                sys.exit(f"connection ended: {event.error_code}")
        self.flush()

    def end(self):
        if not self.reset:
            self.h2.end_stream(self.stream)
            self.flush()


def messages(ws):
    """Each whole message, pong and close."""
    parts, pending = [], ws.early
    while True:
        for event in pending:
            if isinstance(event, (TextMessage, BytesMessage)):
                parts.append(event.data)
                if event.message_finished:
                    yield type(parts[0])().join(parts)
                    parts = []
            elif isinstance(event, Pong):
                yield bytes(event.payload), "pong"
            elif isinstance(event, CloseConnection):
                yield event.code, "close"
        if ws.ended:
            yield None, "ended"
        ws.more()
        pending = list(ws.ws.events())


Kind = One if door.startswith("h1") else Two

ws = Kind("/echo")
heard = messages(ws)
print("open", ws.status, next(heard))
for n in range(50):
    ws.send(TextMessage(data=f"piece {n}"))
    assert next(heard) == f"piece {n}"
print("pieces 50")
content = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(125_000))
ws.send(BytesMessage(data=content))
print("bytes", next(heard) == content)
ws.send(Ping(payload=b"ball"))
print("ping", *next(heard))
ws.send(CloseConnection(code=1000))
print("close", *next(heard))
ws.end()
while not ws.ended:
    ws.more()
print("ended")
ws = Kind("/echo")
heard = messages(ws)
next(heard)
ws.send(TextMessage(data="leave"))
print("left", *next(heard))
print("refused", Kind("/refused").status)
