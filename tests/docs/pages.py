"""Shared by the tests of the documentation: pages as blocks, links and anchors. Standard library only."""

import dataclasses
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*(\w*)(.*)$")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")


@dataclasses.dataclass
class Block:
    language: str   # of the fence: sh, toml, python, text
    title: str      # of title="…", or ""
    text: str
    line: int       # line number of the first line of text, from 1
    end: int        # line number of the closing fence


def markdown(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """Returns all pages of the tree outside build folders."""
    found = []
    for folder, inside, files in os.walk(root):
        inside[:] = [name for name in inside if name == ".github" or not name.startswith(("build", "."))]
        found += [pathlib.Path(folder, name) for name in files if name.endswith(".md")]
    return sorted(found)


def blocks(text: str) -> list[Block]:
    found, lines, k = [], text.split("\n"), 0
    while k < len(lines):
        opened = FENCE.match(lines[k])
        k += 1
        if not opened:
            continue
        indent, ticks, language, rest = opened.groups()
        start = k
        while k < len(lines) and lines[k].strip() != ticks:
            k += 1
        title = re.search(r'title="([^"]*)"', rest)
        body = [line[len(indent):] if line.startswith(indent) else line for line in lines[start:k]]
        found.append(Block(language, title.group(1) if title else "", "\n".join(body) + "\n", start + 1, k + 1))
        k += 1
    return found


def without_blocks(text: str) -> str:
    """Returns the page with empty lines in place of blocks and of code between backticks."""
    lines = text.split("\n")
    for block in blocks(text):
        for k in range(block.line - 2, min(block.end, len(lines))):
            lines[k] = ""
    return re.sub(r"`[^`\n]*`", "``", "\n".join(lines))


def anchors(text: str) -> set[str]:
    """Returns anchors of headings, as Python-Markdown and code hosts make them, and explicit ids."""
    found: set[str] = set()
    for block in blocks(text):
        text = text.replace(block.text, "\n" * block.text.count("\n"))
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", words)).strip("-")
        name, again = slug, 1
        while name in found:
            name, again = f"{slug}_{again}", again + 1
        found.add(name)
    found.update(re.findall(r'(?:id|name)="([^"]+)"', text))
    return found


def links(text: str) -> list[tuple[int, str]]:
    """Returns line and target of every link and picture."""
    return [(number, target) for number, line in enumerate(without_blocks(text).split("\n"), 1) for target in LINK.findall(line)]
