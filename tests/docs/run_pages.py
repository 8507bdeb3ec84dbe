#!/usr/bin/env python3
"""Runs the commands of pages in order and compares their output with the output on the page.

usage: run_pages.py [--write] ROSSBY MPIEXEC PAGE...

A page takes part if it has one of these lines:

    <!-- test: run -->
    <!-- test: run with levels -->     with the series, the graph and a short run of the sensor tutorial
    <!-- test: run with data FILE -->  with a file of ROSSBY_DATA; the page is skipped without it

bash runs blocks of sh in an empty folder. A block with a title is first written to a file of that name. A
block of text after commands is their expected output. Each of its lines must be printed, in this order, with
any numbers; "…" stands for any lines, or any words of a line. --write inserts the numbers of this run. A
block that needs matplotlib is skipped if it is missing. Exit code 77: Python has no xarray, so nothing was
run.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pages

MARK = re.compile(r"^<!-- test: run( with levels| with data (\S+))? -->$", re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?:[kMG]\b)?")


def shape(line: str) -> str:
    """Returns the line with # for numbers and one blank between words."""
    return " ".join(NUMBER.sub("#", line.replace("*", " ")).split())


def compare(shown: str, output: str):
    """Returns the lines of the page as they were printed, and the lines that were not found."""
    printed = output.split("\n")
    found, missing, k = [], [], 0
    for line in shown.rstrip("\n").split("\n"):
        if line.strip() in ("…", ""):
            found.append(line)
            continue
        pattern = re.compile(".*".join(re.escape(shape(part)) for part in line.split("…")))
        here = next((j for j in range(k, len(printed)) if pattern.fullmatch(shape(printed[j]))), None)
        if here is None:
            missing.append(line)
            found.append(line)
        else:
            found.append(line if "…" in line else printed[here].rstrip())
            k = here + 1
    return found, missing


class Runner:
    def __init__(self, rossby: str, mpiexec: str):
        self.environment = dict(os.environ, ROSSBY=str(pages.ROOT), MPLBACKEND="Agg", PYTHONDONTWRITEBYTECODE="1")
        self.bin = tempfile.mkdtemp(prefix="rossby_docs_bin_")
        os.symlink(os.path.abspath(rossby), os.path.join(self.bin, "rossby"))
        os.symlink(sys.executable, os.path.join(self.bin, "python3"))
        path = [self.bin, os.path.dirname(os.path.abspath(mpiexec)), self.environment.get("PATH", "")]
        self.environment["PATH"] = os.pathsep.join(path)
        self.levels = None

    def close(self):
        shutil.rmtree(self.bin, ignore_errors=True)
        if self.levels:
            shutil.rmtree(self.levels, ignore_errors=True)

    def shell(self, text: str, folder: str):
        return subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280)

    def prepared(self) -> str:
        """Returns a folder with the results of the sensor tutorial, copied for each page."""
        if not self.levels:
            self.levels = tempfile.mkdtemp(prefix="rossby_docs_levels_")
            tutorial = pages.ROOT / "docs/tutorials/sensors.md"
            for block in pages.blocks(tutorial.read_text(encoding="utf-8")):
                if block.title:
                    pathlib.Path(self.levels, block.title).write_text(block.text, encoding="utf-8")
            result = self.shell("python3 $ROSSBY/docs/tutorials/make_levels.py && python3 csv_to_netcdf.py && rossby data graph levels.nc "
                                "--from distances --table distances.csv --ids gauge --sigma 10 --symmetric -o graph.nc && "
                                "rossby train levels.nc --run net --set train.epochs=2", self.levels)
            if result.returncode != 0:
                raise SystemExit(f"preparing the levels failed:\n{result.stdout}")
        return self.levels

    def page(self, path: pathlib.Path, write: bool) -> list[str]:
        text = path.read_text(encoding="utf-8")
        mark = MARK.search(text)
        if not mark:
            return [f"{path}: has no line <!-- test: run -->"]
        data = pathlib.Path(os.environ.get("ROSSBY_DATA", ""), mark.group(2) or "")
        if mark.group(2) and not data.is_file():
            print(f"{path}: passed over, there is no {mark.group(2)} in the folder ROSSBY_DATA")
            return []
        folder = tempfile.mkdtemp(prefix="rossby_docs_")
        if mark.group(2):
            os.symlink(data.resolve(), os.path.join(folder, mark.group(2)))
        elif mark.group(1):
            shutil.copytree(self.prepared(), folder, dirs_exist_ok=True)
        try:
            faults, lines = self.blocks(path, text, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if write and not faults:
            path.write_text("\n".join(lines), encoding="utf-8")
        return faults

    def blocks(self, path: pathlib.Path, text: str, folder: str):
        lines, faults, output, before = text.split("\n"), [], None, None
        shown_path = path.relative_to(pages.ROOT)
        for block in pages.blocks(text):
            if block.title:
                pathlib.Path(folder, block.title).write_text(block.text, encoding="utf-8")
            if block.language == "sh" and not block.title:
                scripts = [pathlib.Path(folder, name) for name in re.findall(r"python3 (\S+\.py)", block.text)]
                drawing = any(s.exists() and "matplotlib" in s.read_text(encoding="utf-8") for s in scripts)
                if drawing and not importlib.util.find_spec("matplotlib"):
                    print(f"{shown_path}:{block.line}: passed over, there is no matplotlib")
                    output = None
                    continue
                result = self.shell(block.text, folder)
                output, before = result.stdout, block
                if result.returncode != 0:
                    faults.append(f"{shown_path}:{block.line}: exit code {result.returncode}:\n{result.stdout[-3000:]}")
                    break
            elif block.language == "text" and output is not None:
                found, missing = compare(block.text, output)
                faults += [f"{shown_path}:{block.line}: was not printed: {line}" for line in missing]
                if missing:
                    faults.append(f"printed by the block at line {before.line}:\n{output[-3000:]}")
                lines[block.line - 1:block.end - 1] = found
                output = None
        return faults, lines


def main() -> int:
    arguments = sys.argv[1:]
    write = arguments[:1] == ["--write"]
    if write:
        arguments.pop(0)
    if len(arguments) < 3 or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 2
    if not importlib.util.find_spec("xarray"):
        print("skipped: this Python has no xarray")
        return 77
    runner = Runner(arguments[0], arguments[1])
    faults = []
    try:
        for name in arguments[2:]:
            found = runner.page(pathlib.Path(name).resolve(), write)
            print(f"{name}: {'ran' if not found else 'failed'}")
            faults += found
    finally:
        runner.close()
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
