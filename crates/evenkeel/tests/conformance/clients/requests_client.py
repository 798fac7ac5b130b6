"""Python's requests as a client: DOOR URL CA FILE CASES; prints a line for each case."""

import hashlib
import sys

import requests

_, url, ca, file, cases = sys.argv[1:]
content = open(file, "rb").read()
session = requests.Session()
session.trust_env = False
session.verify = ca


# Without a length. It reads nothing until all is sent, so that this is as much as fits into buffers on the way.
def pieces():
    for at in range(0, 100_000, 10_000):
        yield content[at:at + 10_000]


for case in cases.split(","):
    if case == "get":
        r = session.get(url + "/get", timeout=60)
        print("get", r.status_code, {10: "1.0", 11: "1.1"}[r.raw.version], r.text, r.headers["x-seen"])
    elif case == "post":
        r = session.post(url + "/hash", data=content, timeout=300)
        print("post", r.status_code, r.text)
    elif case == "small":
        r = session.post(url + "/echo", data=pieces(), timeout=60)
        print("small", r.status_code, hashlib.sha256(r.content).hexdigest())
    elif case == "kept":
        answers = [session.get(url + "/get", timeout=60) for _ in range(20)]
        print("kept", sum(r.status_code == 200 and r.text == "hello" for r in answers))
