"""tests/gpu/run.sh where there is no GPU: test_run.py [ROSSBY MPIEXEC] [unittest arguments].

Programs of a folder stand for the GPU, CUDA's tools, CMake and what is built. ROSSBY trains on a simulated device instead,
so that the settings of the trainings are tried as well.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["test_tensor", "test_kernels_device", "test_kernels_device_relate", "test_diffusion_device", "test_data_device",
         "test_device_training"]
TRAININGS = ["train", "graphs", "self", "windows", "cusparse", "pairs", "groups", "clipped", "clipped_windows", "streamed",
             "streamed_host", "bf16", "bf16_streamed"]
rossby = mpiexec = ""

# What they are given goes to a file of their name in $FAKE.
STUB = '#!/bin/sh\necho "$*" >>"$FAKE/${0##*/}.log"\n'
GPU = 'echo "GPU 0: a fake"\n'
SANITIZER = """
case "$* " in *"--tool $FAKE_FINDS "*) echo "ERROR SUMMARY: 1 error"; exit 9 ;; esac
while :; do case $1 in --*) shift 2 ;; *) break ;; esac; done
exec "$@"
"""
CMAKE = """
case "$1 $*" in
  -S*ROSSBY_WITH_MPI=ON*) if [ -f "$FAKE/refusal" ]; then cat "$FAKE/refusal"; exit 1; fi ;;
  --build*)
    folder=$2; while [ "$1" != --target ]; do shift; done; shift
    mkdir -p "$folder/apps" "$folder/tests"
    for name in "$@"; do case $name in rossby) cp "$FAKE/rossby" "$folder/apps" ;; *) cp "$FAKE/$name" "$folder/tests" ;; esac; done ;;
esac
"""
MPIRUN = 'shift 2\nexec "$@"\n'
ROSSBY = """
if [ "$1" = plan ]; then echo "run predicted measured error"; for run in 1 2 3; do echo "$run 1 1 0.0 1"; done; echo "3 runs: mean error 1 %"; echo "1: a caveat"; fi
loss=0.5
while [ $# -gt 0 ]; do
  case "$1 $2" in "--run "*) run=$2 ;; "--device cuda") loss=${FAKE_LOSS:-0.5} ;; esac
  shift
done
if [ -n "$run" ]; then mkdir -p "$run"; echo "{\\"loss\\":$loss,\\"end\\":1}" >"$run/metrics.jsonl"; fi
"""
# A simulated device has no cuSPARSE, and takes long over windows.
SIMULATED = """#!/bin/bash
words=() more=()
for word in "$@"; do
  case $word in
    cuda) word=simulated ;;
    --set=parallel.sparse_products=cusparse) word=--set=parallel.sparse_products=own ;;
    calibrate) more=(--quick) ;;
    --set=model.name=dcrnn) more=(--set={model.units=4,window.inputs=3,window.outputs=2,window.batch=30,train.epochs=2}) ;;
  esac
  words+=("$word")
done
exec "$ROSSBY" "${words[@]}" "${more[@]}"
"""
PETSC = """-- Checking for module 'PETSc'
--   No package 'PETSc' found
CMake Error at /usr/share/cmake/Modules/FindPkgConfig.cmake:607 (message):
  A required package was not found
Call Stack (most recent call first):
  cmake/RossbyDependencies.cmake:78 (pkg_check_modules)

-- Configuring incomplete, errors occurred!
"""
CLI11 = """CMake Error at cmake/RossbyDependencies.cmake:77 (find_package):
  By not providing "FindCLI11.cmake" in CMAKE_MODULE_PATH this project has
  asked CMake to find a package configuration file provided by "CLI11", but
  CMake did not find one.

  Could not find a package configuration file provided by "CLI11" with any of
  the following names:
"""


class Run(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rossby_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in [("nvidia-smi", GPU), ("compute-sanitizer", SANITIZER), ("cmake", CMAKE)]:
            self.program(f"bin/{name}", STUB + text)
        for name, text in [("mpirun", MPIRUN), ("mpicxx", "")]:
            self.program(f"prefix/bin/{name}", STUB + text)
        for name, text in [("rossby", ROSSBY), *((name, "") for name in NAMES)]:
            self.program(f"fake/{name}", STUB + text)

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run_it(self, *arguments, **environment):
        """What run.sh says, its last line, and its exit code; the logs are in the folder log."""
        command = [str(ROOT / "tests/gpu/run.sh"), "--build", "build", "--log", "log", *arguments]
        environment = dict(os.environ, PATH=f"{self.folder}/bin:/usr/bin:/bin", FAKE=str(self.folder / "fake"), **environment)
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=590)
        self.assertEqual(done.stderr, "")
        told = (self.folder / "log/summary.txt").read_text(encoding="utf-8").splitlines()
        self.assertLessEqual(set(told), set(done.stdout.splitlines()))
        self.assertEqual(told[-1], done.stdout.splitlines()[-1])
        return told, told[-1], done.returncode

    def calls(self, name):
        file = self.folder / "fake" / (name + ".log")
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def passed(self, told):
        return [line.split()[1] for line in told if line.startswith("passed ")]

    def test_all_of_it_is_built_and_run(self):
        told, last, code = self.run_it("--mpi", "prefix", "--prefix", "/one", "--prefix", "/two", "--arch", "90")
        self.assertEqual((code, last), (0, "all passed; logs in log"), told)
        configured = [line for line in self.calls("cmake") if line.startswith("-S")]
        self.assertEqual(len(configured), 2)
        for line, words in zip(configured, (["-B build ", "-DROSSBY_WITH_MPI=OFF", "-DCMAKE_PREFIX_PATH=/one;/two"],
                                            ["-B build/with_mpi ", "-DROSSBY_WITH_MPI=ON", f"-DMPI_HOME={self.folder}/prefix",
                                             f"-DMPI_CXX_COMPILER={self.folder}/prefix/bin/mpicxx",
                                             f"-DCMAKE_PREFIX_PATH={self.folder}/prefix;/one;/two"])):
            for word in [*words, "-DROSSBY_WITH_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=90"]:
                self.assertIn(word, line)
        tools = ["memcheck", "racecheck", "initcheck"]
        passed = self.passed(told)
        for name in NAMES:
            self.assertEqual(len(self.calls(name)), 4)
            self.assertLessEqual({name, *(f"{name}.{tool}" for tool in tools)}, set(passed))
        for name in TRAININGS:
            self.assertLessEqual({f"{name}.cpu.np0", f"{name}.losses", f"{name}.memcheck"}, set(passed))
        trained = [line for line in self.calls("mpirun") if "compute-sanitizer --tool memcheck" in line]
        self.assertEqual(len(trained), len(TRAININGS))
        for line in trained:
            self.assertRegex(line, "^-n 1 compute-sanitizer .* train .* --device cuda")
            self.assertNotIn("time_groups=2", line)

    def test_every_program_of_gpus_is_run(self):
        labelled = set()
        for file in (ROOT / "tests/lib").glob("*/CMakeLists.txt"):
            for name in re.findall(r"rossby_lib_test\((\w+)[^)]*LABELS[^)]*\bgpu\b", file.read_text(encoding="utf-8")):
                labelled.add("test_" + name)
        self.assertEqual(labelled | {"test_tensor"}, set(NAMES))

    def test_what_cannot_be_built_is_said_in_a_line(self):
        for refusal, pattern in ((PETSC, r"A required package was not found \(No package 'PETSc' found\)"),
                                 (CLI11, 'By not providing .* provided by "CLI11", but CMake did not find one.'),
                                 ("CMake Error: no build tool\n", "no build tool"), ("Killed\n", "Killed")):
            (self.folder / "fake/refusal").write_text(refusal, encoding="utf-8")
            told, last, code = self.run_it("--mpi", "prefix")
            self.assertEqual((code, last), (1, "failed: mpi.configure"), told)
            self.assertRegex(told[-2], f"^FAILED  mpi.configure: .*{pattern}; --programs takes a folder with a rossby")
            self.assertEqual(len(self.passed(told)), 4 * len(NAMES))

    def test_a_prefix_without_mpi(self):
        for name in ("mpicxx", "mpirun"):
            (self.folder / "prefix/bin" / name).unlink()
            told, last, code = self.run_it("--mpi", "prefix", "--tools", "none")
            self.assertEqual((code, len(self.passed(told))), (1, len(NAMES)), told)
            self.assertRegex(told[-2], rf"/prefix/bin/{name} is missing")
        self.assertEqual(last, "failed: mpi")

    def test_programs_built_elsewhere(self):
        told, last, code = self.run_it("--mpi", "prefix", "--programs", "fake")
        self.assertEqual((code, self.calls("cmake")), (0, []), told)
        (self.folder / "fake/test_data_device").unlink()
        (self.folder / "fake/rossby").chmod(0o644)
        told, last, code = self.run_it("--mpi", "prefix", "--programs", "fake")
        self.assertEqual((code, last), (1, "failed: test_data_device rossby"), told)
        self.assertIn("FAILED  test_data_device: fake/test_data_device is missing", "\n".join(told))
        told, last, code = self.run_it("--mpi", "prefix", "--programs", "nowhere")
        self.assertEqual((code, last), (1, f"failed: {' '.join(NAMES)} rossby"), told)

    def test_failures_are_named(self):
        told, last, code = self.run_it("--mpi", "prefix", "--programs", "fake", FAKE_FINDS="racecheck")
        self.assertEqual((code, last), (1, "failed: " + " ".join(f"{name}.racecheck" for name in NAMES)), told)
        told, last, code = self.run_it("--mpi", "prefix", "--programs", "fake", FAKE_LOSS="0.50001")
        self.assertEqual((code, last), (1, "failed: " + " ".join(f"{name}.losses" for name in TRAININGS)), told)
        self.program("fake/rossby", STUB + "exit 1\n")
        told, last, code = self.run_it("--mpi", "prefix", "--programs", "fake", "--tools", "none")
        self.assertEqual((code, len(self.passed(told))), (1, len(NAMES)), told)
        self.assertIn("plan.memory", last)

    def test_memory_that_is_planned_wrongly(self):
        for row in ("1 1 0.1 1", ""):
            self.program("fake/rossby", STUB + ROSSBY.replace('"$run 1 1 0.0 1"', f'"$run {row}"'))
            told, last, code = self.run_it("--mpi", "prefix", "--programs", "fake")
            self.assertEqual((code, last), (1, "failed: plan.memory"), told)

    def test_without_the_tools(self):
        (self.folder / "bin/compute-sanitizer").unlink()
        if shutil.which("compute-sanitizer", path="/usr/bin:/bin"):
            self.skipTest("the system has compute-sanitizer")
        told, last, code = self.run_it("--programs", "fake")
        self.assertEqual((code, last), (1, "failed: compute-sanitizer"), told)
        self.assertEqual(self.passed(told), NAMES)

    def test_no_gpu(self):
        for text in ("echo no devices\nexit 9\n", "echo none\n"):
            self.program("bin/nvidia-smi", STUB + text)
            done = subprocess.run([ROOT / "tests/gpu/run.sh", "--log", "log"], cwd=self.folder, capture_output=True, text=True, check=False,
                                  env=dict(os.environ, PATH=f"{self.folder}/bin:/usr/bin:/bin", FAKE=str(self.folder / "fake")))
            self.assertEqual(done.returncode, 77)
            self.assertIn("skipped: there is no GPU here (no", done.stdout)

    def test_some_programs_and_a_limit_of_time(self):
        self.program("fake/test_tensor", STUB + "sleep 60\n")
        told, last, code = self.run_it("--programs", "fake", "--tools", "memcheck", "--seconds", "1", "--only", "test_data_device,test_tensor")
        self.assertEqual((code, last), (1, "failed: test_tensor test_tensor.memcheck"), told)
        self.assertEqual(self.passed(told), ["test_data_device", "test_data_device.memcheck"])
        self.assertRegex("\n".join(told), "FAILED  test_tensor: stopped after 1 s")

    def six_minutes(self, *arguments):
        environment = dict(os.environ, PATH=f"{self.folder}/bin:/usr/bin:/bin", FAKE=str(self.folder / "fake"), FAKE_FINDS="")
        return subprocess.run([ROOT / "tests/gpu/six_minutes.sh", *arguments], cwd=self.folder, env=environment, capture_output=True,
                              text=True, check=False, timeout=120)

    def test_a_part_that_hangs_is_lost_alone(self):
        for name, text in [("bench_kernels", "echo begun\nsleep 60\n"), ("bench_step", "exit 3\n"), ("test_tensor", "sleep 60\n")]:
            self.program(f"fake/{name}", STUB + text)
        begin = time.monotonic()
        done = self.six_minutes("--programs", "fake", "--log", "log", "--seconds", "30")
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        told = (self.folder / "log/summary.txt").read_text(encoding="utf-8")
        self.assertEqual(told, done.stdout)
        for pattern in ("^GPU 0", "FAILED  tests: exit code 1 ", "passed  memcheck ", "FAILED  kernels: (stopped after 3 s|exit code 1)",
                        "FAILED  steps: exit code 1", "left out  windows", "failed: tests kernels steps .*streamed\n$"):
            self.assertRegex(told, "(?m)" + pattern if pattern[0] == "^" else pattern)
        self.assertIn("passed  test_data_device", (self.folder / "log/tests/summary.txt").read_text(encoding="utf-8"))
        self.assertIn("begun", (self.folder / "log/measured/kernels.txt").read_text(encoding="utf-8"))
        self.program("bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
        done = self.six_minutes("--programs", "fake", "--log", "log")
        self.assertEqual(done.returncode, 77, done.stdout)
        for words in (["--log", "log"], ["--programs", "nowhere", "--log", "log"], ["--programs", "fake"],
                      ["--programs", "fake", "--log", "log", "--seconds", "x"], ["--programs", "fake", "--log", "log", "--device", "tpu"]):
            done = self.six_minutes(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertRegex(done.stderr, "^error: [^\n]*\n$")

    def test_bad_options(self):
        options = ["--prefix", "--build", "--log", "--arch", "--tools", "--only", "--seconds", "--programs", "--mpi"]
        for words in ([[option] for option in options] + [[option, "--arch", "90"] for option in options] +
                      [["--mpi", ""], ["--frob", "1"], ["--only", "test_none"], ["--seconds", "0"], ["nowhere"]]):
            done = subprocess.run([ROOT / "tests/gpu/run.sh", *words], cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertRegex(done.stderr, f"^error: .*{words[0]}[^\n]*\n$")

    def test_trainings_on_a_simulated_device(self):
        if not rossby:
            self.skipTest("no rossby is built here")
        self.program("fake/rossby", SIMULATED)
        told, last, code = self.run_it("--programs", "fake", "--mpi", str(pathlib.Path(mpiexec).parents[1]), "--tools", "memcheck",
                                       ROSSBY=rossby)
        self.assertEqual((code, last), (0, "all passed; logs in log"), "\n".join(told))
        for name in ("streamed", "bf16_streamed"):
            self.assertIn("weights are updated on: device", (self.folder / f"log/{name}.cuda.np1.txt").read_text(encoding="utf-8"))


if __name__ == "__main__":
    if len(sys.argv) > 2 and os.path.isfile(sys.argv[1]):
        rossby, mpiexec = (os.path.abspath(word) for word in sys.argv[1:3])
        del sys.argv[1:3]
    unittest.main()
