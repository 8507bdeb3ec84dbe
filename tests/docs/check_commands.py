#!/usr/bin/env python3
"""Checks that commands and settings on the pages exist in the program.

usage: check_commands.py ROSSBY [PAGE...]      default: all pages of the tree

In blocks of sh, options of rossby must be in --help, keys of --set in `rossby config`, and named scripts must
exist. `rossby config` reads blocks of toml with sections of a configuration. Blocks of python are compiled.
Nothing is trained: run_pages.py runs the pages that show a procedure step by step. not_run.toml lists all
other pages with the reason.
"""

import functools
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib

import pages

PLACEHOLDER = re.compile(r"^\[|…|\.\.\.$")
rossby = ""


def printed(*words: str) -> str:
    return subprocess.run([rossby, *words], capture_output=True, text=True, check=True).stdout


@functools.lru_cache
def options_of(*command: str) -> set[str]:
    return set(re.findall(r"(?:^\s+|,)(--?[\w-]+)", printed(*command, "--help"), re.MULTILINE))


@functools.lru_cache
def subcommands_of(*command: str) -> set[str]:
    text = printed(*command, "--help")
    return set(re.findall(r"^  ([a-z]+)\s", text.partition("Subcommands:")[2], re.MULTILINE))


@functools.lru_cache
def keys() -> set[str]:
    return set(re.findall(r"^  ([a-z]+\.[a-z0-9_]+)\s", printed("config"), re.MULTILINE))


def lines_of(text: str):
    """Returns number within the block, and words, of each command of a shell block."""
    joined, start = "", 0
    for number, line in enumerate(text.split("\n")):
        if not joined:
            start = number
        joined += line.strip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        lexer = shlex.shlex(joined, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        try:
            words: list[str] = []
            for word in [*lexer, ";"]:
                if word and set(word) <= set("|&;"):
                    if words:
                        yield start, words
                    words = []
                else:
                    words.append(word)
        except ValueError as error:
            yield start, ["unreadable", str(error)]
        joined = ""


def faults_of_rossby(words: list[str]):
    command: tuple[str, ...] = ()
    while words and words[0] in subcommands_of(*command):
        command += (words.pop(0),)
    if not command and not any(word.startswith("-") for word in words):
        yield f"rossby has no subcommand {words[0] if words else '(none)'}"
        return
    known = options_of(*command)
    for k, word in enumerate(words):
        if PLACEHOLDER.search(word):
            continue
        if word.startswith("-") and not re.match(r"^-\d", word) and word.partition("=")[0] not in known:
            yield f"rossby {' '.join(command)} has no option {word}"
        if word == "--set" and k + 1 < len(words):
            name, equals, _ = words[k + 1].partition("=")
            if equals and name not in keys():
                yield f"there is no key {name}"


def faults_of_shell(text: str):
    for number, words in lines_of(text):
        if words[0] == "unreadable":
            yield number, words[1]
        for k, word in enumerate(words):
            if word.startswith(("jobscripts/", "benchmarks/", "tests/", "apps/configs/")) and not re.search(r"[*{]|[A-Z]{3}", word):
                if not (pages.ROOT / word).exists():
                    yield number, f"there is no {word}"
            if word.rpartition("/")[2] == "rossby" and not word.startswith("-"):
                # --rossby NAME of other scripts, and rossby as an argument of a tool, are not commands.
                if k == 0 or words[0] in ("mpirun", "srun") or "=" in words[0]:
                    for fault in faults_of_rossby(words[k + 1:]):
                        yield number, fault
                    break


def faults_of_toml(text: str):
    if not re.search(r"^\[(data|split|relation|model|window|optimiser|schedule|train|validation|evaluate|parallel|checkpoint|log)\]",
                     text, re.MULTILINE) or re.search(r"^config = ", text, re.MULTILINE):
        return
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        result = subprocess.run([rossby, "config", file.name], capture_output=True, text=True)
    if result.returncode != 0:
        yield 0, result.stderr.strip().replace(file.name, "")


def faults_of_python(text: str):
    try:
        compile(text, "block", "exec")
    except SyntaxError as error:
        yield (error.lineno or 1) - 1, error.msg


def faults_of_lists():
    """Returns pages whose commands are neither run nor listed, and unneeded entries of not_run.toml."""
    here = pathlib.Path(__file__).resolve().parent
    reasons = tomllib.loads((here / "not_run.toml").read_text(encoding="utf-8"))
    run = {f"docs/{name}" for name in re.findall(r"\$\{PAGES\}/(\S+\.md)", (here / "CMakeLists.txt").read_text(encoding="utf-8"))}
    for path in pages.markdown():
        name = str(path.relative_to(pages.ROOT))
        languages = {block.language for block in pages.blocks(path.read_text(encoding="utf-8"))} & {"sh", "bash"}
        if name == "CHANGELOG.md" or not languages - ({"sh"} if name in run else set()):
            if name in reasons:
                yield f"tests/docs/not_run.toml: {name} has no commands that are not run"
        elif not reasons.get(name):
            yield f"{name}: its commands are not run. Name the page in tests/docs/CMakeLists.txt, or give the reason in tests/docs/not_run.toml"
        reasons.pop(name, None)
    yield from (f"tests/docs/not_run.toml: there is no page {name}" for name in reasons)


def main() -> int:
    global rossby
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) == 2 else 2
    rossby = sys.argv[1]
    chosen = [pathlib.Path(name).resolve() for name in sys.argv[2:]] or pages.markdown()
    faults = count = 0
    for path in chosen:
        if path.name == "CHANGELOG.md":
            continue  # records the past
        for block in pages.blocks(path.read_text(encoding="utf-8")):
            check = {"sh": faults_of_shell, "bash": faults_of_shell, "toml": faults_of_toml, "python": faults_of_python}.get(block.language)
            if not check:
                continue
            count += 1
            for number, fault in check(block.text):
                faults += 1
                print(f"{path.relative_to(pages.ROOT)}:{block.line + number}: {fault}")
    for fault in faults_of_lists() if len(sys.argv) == 2 else ():
        faults += 1
        print(fault)
    print(f"{count} blocks, {faults} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
