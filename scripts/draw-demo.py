#!/usr/bin/env python3
"""Draws what `evenkeel demo` measured, as the SVG of the README.

    evenkeel demo --json | scripts/draw-demo.py >docs/pictures/demo.svg
"""

import json
import math
import sys

# Milliseconds at the ends of the logarithmic axis, and its pixels.
AXIS_MS = (0.1, 1000)
LEFT, RIGHT = 120, 640
ROW = 34
TOP = 92
# An algorithm that sends one endpoint more than this share would overload a real server.
GREEDY = 0.9
PERCENTILES = (("p50_ms", "median", "#8ab4d8"), ("p90_ms", "p90", "#3d7eb5"), ("p99_ms", "p99", "#123f63"))


def x(ms):
    first, last = map(math.log10, AXIS_MS)
    at = min(max(math.log10(max(ms, AXIS_MS[0])), first), last)
    return LEFT + (RIGHT - LEFT) * (at - first) / (last - first)


def figure(ms):
    return f"{ms:.1f}" if ms < 10 else f"{ms:.0f}"


def text(at_x, at_y, words, more=""):
    return f'<text x="{at_x:.0f}" y="{at_y:.0f}" {more}>{words}</text>'


def row(trial, y):
    points = [(x(trial[key]), colour) for key, _, colour in PERCENTILES]
    yield text(LEFT - 14, y + 5, trial["name"], 'text-anchor="end" font-family="monospace"')
    yield f'<line x1="{points[0][0]:.1f}" x2="{points[-1][0]:.1f}" y1="{y}" y2="{y}" stroke="#3d7eb5" stroke-width="4"/>'
    for at, colour in points:
        yield f'<circle cx="{at:.1f}" cy="{y}" r="6" fill="{colour}"/>'
    yield text(RIGHT + 92, y + 5, figure(trial["p99_ms"]) + " ms", 'text-anchor="end" font-weight="bold"')


def picture(demo):
    trials = demo["algorithms"]
    greedy = [t for t in trials if max(t["shares"]) > GREEDY]
    fair = sorted((t for t in trials if t not in greedy), key=lambda t: t["p99_ms"])
    bottom = TOP + ROW * len(fair)
    height = bottom + (ROW * (len(greedy) + 1) if greedy else 0) + 34
    ends = (min(demo["endpoint_maxima_ms"]), max(demo["endpoint_maxima_ms"]))

    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" font-family="sans-serif" font-size="14" fill="#222">'
    # Not a comment: XML allows no "--" there.
    yield "<desc>evenkeel demo --json | scripts/draw-demo.py &gt;docs/pictures/demo.svg</desc>"
    yield f'<rect width="760" height="{height}" rx="8" fill="#fff"/>'
    yield text(20, 30, "How long clients wait, by algorithm", 'font-size="17" font-weight="bold"')
    endpoints = len(demo["endpoint_maxima_ms"])
    yield text(
        20,
        52,
        f"{endpoints} endpoints that answer within {ends[0]} to {ends[1]:,} ms, {demo['clients']} clients, "
        f"{max(t['requests'] for t in trials):,} requests for each algorithm",
        'fill="#555"',
    )
    at = LEFT
    for _, name, colour in PERCENTILES:
        yield f'<circle cx="{at + 6}" cy="72" r="6" fill="{colour}"/>' + text(at + 18, 77, name, 'fill="#555"')
        at += 90
    yield text(RIGHT + 92, 77, "p99", 'text-anchor="end" fill="#555"')
    last = bottom + ROW * (len(greedy) + 1 if greedy else 0)
    for exponent in range(-1, 4):
        ms = 10.0**exponent
        yield f'<line x1="{x(ms):.1f}" x2="{x(ms):.1f}" y1="{TOP - 4}" y2="{last}" stroke="#ddd"/>'
        yield text(x(ms), last + 18, f"{ms:g} ms", 'text-anchor="middle" fill="#555" font-size="12"')
    for index, trial in enumerate(fair):
        yield from row(trial, TOP + ROW * index + 18)
    if greedy:
        yield f'<rect x="{LEFT}" y="{bottom + 6}" width="{RIGHT - LEFT}" height="24" fill="#fff"/>'
        yield text(LEFT, bottom + 23, "sends everything to the fastest endpoint; a real one would be overloaded:", 'fill="#555"')
    for index, trial in enumerate(greedy):
        yield from row(trial, bottom + ROW * (index + 1) + 18)
    yield "</svg>"


if sys.stdin.isatty():
    sys.exit("error: no figures; run: evenkeel demo --json | scripts/draw-demo.py >docs/pictures/demo.svg")
print("\n".join(picture(json.load(sys.stdin))))
