#!/usr/bin/env python3
"""Prints the headline table of README.md and docs/benchmarks.md from reports of `evenkeel-lab`.

    scripts/headline.py [--write] proxy-cost.json h2-cost.json tls-cost.json

With `--write` the table replaces the one between the markers of both pages. `make headline` measures, and calls this.
"""

import json
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/benchmarks.md")
BEGIN, END = "<!-- headline: `make headline` writes this -->", "<!-- /headline -->"
RIVALS = ("haproxy", "nginx", "envoy")

# Case of the lab, its row here, and which of the two HAProxys it is compared with: splicing helps large bodies, and costs small ones.
ROWS = (
    ("keep-alive", "HTTP/1.1, kept connections, 1 kB", "haproxy"),
    ("keep-alive-logged", "the same with access logs", "haproxy"),
    ("client-closes", "HTTP/1.1, a connection per request, 4 kB", "haproxy"),
    ("64k", "HTTP/1.1, 64 kB", "haproxy-splice"),
    ("1m", "HTTP/1.1, 1 MB", "haproxy-splice"),
    ("h2c-16x32", "HTTP/2, 16 connections of 32 streams, 1 kB", "haproxy"),
    ("grpc-unary", "gRPC, unary calls of 100 bytes", "haproxy"),
    ("full-p256", "TLS 1.3, full handshake, P-256", "haproxy"),
    ("https-1k", "HTTPS, kept connections, 1 kB", "haproxy"),
    ("idle-memory", "an idle connection, KiB of memory", "haproxy"),
)


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def runs(case, proxy):
    return [run["figure"] for run in case["proxies"].get(proxy, {}).get("runs", [])]


def ratio(ours, theirs):
    """Median of the ratios within a round; of the medians if a round lacks one of both."""
    if len(ours) == len(theirs):
        return statistics.median(one / other for one, other in zip(ours, theirs))
    return statistics.median(ours) / statistics.median(theirs)


def row(case, words, haproxy):
    ours, theirs = runs(case, "evenkeel"), runs(case, haproxy)
    of_rivals = [runs(case, haproxy if name == "haproxy" else name) for name in RIVALS]
    cells = [digits(statistics.median(of)) if of else "" for of in [ours, *of_rivals]]
    if ours and theirs:
        by = ratio(ours, theirs)
        cells.append(f"**{by:.2f}**" if by < 1 else f"{by:.2f}")
    else:
        cells.append("")
    return f"| {words} | " + " | ".join(cells) + " |"


def version(text):
    found = re.search(r"\d+(\.\d+)+", text)
    return found.group() if found else text.strip()


def table(reports):
    cases = {case["name"]: case for report in reports for case in report["raw"]["cases"]}
    rows = [row(cases[name], words, haproxy) for name, words, haproxy in ROWS if name in cases]
    if not rows:
        sys.exit("error: none of the reports has a case of the table; it needs proxy-cost, h2-cost and tls-cost")
    versions = {name: version(text) for report in reports for name, text in report["versions"].items()}
    machine, names = reports[0]["machine"], {"haproxy": "HAProxy", "nginx": "NGINX", "envoy": "Envoy"}
    rivals = [f"{names[name]} {versions[name]}" for name in RIVALS if name in versions]
    rounds = max(len(runs(case, "evenkeel")) for case in cases.values())
    caption = (
        f"evenkeel {versions.get('evenkeel', '')} at commit {machine['commit']} (`cargo build --profile dist`), {', '.join(rivals)} "
        f"(HAProxy with `splice-response` for 64 kB and 1 MB); {machine['cores']} cores of {machine['cpu']}, Linux "
        f"{machine['kernel']}, {reports[0]['date']}, medians of {rounds} rounds."
    )
    head = [
        "| CPU time, microseconds | evenkeel | HAProxy | NGINX | Envoy | evenkeel / HAProxy, lower is better |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join(head + rows + ["", caption])


def put(page, text):
    path = ROOT / page
    before = path.read_text()
    if BEGIN not in before or END not in before:
        sys.exit(f"error: {page} has no markers for the table: {BEGIN} and {END}")
    first, rest = before.split(BEGIN, 1)
    path.write_text(f"{first}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}")
    print(f"written: {page}", file=sys.stderr)


def main():
    files = [name for name in sys.argv[1:] if name != "--write"]
    if not files:
        sys.exit(__doc__)
    text = table([json.loads(Path(name).read_text()) for name in files])
    print(text)
    if "--write" in sys.argv[1:]:
        for page in PAGES:
            put(page, text)


main()
