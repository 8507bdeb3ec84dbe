#!/usr/bin/env python3
"""Writes the pages of the documentation that the program, its schemas, its configurations and measurements say themselves.

usage: make.py ROSSBY OUTPUT    OUTPUT: a copy of docs/
       make.py --list           the pages that it writes, below docs/
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ("metrics", "evaluation", "average", "plan", "candidates", "machine", "step_graph", "scaling", "study")


def printed(rossby: str, *words: str) -> str:
    return subprocess.run([rossby, *words], capture_output=True, text=True, check=True).stdout


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ").strip()


def table(columns: list[str], rows: list[list[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(cell(word) for word in line) + " |\n" for line in lines) + "\n"


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def configuration(rossby: str) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as empty:
        resolved = printed(rossby, "config", empty.name)
    allowed: dict[str, str] = {}
    name = ""
    for line in printed(rossby, "config").split("\n"):
        if found := re.match(r"^  ([a-z]+\.[a-z0-9_]+)\s", line):
            name = found.group(1)
        elif name and line.startswith(" " * 20):
            allowed[name] = line.strip()
    page = ["# Configuration\n", "A configuration is a TOML file. Every key has a default, and `--set a.b=c` sets it on the command line. An unknown "
            "key is an error that names the nearest known one.\n", "`rossby config` prints this page, and `rossby config FILE` the keys of a file "
            "with all defaults. Keys marked ↻ may change when a run goes on.\n"]
    meaning, rows, section = "", [], ""
    for line in [*resolved.split("\n"), "[end]"]:
        if line.startswith("# "):
            meaning = line[2:]
        elif found := re.match(r"^\[(\w+)\]$", line):
            if rows:
                page += [f"## {section}\n", table(["key", "default", "unit", "meaning", "allowed"], rows)]
            section, rows = found.group(1), []
        elif found := re.match(r"^(\w+) = (.*)$", line):
            key = f"{section}.{found.group(1)}"
            words, unit = re.match(r"^(.*?)(?: \[([^\]]*)\])?$", meaning).groups()
            limits = allowed.get(key, "")
            changes = "may change when a run goes on" in limits
            limits = re.sub(r";?\s*may change when a run goes on", "", limits).removeprefix("allowed: ")
            rows.append([code(key) + (" ↻" if changes else ""), code(found.group(2)), unit or "", words, limits])
    return "\n".join(page)


def command_line(rossby: str) -> str:
    page = ["# Command line\n", "`--help` works on the program and on every subcommand. Start with `mpirun` or `srun` for more than one rank.\n"]

    def add(command: list[str]):
        text = printed(rossby, *command, "--help").strip()
        page.append(f"## {' '.join(['rossby', *command])}\n\n```text\n{text}\n```\n")
        for name in re.findall(r"^  ([a-z]+)\s", text.partition("Subcommands:")[2], re.MULTILINE):
            add([*command, name])

    add([])
    return "\n".join(page)


def configurations() -> str:
    page = ["# Ready configurations\n", "They lie in `apps/configs`. Give the file with `--set data.file=FILE`. Settings were chosen by "
            "cross-validation: [how](../benchmarks/configurations.md).\n"]
    for path in sorted((ROOT / "apps/configs").glob("*.toml")):
        page.append(f"## {path.name}\n\n```toml\n{path.read_text(encoding='utf-8').strip()}\n```\n")
    return "\n".join(page)


def type_of(schema: dict) -> str:
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    kinds = schema.get("type", "")
    return " or ".join(kinds) if isinstance(kinds, list) else kinds


def properties(schema: dict, root: dict, prefix: str = "", depth: int = 0):
    """Name, type, whether it is always there, and meaning of each value of a schema."""
    if "$ref" in schema:
        target = root
        for word in schema["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
    for name, value in schema.get("properties", {}).items():
        inner = value
        if "$ref" in value:
            inner = {**root["definitions"][value["$ref"].rpartition("/")[2]], **value}
        yield [code(prefix + name), type_of(inner), "yes" if name in schema.get("required", []) else "", inner.get("description", "")]
        if depth < 4:
            yield from properties(value, root, f"{prefix}{name}.", depth + 1)
    if isinstance(schema.get("items"), dict) and depth < 4:
        yield from properties(schema["items"], root, prefix.removesuffix(".") + "[].", depth + 1)


def formats() -> str:
    page = ["# JSON files\n", "Files that the program writes for other programs. The schemas lie in `apps/schemas`; tests hold the files to them.\n"]
    for name in SCHEMAS:
        schema = json.loads((ROOT / f"apps/schemas/{name}.schema.json").read_text(encoding="utf-8"))
        page.append(f"## {name}.schema.json\n\n{schema['title']}.\n")
        rows = list(properties(schema, schema))
        page.append(table(["value", "type", "always", "meaning"], rows) if rows else "See the schema.\n")
    return "\n".join(page)


def exit_codes() -> str:
    def constant(file: str, name: str) -> str:
        found = re.search(rf"constexpr int {name} = (\d+);", (ROOT / file).read_text(encoding="utf-8"))
        if not found:
            raise SystemExit(f"error: {file} does not define {name}")
        return found.group(1)

    rows = [["0", "done"],
            ["1", "an error that you can correct: one line on stderr with what is wrong, where, and what to do; all ranks end with it. Also if what was "
             "printed could not be written"],
            ["2", "a command line that cannot be read: one line that names the nearest subcommand or option"],
            [constant("apps/command_line.hpp", "exit_resume"), "`train` or `profile` was asked to leave: its checkpoint is written; started again it goes on"],
            [constant("mpi/rossby/mpi/watchdog.hpp", "exit_hung"),
             "a rank hung: it waited for the others for longer than `parallel.watchdog_seconds`"]]
    return "\n".join(["# Exit codes\n", table(["code", "meaning"], rows),
                      "An error of one rank is every rank's error; the line then begins with that rank's number. A line with `internal error` is a bug of "
                      "Rossby: please report it with `rossby --version`.\n",
                      "Scripts test for code 75 to start a training again: [Resume a run](../howto/resume.md).\n"])


def measurements(superseded: bool) -> str:
    page = []
    for path in sorted((ROOT / "benchmarks/measured").glob("*.json"), key=lambda path: path.name, reverse=True):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("superseded", False) != superseded:
            continue
        about = [f"{name} {words}" for name, words in (("Library", data.get("library")), ("Machine:", data["machine"])) if words]
        about.append(f"Command: `{data['command']}`" if data.get("command") else "")
        page += [f"## {data['title']}, {data['date']}\n", ". ".join(filter(None, about)) + f". Data: `{path.relative_to(ROOT)}`.\n"]
        page += [note + "\n" for note in data.get("notes", [])]
        for one in data["tables"]:
            page.append((one["caption"] + "\n\n" if one.get("caption") else "") + table(one["columns"], one["rows"]))
    return "\n".join(page)


def measured() -> str:
    return ("# Measured\n\nTables of `benchmarks/measured`, newest first, with date, version of the library, machine and command. Most were measured on "
            "virtual machines with two cores, whose neighbours come and go: read ratios before seconds. **No figure of a GPU has been measured yet.** "
            "[Measured before](measured_before.md) has what later figures have overtaken.\n\n" + measurements(False))


def measured_before() -> str:
    return ("# Measured before\n\nFigures of `benchmarks/measured` that later ones have overtaken ([Measured](measured.md)), and what was tried on the way. "
            "The words of these captions are those of the time.\n\n" + measurements(True))


def skill() -> str:
    return (ROOT / "benchmarks/skill/README.md").read_text(encoding="utf-8")


def profiling() -> str:
    return (ROOT / "benchmarks/profiling/README.md").read_text(encoding="utf-8")


PAGES = {"reference/configuration.md": configuration, "reference/command_line.md": command_line,
         "reference/configurations.md": lambda _: configurations(), "reference/formats.md": lambda _: formats(),
         "reference/exit_codes.md": lambda _: exit_codes(), "benchmarks/measured.md": lambda _: measured(), "benchmarks/measured_before.md": lambda _: measured_before(),
         "benchmarks/skill.md": lambda _: skill(), "benchmarks/profiling.md": lambda _: profiling()}


def main() -> int:
    if sys.argv[1:] == ["--list"]:
        print("\n".join(PAGES))
        return 0
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    for name, write in PAGES.items():
        path = pathlib.Path(sys.argv[2]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(write(sys.argv[1]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
