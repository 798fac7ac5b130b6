#!/usr/bin/env python3
"""Builds the site of the docs, target/site, with mdBook, and checks it. `make site` calls this.

The pages are those of the repository: they are put together in target/site-pages, with links to other files of the repository turned
into links to where it is published. Full pages of the lab's experiments are added if `make lab-report` has written them.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES, SITE, LAB = ROOT / "target/site-pages", ROOT / "target/site", ROOT / "target/lab-report"
REPOSITORY = "https://github.com/evenkeel/evenkeel"
PICTURES = (".png", ".svg")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages():
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted(path for path in ROOT.glob("docs/**/*.md") if path.name != "SUMMARY.md")


def outside_code(text, change):
    """Applies `change` to what is neither a block nor a span of code."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if at % 2 else change(part) for at, part in enumerate(parts))


def moved(page, target):
    """Returns a link of a page as the site has it."""
    path, mark, anchor = target.partition("#")
    if "://" in target or not path:
        return target
    file = Path(os.path.normpath(page.parent / path))
    inside = os.path.relpath(file, ROOT)
    if file.suffix == ".md":
        # mdBook makes index.html of each README.md.
        return (path[: -len("README.md")] + "index.html" if file.name == "README.md" else path) + mark + anchor
    if file.suffix in PICTURES:
        return target
    return f"{REPOSITORY}/{'tree' if file.is_dir() else 'blob'}/main/{inside}"


def copy(page):
    text = outside_code(page.read_text(), lambda part: LINK.sub(lambda found: f"]({moved(page, found[1])})", part))
    if page.parent == ROOT / "docs/lab" and page.name != "README.md":
        text += lab(page.stem)
    to = PAGES / page.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text)


def lab(name):
    """Returns the end of an experiment's page: its full page, or how to make it."""
    full = LAB / f"{name}.html"
    if not full.exists():
        return f"\n`make lab-report LAB={name}` writes the full page, with every plot, figure and run, to `target/lab-report/{name}.html`.\n"
    to = PAGES / "docs/lab/pages"
    to.mkdir(parents=True, exist_ok=True)
    shutil.copy(full, to)
    return f"\n## Full page\n\n[Every plot, figure and run](pages/{name}.html) of this experiment.\n"


def summary():
    """Returns the list of pages. Pages that are generated for the tables of the configuration are put below its own."""
    text = (ROOT / "docs/SUMMARY.md").read_text()
    own = "- [Configuration](reference/config.md)\n"
    tables = sorted((ROOT / "docs/reference/config").glob("*.md"))
    titles = [page.read_text().partition("\n")[0].removeprefix("# ").replace("`", "").replace("[", "\\[").replace("]", "\\]") for page in tables]
    below = "".join(f"  - [{title}](reference/config/{page.name})\n" for page, title in zip(tables, titles))
    assert own in text, "docs/SUMMARY.md has the page of the configuration"
    text = text.replace(own, own + below)
    return LINK.sub(lambda found: f"]({os.path.normpath('docs/' + found[1])})", text)


def build():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    mdbook = shutil.which("mdbook", path=f"{cache}/evenkeel/site/bin:{os.environ['PATH']}")
    if not mdbook:
        sys.exit("error: no mdbook; run scripts/setup.sh site")
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    for page in pages():
        copy(page)
    (PAGES / "SUMMARY.md").write_text(summary())
    for folder in ("docs/pictures", "docs/lab"):
        (PAGES / folder).mkdir(parents=True, exist_ok=True)
        for picture in (path for path in (ROOT / folder).iterdir() if path.suffix in PICTURES):
            shutil.copy(picture, PAGES / folder)
    book = (ROOT / "docs/book.toml").read_text().replace("[book]", '[book]\nsrc = "."', 1)
    (PAGES / "book.toml").write_text(book)
    shutil.copy(ROOT / "docs/site.css", PAGES)
    subprocess.run([mdbook, "build", PAGES, "--dest-dir", SITE], check=True)
    for left in ("book.toml", "site.css"):
        (SITE / left).unlink(missing_ok=True)


class Seen(html.parser.HTMLParser):
    """Ids, links and fetched files of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.update(values[key] for key in ("id", "name") if values.get(key))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        fetches = {"link": "href", "script": "src", "img": "src", "iframe": "src", "object": "data"}
        if tag in fetches and values.get(fetches[tag]):
            self.fetched.append(values[fetches[tag]])


def check():
    """Fails if a link leads nowhere, or a page fetches something from elsewhere."""
    seen = {page: Seen(page.read_text()) for page in SITE.glob("**/*.html")}
    wrong = []
    for page, of in seen.items():
        # 404.html and print.html have the links of other places.
        if page.name in ("404.html", "print.html", "toc.html"):
            continue
        name = page.relative_to(SITE)
        wrong += [f"{name}: fetches {url}" for url in of.fetched if "//" in url]
        for link in of.links + [url for url in of.fetched if "//" not in url]:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            file = Path(os.path.normpath(page.parent / urllib.parse.unquote(parts.path))) if parts.path else page
            if file.is_dir():
                file = file / "index.html"
            anchor = urllib.parse.unquote(parts.fragment)
            if not file.exists() or (anchor and file in seen and anchor not in seen[file].ids):
                wrong.append(f"{name}: {link}")
    if wrong:
        sys.exit("error: links that lead nowhere, or files from elsewhere:\n" + "\n".join(sorted(set(wrong))))
    print(f"site: {len(seen)} pages in {SITE.relative_to(ROOT)}, every link leads somewhere; open {SITE.relative_to(ROOT)}/index.html")


build()
check()
