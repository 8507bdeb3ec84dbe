#!/usr/bin/env python3
"""Checks that links of the documentation lead somewhere.

usage: check_links.py         links, pictures and anchors of all Markdown pages, and unreachable pages
       check_links.py SITE    links and anchors of HTML files below SITE, built by jobscripts/local/docs.sh

Prints a line for each fault; exit code 1 if there is one. Does not check addresses of other hosts.
"""

import html.parser
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import pages

# Links to other hosts, and to paths of the code host.
ELSEWHERE = re.compile(r"^(?:[a-z]+:|//)")
# Pages that need no link: people open them directly, or a code host shows them with their folder.
ENTRIES = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}


def generated() -> set[pathlib.Path]:
    """Returns the pages that jobscripts/local/docs.sh generates outside the tree."""
    make = pages.ROOT / "docs/reference/make.py"
    listed = subprocess.run([sys.executable, "-B", make, "--list"], check=True, capture_output=True, text=True).stdout
    return {pages.ROOT / "docs" / name for name in listed.split()}


def check_tree() -> tuple[list[str], int]:
    made = generated()
    texts = {path: path.read_text(encoding="utf-8") for path in pages.markdown()}
    known = {path: pages.anchors(text) for path, text in texts.items()}
    faults, count, led_to = [], 0, set()
    for path, text in texts.items():
        shown = path.relative_to(pages.ROOT)
        for line, link in pages.links(text):
            if ELSEWHERE.match(link):
                continue
            count += 1
            name, _, anchor = urllib.parse.unquote(link).partition("#")
            target = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
            led_to.add(target)
            if target in made:
                continue
            if not target.exists():
                faults.append(f"{shown}:{line}: {link}: there is no {os.path.relpath(target, pages.ROOT)}")
            elif anchor and target.suffix == ".md" and anchor not in known[target]:
                faults.append(f"{shown}:{line}: {link}: {target.relative_to(pages.ROOT)} has no heading #{anchor}")
            elif "docs" == shown.parts[0] and "docs" != target.relative_to(pages.ROOT).parts[0]:
                faults.append(f"{shown}:{line}: {link}: the site holds docs/ alone; name the file without a link")
    navigation = (pages.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in [*texts, *made]:
        shown = path.relative_to(pages.ROOT)
        if shown.parts[0] == "docs":
            if not re.search(rf"[ :]{re.escape(str(shown.relative_to('docs')))}\s*$", navigation, re.MULTILINE):
                faults.append(f"{shown}: mkdocs.yml does not list it under nav")
        elif shown.name not in ENTRIES and path not in led_to and shown.parts[0] != ".github":
            faults.append(f"{shown}: no page leads to it")
    for name in re.findall(r"[ :]([\w/]+\.md)\s*$", navigation, re.MULTILINE):
        if pages.ROOT / "docs" / name not in {*texts, *made}:
            faults.append(f"mkdocs.yml: nav lists {name}, which is not there")
    return faults, count


class Page(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif value and (tag, name) in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")):
                self.links.append(value)


def check_site(site: pathlib.Path) -> tuple[list[str], int]:
    parsed = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    faults, count = [], 0
    for path, page in parsed.items():
        if path.name == "404.html":
            continue  # links of this page start at the root of a host
        for link in page.links:
            if ELSEWHERE.match(link) or link in ("", "#"):
                continue
            count += 1
            name, _, anchor = urllib.parse.unquote(link).partition("#")
            target = pathlib.Path(os.path.normpath(path.parent / name.split("?")[0])) if name else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                faults.append(f"{path.relative_to(site)}: {link}: not there")
            elif anchor and target in parsed and anchor not in parsed[target].ids:
                faults.append(f"{path.relative_to(site)}: {link}: no such anchor")
    return faults, count


def main() -> int:
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(sys.argv) == 2 else 2
    faults, count = check_site(pathlib.Path(sys.argv[1])) if len(sys.argv) == 2 else check_tree()
    for fault in faults:
        print(fault)
    print(f"{count} links, {len(faults)} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
