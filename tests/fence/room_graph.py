#!/usr/bin/env python3
"""The graph of rooms as the includes make it, in Mermaid, between two marks of README.md.

  room_graph.py [ROOT]            prints it
  room_graph.py --check [ROOT]    exit code 1 where README.md shows another one
  room_graph.py --write [ROOT]    puts it into README.md

An arrow leads from a room to one that it includes. Arrows that follow from others are left out.
"""

import pathlib
import re
import sys

BEGIN = "<!-- rooms: made by tests/fence/room_graph.py --write -->\n"
END = "<!-- /rooms -->\n"
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]rossby/(\w+)/', re.MULTILINE)
SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".inc", ".inl"}


def included_rooms(folder: pathlib.Path) -> set[str]:
    """Rooms that the sources below a folder include."""
    texts = (path.read_text() for path in folder.rglob("*") if path.suffix in SOURCES)
    return {room for text in texts for room in INCLUDE.findall(text)}


def room_edges(root: pathlib.Path) -> dict[str, set[str]]:
    """For each room the rooms that it includes."""
    folders = [path for top in ("lib", "mpi", "run") for path in (root / top / "rossby").iterdir() if path.is_dir()]
    edges = {path.name: included_rooms(path) - {path.name} for path in folders}
    edges["apps"] = included_rooms(root / "apps")
    return edges


def reach(edges: dict[str, set[str]], start: str) -> set[str]:
    """All rooms that a room includes, itself or through others."""
    seen: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        room = waiting.pop()
        if room not in seen:
            seen.add(room)
            waiting.extend(edges[room])
    return seen


def picture(edges: dict[str, set[str]]) -> str:
    lines = ["```mermaid", "graph RL"]
    for room in sorted(edges):
        if room in reach(edges, room):
            raise SystemExit(f"error: room {room} includes itself through others")
        implied = set().union(*(reach(edges, other) for other in edges[room]))
        lines += [f"  {room} --> {other}" for other in sorted(edges[room] - implied)]
    return "\n".join(lines + ["```", ""])


def main() -> int:
    arguments = sys.argv[1:]
    mode = arguments.pop(0) if arguments and arguments[0].startswith("--") else "--print"
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parents[2]
    made = picture(room_edges(root))
    readme = root / "README.md"
    text = readme.read_text()
    if mode == "--print":
        print(made, end="")
        return 0
    if BEGIN not in text or END not in text:
        raise SystemExit(f"error: {readme} lacks the lines {BEGIN.strip()} and {END.strip()}")
    before, rest = text.split(BEGIN, 1)
    shown, after = rest.split(END, 1)
    if mode == "--write":
        readme.write_text(before + BEGIN + made + END + after)
        return 0
    if mode != "--check":
        raise SystemExit(__doc__)
    if shown != made:
        print("README.md shows another graph of rooms than the includes make: tests/fence/room_graph.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
