"""Python's http.server: the file that it would serve for a path."""

import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name = self.translate_path(self.path).removeprefix(self.directory)
        body = b"protected" if name == "/admin" or name.startswith("/admin/") else b"open"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

    def __init__(self, *args):
        super().__init__(*args, directory="/srv")


host, port = sys.argv[1].split(":")
ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
