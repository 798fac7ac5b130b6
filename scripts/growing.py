#!/usr/bin/env python3
"""Time to first byte of 200 clients of one response that an endpoint sends over 30 seconds.

    scripts/growing.py target/dist/evenkeel

The first client reads a byte a second, the second resets its connection, all others read as fast as they can; they arrive over 20
seconds. Prints the fetches that reached the endpoint, the endpoint's own time to first byte, and those of the clients.
"""

import asyncio
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZE, SECONDS, CLIENTS, ARRIVE_WITHIN = 8 << 20, 30, 200, 20
PART = SIZE // (SECONDS * 20)
REQUEST = b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Endpoint:
    def __init__(self):
        self.fetches, self.first_byte = 0, []

    async def serve(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        came = time.monotonic()
        self.fetches += 1
        writer.write(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: %d\r\n\r\n" % SIZE)
        sent = 0
        while sent < SIZE:
            part = min(PART, SIZE - sent)
            writer.write(b"x" * part)
            if sent == 0:
                self.first_byte.append(time.monotonic() - came)
            await writer.drain()
            sent += part
            await asyncio.sleep(max(0, came + SECONDS * sent / SIZE - time.monotonic()))
        writer.close()


async def client(port, at, kind):
    await asyncio.sleep(at)
    begun = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    writer.write(REQUEST)
    await reader.readuntil(b"\r\n\r\n")
    size = len(await reader.read(1))
    first = time.monotonic() - begun
    if kind == "resets":
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return first, None
    while kind == "slow" and time.monotonic() < begun + SECONDS + 5:
        await asyncio.sleep(1)
        size += len(await reader.read(1))
    while kind == "usual" and (part := await reader.read(1 << 16)):
        size += len(part)
    writer.close()
    return first, size


async def main():
    endpoint = Endpoint()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "evenkeel.toml"
        path.write_text(
            f'[listener.web]\nbind = ["127.0.0.1:{own}"]\n[pool.web]\nendpoints = ["127.0.0.1:{port}"]\n'
            '[[route]]\npool = "web"\ncache = true\n[cache]\nobject_max = "16MiB"\n'
        )
        process = subprocess.Popen([sys.argv[1], "run", "-c", str(path)])
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", own)).close()
                    break
                except ConnectionRefusedError:
                    if process.poll() is not None:
                        sys.exit(f"{sys.argv[1]} ended with {process.returncode}")
                    await asyncio.sleep(0.05)
            arrival = lambda n: 0.0 if n == 0 else 0.5 + n * ARRIVE_WITHIN / CLIENTS
            kinds = ["slow", "resets"] + ["usual"] * (CLIENTS - 2)
            done = await asyncio.gather(*(client(own, arrival(n), kind) for n, kind in enumerate(kinds)))
        finally:
            process.terminate()
            process.wait()
    whole = sum(size == SIZE for _, size in done[2:])
    others = sorted(first * 1000 for first, _ in done[1:])
    print(f"fetches {endpoint.fetches}, first byte of the endpoint {endpoint.first_byte[0] * 1000:.1f} ms, whole {whole} of {CLIENTS - 2}")
    print(f"first byte of the others, ms: median {others[len(others) // 2]:.1f}, 99th {others[-3]:.1f}, largest {others[-1]:.1f}")


asyncio.run(main())
