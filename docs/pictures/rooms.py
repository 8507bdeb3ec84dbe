"""The graph of rooms as the includes make it. A line leads from a room up to one that it includes; lines that follow from
others are left out."""

import pathlib
import re

from svg import Drawing

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]rossby/(\w+)/', re.MULTILINE)
SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".inc", ".inl"}
WORDS = {
    "base": "errors, indices, random numbers", "tensor": "views, buffers, devices", "io": "NetCDF, Zarr, keys",
    "relation": "partitions, graphs", "exchange": "ports between ranks", "kernels": "arithmetic of ops",
    "autograd": "ops and the tape", "data": "series, windows, split", "model": "models, baselines",
    "train": "the step, optimisers", "plan": "predictions", "mpi": "ports over MPI, PETSc, NCCL",
    "run": "a run as an object", "apps": "the program rossby",
}


def included_rooms(folder: pathlib.Path) -> set[str]:
    """Rooms that the sources below a folder include."""
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.suffix in SOURCES)
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


def direct_edges(edges: dict[str, set[str]]) -> dict[str, list[str]]:
    """Those that do not follow from others. Throws SystemExit if a room includes itself."""
    for room in edges:
        if room in reach(edges, room):
            raise SystemExit(f"error: room {room} includes itself through others")
    return {room: sorted(into - set().union(*(reach(edges, other) for other in into))) for room, into in edges.items()}


def height_of(edges: dict[str, list[str]], room: str) -> int:
    return 1 + max((height_of(edges, other) for other in edges[room]), default=-1)


def rooms(root: pathlib.Path) -> Drawing:
    edges = direct_edges(room_edges(root))
    levels: dict[int, list[str]] = {}
    for room in sorted(edges):
        levels.setdefault(height_of(edges, room), []).append(room)
    box, step, middle = 200, 66, 330
    place = {}
    for level, names in levels.items():
        for k, room in enumerate(names):
            place[room] = (middle + (k - (len(names) - 1) / 2) * (box + 60), 24 + level * step)
    d = Drawing(2 * middle, 24 + len(levels) * step, "Rooms of the source tree and what they include")
    for room, others in edges.items():
        for other in others:
            (x0, y0), (x1, y1) = place[room], place[other]
            d.arrow((x0, y0), (x1, y1 + 42))
    for room, (x, y) in place.items():
        kind = {"mpi": "b", "run": "c", "apps": "d"}.get(room, "a")
        d.labelled(x - box / 2, y, box, 42, room, kind, 13, WORDS.get(room, ""))
    return d
