#!/usr/bin/env python3
"""Runs the tests of the crates that a change touches, before `make check` runs all others.

    scripts/touched.py [BASE]

A change is every commit since BASE, and files that are not committed. Without BASE it begins where the branch left origin/main,
or at the last commit if there is no such branch. All test binaries are built as `make test` builds them, so that it builds
nothing again. Fails at the first crate whose tests fail. Documentation tests are left to `make test`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = "cargo test --workspace --features evenkeel-net/tokio-io --no-run --message-format json-render-diagnostics".split()


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split("\n")


def touched_crates(base):
    base = base or git("merge-base", "HEAD", "origin/main")[0] or "HEAD~1"
    files = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return {Path(file).parts[1] for file in files if file.startswith("crates/")}


def test_binaries(crates):
    """The folder of its crate and the path of each test binary, by name of the crate."""
    build = subprocess.run(BUILD, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if build.returncode:
        sys.exit(build.returncode)
    found = {}
    for line in build.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        folder = Path(message["manifest_path"]).parent
        if folder.name in crates:
            found.setdefault(folder.name, []).append((folder, message["executable"]))
    return found


def main():
    crates = touched_crates(sys.argv[1] if len(sys.argv) > 1 else None)
    threads = os.environ.get("RUST_TEST_THREADS", str((os.cpu_count() or 1) * 2))
    for name, binaries in sorted(test_binaries(crates).items() if crates else []):
        # Unit tests first: they take seconds.
        for folder, binary in sorted(binaries, key=lambda found: not Path(found[1]).name.startswith("evenkeel")):
            print(f"touched: {name}, {Path(binary).name}", flush=True)
            environment = os.environ | {"CARGO_MANIFEST_DIR": str(folder), "RUST_TEST_THREADS": threads}
            if code := subprocess.run([binary], cwd=folder, env=environment, check=False).returncode:
                sys.exit(code)


if __name__ == "__main__":
    main()
