#!/usr/bin/env python3
"""Writes man pages and the completion for bash from what `rossby --help` and `rossby config` print.

usage: pages.py ROSSBY FOLDER    writes FOLDER/man1/*.1.gz and FOLDER/completions/rossby
"""

import gzip
import os
import pathlib
import re
import subprocess
import sys

# Open MPI looks for no network, which would take most of the time of a start.
ENVIRONMENT = {**os.environ, "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self", "COLUMNS": "80"}
SECTIONS = {"Positionals": "ARGUMENTS", "Options": "OPTIONS", "Subcommands": "COMMANDS"}


class Page:
    """What --help says of one command: description, and rows (name, rest of the name, meaning) by section."""

    def __init__(self, words: tuple[str, ...], text: str):
        self.words = words
        self.description = text.split("\n", 1)[0].removeprefix("Rossby: ")
        self.rows: dict[str, list[tuple[str, str, str]]] = {}
        section, lines = "", text.split("\n")
        for number, line in enumerate(lines):
            if line.rstrip(":") in SECTIONS and line.endswith(":"):
                section = line.rstrip(":")
            elif section and line.startswith("  ") and not line.startswith("   "):
                # A long name has its meaning on the next line.
                name, meaning = re.match(r"^  (.*?)(?:\s{2,}(.*))?$", line).groups()
                if meaning is None:
                    following = lines[number + 1] if number + 1 < len(lines) else ""
                    name, meaning = (name, following.strip()) if following.startswith(" " * 8) else name.partition(" ")[::2]
                first, _, rest = name.partition(" ")
                self.rows.setdefault(section, []).append((first, rest, meaning))

    def names(self, section: str) -> list[str]:
        return [name for row in self.rows.get(section, []) for name in row[0].split(",")]


def read(rossby: str, *words: str) -> str:
    return subprocess.run([rossby, *words], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout


def walk(rossby: str, words: tuple[str, ...] = ()) -> list[Page]:
    page = Page(words, read(rossby, *words, "--help"))
    return [page, *(sub for name in page.names("Subcommands") for sub in walk(rossby, (*words, name)))]


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_page(page: Page, version: str) -> str:
    name = "-".join(("rossby", *page.words))
    command = " ".join(("rossby", *page.words))
    lines = [f'.TH {roff(name).upper()} 1 "" "{roff(version)}" "User Commands"', ".SH NAME", f"{roff(name)} \\- {roff(page.description.rstrip('.'))}",
             ".SH SYNOPSIS", f".B {roff(command)}", "[\\fIOPTIONS\\fR]"]
    lines += [f"[\\fI{roff(argument)}\\fR]" for argument in page.names("Positionals")]
    if "Subcommands" in page.rows:
        lines.append("\\fICOMMAND\\fR")
    for section, title in SECTIONS.items():
        if section not in page.rows:
            continue
        lines.append(f".SH {title}")
        for first, rest, meaning in page.rows[section]:
            shown = f"\\fB{roff(first.replace(',', ', '))}\\fR" + (f" \\fI{roff(rest.strip())}\\fR" if rest.strip() else "")
            lines += [".TP", shown, roff(meaning)]
    if not page.words:
        lines += [".SH EXIT STATUS", ".TP", "0", "done", ".TP", "1", "an error that the user can correct: one line on standard error", ".TP", "2",
                  "a command line that cannot be read", ".TP", "75", "left after a checkpoint: the same command goes on", ".TP", "76", "a rank hung",
                  ".SH FILES", ".TP", "/usr/share/rossby/configs", "ready configurations", ".TP", "/usr/share/rossby/jobscripts",
                  "the demonstration, and scripts for Slurm and scaling studies"]
    others = [f"rossby\\-{roff('-'.join((*page.words, sub)))}" for sub in page.names("Subcommands")] or ["rossby"]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{other}\\fR(1)" for other in others)]
    return "\n".join(lines) + "\n"


def completion(pages: list[Page], keys: list[str]) -> str:
    rows = []
    for page in pages:
        words = [*page.names("Subcommands"), *page.names("Options")]
        rows.append(f"    '{' '.join(page.words)}') words='{' '.join(words)}' ;;")
    commands = sorted({page.words[-1] for page in pages if page.words})
    nested = sorted({page.words[0] for page in pages if len(page.words) > 1})
    return f"""# shellcheck shell=bash
# Completion of rossby for bash: subcommands, options, files, and keys of --set. Made by packaging/pages.py.
_rossby() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command='' k words=''
  for ((k = 1; k < COMP_CWORD; ++k)); do
    if [[ " {' '.join(commands)} " != *" ${{COMP_WORDS[k]}} "* ]]; then break; fi
    command+=${{command:+ }}${{COMP_WORDS[k]}}
    if [[ " {' '.join(nested)} " != *" $command "* ]]; then break; fi
  done
  if [[ $previous == --set ]]; then
    compopt -o nospace
    mapfile -t COMPREPLY < <(compgen -S = -W '{' '.join(keys)}' -- "$word")
    return
  fi
  case $command in
{chr(10).join(rows)}
  esac
  if [[ $word == -* || -z $command || " {' '.join(nested)} " == *" $command "* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  fi
}}
complete -o default -F _rossby rossby
"""


def write_packed(path: pathlib.Path, text: str):
    # Without a time: the same program gives the same bytes.
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    rossby, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    pages = walk(rossby)
    version = read(rossby, "--version").split("\n", 1)[0].partition(" (")[0]
    keys = re.findall(r"^  ([a-z]+\.[a-z0-9_]+)\s", read(rossby, "config"), re.MULTILINE)
    for sub in ("man1", "completions"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    for stale in (folder / "man1").glob("*.gz"):
        stale.unlink()
    for page in pages:
        write_packed(folder / "man1" / ("-".join(("rossby", *page.words)) + ".1.gz"), man_page(page, version))
    (folder / "completions/rossby").write_text(completion(pages, keys), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
