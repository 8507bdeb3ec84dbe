"""The shipped Slurm scripts under a real Slurm: test_slurm.py ROSSBY MPIEXEC. Exit code 77 where there is no Slurm."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "apps"), str(ROOT / "tests" / "slurm")]

import cluster  # noqa: E402  pylint: disable=wrong-import-position
import support  # noqa: E402  pylint: disable=wrong-import-position

CONFIG = """
[data]
file = "{folder}/series.nc"
[split]
train = 40
[relation]
graph = "grid8"
mode = "refine"
[model]
precision = "double"
latent = 2
[train]
epochs = {epochs}
keep = "last"
[optimiser]
lr = 1e-5
[checkpoint]
every_steps = 40
[parallel]
threads = 1
[log]
seconds = 0
"""


class Slurm(unittest.TestCase):
    """One cluster of four nodes for all tests."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        reason = cluster.missing()
        if reason:
            raise unittest.SkipTest(reason)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rossby_slurm_"))
        cls.cluster = cluster.Cluster(cls.folder / "cluster", 4)
        try:
            cls.cluster.start()
        except Exception:
            cls.tearDownClass()
            raise
        cls.local("data", "synth", "--kind", "pacific", "--lat", "20", "--lon", "40", "--steps", "60", "--seed", "3", "-o",
                  str(cls.folder / "series.nc"))
        cls.write("short.toml", CONFIG.format(folder=cls.folder, epochs=2))
        cls.whole = {}
        # Long enough to be met on its way, however fast the machine is; the small rate keeps losses comparable for as long.
        cls.write("measure.toml", CONFIG.format(folder=cls.folder, epochs=200))
        begin = time.monotonic()
        cls.local("train", "measure.toml", "--run", "measure", ranks=2)
        cls.epochs_of_long = max(80, int(200 * 8 / (time.monotonic() - begin)))
        cls.write("long.toml", CONFIG.format(folder=cls.folder, epochs=cls.epochs_of_long))

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def write(cls, name, text):
        (cls.folder / name).write_text(text)

    @classmethod
    def local(cls, *arguments, ranks=1):
        """The program under mpiexec, without Slurm."""
        command = [support.mpiexec, "-n", str(ranks), support.rossby, *arguments]
        result = subprocess.run(command, cwd=cls.folder, capture_output=True, text=True, check=False, timeout=240)
        if result.returncode != 0:
            raise AssertionError(f"{command}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def uninterrupted(self, config, ranks):
        """What a run ends with that nothing interrupts."""
        if (config, ranks) not in self.whole:
            run = f"whole_{config}_{ranks}"
            self.local("train", config, "--run", run, ranks=ranks)
            self.whole[config, ranks] = self.ends(run)
        return self.whole[config, ranks]

    def ends(self, run):
        """The final arrays' checksums, and what each epoch's line says but for times and memory."""
        text = self.local("checkpoint", "inspect", f"{run}/checkpoints/state.h5", "--json")
        lines = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        return (json.loads(text)["arrays"],
                [{k: v for k, v in line.items() if not re.search("second|bytes|sent|place", k)} for line in lines])

    def submit(self, *options, config, run, script="train.sbatch", launcher="srun"):
        return self.cluster.submit(*options, str(ROOT / "jobscripts" / "slurm" / script), config, "--run", run,
                                   cwd=self.folder, ROSSBY_MACHINE=str(ROOT / "tests" / "slurm" / "machine.sh"),
                                   ROSSBY_PROGRAM=support.rossby, ROSSBY_TEST_LAUNCHER=launcher)

    def log(self, number, name="rossby-{}.log"):
        file = self.folder / name.format(number)
        return file.read_text() if file.exists() else ""

    def expect(self, number, state, restarts=None):
        job = self.cluster.finish(number)
        self.assertEqual(job["JobState"], state, f"{job}\n{self.log(number)}\n{self.cluster.log_end()}")
        if restarts is not None:
            self.assertEqual(int(job["Restarts"]), restarts, self.log(number))
        return job

    def epochs(self, run):
        metrics = self.folder / run / "metrics.jsonl"
        return len(metrics.read_text().splitlines()) if metrics.exists() else 0

    def wait_for_epochs(self, number, run, epochs):
        """Until a running job has trained for so many."""
        def trained():
            state = self.cluster.job(number)["JobState"]
            self.assertIn(state, ["PENDING", "CONFIGURING", "RUNNING"], self.log(number))
            return state == "RUNNING" and self.epochs(run) >= epochs
        self.cluster.wait_for(trained, 120, f"{epochs} epochs of {run}\n{self.log(number)}")

    def test_normal_end(self):
        for launcher in ["srun", "mpirun"]:
            with self.subTest(launcher=launcher):
                job = self.submit("--nodes=2", "--ntasks-per-node=1", config="short.toml", run=launcher, launcher=launcher)
                self.expect(job, "COMPLETED", restarts=0)
                self.assertEqual(self.ends(launcher), self.uninterrupted("short.toml", 2))
                log = self.log(job)
                for pattern in [r"== job \d+, start 0, 20\d\d-", r"== nodes n\[", "2 ranks x 1 cores", r"== ends at 20\d\d-",
                                "== tree .*, commit ", "== program ", f"== launch {launcher} ", "== modules ",
                                "OMPI_MCA_btl=self,tcp"]:
                    self.assertRegex(log, pattern)

    def test_signal_ahead_of_the_limit(self):
        """The signal that Slurm sends, here at a time that suits the test: the job comes back and ends as if nothing had been."""
        job = self.submit("--nodes=2", "--ntasks-per-node=1", config="long.toml", run="limit")
        for _ in range(2):
            self.wait_for_epochs(job, "limit", self.epochs("limit") + 2)
            restarts = int(self.cluster.job(job)["Restarts"])
            self.cluster.call("scancel", "--batch", "--signal=USR1", job)
            self.cluster.wait_for(lambda: int(self.cluster.job(job)["Restarts"]) > restarts, 60, "the job to be queued again")
            self.cluster.release(job)
        self.expect(job, "COMPLETED", restarts=2)
        self.assertIn("requeue", self.log(job))
        self.assertRegex(self.log(job), "== job .*, start 2")
        self.assertIn("resumed", self.log(job))
        self.assertEqual(self.ends("limit"), self.uninterrupted("long.toml", 2))

    @support.long_test
    def test_time_limit(self):
        """Slurm's own limit, a minute at least: its signal comes 10 to 40 s after the start."""
        self.write("endless.toml", CONFIG.format(folder=self.folder, epochs=10**8))
        os.environ["ROSSBY_MAX_RESTARTS"] = "0"
        try:
            job = self.submit("--nodes=2", "--ntasks-per-node=1", "--time=1", "--signal=B:USR1@20", config="endless.toml",
                              run="endless")
        finally:
            del os.environ["ROSSBY_MAX_RESTARTS"]
        self.expect(job, "FAILED", restarts=0)
        log = self.log(job)
        self.assertRegex(log, "paused    checkpoint written: endless/checkpoints/step-.*; resume with: (mpirun|srun) -n [0-9]+ rossby train")
        self.assertIn("ROSSBY_MAX_RESTARTS", log)
        self.local("checkpoint", "verify", self.newest("endless"))

    @support.long_test
    def test_cancelled_and_resumed_on_other_nodes(self):
        job = self.submit("--nodes=2", "--ntasks-per-node=1", config="long.toml", run="cancelled")
        self.wait_for_epochs(job, "cancelled", 2)
        self.cluster.call("scancel", job)
        self.expect(job, "CANCELLED", restarts=0)
        self.assertNotIn("requeue", self.log(job))
        self.assertFalse((self.folder / "cancelled/checkpoints/state.h5").exists(), "it did not reach its end")
        self.local("checkpoint", "verify", self.newest("cancelled"))
        job = self.submit("--nodes=3", "--ntasks-per-node=1", config="long.toml", run="cancelled")
        self.expect(job, "COMPLETED", restarts=0)
        self.assertIn("resumed", self.log(job))
        lines, whole = self.ends("cancelled")[1], self.uninterrupted("long.toml", 2)[1]
        self.assertEqual(len(lines), len(whole))
        for line, other in zip(lines, whole):
            self.assertAlmostEqual(line["loss"] / other["loss"], 1, delta=1e-9)

    def test_lost_node(self):
        job = self.submit("--nodes=2", "--ntasks-per-node=1", config="long.toml", run="lost")
        self.wait_for_epochs(job, "lost", 2)
        node = int(re.search(r"n\[?(\d)", self.cluster.job(job)["NodeList"]).group(1))
        self.cluster.lose_node(node)
        try:
            self.expect(job, "COMPLETED", restarts=1)
        finally:
            self.cluster.find_node(node)
        self.assertEqual(self.ends("lost"), self.uninterrupted("long.toml", 2))

    def hang(self, job, run):
        """Stops a rank of a running job, as a dying device or file system would."""
        begin = int(self.cluster.job(job)["Restarts"])
        ranks = subprocess.run(["pgrep", "-f", f"^{support.rossby} train .*--run {run} "], capture_output=True, text=True,
                               check=True).stdout.split()
        os.kill(int(ranks[-1]), signal.SIGSTOP)
        return begin

    @support.long_test
    def test_rank_that_hangs(self):
        text = CONFIG.format(folder=self.folder, epochs=self.epochs_of_long)
        text = text.replace("[parallel]", "[parallel]\nwatchdog_seconds = 3")
        self.write("watched.toml", text)
        for launcher in ["srun", "mpirun"]:
            with self.subTest(launcher=launcher):
                run = f"hung_{launcher}"
                job = self.submit("--nodes=2", "--ntasks-per-node=1", config="watched.toml", run=run, launcher=launcher)
                self.wait_for_epochs(job, run, 2)
                before = self.hang(job, run)
                self.cluster.wait_for(lambda: int(self.cluster.job(job)["Restarts"]) > before, 60,
                                      f"the job to be queued again\n{self.log(job)}")
                self.cluster.release(job)
                self.expect(job, "COMPLETED", restarts=1)
                self.assertRegex(self.log(job), "a rank hung .1 in a row.: requeue")
                self.assertFalse((self.folder / run / ".hangs").exists())
                self.assertEqual(self.ends(run), self.uninterrupted("long.toml", 2))

    @support.long_test
    def test_array_of_seeds(self):
        job = self.submit("--array=1-2", "--nodes=1", "--ntasks-per-node=2", config="short.toml", run="seeds",
                          script="train_array.sbatch")
        for task in [1, 2]:
            self.expect(f"{job}_{task}", "COMPLETED")
        ends = [self.ends(f"seeds/seed-{seed}") for seed in [1, 2]]
        self.assertEqual(ends[0], self.uninterrupted("short.toml", 2), "seed 1 is the configuration's")
        self.assertNotEqual(ends[0], ends[1])

    def test_rendered_job(self):
        render = subprocess.run(
            [str(ROOT / "jobscripts/slurm/render.sh"), "--nodes", "2", "--ranks-per-node", "2", "--time", "5", "--machine",
             str(ROOT / "tests/slurm/machine.sh"), "short.toml", "--run", "rendered"],
            cwd=self.folder, capture_output=True, text=True, check=True)
        self.write("job.sbatch", render.stdout)
        job = self.cluster.submit("job.sbatch", cwd=self.folder, ROSSBY_PROGRAM=support.rossby)
        self.expect(job, "COMPLETED", restarts=0)
        self.assertEqual(self.ends("rendered"), self.uninterrupted("short.toml", 4))

    def test_failure_is_not_requeued(self):
        self.write("bad.toml", "[data]\nfile = \"absent.nc\"\n")
        job = self.submit("--nodes=2", "--ntasks-per-node=1", config="bad.toml", run="bad")
        self.expect(job, "FAILED", restarts=0)
        self.assertIn("absent.nc", self.log(job))
        self.assertIn("exit code 1", self.log(job))

    def scaling(self, *arguments, code=0):
        """jobscripts/scaling with jobs of this cluster."""
        environment = dict(self.cluster.environment, ROSSBY_MACHINE=str(ROOT / "tests/slurm/machine.sh"))
        result = subprocess.run([sys.executable, str(ROOT / "jobscripts/scaling"), *arguments, "--rossby", support.rossby,
                                 "--submit", "--ranks-per-node", "1"], cwd=self.folder, env=environment, capture_output=True,
                                text=True, check=False, timeout=240)
        logs = [(self.folder / name).read_text() for name in re.findall(r": failed: .*\((.*\.log)\)", result.stdout)]
        self.assertEqual(result.returncode, code, "\n".join([result.stdout, result.stderr, *logs, self.cluster.log_end()]))
        return result.stdout

    def tabulated(self, folder):
        """The studies of `rossby report scaling`."""
        self.local("report", "scaling", folder, "-o", folder + "/report")
        return json.loads((self.folder / folder / "report/scaling.json").read_text())["studies"]

    @support.long_test
    def test_scaling_study(self):
        arguments = ["--config", "short.toml", "--ranks", "1,2,4", "--out", "study", "--label", "s"]
        names = [f"s/ranks-{ranks}_groups-1_seed-1" for ranks in (1, 2, 4)]
        # Jobs that wait are not queued twice.
        self.scaling(*arguments, "--sbatch=--hold")
        queue = self.cluster.call("squeue", "-h", "-o", "%i").split()
        self.assertEqual(len(queue), 3)
        self.assertEqual(self.scaling(*arguments).splitlines()[:3],
                         [f"{name}: job {number}, PENDING (JobHeldUser)" for name, number in zip(names, sorted(queue, key=int))])
        for number in queue:
            self.cluster.call("scontrol", "release", number)
        out = self.scaling(*arguments, "--wait")
        self.assertIn("3 runs: 3 ended, 0 failed, 0 cut off, 0 queued", out)
        self.assertEqual(self.ends(f"study/{names[1]}"), self.uninterrupted("short.toml", 2))
        found, = self.tabulated("study")
        self.assertEqual([(row["ranks"], row["hosts"]) for row in found["rows"]], [(1, 1), (2, 2), (4, 4)])
        # One that is lost is made again, one that fails is told.
        shutil.rmtree(self.folder / "study" / names[2])
        out = self.scaling(*arguments, "--wait")
        self.assertEqual((out.count(": ended\n"), len(re.findall(names[2] + r": job \d+, 4 nodes, 4 ranks\n", out))), (3, 1))
        out = self.scaling(*arguments, "--wait", "--set", "model.latent=3", "--ranks", "1", code=1)
        self.assertIn(names[0] + ": was trained with model.latent = 2, not 3. Choose another --label\n1 runs: 0 ended, 1 failed", out)
        out = self.scaling(*arguments, "--wait", "--set", "model.latent=0", "--ranks", "1", "--label", "bad", code=1)
        self.assertRegex(out, r"bad/ranks-1_groups-1_seed-1: failed: job \d+, FAILED, exit code 1 \(study/.*\.log\)\n1 runs: 0 ended, 1 failed")

    @support.long_test
    def test_path_with_spaces(self):
        """The scripts find the rest of their tree; Slurm fills nothing into the names of logs."""
        tree = self.folder / "a tree %j"
        shutil.copytree(ROOT / "jobscripts", tree / "jobscripts")
        job = self.cluster.submit("--nodes=1", "--ntasks-per-node=1", str(tree / "jobscripts/slurm/train.sbatch"), "short.toml", "--run",
                                  "of a tree", cwd=self.folder, ROSSBY_MACHINE=str(ROOT / "tests/slurm/machine.sh"),
                                  ROSSBY_PROGRAM=support.rossby)
        self.expect(job, "COMPLETED", restarts=0)
        self.assertIn(f"== tree {tree}, commit", self.log(job))
        (tree / "rossby").symlink_to(support.rossby)
        environment = dict(self.cluster.environment, ROSSBY_MACHINE=str(ROOT / "tests/slurm/machine.sh"))
        environment["PATH"] = f"{tree}:{environment['PATH']}"
        command = [sys.executable, str(tree / "jobscripts/scaling"), "--config", "short.toml", "--ranks", "1", "--out", "out %j", "--submit",
                   "--ranks-per-node", "1", "--sbatch", "--time=00:05:00", "--wait"]
        result = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.cluster.log_end())
        log = (self.folder / "out %j/short/ranks-1_groups-1_seed-1.log").read_text()
        self.assertIn(f"== tree {tree}, commit", log)
        self.assertIn(f"== program {tree}/rossby\n", log)

    @support.long_test
    def test_scaling_scripts(self):
        """The job scripts by themselves."""
        for nodes in (1, 2):
            jobs = [self.submit_study(f"--nodes={nodes}", "--ntasks-per-node=1", "--array=1-2", kind="strong")]
            self.local("data", "synth", "--lat", str(10 * nodes), "--lon", "12", "--steps", "60", "-o", f"series_{nodes}.nc")
            jobs.append(self.submit_study(f"--nodes={nodes}", "--ntasks-per-node=1", "--array=1-1", "--set",
                                          f"data.file={self.folder}/series_{{ranks}}.nc", kind="weak"))
            for job in [f"{jobs[0]}_1", f"{jobs[0]}_2", f"{jobs[1]}_1"]:
                self.expect(job, "COMPLETED", restarts=0)
        strong, = self.tabulated("strong")
        self.assertEqual((strong["label"], strong["kind"]), ("strong", "strong"))
        self.assertEqual([[run["run"] for run in row["runs"]] for row in strong["rows"]],
                         [[f"ranks-{ranks}_groups-1_seed-{seed}" for seed in (1, 2)] for ranks in (1, 2)])
        weak, = self.tabulated("weak")
        self.assertEqual((weak["kind"], weak["scaled"]), ("weak", ["data.file"]))
        self.assertGreater(weak["rows"][1]["nodes"], 1.5 * weak["rows"][0]["nodes"])
        job = self.submit_study("--nodes=1", kind="weak", study="strong")
        self.expect(job, "FAILED", restarts=0)
        self.assertIn("a weak study needs something that grows with the ranks", self.log(job, "rossby-weak-{}.log"))

    def submit_study(self, *options, kind, study=None):
        """A job of scaling_KIND.sbatch; options from --set on are the training's."""
        at = options.index("--set") if "--set" in options else len(options)
        return self.cluster.submit(*options[:at], str(ROOT / f"jobscripts/slurm/scaling_{kind}.sbatch"), "short.toml", "--study",
                                   study or kind, *options[at:], cwd=self.folder, ROSSBY_PROGRAM=support.rossby,
                                   ROSSBY_MACHINE=str(ROOT / "tests" / "slurm" / "machine.sh"))

    def newest(self, run):
        return f"{run}/checkpoints/" + max(
            name for name in os.listdir(self.folder / run / "checkpoints") if name.startswith("step-") and name.endswith(".h5"))


if __name__ == "__main__":
    support.main()
