"""Shared by the tests of the program. Uses only Python's standard library.

Start a test file with  test_x.py ROSSBY MPIEXEC [unittest arguments]; it ends with support.main(). Exit code
77 means that every test was skipped.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

rossby = ""
mpiexec = ""
# Preset nightly sets it. Long tests cover rare cases, or cases for which a daily test covers a similar one.
long_tests = os.environ.get("ROSSBY_LONG_TESTS") == "1"
long_test = unittest.skipUnless(long_tests, "a long test: ROSSBY_LONG_TESTS=1, or ctest --preset nightly, runs it")
BASELINES = ["model", "persistence", "climatology", "ar1", "lim", "ridge_var", "cycle", "direct_ar", "direct_ridge"]
# A single forecast over the whole test part has no regression for each horizon.
ROLLOUT_BASELINES = BASELINES[:6]

# Each rank writes its exit code to a file. The command follows the first word.
RANK_WRAPPER = """
"$@"
code=$?
echo $code > "$ROSSBY_TEST_CODES/${OMPI_COMM_WORLD_RANK:-0}"
exit $code
"""


# The program in a job that ends 3 s after the program starts, however long mpiexec takes.
ENDS_SOON = """#!/bin/sh
SLURM_JOB_END_TIME=$(($(date +%s) + 3))
export SLURM_JOB_END_TIME
exec '{rossby}' "$@"
"""


class Result:
    """The result of a command under mpiexec."""

    def __init__(self, code, out, err, codes, seconds):
        self.code = code        # of mpiexec
        self.out = out
        self.err = err
        self.codes = codes      # of each rank, in order
        self.seconds = seconds

    @property
    def lines(self):
        """Returns stderr without mpiexec's own lines."""
        kept, banner = [], False
        for line in self.err.splitlines():
            if re.match(r"^-{20,}\s*$", line):
                banner = not banner
            elif not banner and line.strip() and not re.match(r"^\[[^]]*:\d+\]", line):
                kept.append(line)
        return kept


class ProgramTest(unittest.TestCase):
    """Tests of one class share a folder, self.folder, which is the working directory of every command."""

    maxDiff = None
    groups = False  # whether the class's configuration has groups or stages of ranks

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="rossby_test_")
        cls.startup = None

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, text):
        with open(cls.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    @classmethod
    def command(cls, ranks, arguments, folders=None):
        """Returns mpiexec's command line; folders[r] is the working directory of rank r.

        By default mpiexec ends the other ranks when one fails. Here each rank must end by itself.
        """
        wrapped = ["sh", "-c", RANK_WRAPPER, "sh", rossby, *arguments]
        start = [mpiexec, "--mca", "orte_abort_on_non_zero_status", "0"]
        if folders is None:
            return start + ["-n", str(ranks), *wrapped]
        for rank, folder in enumerate(folders):
            start += ([":"] if rank else []) + ["-n", "1", "-wdir", folder, *wrapped]
        return start

    @classmethod
    @contextlib.contextmanager
    def in_a_job_that_ends(cls):
        """Starts programs with SLURM_JOB_END_TIME 3 s ahead, less than a training reserves."""
        global rossby
        before = rossby
        script = cls.write("ends_soon.sh", ENDS_SOON.format(rossby=before))
        os.chmod(cls.path(script), 0o755)
        rossby = cls.path(script)
        try:
            yield
        finally:
            rossby = before

    @classmethod
    def start(cls, ranks, arguments, folders=None, codes=None, alone=False):
        """Starts the program. `alone`: one rank without mpiexec and its daemon, in half of the time."""
        more = {"ROSSBY_TEST_CODES": codes or cls.folder}
        if alone:  # a folder of its own: all such processes have the same name
            more.update(OMPI_MCA_ess_singleton_isolated="1", OMPI_MCA_orte_tmpdir_base=codes)
        return subprocess.Popen(
            [rossby, *arguments] if alone else cls.command(ranks, arguments, folders), cwd=cls.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=dict(os.environ, **more))

    @classmethod
    def run_ranks(cls, ranks, *arguments, folders=None, limit=240):
        """Runs the program on `ranks` ranks, one of them without mpiexec, and waits for its end. A hang is an AssertionError."""
        alone = ranks == 1 and folders is None
        with tempfile.TemporaryDirectory() as codes:
            begin = time.monotonic()
            process = cls.start(ranks, arguments, folders, codes, alone)
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                kill_group(process)
                out, err = process.communicate()
                raise AssertionError(f"{arguments} on {ranks} ranks still runs after {limit} s\n{out}\n{err}") from None
            seconds = time.monotonic() - begin
            if alone:
                code = process.returncode if process.returncode >= 0 else 128 - process.returncode  # a signal, as shells count it
                return Result(code, out, err, [code], seconds)
            found = []
            for rank in range(ranks if folders is None else len(folders)):
                try:
                    with open(os.path.join(codes, str(rank)), encoding="utf-8") as file:
                        found.append(int(file.read()))
                except (OSError, ValueError):
                    found.append(None)
        return Result(process.returncode, out, err, found, seconds)

    def succeed(self, ranks, *arguments):
        result = self.run_ranks(ranks, *arguments)
        self.assertEqual(result.code, 0, f"{arguments} on {ranks} ranks\n{result.out}\n{result.err}")
        self.assertEqual(result.codes, [0] * ranks, f"{arguments} on {ranks} ranks\n{result.out}\n{result.err}")
        self.assertEqual(result.lines, [], "a run that goes well says nothing on stderr")
        return result

    def time_limit(self, ranks):
        """10 s, and more if starting ranks alone takes long (sanitizers, a busy machine)."""
        cls = type(self)
        if cls.startup is None:
            cls.startup = cls.run_ranks(ranks, "--version").seconds
        return max(10.0, 20 * cls.startup)

    def refuse(self, ranks, arguments, *patterns, code=1, folders=None):
        """Checks that all ranks end with `code` in time, and one line on stderr matches every pattern.

        Two of three refusals on two ranks take one rank, unless the test is long or is about groups or stages.
        """
        said = repr((arguments, patterns)).replace(self.folder, "")
        if ranks == 2 and not (folders or long_tests or self.groups or "parallel." in said) and zlib.crc32(said.encode()) % 3 > 0:
            ranks = 1
        limit = self.time_limit(ranks)
        before = self.files()
        result = self.run_ranks(ranks, *arguments, folders=folders, limit=limit)
        count = ranks if folders is None else len(folders)
        shown = f"{arguments}\n{result.out}\n{result.err}"
        self.assertEqual(result.codes, [code] * count, shown)
        self.assertEqual(len(result.lines), 1, shown)
        self.assertTrue(result.lines[0].startswith("rossby: "), shown)
        for pattern in patterns:
            self.assertRegex(result.lines[0], pattern)
        self.assertNotIn("internal error", result.lines[0])
        half = [name for name in self.files() - before if re.search(r"\.(tmp|part)$", name)]
        self.assertEqual(half, [], "nothing half-written stays behind")
        return result

    @classmethod
    def files(cls):
        return {os.path.join(folder, name) for folder, _, names in os.walk(cls.folder) for name in names}

    @classmethod
    def netcdf(cls, name, cdl):
        """Makes a NetCDF file of CDL text."""
        if shutil.which("ncgen") is None:
            raise unittest.SkipTest("ncgen (netcdf-bin) is not installed")
        cls.write(name + ".cdl", cdl)
        subprocess.run(["ncgen", "-4", "-o", cls.path(name), cls.path(name + ".cdl")], check=True)
        return name


class LiveTest(ProgramTest):
    """Tests that act on running ranks."""

    def launch(self, command):
        """Starts mpiexec and its ranks, which end with the test."""
        process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.clear, process)
        return process

    def clear(self, process):
        for pid in self.ranks(process):
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGKILL)
        kill_group(process)
        process.stdout.close()
        process.stderr.close()

    @staticmethod
    def ranks(process):
        """Returns process ids of the living ranks below mpiexec, by rank."""
        found = {}
        for pid in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True,
                                  check=False).stdout.split():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    match = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
            except OSError:
                continue
            if match:
                found[int(match.group(1))] = int(pid)
        return [found[rank] for rank in sorted(found)]

    @staticmethod
    def state(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            return "Z"


def kill_group(process):
    """Ends mpiexec and its ranks, which share its session."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=5)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main():
    global rossby, mpiexec
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} ROSSBY MPIEXEC [unittest arguments]")
    rossby, mpiexec = os.path.abspath(sys.argv[1]), sys.argv[2]
    program = unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun == len(result.skipped) or result.testsRun == 0 else 0)
