"""aioquic as a client of HTTP/3: DOOR URL CA FILE CASES; prints a line for each case."""

import asyncio
import hashlib
import sys
from urllib.parse import urlsplit

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset
from aioquic.quic.packet import QuicProtocolVersion

door, url, ca, file, cases = sys.argv[1:]
V1, V2 = QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2
# Versions, the first to begin with; one that nobody speaks makes the server list its own.
versions = {"h3": [V1, V2], "h3v2": [V2, V1], "negotiated": [0x1A2A3A4A, V2, V1]}[door]
content = open(file, "rb").read()
where = urlsplit(url)


def settings():
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=H3_ALPN, original_version=versions[0], supported_versions=versions
    )
    configuration.load_verify_locations(ca)
    return configuration


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.requests = {}

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for request in self.requests.values():
                request.put_nowait(ConnectionError(event.reason_phrase))
        if isinstance(event, StreamReset) and event.stream_id in self.requests:
            self.requests[event.stream_id].put_nowait(ConnectionError(f"reset with {event.error_code:#x}"))
        for part in self.http.handle_event(event):
            if getattr(part, "stream_id", None) in self.requests:
                self.requests[part.stream_id].put_nowait(part)

    def begin(self, method, path, *fields, ends=False):
        stream = self._quic.get_next_available_stream_id()
        self.requests[stream] = asyncio.Queue()
        head = [(":method", method), (":scheme", "https"), (":authority", where.netloc), (":path", path), *fields]
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in head], ends)
        self.transmit()
        return stream

    def send(self, stream, data, ends=False):
        self.http.send_data(stream, data, ends)
        self.transmit()

    async def part(self, stream):
        part = await asyncio.wait_for(self.requests[stream].get(), 300)
        if isinstance(part, Exception):
            raise part
        return part

    # Heads and body of the response, up to its end.
    async def rest(self, stream):
        heads, body = [], bytearray()
        while True:
            part = await self.part(stream)
            if isinstance(part, HeadersReceived):
                heads.append({name.decode(): value.decode() for name, value in part.headers})
            elif isinstance(part, DataReceived):
                body += part.data
            if part.stream_ended:
                return heads, bytes(body)

    async def ask(self, method, path, data=b"", *fields):
        stream = self.begin(method, path, *fields, ends=not data)
        if data:
            self.send(stream, data, True)
        return await self.rest(stream)


async def stream(client):
    stream, got, count = client.begin("POST", "/echo"), b"", 0
    client.send(stream, b"piece 0\n")
    status = None
    while count < 50:
        part = await client.part(stream)
        if isinstance(part, HeadersReceived):
            status = dict(part.headers)[b":status"].decode()
            continue
        got += part.data
        while b"\n" in got:
            piece, got = got.split(b"\n", 1)
            if piece != b"piece %d" % count:
                return print("stream: another piece came back:", piece)
            count += 1
            if count < 50:
                client.send(stream, b"piece %d\n" % count)
    client.send(stream, b"", True)
    _, rest = await client.rest(stream)
    print("stream", status, count, len(rest))


# Resumes a session, and sends two requests with the first packets: one that may be repeated, and one that may not.
async def early():
    tickets = asyncio.Queue()
    configuration = settings()
    options = {"configuration": configuration, "create_protocol": Client}
    async with connect(where.hostname, where.port, session_ticket_handler=tickets.put_nowait, **options) as client:
        await client.ask("GET", "/get")
        configuration.session_ticket = await asyncio.wait_for(tickets.get(), 10)
    async with connect(where.hostname, where.port, wait_connected=False, **options) as client:
        asked = [client.ask("GET", "/get"), client.ask("POST", "/get", b"once")]
        (safe, body), (unsafe, posted) = await asyncio.gather(*asked)
        print("early", safe[-1][":status"], body.decode(), str(client._quic.tls.early_data_accepted).lower())
        print("early post", unsafe[-1][":status"], posted.decode())


async def run():
    async with connect(where.hostname, where.port, configuration=settings(), create_protocol=Client) as client:
        for case in cases.split(","):
            if case == "get":
                heads, body = await client.ask("GET", "/get")
                print("get", heads[-1][":status"], "3", body.decode(), heads[-1]["x-seen"])
            elif case == "post":
                heads, body = await client.ask("POST", "/hash", content, ("content-length", str(len(content))))
                print("post", heads[-1][":status"], body.decode())
            elif case == "echo":
                heads, body = await client.ask("POST", "/echo", content)
                print("echo", heads[-1][":status"], hashlib.sha256(body).hexdigest())
            elif case == "kept":
                answers = [await client.ask("GET", "/get") for _ in range(20)]
                print("kept", sum(heads[-1][":status"] == "200" and body == b"hello" for heads, body in answers))
            elif case == "keys":
                client.request_key_update()
                heads, body = await client.ask("GET", "/get")
                print("keys", heads[-1][":status"], body.decode())
            elif case == "early":
                await early()
            elif case == "stream":
                await stream(client)
            elif case == "trailers":
                text = b"with trailers"
                opened = client.begin("POST", "/trailers", ("te", "trailers"), ("trailer", "x-sum"))
                client.send(opened, text)
                own = hashlib.sha256(text).hexdigest()
                client.http.send_headers(opened, [(b"x-sum", own.encode())], True)
                client.transmit()
                heads, _ = await client.rest(opened)
                print("trailers", heads[0][":status"], heads[-1].get("x-sum"), heads[-1].get("x-own"))


asyncio.run(run())
