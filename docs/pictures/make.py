#!/usr/bin/env python3
"""Writes the pictures of the documentation beside this script.

usage: make.py           writes all of them
       make.py --check   exit code 1 if one of them differs from what its source draws
"""

import pathlib
import sys

import concepts
import measured
import rooms

HERE = pathlib.Path(__file__).resolve().parent


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    pictures = {name: draw() for name, draw in {**concepts.PICTURES, **measured.PICTURES}.items()}
    pictures["rooms"] = rooms.rooms(HERE.parents[1])
    stale = []
    for name, drawing in sorted(pictures.items()):
        path = HERE / f"{name}.svg"
        if "--check" not in sys.argv:
            path.write_text(drawing.svg(), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != drawing.svg():
            stale.append(path.name)
    for name in stale:
        print(f"docs/pictures/{name} differs from what its source draws: run docs/pictures/make.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
