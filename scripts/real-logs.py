#!/usr/bin/env python3
"""Writes the logs of crates/logs/tests/real: lines that each program writes for the same clients, on loopback.

    scripts/real-logs.py crates/logs/tests/real [--only NAME]

Endpoints are fast, slow, refusing or breaking; clients are plain, impatient or malformed. A program that is not installed is
skipped. EVENKEEL names the program evenkeel, by default target/debug/evenkeel. Numbers of lines are the same in each run; times are not,
and a program may begin its rotation at another endpoint.
"""

import argparse
import glob
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "evenkeel", "bench")


class Endpoint(BaseHTTPRequestHandler):
    """Responds after `server.delay` seconds; /slow takes 0.4 s more."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def respond(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(self.server.delay + (0.4 if self.path.startswith("/slow") else 0))
        body = b"x" * 1000
        self.send_response(404 if self.path.startswith("/none") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = respond

    def log_message(self, *_):
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # clients that left


def endpoint(delay):
    server = Quiet((HOST, 0), Endpoint)
    server.delay = delay
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


def breaking():
    """An endpoint that closes each connection without a response."""
    listener = socket.create_server((HOST, 0))

    def run():
        while True:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.close()

    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[1]


FAST, SLOW, BROKEN, REFUSING = endpoint(0.002), endpoint(0.030), breaking(), free_port()


def send(port, text, wait=2.0):
    """Sends bytes on a connection, and reads until the response has ended. A client that loses patience resets the connection."""
    with socket.create_connection((HOST, port)) as client:
        client.sendall(text)
        client.settimeout(wait)
        try:
            while client.recv(65536):
                pass
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def request(path, method="GET", fields="", body=""):
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: made \"up\"/1\r\n{fields}{length}Connection: close\r\n\r\n{body}".encode()


def clients(port):
    """Plain requests, retries at web, aborted clients, a pool that refuses, a pool that breaks, and a malformed request."""
    for n in range(12):
        send(port, request(f"/item/{n}?page={n % 3}", fields=f"X-Tokens: {100 * n}\r\n"))
    send(port, request("/cart", "POST", body="a=1&b=" + "x" * 500))
    send(port, request("/none"))
    for _ in range(2):
        send(port, request("/slow"), wait=0.1)
    for _ in range(2):
        send(port, request("/refusing"))
        send(port, request("/breaking"))
    send(port, b"NONSENSE\r\n\r\n", wait=0.3)


def sessions(port):
    """TCP sessions: plain and aborted."""
    for n in range(6):
        send(port, request(f"/{n}"))
    send(port, request("/slow"), wait=0.1)


class Syslog:
    """Receives datagrams."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, 0))
        self.socket.settimeout(0.3)
        self.port = self.socket.getsockname()[1]

    def lines(self):
        out = []
        try:
            while True:
                out.append(self.socket.recv(65536).rstrip(b"\n\0"))
        except OSError:
            return out


def serve(folder, arguments, drive, pause=1.0):
    """Runs a program while clients are driven, `pause` seconds after its start: connections without a request would be logged."""
    with open(os.path.join(folder, "output"), "wb") as output:
        program = subprocess.Popen(arguments, stdout=output, stderr=output, cwd=folder)
    try:
        time.sleep(pause)
        try:
            drive()
        except ConnectionRefusedError:
            sys.exit(open(os.path.join(folder, "output")).read())
        time.sleep(1.2)
    finally:
        program.send_signal(signal.SIGTERM)
        try:
            program.wait(5)
        except subprocess.TimeoutExpired:
            program.kill()


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def program(*places):
    found = [place for place in places if place and shutil.which(place)]
    return found[0] if found else None


def haproxy(folder, binary, form):
    web, tcp, log = free_port(), free_port(), Syslog()
    path = write(folder, "haproxy.cfg", f"""
global
    log {HOST}:{log.port} format {form} local0
defaults
    log global
    timeout client 5s
    timeout server 5s
    timeout connect 200ms
    retries 2
    option redispatch 1
    option abortonclose
frontend web
    mode http
    bind {HOST}:{web}
    option httplog
    capture request header Host len 40
    capture request header X-Tokens len 10
    capture response header Content-Length len 10
    use_backend refusing if {{ path /refusing }}
    use_backend breaking if {{ path /breaking }}
    default_backend shop
backend shop
    mode http
    balance roundrobin
    server fast {HOST}:{FAST}
    server slow {HOST}:{SLOW}
    server gone {HOST}:{REFUSING}
backend refusing
    mode http
    server gone {HOST}:{REFUSING}
backend breaking
    mode http
    server broken {HOST}:{BROKEN}
frontend tcp
    mode tcp
    bind {HOST}:{tcp}
    option tcplog
    default_backend sessions
backend sessions
    mode tcp
    balance roundrobin
    server fast {HOST}:{FAST}
    server gone {HOST}:{REFUSING}
""")
    serve(folder, [binary, "-db", "-f", path], lambda: (clients(web), sessions(tcp)))
    lines = log.lines()
    http = [line for line in lines if b" tcp " not in line and b"Proxy tcp" not in line]
    return http, [line for line in lines if b" tcp " in line]


def haproxy_old(folder):
    http, tcp = haproxy(folder, "/usr/sbin/haproxy", "rfc3164")
    return {"haproxy-2.6-httplog": http, "haproxy-2.6-tcplog": tcp}


def haproxy_new(folder):
    http, tcp = haproxy(folder, f"{CACHE}/current/haproxy", "rfc5424")
    return {"haproxy-3.2-httplog": http, "haproxy-3.2-tcplog": tcp}


NGINX_FORMATS = {
    "combined": None,
    "whatif": """log_format whatif '$remote_addr - $remote_user [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent" ms=$msec rt=$request_time rl=$request_length ua="$upstream_addr" us="$upstream_status" uct="$upstream_connect_time" uht="$upstream_header_time" urt="$upstream_response_time"';""",
    "ingress": """log_format ingress '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $request_id';""",
    "json": """log_format json escape=json '{"time_iso8601":"$time_iso8601","msec":"$msec","remote_addr":"$remote_addr","request_method":"$request_method","request_uri":"$request_uri","status":"$status","bytes_sent":"$bytes_sent","request_length":"$request_length","request_time":"$request_time","upstream_addr":"$upstream_addr","upstream_status":"$upstream_status","upstream_connect_time":"$upstream_connect_time","upstream_header_time":"$upstream_header_time","upstream_response_time":"$upstream_response_time","http_user_agent":"$http_user_agent"}';""",
}


def nginx(folder):
    binary = program(f"{CACHE}/current/nginx", "/usr/sbin/nginx")
    port = free_port()
    formats = "\n".join(text for text in NGINX_FORMATS.values() if text)
    logs = "\n".join(f"access_log {folder}/{name}.log {name};" for name in NGINX_FORMATS)
    temporary = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = write(folder, "nginx.conf", f"""
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    {temporary}
    {formats}
    {logs}
    upstream shop {{ server {HOST}:{FAST}; server {HOST}:{SLOW}; server {HOST}:{REFUSING} max_fails=0; }}
    upstream refusing {{ server {HOST}:{REFUSING}; server {HOST}:{free_port()}; }}
    upstream spare {{ server {HOST}:{FAST}; }}
    server {{
        listen {HOST}:{port};
        set $proxy_upstream_name shop-80;
        set $proxy_alternative_upstream_name "";
        location / {{ proxy_pass http://shop; }}
        location /refusing {{ proxy_pass http://refusing; }}
        location /breaking {{ proxy_pass http://{HOST}:{BROKEN}; error_page 502 = @spare; }}
        location @spare {{ proxy_pass http://spare; }}
    }}
}}
""")
    serve(folder, [binary, "-p", folder, "-c", path], lambda: clients(port))
    return {f"nginx-{name}": open(f"{folder}/{name}.log", "rb").read().splitlines() for name in NGINX_FORMATS}


def envoy(folder):
    binary = program(f"{CACHE}/envoy/_bin/envoy", "envoy")
    port, tcp, own = free_port(), free_port(), "type.googleapis.com/envoy.extensions"

    def log(name, form=None):
        config = {"@type": f"{own}.access_loggers.file.v3.FileAccessLog", "path": f"{folder}/{name}.log"}
        if form:
            config["log_format"] = form
        return {"name": f"log-{name}", "typed_config": config}

    istio = '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n'
    keys = {
        "start_time": "%START_TIME%", "duration": "%DURATION%", "response_duration": "%RESPONSE_DURATION%",
        "response_code": "%RESPONSE_CODE%", "response_flags": "%RESPONSE_FLAGS%", "bytes_received": "%BYTES_RECEIVED%",
        "bytes_sent": "%BYTES_SENT%", "method": "%REQ(:METHOD)%", "path": "%REQ(:PATH)%",
        "upstream_cluster": "%UPSTREAM_CLUSTER%", "upstream_host": "%UPSTREAM_HOST%",
        "upstream_start_us": "%COMMON_DURATION(DS_RX_BEG:US_TX_BEG:us)%",
        "upstream_ttfb_us": "%COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)%",
        "upstream_duration_us": "%COMMON_DURATION(US_TX_BEG:US_RX_END:us)%",
        "upstream_request_attempt_count": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%", "route_name": "%ROUTE_NAME%",
        "downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%",
    }

    def cluster(name, *ports):
        address = lambda port: {"endpoint": {"address": {"socket_address": {"address": HOST, "port_value": port}}}}
        return {"name": name, "type": "STATIC", "connect_timeout": "0.2s",
                "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [address(port) for port in ports]}]}}

    def listener(name, port, filter_name, config):
        return {"name": name, "address": {"socket_address": {"address": HOST, "port_value": port}},
                "filter_chains": [{"filters": [{"name": filter_name, "typed_config": config}]}]}

    retry = {"retry_on": "connect-failure,reset", "num_retries": 2}
    route = lambda path, name: {"name": name, "match": {"prefix": path}, "route": {"cluster": name, "retry_policy": retry}}
    manager = {
        "@type": f"{own}.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "web",
        "access_log": [log("default"), log("istio", {"text_format_source": {"inline_string": istio}}), log("json", {"json_format": keys})],
        "http_filters": [{"name": "router", "typed_config": {"@type": f"{own}.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            route("/refusing", "refusing"), route("/breaking", "breaking"), route("/", "shop")]}]},
    }
    proxy = {"@type": f"{own}.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "tcp", "cluster": "spare", "access_log": [log("tcp")]}
    path = write(folder, "envoy.json", json.dumps({"static_resources": {
        "listeners": [listener("web", port, "manager", manager), listener("tcp", tcp, "proxy", proxy)],
        "clusters": [cluster("shop", FAST, SLOW, REFUSING), cluster("refusing", REFUSING), cluster("breaking", BROKEN), cluster("spare", FAST)],
    }}))
    arguments = [binary, "-c", path, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"]
    serve(folder, arguments, lambda: (clients(port), sessions(tcp)), pause=3)
    names = ("default", "istio", "json", "tcp")
    return {f"envoy-{name}": open(f"{folder}/{name}.log", "rb").read().splitlines() for name in names}


def caddy(folder):
    port = free_port()
    path = write(folder, "Caddyfile", f"""
{{
    admin off
    auto_https off
}}
http://:{port} {{
    bind {HOST}
    log {{
        output file {folder}/access.log
    }}
    handle /refusing {{
        reverse_proxy {HOST}:{REFUSING}
    }}
    handle /breaking {{
        reverse_proxy {HOST}:{BROKEN}
    }}
    handle {{
        reverse_proxy {HOST}:{FAST} {HOST}:{SLOW} {HOST}:{REFUSING} {{
            lb_policy round_robin
            lb_try_duration 1s
        }}
    }}
}}
""")
    serve(folder, ["caddy", "run", "--config", path, "--adapter", "caddyfile"], lambda: clients(port), pause=2)
    return {"caddy": open(f"{folder}/access.log", "rb").read().splitlines()}


def evenkeel(folder):
    binary, out = os.environ.get("EVENKEEL", "target/debug/evenkeel"), {}
    template = '%{unix_ms} %{client} %{pool} %{endpoint} %{tries} %{attempts} %{status} %{bytes_out} %{t_queue} %{t_connect} %{t_ttfb} %{t_total} %{term} %{request.X-Tokens} \\"%{request}\\"'
    for name, form in (("json", "json"), ("httplog", "httplog"), ("combined", "combined"), ("template", template)):
        port, tcp, log = free_port(), free_port(), f"{folder}/{name}.log"
        path = write(folder, f"{name}.toml", f"""
[telemetry]
access_log = {{ path = "{log}", format = "{form}", fields = {{ request = ["X-Tokens"] }} }}
[listener.web]
bind = ["{HOST}:{port}"]
[[route]]
match = {{ path = "/refusing" }}
pool = "refusing"
[[route]]
match = {{ path = "/breaking" }}
pool = "breaking"
[[route]]
pool = "shop"
[listener.tcp]
bind = ["{HOST}:{tcp}"]
mode = "tcp"
pool = "spare"
[pool.shop]
balance = "round_robin"
endpoints = ["{HOST}:{FAST}", "{HOST}:{SLOW}", "{HOST}:{REFUSING}"]
[pool.refusing]
endpoints = ["{HOST}:{REFUSING}"]
[pool.breaking]
endpoints = ["{HOST}:{BROKEN}"]
[pool.spare]
endpoints = ["{HOST}:{FAST}"]
""")
        serve(folder, [os.path.abspath(binary), "run", "-c", path], lambda: (clients(port), sessions(tcp)), pause=2)
        out[f"evenkeel-{name}"] = open(log, "rb").read().splitlines()
    return out


PROGRAMS = {
    "haproxy-2.6": (haproxy_old, "/usr/sbin/haproxy"),
    "haproxy-3.2": (haproxy_new, f"{CACHE}/current/haproxy"),
    "nginx": (nginx, "/usr/sbin/nginx"),
    "envoy": (envoy, f"{CACHE}/envoy/_bin/envoy"),
    "caddy": (caddy, "caddy"),
    "evenkeel": (evenkeel, os.environ.get("EVENKEEL", "target/debug/evenkeel")),
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("out", help="folder that the logs are written to")
    arguments.add_argument("--only", choices=PROGRAMS, help="a single program")
    arguments = arguments.parse_args()
    for name, (run, binary) in PROGRAMS.items():
        if arguments.only not in (None, name):
            continue
        if not shutil.which(binary):
            print(f"skipped: {name}, as {binary} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            for log, lines in run(folder).items():
                with open(os.path.join(arguments.out, f"{log}.log"), "wb") as file:
                    file.writelines(line + b"\n" for line in lines)
                print(f"{log}: {len(lines)} lines")


main()
