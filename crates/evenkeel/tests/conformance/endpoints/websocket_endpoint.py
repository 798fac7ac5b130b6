"""wsproto as an endpoint of WebSockets, over a socket or over streams of h2: ADDRESS PROTOCOL, which is h1 or h2c."""

import socket
import sys
import threading

import h2.config
import h2.connection
import h2.events
import h2.settings
from wsproto import WSConnection
from wsproto.connection import Connection, ConnectionType
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, RejectConnection, Request, TextMessage

address, protocol = sys.argv[1:]


# Sends back what comes: bytes to be written, and whether they are the last. `leave` makes it close.
def answer(ws):
    out, last = b"", False
    for event in ws.events():
        if isinstance(event, TextMessage) and event.data == "leave":
            out, last = out + ws.send(CloseConnection(code=4001)), True
        elif isinstance(event, (TextMessage, BytesMessage)):
            out += ws.send(type(event)(data=event.data, message_finished=event.message_finished))
        elif isinstance(event, Ping):
            out += ws.send(event.response())
        elif isinstance(event, CloseConnection) and not last:
            out, last = out + ws.send(event.response()), True
    return out, last


def one(connection):
    ws, accepted = WSConnection(ConnectionType.SERVER), False
    while data := connection.recv(65536):
        ws.receive_data(data)
        if not accepted:
            for event in ws.events():
                if isinstance(event, Request) and event.target == "/refused":
                    return connection.sendall(ws.send(RejectConnection(status_code=403)))
                if isinstance(event, Request):
                    connection.sendall(ws.send(AcceptConnection()) + ws.send(TextMessage(data="HTTP/1.1")))
                    accepted = True
                    break
            else:
                continue
        out, last = answer(ws)
        connection.sendall(out)
        if last:
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
            return None


def two(connection):
    http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    http.local_settings = h2.settings.Settings(
        client=False, initial_values={h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL: 1}
    )
    http.initiate_connection()
    connection.sendall(http.data_to_send())
    # What waits for a window, and whether it is the last, by stream.
    sockets, waiting = {}, {}

    def push(stream, out, last):
        before, _ = waiting.get(stream, (b"", False))
        waiting[stream] = (before + out, last)

    while data := connection.recv(65536):
        for event in http.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                head = dict(event.headers)
                if head.get(":protocol") != "websocket" or head[":path"] == "/refused":
                    http.send_headers(event.stream_id, [(":status", "403")], end_stream=True)
                    continue
                http.send_headers(event.stream_id, [(":status", "200")])
                ws = sockets[event.stream_id] = Connection(ConnectionType.SERVER)
                push(event.stream_id, ws.send(TextMessage(data="HTTP/2")), False)
            elif isinstance(event, h2.events.DataReceived):
                http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                ws = sockets.get(event.stream_id)
                if ws and event.data:
                    ws.receive_data(event.data)
                    out, last = answer(ws)
                    push(event.stream_id, out, last)
                    if last:
                        del sockets[event.stream_id]
            elif isinstance(event, h2.events.StreamReset):
                sockets.pop(event.stream_id, None)
                waiting.pop(event.stream_id, None)
        for stream, (out, last) in list(waiting.items()):
            while out and (room := min(http.local_flow_control_window(stream), http.max_outbound_frame_size)) > 0:
                http.send_data(stream, out[:room])
                out = out[room:]
            waiting[stream] = (out, last)
            if not out:
                del waiting[stream]
                if last:
                    http.end_stream(stream)
        connection.sendall(http.data_to_send())


def serve(connection):
    with connection:
        try:
            (one if protocol == "h1" else two)(connection)
        except ConnectionError:
            pass


host, port = address.rsplit(":", 1)
listener = socket.create_server((host, int(port)))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
