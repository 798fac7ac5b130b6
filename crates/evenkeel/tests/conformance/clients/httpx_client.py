"""Python's httpx as a client: DOOR URL CA FILE CASES; prints a line for each case."""

import hashlib
import ssl
import sys

import httpx

door, url, ca, file, cases = sys.argv[1:]
content = open(file, "rb").read()
client = httpx.Client(
    http1=door.startswith("h1"), http2=not door.startswith("h1"),
    verify=ssl.create_default_context(cafile=ca), timeout=300, trust_env=False,
)


# Without a length. It reads nothing until all is sent, so that this is as much as fits into buffers on the way.
def pieces():
    for at in range(0, 100_000, 10_000):
        yield content[at:at + 10_000]


for case in cases.split(","):
    if case == "get":
        r = client.get(url + "/get")
        print("get", r.status_code, r.http_version.removeprefix("HTTP/"), r.text, r.headers["x-seen"])
    elif case == "post":
        r = client.post(url + "/hash", content=content)
        print("post", r.status_code, r.text)
    elif case == "small":
        back = hashlib.sha256()
        with client.stream("POST", url + "/echo", content=pieces()) as r:
            for part in r.iter_raw():
                back.update(part)
        print("small", r.status_code, back.hexdigest())
    elif case == "kept":
        answers = [client.get(url + "/get") for _ in range(20)]
        print("kept", sum(r.status_code == 200 and r.text == "hello" for r in answers))
