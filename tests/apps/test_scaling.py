"""jobscripts/scaling: studies of tiny runs, studies that are started again, and their tables."""

import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import support
from studies import DRIVER, STUDY, Studies
from test_windows import WINDOWS


class Scaling(Studies):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in (1, 2):
            result = cls.run_ranks(ranks, "calibrate", "-o", "machine.json", "--quick")
            assert result.codes == [0] * ranks, result.err

    def test_strong(self):
        names = [f"ranks-{place}_seed-{seed}" for seed in (3, 4) for place in ("1_groups-1", "2_groups-1", "2_groups-2")]
        self.assertEqual(self.study("a.toml", "--out", "s", "--list").splitlines(), [f"a/{name}: missing" for name in names])
        self.assertFalse(os.path.exists(self.path("s")), "--list makes nothing")
        out = self.study("a.toml", "--out", "s")
        self.assertRegex(out, "".join(f"a/{name}: ended after [0-9.]+ s\n" for name in names) + "6 runs: 6 ended, 0 failed")
        study = self.load("s/a/study.json", "study.schema.json")
        self.assertEqual((study["kind"], study["label"], study["scaled"]), ("strong", "a", []))
        for ranks, groups in ((1, 1), (2, 1), (2, 2)):
            for line in self.lines(f"s/a/ranks-{ranks}_groups-{groups}_seed-3"):
                self.assertEqual({k: v for k, v in line["place"].items() if k not in ("threads", "processor", "rossby")},
                                 {"ranks": ranks, "hosts": 1, "row_blocks": ranks // groups, "stages": 1, "time_groups": groups})
        out, report = self.report("s", "rep", ranks=2)
        self.assertEqual((len(report["studies"]), report["left_out"]), (1, []))
        found = report["studies"][0]
        self.assertEqual((found["label"], found["kind"], found["baseline"]), ("a", "strong", 0))
        rows = found["rows"]
        self.assertEqual([(row["ranks"], row["row_blocks"], row["time_groups"], row["threads"], row["nodes"]) for row in rows],
                         [(1, 1, 1, 1, 9), (2, 2, 1, 1, 9), (2, 1, 2, 1, 9)])
        self.assertEqual([run["run"] for row in rows for run in row["runs"]], [f"a/{name}" for name in sorted(names)])
        errors = []
        for row in rows:
            self.check_row(row, rows[0]["step_seconds"], row["ranks"], False, "s")
            predicted = []
            for run in row["runs"]:
                plan = self.load(f"s/{run['run']}/plan.json", "plan.schema.json")
                predicted.append(plan["predicted"]["step_seconds"])
                self.assertAlmostEqual(plan["measured"]["step_seconds"] / run["step_seconds"], 1, delta=1e-9)
                errors.append(abs(predicted[-1] / run["step_seconds"] - 1))
            self.assertAlmostEqual(row["predicted_step_seconds"], statistics.median(predicted), delta=1e-12)
            self.assertAlmostEqual(row["prediction_error_percent"],
                                   100 * (statistics.median(predicted) / row["step_seconds"] - 1), delta=1e-6)
        self.assertAlmostEqual(found["prediction_error_percent"], 100 * statistics.mean(errors), delta=1e-6)
        self.check_table(out, rows)

    @support.long_test
    def test_stages(self):
        self.write("windows.toml", WINDOWS)
        self.write("deep.toml", 'config = "windows.toml"\nranks = [1, 2]\nstages = [1, 2]\n[set.window]\nmicro_batches = 2\n')
        out = self.study("deep.toml", "--out", "deep")
        for name in ("ranks-1_groups-1_seed-1", "ranks-2_groups-1_seed-1", "ranks-2_groups-1_stages-2_seed-1"):
            self.assertIn(f"deep/{name}: ended", out)
        out, report = self.report("deep", "deep_report")
        rows = report["studies"][0]["rows"]
        self.assertEqual([(row["ranks"], row["row_blocks"], row["stages"]) for row in rows], [(1, 1, 1), (2, 2, 1), (2, 1, 2)])
        self.assertIn("| 1 x 2 stages x 1 |", out)

    def check_table(self, out, rows):
        """Checks that the Markdown has the figures of scaling.json."""
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line.startswith("| a ")]
        self.assertEqual(len(lines), len(rows))
        header = [cell.strip() for cell in out.splitlines()[0].strip("|").split("|")]
        for cells, row in zip(lines, rows):
            self.assertEqual(len(cells), len(header))
            told = dict(zip(header, cells))
            self.assertEqual((told["study"], told["kind"], told["ranks"], told["runs"]), ("a", "strong", str(row["ranks"]), "2"))
            self.assertEqual(told["row blocks x time groups"], f"{row['row_blocks']} x {row['time_groups']}")
            for name, value, delta in (("step ms", 1e3 * row["step_seconds"], 1e-3), ("speed-up", row["speed_up"], 0.006),
                                       ("efficiency %", 100 * row["efficiency"], 0.06),
                                       ("waiting %", 100 * row["waiting_share"], 0.06),
                                       ("predicted ms", 1e3 * row["predicted_step_seconds"], 1e-3),
                                       ("error %", row["prediction_error_percent"], 0.06),
                                       *((f"{region} %", 100 * share, 0.06) for region, share in row["shares"].items())):
                self.assertAlmostEqual(float(told[name]), value, delta=delta, msg=name)
            least, most = told["min–max"].split("–")
            self.assertLessEqual(float(least), float(told["step ms"]))
            self.assertGreaterEqual(float(most), float(told["step ms"]))
            self.assertEqual(told["peak memory"], f"{row['peak_rss_bytes'] / 2**20:.1f} MiB")

    def test_started_again(self):
        arguments = ["a.toml", "--out", "again", "--time-groups", "1"]
        cut = self.path("again/a/ranks-2_groups-1_seed-4")
        # A start that stopped after its first step.
        os.makedirs(os.path.dirname(cut))
        result = self.run_ranks(2, "train", "stnn.toml", "--run", cut, "--stop-after", "0.000001s", "--set", "train.seed=4",
                                "--set", "train.epochs=6", "--machine", "machine.json")
        self.assertEqual(result.codes, [75, 75], result.err)
        self.assertIn("a/ranks-2_groups-1_seed-4: cut off\n", self.study(*arguments, "--list"))
        self.study(*arguments)
        with open(cut + ".log", encoding="utf-8") as file:
            self.assertRegex(file.read(), "(?m)^resumed ")
        self.succeed(2, "train", "stnn.toml", "--run", "whole", "--set", "train.seed=4", "--set", "train.epochs=6")
        self.assertEqual(self.ends("again/a/ranks-2_groups-1_seed-4"), self.ends("whole"), "as if it had not been cut off")
        before = self.stamps("again")
        self.assertEqual(self.study(*arguments).count(": ended\n"), 4)
        self.assertEqual(self.stamps("again"), before, "runs that have ended are left alone")
        lost = self.path("again/a/ranks-1_groups-1_seed-4")
        ends = self.ends("again/a/ranks-1_groups-1_seed-4")
        shutil.rmtree(lost)
        out = self.study(*arguments)
        self.assertRegex(out, r"a/ranks-1_groups-1_seed-4: ended after [0-9.]+ s\n")
        self.assertEqual(out.count(": ended\n"), 3)
        self.assertEqual(self.ends("again/a/ranks-1_groups-1_seed-4"), ends)
        self.assertEqual({name for name, stamp in self.stamps("again").items() if before.get(name) != stamp
                          and not name.startswith(lost)}, {self.path("again/a/study.json")})
        # A run may continue with these settings, and does.
        self.study(*arguments, "--set", "train.epochs=7")
        self.assertEqual(len(self.lines("again/a/ranks-1_groups-1_seed-3")), 7)
        # The metrics have an epoch after the final state of an earlier start: the run is active again.
        metrics = pathlib.Path(self.path("again/a/ranks-1_groups-1_seed-3/metrics.jsonl"))
        lines = metrics.read_text(encoding="utf-8")
        last = self.lines("again/a/ranks-1_groups-1_seed-3")[-1]
        metrics.write_text(lines + json.dumps(dict(last, epoch=7, steps=last["steps"] + 1)) + "\n", encoding="utf-8")
        self.assertEqual(self.study(*arguments, "--set", "train.epochs=7", "--list").count(": cut off\n"), 1)
        metrics.write_text(lines, encoding="utf-8")
        # A start was cut off before another epoch: the state belongs to the start before.
        file = pathlib.Path(self.path("again/a/study.json"))
        text = file.read_text(encoding="utf-8")
        for before in (last["steps"], metrics.with_name("checkpoints").joinpath("state.h5").stat().st_mtime_ns):
            study = json.loads(text)
            study["runs"][0].update(ended=False, state_before=before)
            study["runs"][0].pop("earlier")  # earlier versions did not write it
            file.write_text(json.dumps(study), encoding="utf-8")
            self.assertEqual(self.study(*arguments, "--set", "train.epochs=7", "--list").count(": cut off\n"), 1)
        file.write_text(text, encoding="utf-8")
        # Settings that make another model: each run reports them.
        before = self.stamps("again")
        out = self.study(*arguments, "--set", "model.latent=3", code=1)
        self.assertEqual(out.count(": was trained with model.latent = 2, not 3. Choose another --label\n"), 4)
        self.assertIn("4 runs: 0 ended, 4 failed", out)
        self.assertEqual(self.stamps("again"), before)

    @support.long_test
    def test_weak(self):
        self.write("weak.json", json.dumps({"config": "grid.toml", "kind": "weak", "ranks": [1, 2], "repeats": 2,
                                            "synth": {"lat": "{3*ranks}", "lon": 5, "steps": 40}}))
        self.write("grid.toml", '[split]\ntrain = 30\n[relation]\ngraph = "grid8"\n[train]\nepochs = 4\n')
        out = self.study("weak.json", "--out", "w", "--report", "wrep")
        self.assertIn("4 runs: 4 ended, 0 failed", out)
        self.assertIn("| weak | weak | 2 |", out)
        study = self.load("w/weak/study.json", "study.schema.json")
        self.assertEqual((study["kind"], study["scaled"]), ("weak", ["data.file"]))
        found = self.load("wrep/scaling.json", "scaling.schema.json")["studies"][0]
        self.assertEqual((found["kind"], found["scaled"], found["prediction_error_percent"]), ("weak", ["data.file"], None))
        one, two = found["rows"]
        self.assertEqual([run["run"] for run in two["runs"]],
                         ["weak/ranks-2_groups-1_seed-1_repeat-1", "weak/ranks-2_groups-1_seed-1_repeat-2"])
        self.assertGreater(two["nodes"], 1.5 * one["nodes"])
        for row in (one, two):
            self.check_row(row, one["step_seconds"], row["ranks"], True, "w")
            self.assertIsNone(row["predicted_step_seconds"])
        # Without study.json the runs count as different trainings, unless --kind is given.
        os.remove(self.path("w/weak/study.json"))
        apart = self.report("w", "apart")[1]["studies"]
        self.assertEqual([(s["kind"], len(s["rows"]), s["rows"][0]["efficiency"]) for s in apart],
                         [("strong", 1, 1), ("strong", 1, 1)])
        self.assertRegex(apart[0]["label"], r"weak data.file=.*lat-3_.* nodes$")
        self.assertEqual(self.report("w", "apart", "--kind", "weak")[1]["studies"][0]["rows"], found["rows"])

    def test_failures(self):
        self.write("sizes.toml", STUDY + '[sizes.good]\n"model.latent" = 3\n[sizes.bad]\n"model.latent" = 0\n')
        out = self.study("sizes.toml", "--out", "f", "--seeds", "3", "--time-groups", "1", code=1)
        self.assertEqual(len(re.findall(r"sizes-good/ranks-\d_groups-1_seed-3: ended after", out)), 2)
        self.assertEqual(len(re.findall(r"sizes-bad/.*: failed with exit code 1: rossby: .*model\.latent", out)), 2)
        self.assertIn("4 runs: 2 ended, 2 failed, 0 cut off", out)
        studies = self.report("f", "frep")[1]["studies"]
        self.assertEqual([(study["label"], len(study["rows"])) for study in studies], [("sizes-good", 2)])

    def test_programs_that_are_not_there(self):
        """Nothing starts. One line says what is missing and which option names it."""
        # PATH holds only this folder.
        os.mkdir(self.path("bin"))
        self.write("not_executable", "")
        before = self.files()
        here = ["--rossby", support.rossby]
        for arguments, pattern in (
                (["--report", "programs"], "^scaling: rossby: not in PATH; name the program rossby with --rossby"),
                (["--rossby", "other"], "^scaling: other: not in PATH; name the program rossby with --rossby"),
                (["--rossby", ""], "^scaling: no program: name the program rossby with --rossby"),
                (["--rossby", "./missing"], "/missing: no such program; name the program rossby with --rossby"),
                (["--rossby", "./not_executable"], "/not_executable: not a file that can be executed; name the program rossby with --rossby"),
                (["--rossby", "./bin"], "/bin: not a file that can be executed; name the program rossby with --rossby"),
                (here, "^scaling: mpirun: not in PATH; name the program that starts the ranks with --launcher"),
                ([*here, "--launcher", "./start{ranks} -n {ranks}"], "^scaling: ./start1: no such program; name the program that starts the ranks with --launcher"),
                ([*here, "--submit", "--ranks-per-node", "1"], "^scaling: sbatch: not in PATH; --submit needs Slurm"),
                (["--submit", "--wait", "--ranks-per-node", "1", "--report", "programs"], "^scaling: rossby: not in PATH")):
            with self.subTest(arguments):
                result = self.drive("a.toml", "--out", "programs", *arguments)
                self.assertEqual((result.returncode, result.stdout, len(result.stderr.splitlines())), (2, "", 1), result.stderr)
                self.assertRegex(result.stderr, pattern)
                self.assertEqual(self.files(), before, "nothing is written")
        self.assertFalse(os.path.exists(self.path("programs")))
        self.assertEqual(self.drive("a.toml", "--out", "programs", "--list").returncode, 0, "--list starts nothing")

    def drive(self, *arguments):
        """Runs the driver with an empty folder as PATH."""
        return subprocess.run([sys.executable, str(DRIVER), *arguments], cwd=self.folder, capture_output=True, text=True, check=False,
                              env=dict(os.environ, PATH=self.path("bin")), timeout=60)

    def test_signal(self):
        arguments = ["--config", "stnn.toml", "--ranks", "2,1", "--out", "sig", "--label", "b", "--set", "log.seconds=0"]
        command = [sys.executable, str(DRIVER), *arguments, "--set", "train.epochs=100000000", "--rossby", support.rossby,
                   "--launcher", f"{support.mpiexec} -n {{ranks}}"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True) as process:
            metrics, end = self.path("sig/b/ranks-2_groups-1_seed-1/metrics.jsonl"), time.monotonic() + 60
            while not os.path.exists(metrics) and time.monotonic() < end:
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            out = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 75, out)
        self.assertRegex(out, "b/ranks-2_groups-1_seed-1: paused with exit code 75. To continue this run, give the same command again")
        self.assertFalse(os.path.exists(self.path("sig/b/ranks-1_groups-1_seed-1")), "the rest is not begun")
        left = len(self.lines("sig/b/ranks-2_groups-1_seed-1"))
        self.refuse(1, ["report", "scaling", "sig"], "sig: none of the 1 runs can be tabulated. For example "
                    "b/ranks-2_groups-1_seed-1: has not ended")
        self.study(*arguments, "--set", f"train.epochs={left + 3}")
        self.assertEqual(len(self.lines("sig/b/ranks-2_groups-1_seed-1")), left + 3)


if __name__ == "__main__":
    support.main()
