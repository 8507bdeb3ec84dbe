#!/usr/bin/env python3
"""Recipes of packages name what CMake looks for, and the version of the tree; nothing is built.

usage: check_recipes.py
"""

import ast
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
faults: list[str] = []


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def same(what: str, found: set[str], wanted: set[str]):
    for name in sorted(wanted - found):
        faults.append(f"{what} lacks {name}")
    for name in sorted(found - wanted):
        faults.append(f"{what} has {name}, which packaging/dependencies.toml does not list")


def looked_for() -> set[str]:
    """Names of what CMake finds in the sources, without those of tests and benchmarks themselves."""
    names: set[str] = set()
    files = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake"), *(path for room in ("lib", "mpi", "run", "apps")
                                                                          for path in (ROOT / room).rglob("CMakeLists.txt"))]
    for path in files:
        code = re.sub(r"^\s*#.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        names |= set(re.findall(r"find_package\((\w+)", code)) | set(re.findall(r"find_path\(ROSSBY_NCCL\w* (\S+)", code))
        names |= set(re.findall(r"find_library\(\w+ (\w+)", code))
        names |= set(re.findall(r"pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET (\w+)", code))
        if "pkg_search_module(HDF5_PARALLEL" in code:
            names.add("hdf5")
        for codecs in re.findall(r"foreach\(CODEC ([^)]*)\)", code):
            names |= {codec.partition(":")[0] for codec in codecs.split()}
    return names - {"rossby"}


def spack() -> tuple[set[str], set[str]]:
    """Dependencies and versions of the Spack recipe."""
    calls = [node for node in ast.walk(ast.parse(text("packaging/spack/packages/rossby/package.py")))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args and isinstance(node.args[0], ast.Constant)]
    named = {kind: [str(call.args[0].value) for call in calls if call.func.id == kind] for kind in ("depends_on", "version")}
    return {re.match(r"[\w-]+?(?=[@+~%\s]|$)", spec).group() for spec in named["depends_on"]}, set(named["version"])


def easybuild(path: pathlib.Path) -> dict:
    return {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign)}


def check_versions(version: str, spack_versions: set[str], recipe: dict, path: pathlib.Path):
    stated = {"CITATION.cff": re.findall(r"^version: (\S+)$", text("CITATION.cff"), re.MULTILINE),
              "CHANGELOG.md": re.findall(r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", text("CHANGELOG.md"), re.MULTILINE)[:1],
              "the Spack recipe": sorted(spack_versions), "the EasyBuild recipe": [recipe["version"]]}
    for where, versions in stated.items():
        if versions != [version]:
            faults.append(f"{where} states version {', '.join(versions) or 'none'}, CMakeLists.txt {version}")
    name = f"{recipe['name']}-{recipe['version']}-{recipe['toolchain']['name']}-{recipe['toolchain']['version']}.eb"
    if path.name != name:
        faults.append(f"{path.name} has to be called {name}")


def check_containers():
    docker, apptainer = text("packaging/docker/Dockerfile"), text("packaging/apptainer/rossby.def")
    for number, line in enumerate(docker.split("\n"), 1):
        if line and not re.match(r"#|(FROM|COPY|RUN|USER|WORKDIR|ENTRYPOINT|CMD) \S", line):
            faults.append(f"packaging/docker/Dockerfile:{number}: no instruction: {line}")
    sections = re.findall(r"^%(\w+)$", apptainer, re.MULTILINE)
    if not apptainer.lstrip("# ").partition("\n")[2].startswith("Bootstrap: ") or set(sections) - {"files", "post", "runscript", "test", "labels", "help"}:
        faults.append("packaging/apptainer/rossby.def: no Bootstrap line, or an unknown section")
    install = re.findall(r"apt-get update && .*", docker)
    if len(install) != 1 or install != re.findall(r"apt-get update && .*", apptainer):
        faults.append("Dockerfile and rossby.def install other packages")
    if re.findall(r"^FROM (.*)$", docker, re.MULTILINE) != re.findall(r"^From: (.*)$", apptainer, re.MULTILINE):
        faults.append("Dockerfile and rossby.def start from other images")


def main() -> int:
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    table = tomllib.loads(text("packaging/dependencies.toml"))
    libraries, others = table["libraries"], table["others"]
    same("cmake", looked_for(), set(libraries) | set(others["cmake"]))
    found, spack_versions = spack()
    same("the Spack recipe", found, {row["spack"] for row in libraries.values()} | set(others["spack"]))
    recipes = list((ROOT / "packaging/easybuild").glob("*.eb"))
    recipe = easybuild(recipes[0])
    same("the EasyBuild recipe", {name for name, *_ in recipe["builddependencies"] + recipe["dependencies"]},
         {row["easybuild"] for row in libraries.values()} - {"toolchain"} | set(others["easybuild"]))
    debian = {row["debian"] for row in libraries.values()}
    installed = re.search(r"rossby_build_packages=\(([^)]*)\)", text("jobscripts/local/common.sh")).group(1).split()
    page = re.findall(r"`([\w+.-]+)`", text("docs/install.md"))
    developed = re.search(r"string\(JOIN \", \" CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ([^)]*)\)", text("cmake/RossbyPackage.cmake")).group(1).split()
    for name in sorted(debian):
        for where, names in (("jobscripts/local/common.sh", installed), ("docs/install.md", page),
                             ("librossby-dev", developed + ["libcli11-dev"])):  # the library needs no command line
            if name not in names:
                faults.append(f"{where} lacks {name}")
    check_versions(re.search(r"project\(rossby VERSION ([\d.]+)", text("CMakeLists.txt")).group(1), spack_versions, recipe, recipes[0])
    check_containers()
    print("\n".join(faults) or f"{len(libraries)} libraries, the same in all recipes")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
