#!/usr/bin/env python3
"""Looks at what is in the Debian package of the program, without installing it.

usage: check_package.py BUILD [DEB]    a build folder in which everything is built; without DEB the package is made
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
faults: list[str] = []


def output(*command: object, **options) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **options).stdout


def expect(good: object, message: str):
    if not good:
        faults.append(message)


def package(build: str, folder: pathlib.Path) -> pathlib.Path:
    # A second to compress it, instead of ten.
    output("cpack", "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", "-D", "CPACK_COMPONENTS_ALL=program", cwd=build)
    found = list(folder.glob("rossby_*.deb"))
    if len(found) != 1:
        raise SystemExit(f"cpack wrote {len(found)} packages of the program")
    return found[0]


def check_control(deb: pathlib.Path):
    fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", output("dpkg-deb", "-f", deb), re.MULTILINE))
    version = re.search(r"project\(rossby VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    expect(fields["Version"].startswith(version + "-"), f"the package has version {fields['Version']}, the tree {version}")
    depends = re.sub(r" \([^)]*\)", "", fields["Depends"]).split(", ")
    for name in ("openmpi-bin", "python3:any"):
        expect(name in depends, f"the package does not depend on {name}")
    for stem in ("libc6", "libopenmpi", "libpetsc-real", "libhdf5-openmpi", "libnetcdf", "libopenblas"):
        expect(any(name.startswith(stem) for name in depends), f"the package does not depend on {stem}…")
    for name in depends:
        expect(not name.endswith("-dev") and name not in ("gcc", "g++", "cmake"), f"the package depends on {name}, which users do not need")


def check_files(deb: pathlib.Path, tree: pathlib.Path, build: str):
    for line in output("dpkg-deb", "-c", deb).splitlines():
        mode, owner, *_ = line.split()
        name = line.split("./", 1)[1]
        expect(owner == "root/root", f"{name} belongs to {owner}")
        expect(mode[8] != "w", f"everybody may write {name}")
        expect(not name or name.startswith("usr/"), f"{name} lies outside of /usr")
        expect("__pycache__" not in name, f"{name} is no source")
    wanted = ["usr/bin/rossby", "usr/share/rossby/jobscripts/mpi.sh", "usr/share/bash-completion/completions/rossby"]
    wanted += [f"usr/share/doc/rossby/{name}" for name in ("copyright", "changelog.gz", "changelog.Debian.gz")]
    wanted += [f"usr/share/man/man1/{name}.1.gz" for name in ("rossby", "rossby-train", "rossby-data-synth", "rossby-report-run")]
    wanted += [f"usr/share/rossby/configs/{path.name}" for path in (ROOT / "apps/configs").glob("*.toml")]
    wanted += [f"usr/share/rossby/schemas/{path.name}" for path in (ROOT / "apps/schemas").glob("*.json")]
    wanted += [f"usr/share/rossby/report/{path.name}" for path in (ROOT / "jobscripts/report").glob("*.py")]
    wanted += [f"usr/share/rossby/jobscripts/{path.relative_to(ROOT / 'jobscripts')}" for folder in ("slurm", "machines", "scaling_driver")
               for path in (ROOT / "jobscripts" / folder).iterdir() if path.is_file() and path.suffix != ".pyc"]
    for name in wanted:
        expect((tree / name).is_file(), f"{name} is not in the package")
    for name in ("bin/rossby", "share/rossby/jobscripts/demo.sh", "share/rossby/jobscripts/scaling", "share/rossby/jobscripts/slurm/train.sbatch"):
        expect(os.access(tree / "usr" / name, os.X_OK), f"usr/{name} is not executable")
    for path in tree.rglob("*"):
        if path.is_file() and path.suffix not in (".gz",) and path.name != "rossby":
            expect(build.encode() not in path.read_bytes(), f"{path.relative_to(tree)} names the build folder")


def check_use(tree: pathlib.Path):
    """The program and scripts find each other below another prefix."""
    usr = tree / "usr"
    environment = {**os.environ, "PATH": f"{usr / 'bin'}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("ROSSBY_REPORT", None)
    missing = subprocess.run(["rossby", "report", "run", str(tree / "no_run")], capture_output=True, text=True, env=environment, check=False)
    expect(missing.returncode == 1 and "not installed" not in missing.stderr, f"rossby report does not find its scripts: {missing.stderr}")
    jobs = usr / "share/rossby/jobscripts"
    job = output(jobs / "slurm/render.sh", usr / "share/rossby/configs/demo.toml", "--run", "run", env=environment)
    expect(f"ROSSBY_ROOT={usr / 'share/rossby'} " in job, "render.sh does not name the installed scripts")
    for script in (jobs / "demo.sh", jobs / "scaling"):
        expect("usage" in output(script, "--help", env=environment), f"{script.name} --help says nothing")
    completed = output("bash", "-c", f". {usr}/share/bash-completion/completions/rossby; compopt() {{ :; }}; "
                       "COMP_WORDS=(rossby data sy); COMP_CWORD=2; _rossby; echo ${COMPREPLY[@]}; "
                       "COMP_WORDS=(rossby train --set train.epo); COMP_CWORD=3; _rossby; echo ${COMPREPLY[@]}")
    expect(completed == "synth\ntrain.epochs=\n", f"completion offers {completed.split()}")


def main() -> int:
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    build = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as work:
        deb = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else package(build, pathlib.Path(work) / "packages")
        tree = pathlib.Path(work) / "tree"
        output("dpkg-deb", "-x", deb, tree)
        check_control(deb)
        check_files(deb, tree, build)
        check_use(tree)
    print("\n".join(faults) or f"{deb.name} is in order")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
