"""jobscripts/scaling on failures: other settings, moved studies, signals, full disks, a Slurm without
answers."""

import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

import support
from studies import DRIVER, Studies

ROOT = DRIVER.parents[1]
STUDY = 'config = "stnn.toml"\nranks = [1, 2]\nseeds = [1, 2]\n[set]\n"train.epochs" = 3\n'
# Fake Slurm programs. Jobs are files beside them: job_N holds state and reason, end_N the answer of scontrol.
FAKES = {
    "sbatch": """printf '%s\\n' "$@" >"$here/sbatch.args"; env >"$here/sbatch.env"; sleep "$(cat "$here/slow" 2>/dev/null || echo 0)"
n=$(($(cat "$here/count" 2>/dev/null || echo 0) + 1)); echo $n >"$here/count"; echo PENDING None >"$here/job_$n"; echo $n""",
    "squeue": """if [[ -e $here/silent ]]; then
  left=$(cat "$here/silent"); echo $((left - 1)) >"$here/silent"; if ((left <= 1)); then rm "$here/silent"; fi
  echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1
fi
if [[ -e $here/job_$3 ]]; then cat "$here/job_$3"; exit; fi
echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1""",
    "scontrol": """if [[ -e $here/end_$3 ]]; then cat "$here/end_$3"; exit; fi
echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"""}


class Faults(Studies):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("n.toml", STUDY)

    def slurm(self, name):
        """Returns a folder with a fake Slurm of its own."""
        for program, text in FAKES.items():
            self.program(f"{name}/{program}", text)
        return pathlib.Path(self.path(name))

    def begin(self, *arguments, path=None, **how):
        """Starts the driver, with programs of a folder before others."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ROSSBY_")}
        environment["PATH"] = f"{path}:{environment['PATH']}" if path else environment["PATH"]
        process = subprocess.Popen([sys.executable, str(DRIVER), *arguments], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True, **how)
        self.addCleanup(self.clear, process)
        return process

    @staticmethod
    def clear(process):
        if process.poll() is None:
            support.kill_group(process)
        process.stdout.close()
        process.stderr.close()

    def drive(self, *arguments, code=0, **how):
        """Returns (stdout, stderr) of the driver."""
        process = self.begin(*arguments, **how)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, f"{arguments}\n{out}\n{err}")
        return out, err

    def wait_for(self, condition, limit=30):
        end = time.monotonic() + limit
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def one_line(self, err, pattern):
        self.assertRegex(err, r"\Ascaling: [^\n]*" + pattern + r"[^\n]*\n\Z")


class Settings(Faults):
    """Runs that have ended, and later requests for them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("one.toml", STUDY.replace("[1, 2]", "[1]"))

    def test_trained_with_other_settings(self):
        self.study("one.toml", "--out", "other")
        before = self.stamps("other")
        for arguments, text in ((["--threads", "2"], "parallel.threads = 1, not 2"),
                                (["--set", "parallel.row_order=rcm"], 'parallel.row_order = "auto", not rcm'),
                                (["--set", "optimiser.lr=0.004"], "optimiser.lr = 0.003, not 0.004"),
                                (["--set", "data.variables=w"], r'data.variables = \["v"\], not w')):
            with self.subTest(arguments):
                for more, code in ((["--list"], 0), ([], 1)):
                    out = self.study("one.toml", "--out", "other", *arguments, *more, code=code)
                    self.assertRegex(out, rf"(?m)^one/ranks-1_groups-1_seed-1: was trained with {text}. Choose another --label$")
        self.assertRegex(out, "1 runs: 0 ended, 1 failed, 0 cut off")
        # The same settings in other words, and settings that do not change the run.
        for more in ("optimiser.lr=3e-3", "optimiser.lr=+0.003", "relation.graph='edges'", "data.variables=v", "data.variables=[\"v\"]", "log.seconds=5", "train.epochs=2"):
            self.assertIn(": ended\n1 runs: 1 ended", self.study("one.toml", "--out", "other", "--set", more), more)
        # A comment changes the configuration file, but not the settings.
        text = pathlib.Path(self.path("stnn.toml")).read_text(encoding="utf-8")
        self.write("commented.toml", "# the same\n" + text)
        self.write("wide.toml", text.replace("latent = 2", "latent = 3"))
        self.assertIn(": ended\n1 runs: 1 ended", self.study("one.toml", "--out", "other", "--config", "commented.toml"))
        self.assertIn("was trained with model.latent = 2, not 3. Choose another --label",
                      self.study("one.toml", "--out", "other", "--config", "wide.toml", code=1))
        self.assertEqual(self.stamps("other"), before)
        # Without the driver's study.json, the settings come from the run itself.
        os.remove(self.path("other/one/study.json"))
        self.assertIn("was trained with parallel.threads = 1, not 2",
                      self.study("one.toml", "--out", "other", "--threads", "2", code=1))
        self.assertRegex(self.study("one.toml", "--out", "other", "--set", "train.epochs=5", "--list"), ": goes on\n")
        self.study("one.toml", "--out", "other", "--set", "train.epochs=5", "--seeds", "1,2")
        self.assertEqual([len(self.lines(f"other/one/ranks-1_groups-1_seed-{seed}")) for seed in (1, 2)], [5, 5])

    def test_copied_study(self):
        self.study("one.toml", "--out", "first")
        for name, stamp in (("copy_new", None), ("copy_old", 1)):
            shutil.copytree(self.path("first"), self.path(name), copy_function=shutil.copy)
            # The time stamp of the state in a copy does not matter.
            os.utime(self.path(f"{name}/one/ranks-1_groups-1_seed-1/checkpoints/state.h5"), None if stamp is None else (stamp, stamp))
            self.assertIn("seed-1: ended\n", self.study("one.toml", "--out", name, "--list"))
            self.assertIn("1 runs: 1 ended", self.study("one.toml", "--out", self.path(name)))
            self.assertEqual(len(self.lines(f"{name}/one/ranks-1_groups-1_seed-1")), 3)

    def test_copied_study_with_series_of_its_own(self):
        self.write("synth.toml", '[split]\ntrain = 30\n[relation]\ngraph = "grid8"\n')
        self.write("z.toml", STUDY.replace("stnn", "synth").replace("[1, 2]", "[1]") + "[synth]\nlat = 4\nlon = 5\nsteps = 40\n")
        self.study("z.toml", "--out", "whence")
        shutil.copytree(self.path("whence"), self.path("moved"))
        run = "moved/z/ranks-1_groups-1_seed-1"
        self.assertIn("1 runs: 1 ended", self.study("z.toml", "--out", "moved", "--set", "train.epochs=5"))
        self.assertEqual(len(self.lines(run)), 5)
        self.assertEqual(len(self.lines(run.replace("moved", "whence"))), 3)
        # If a new start fails, the ended run stays ended.
        moved, fails = ["--out", "moved"], ["--launcher", "false", "--rossby", support.rossby]
        self.assertIn("1 failed", self.drive("z.toml", *moved, "--set", "train.epochs=6", *fails, code=1)[0])
        self.assertIn(": goes on\n", self.study("z.toml", "--out", "moved", "--set", "train.epochs=6", "--list"))
        self.assertIn("1 runs: 1 ended", self.study("z.toml", "--out", "moved", "--set", "train.epochs=5"))
        os.remove(self.path("moved/z/study.json"))
        self.assertIn("1 failed", self.drive("z.toml", *moved, "--set", "train.epochs=6", *fails, code=1)[0])
        self.assertIn("1 failed", self.drive("z.toml", *moved, "--set", "train.epochs=7", *fails, code=1)[0])
        self.assertIn("1 runs: 1 ended", self.study("z.toml", "--out", "moved", "--set", "train.epochs=5"))
        self.assertIn(": goes on\n", self.study("z.toml", "--out", "moved", "--set", "train.epochs=6", "--list"))
        # A start killed after it wrote its settings and before an epoch stays cut off, also after more
        # failures.
        killed = self.program("killed", f"sed -i 's/^epochs = 5$/epochs = 6/' {self.path(run)}/config.toml\nkill -9 $$")
        six = ["z.toml", *moved, "--set", "train.epochs=6"]
        for launcher in (killed, "false"):
            self.assertIn("1 failed", self.drive(*six, "--launcher", launcher, "--rossby", support.rossby, code=1)[0])
            self.assertIn(": cut off\n", self.study(*six, "--list"))
        self.assertIn("earlier", self.load("moved/z/study.json", "study.schema.json")["runs"][0])
        self.assertIn("1 runs: 1 ended", self.study(*six))
        self.assertEqual(len(self.lines(run)), 6)
        self.assertIn(": ended\n", self.study(*six, "--list"))

    def test_data_that_moved(self):
        shutil.copy(self.path("sensors.nc"), self.path("sst_here.nc"))
        here, there = (["--out", "shifted", "--set", f"data.file=sst_{word}.nc"] for word in ("here", "there"))
        self.study("one.toml", *here)
        os.rename(self.path("sst_here.nc"), self.path("sst_there.nc"))
        self.assertIn("1 runs: 1 ended", self.study("one.toml", *there))
        self.assertIn("1 runs: 1 ended", self.study("one.toml", *there, "--set", "train.epochs=5"))
        self.assertEqual(len(self.lines("shifted/one/ranks-1_groups-1_seed-1")), 5)

    def test_predictions_for_what_has_ended(self):
        self.succeed(1, "calibrate", "--quick", "-o", "later.json")
        self.study("one.toml", "--out", "unplanned")
        run = pathlib.Path(self.path("unplanned/one/ranks-1_groups-1_seed-1"))
        before = (run / "metrics.jsonl").read_bytes()
        self.assertFalse((run / "plan.json").exists())
        for _ in range(2):
            self.assertIn("1 runs: 1 ended", self.study("one.toml", "--out", "unplanned", "--machine", "later.json"))
        plan = json.loads((run / "plan.json").read_text(encoding="utf-8"))
        self.assertGreater(plan["measured"]["step_seconds"], 0)
        self.assertEqual((run / "metrics.jsonl").read_bytes(), before)
        # No plan is written if the run had other ranks.
        (run / "plan.json").unlink()
        (run / "metrics.jsonl").write_bytes(before.replace(b'"threads":1', b'"threads":3'))
        self.succeed(1, "train", "stnn.toml", "--run", str(run), "--machine", "later.json", "--set", "train.epochs=3", "--set",
                     "train.seed=1", "--set", "parallel.threads=1")
        self.assertFalse((run / "plan.json").exists())

    def test_series_under_another_name(self):
        self.write("synth.toml", '[split]\ntrain = 30\n[relation]\ngraph = "grid8"\n')
        self.write("y.toml", STUDY.replace("stnn", "synth").replace("[1, 2]", "[1]") + "[synth]\nlat = 4\nlon = 5\nsteps = 40\n")
        self.study("y.toml", "--out", "series")
        folder = pathlib.Path(self.path("series/y"))
        # An earlier version wrote the series with --out as the user typed it.
        for path in [folder / "study.json", folder / "ranks-1_groups-1_seed-1/config.toml"]:
            path.write_text(path.read_text(encoding="utf-8").replace(f"{self.folder}/series", "series"), encoding="utf-8")
        self.assertIn(": ended\n", self.study("y.toml", "--out", self.path("series")))
        shutil.rmtree(folder / "ranks-1_groups-1_seed-1")
        self.succeed(1, "train", "synth.toml", "--run", "series/y/ranks-1_groups-1_seed-1", "--set", "train.epochs=3", "--set",
                     f"data.file=series/y/data/{next((folder / 'data').glob('*.nc')).name}", "--set", "parallel.threads=1")
        self.study("y.toml", "--out", self.path("series"), "--set", "train.epochs=4", "--seeds", "1,2")
        self.assertEqual(len(self.lines("series/y/ranks-1_groups-1_seed-1")), 4)
        names = {line for config in folder.glob("*/config.toml") for line in config.read_text(encoding="utf-8").splitlines()
                 if line.startswith('file = "s')}
        self.assertEqual(len(names), 1, "one study, one name")


class Processes(Faults):
    """Signals, locks, and files that cannot be written; no training is made."""

    def late(self):
        """Ranks that react to a signal only after a second."""
        return self.program("late", "trap '' USR1 TERM; touch $here/started; sleep 1; trap 'exit 75' USR1; for i in {1..400}; do sleep 0.1; done")

    def test_signals(self):
        """The first signal comes before the ranks handle it."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                started = pathlib.Path(self.path("started"))
                started.unlink(missing_ok=True)
                process = self.begin("n.toml", "--out", f"signal{number}", "--launcher", self.late(), "--rossby", support.rossby)
                self.wait_for(started.exists)
                process.send_signal(number)
                out, err = process.communicate(timeout=30)
                self.assertEqual((process.returncode, err), (75, ""), out)
                self.assertRegex(out, "seed-1: paused with exit code 75. To continue this run, give the same command again\n4 runs: 0 ended, 0 failed, 1 cut off, 0 queued, 3 not begun\n")

    def test_series_are_not_finished(self):
        rossby = self.program("synth/rossby", 'touch "${@: -1}.$$.part"; exec sleep 60')
        self.write("s.toml", STUDY + "[synth]\nlat = 4\n")
        process = self.begin("s.toml", "--out", "halves", "--launcher", "env", "--rossby", rossby)
        data = pathlib.Path(self.path("halves/s/data"))
        self.wait_for(lambda: list(data.glob("*.part")))
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, err), (75, ""), out)
        self.assertEqual([path.name for path in data.iterdir()], ["synth.log"])

    def test_nobody_reads_on(self):
        process = self.begin("n.toml", "--list")
        process.stdout.close()
        self.assertEqual((process.wait(timeout=30), process.stderr.read()), (0, ""))

    def test_files_that_cannot_be_written(self):
        start = ["--launcher", "env", "--rossby", support.rossby]
        self.one_line(self.drive("n.toml", "--out", "n.toml/x", *start, code=1)[1], "n.toml/x/n: Not a directory")
        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        err = self.drive("n.toml", "--out", "full", *start, code=1, preexec_fn=small)[1]
        self.one_line(err, "full/n/study.json: cannot be written: File too large")
        self.assertEqual({path.name for path in pathlib.Path(self.path("full/n")).iterdir()}, {".scaling.lock", ".study.json.lock"})
        self.write("full_log.toml", STUDY + "[synth]\nlat = 4\n")
        log = self.path("full/full_log/data/synth.log")
        os.makedirs(os.path.dirname(log))
        pathlib.Path(log).write_bytes(bytes(100))
        err = self.drive("full_log.toml", "--out", "full", *start, code=1, preexec_fn=small)[1]
        self.one_line(err, "full/full_log/data/synth.log: cannot be written: File too large")

    def test_two_at_once(self):
        folder = pathlib.Path(self.path("shared/n"))
        folder.mkdir(parents=True)
        start = ["n.toml", "--out", "shared", "--launcher", "true", "--rossby", support.rossby]
        with open(folder / ".scaling.lock", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.one_line(self.drive(*start, code=1)[1], "shared/n: another jobscripts/scaling starts runs of this study")
            self.assertIn("missing", self.drive(*start, "--list")[0])
        # Entries that others add after study.json was read stay there.
        code = """
import pathlib, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from scaling_driver import runs, settings
study = settings.check(dict(settings.DEFAULTS, config="stnn.toml", ranks=[1, 2], label="n"))
one, two = (runs.Study(study, "", pathlib.Path("shared")) for _ in range(2))
one.remember(one.runs[0], "7")
two.remember(two.runs[1], "8")
one.settle(one.runs[0])
"""
        subprocess.run([sys.executable, "-c", code, str(DRIVER.parent)], cwd=self.folder, check=True)
        entries = self.load("shared/n/study.json", "study.schema.json")["runs"]
        self.assertEqual([(entry["job"], entry["ended"]) for entry in entries], [("7", True), ("8", False)])


class Jobs(Faults):
    """--submit with fake Slurm programs."""

    def submit(self, slurm, *arguments, **how):
        return self.drive("n.toml", "--out", slurm.name + "_out", "--submit", "--ranks-per-node", "1", *arguments, path=slurm, **how)

    def test_options_of_jobs(self):
        slurm = self.slurm("options")
        self.submit(slurm, "--sbatch", "--time=01:00:00", "--sbatch", "--mem=1G --exclusive")
        self.assertEqual((slurm / "count").read_text(), "4\n")
        self.assertTrue({"--time=01:00:00", "--mem=1G", "--exclusive"} <= set((slurm / "sbatch.args").read_text().splitlines()))
        environment = dict(line.split("=", 1) for line in (slurm / "sbatch.env").read_text().splitlines() if "=" in line)
        self.assertNotIn("ROSSBY_PROGRAM", environment)
        self.assertEqual(environment["ROSSBY_ROOT"], str(ROOT))
        self.submit(slurm, "--rossby", "rossby-fast", "--out", "100%j")
        self.assertIn("\nROSSBY_PROGRAM=rossby-fast\n", (slurm / "sbatch.env").read_text())
        self.assertIn("--output=100%%j/n/ranks-2_groups-1_seed-2.log", (slurm / "sbatch.args").read_text().splitlines())

    def test_silent_slurm(self):
        slurm = self.slurm("silent")
        self.submit(slurm, "--ranks", "1", "--seeds", "1")
        name = "n/ranks-1_groups-1_seed-1"
        one = ["--ranks", "1", "--seeds", "1"]
        self.assertEqual(self.submit(slurm, *one, "--list")[0], f"{name}: job 1, PENDING\n")
        (slurm / "silent").write_text("1")
        out = self.submit(slurm, *one, "--list")[0]
        self.assertRegex(out, f"^{name}: missing, or queued: squeue does not report job 1: .*connect failure")
        (slurm / "silent").write_text("99")
        self.submit(self.slurm("silent_too"))
        (self.slurm("silent_too") / "silent").write_text("99")
        out = self.submit(self.slurm("silent_too"), "--list")[0].splitlines()
        self.assertEqual([line.endswith(f"job {i + 1} either") for i, line in enumerate(out)], [False, True, True, True])
        self.assertEqual(pathlib.Path(self.path("silent_too/silent")).read_text(), "98\n", "asked once")
        self.one_line(self.submit(slurm, *one, code=1)[1], "squeue does not report job 1: .*connect failure")
        self.assertEqual((slurm / "count").read_text(), "1\n", "nothing is queued twice")
        (slurm / "silent").write_text("1")
        (slurm / "job_1").write_text("PENDING PartitionConfig\n")
        process = self.begin("n.toml", "--out", "silent_out", "--submit", "--ranks-per-node", "1", "--wait", *one, path=slurm)
        lines = [process.stdout.readline()]
        self.assertEqual(lines, [f"{name}: job 1, PENDING (PartitionConfig)\n"])
        lines.append(process.stdout.readline())
        (slurm / "silent").write_text("2")
        lines.append(process.stdout.readline())
        (slurm / "job_1").write_text("")
        (slurm / "end_1").write_text("   JobState=COMPLETED Reason=None\n   ExitCode=0:0\n")
        out = "".join(lines) + process.communicate(timeout=30)[0]
        self.assertEqual(process.returncode, 0, out)
        self.assertEqual(out.count("still waiting\n"), 1, out)
        self.assertIn(f"{name}: ended\n1 runs: 1 ended, 0 failed, 0 cut off, 0 queued\n", out)

    def test_job_that_is_refused(self):
        slurm = self.slurm("refusing")
        self.program("refusing/sbatch",
                     'case "$*" in *--ntasks=1\\ *) echo "sbatch: error: too few" >&2; exit 1;; esac\n' + FAKES["sbatch"])
        out, err = self.submit(slurm, code=1)
        self.assertEqual((err, (slurm / "count").read_text()), ("", "2\n"), out)
        self.assertEqual(out.count("sbatch refuses this job: sbatch: error: too few\n"), 2)
        self.assertIn("4 runs: 0 ended, 2 failed, 0 cut off, 2 queued\n", out)

    def test_job_that_fails(self):
        slurm = self.slurm("failing")
        (slurm / "end_1").write_text("   JobState=FAILED Reason=NonZeroExitCode\n   ExitCode=3:0\n")
        self.submit(slurm, "--ranks", "1", "--seeds", "1")
        (slurm / "job_1").write_text("")
        process = self.begin("n.toml", "--out", "failing_out", "--submit", "--ranks-per-node", "1", "--ranks", "1", "--seeds", "1",
                             "--wait", path=slurm)
        self.assertIn("job 2, 1 nodes", process.stdout.readline())
        # Slurm requeued the job between two queries.
        (slurm / "end_2").write_text("   JobState=PENDING Reason=BeginTime\n   ExitCode=0:0\n")
        (slurm / "job_2").write_text("")
        time.sleep(2)
        self.assertIsNone(process.poll())
        (slurm / "end_2").write_text("   JobState=FAILED Reason=NonZeroExitCode\n   ExitCode=3:0\n")
        out = process.communicate(timeout=30)[0]
        self.assertRegex(out, r"seed-1: failed: job 2, FAILED, exit code 3 \(.*\)\n1 runs: 0 ended, 1 failed")
        self.assertEqual(process.returncode, 1)

    def test_interrupted(self):
        """Ctrl-C goes to all processes of the terminal."""
        slurm = self.slurm("interrupted")
        (slurm / "slow").write_text("1")
        arguments = ["n.toml", "--out", "interrupted_out", "--submit", "--ranks-per-node", "1"]
        process = self.begin(*arguments, path=slurm)
        self.assertIn("job 1, ", process.stdout.readline())
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, err), (75, ""), out)
        count = int((slurm / "count").read_text())
        self.assertLess(count, 3)
        self.assertIn(f"4 runs: 0 ended, 0 failed, 0 cut off, {count} queued, {4 - count} not begun\n", out)
        self.assertEqual(len(self.load("interrupted_out/n/study.json", "study.schema.json")["runs"]), count)
        (slurm / "slow").unlink()
        process = self.begin(*arguments, "--wait", path=slurm)
        for _ in range(4):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, err), (75, ""), out)
        self.assertIn("4 runs: 0 ended, 0 failed, 0 cut off, 4 queued\n", out)
        self.assertEqual((slurm / "count").read_text(), "4\n")


if __name__ == "__main__":
    support.main()
