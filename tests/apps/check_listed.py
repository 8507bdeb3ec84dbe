"""Checks that an entry of CMakeLists.txt runs every test of this folder. Usage: check_listed.py"""

import ast
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent


def listed():
    """Returns the tests to run in each file: class or Class.test names, empty for all."""
    runs = {}
    for words in re.findall(r"^rossby_(?:timed_)?program_test\(([^)]*)\)", (HERE / "CMakeLists.txt").read_text(encoding="utf-8"), re.M):
        _, file, *names = words.split()
        runs.setdefault(file, []).append(names)
    return runs


def defined(file):
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name.startswith("test_"):
                    yield node.name, member.name


def main():
    runs = listed()
    faults, count = [], 0
    for file in sorted(HERE.glob("*.py")):
        entries = runs.get(file.name, [])
        for of, test in defined(file):
            count += 1
            if not any(not names or of in names or f"{of}.{test}" in names for names in entries):
                faults.append(f"{file.name}: {of}.{test} is run by no entry of CMakeLists.txt")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{count} tests, {len(faults)} of them not run")
    return 1 if faults or count == 0 else 0


sys.exit(main())
