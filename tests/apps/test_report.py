"""jobscripts/scaling and rossby report scaling: studies of tiny runs, their tables, plots, and bad input."""

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
import unittest
import unittest.mock
import xml.etree.ElementTree

import support
from sensors import Runs, sensors
from test_device import STNN
from test_schemas import faults, schema_of

DRIVER = pathlib.Path(__file__).resolve().parents[2] / "jobscripts" / "scaling"
STUDY = """
config = "stnn.toml"
ranks = [1, 2]
time_groups = [1, 2]
seeds = [3, 4]
machine = "machine.json"
[set]
"train.epochs" = 6
[set.log]
seconds = 0
"""
REGIONS = ["forward", "backward", "optimiser", "reduction"]


class Studies(Runs):
    config = "stnn.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ring = range(9)
        cls.netcdf("sensors.nc", sensors(30, 9, ", ".join(map(str, ring)), ", ".join(str((i + 1) % 9) for i in ring),
                                         ", ".join("1" for _ in ring)))
        cls.write("stnn.toml", STNN.replace('"nearest"', '"edges"').replace('"double"', '"float"'))
        cls.write("a.toml", STUDY)

    def study(self, *arguments, code=0):
        """Runs jobscripts/scaling; its stdout, or where it is to fail its stderr."""
        command = [sys.executable, str(DRIVER), *arguments, "--rossby", support.rossby,
                   "--launcher", f"{support.mpiexec} -n {{ranks}}"]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=240)
        self.assertEqual(result.returncode, code, f"{command}\n{result.stdout}\n{result.stderr}")
        return result.stdout if code in (0, 75) or not result.stderr else result.stderr

    def stamps(self, folder):
        return {str(path): path.stat().st_mtime_ns for path in pathlib.Path(self.path(folder)).rglob("*") if path.is_file()}

    def load(self, name, schema):
        with open(self.path(name), encoding="utf-8") as file:
            value = json.load(file, parse_constant=self.fail)
        schema = schema_of(schema)
        self.assertEqual(faults(value, schema, schema), [])
        return value

    def report(self, folder, output, *arguments, ranks=1):
        """The table and scaling.json of a report."""
        out = self.succeed(ranks, "report", "scaling", folder, "-o", output, *arguments).out
        with open(self.path(output + "/table.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), out)
        return out, self.load(output + "/scaling.json", "scaling.schema.json")

    def measured(self, run):
        """Seconds a step of a run by region, and its memory, from its metrics alone."""
        lines = self.lines(run)
        steps = [line["steps"] - before for line, before in zip(lines, [0, *(line["steps"] for line in lines)])]
        epochs = list(zip(lines, steps))[1:]
        line, count = sorted(epochs, key=lambda pair: pair[0]["epoch_seconds"] / pair[1])[len(epochs) // 2]
        found = {region: seconds / count for region, seconds in line["step_seconds"].items()}
        return dict(found, step=line["epoch_seconds"] / count, memory=lines[-1]["peak_rss_bytes"])

    def check_row(self, row, base, ratio, weak, folder):
        """Holds a row against the metrics of its runs; `base` is the baseline's median."""
        runs = [self.measured(f"{folder}/{run['run']}") for run in row["runs"]]
        steps = [run["step"] for run in runs]
        step = statistics.median(steps)
        for run, seconds in zip(row["runs"], steps):
            self.assertAlmostEqual(run["step_seconds"] / seconds, 1, delta=1e-9)
        other = sum(max(0, run["step"] - sum(run[region] for region in REGIONS)) for run in runs) / sum(steps)
        expected = {"step_seconds": step, "step_seconds_min": min(steps), "step_seconds_max": max(steps),
                    "speed_up": (ratio if weak else 1) * base / step, "efficiency": base / step / (1 if weak else ratio),
                    "waiting_share": sum(run["waiting"] for run in runs) / sum(steps),
                    "peak_rss_bytes": max(run["memory"] for run in runs)}
        for name, value in expected.items():
            self.assertAlmostEqual(row[name], value, delta=1e-9 * value, msg=name)
        for region in REGIONS:
            self.assertAlmostEqual(row["shares"][region], sum(run[region] for run in runs) / sum(steps), delta=1e-9)
        self.assertAlmostEqual(row["shares"]["other"], other, delta=1e-9)


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
                self.assertEqual({k: v for k, v in line["place"].items() if k != "threads"},
                                 {"ranks": ranks, "hosts": 1, "row_blocks": ranks // groups, "time_groups": groups})
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

    def check_table(self, out, rows):
        """The Markdown has the figures of scaling.json."""
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
        # A start that left after its first step.
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
        # Settings that a run may go on with: it does.
        self.study(*arguments, "--set", "train.epochs=7")
        self.assertEqual(len(self.lines("again/a/ranks-1_groups-1_seed-3")), 7)
        # Epochs behind the state that an earlier end has left: the run is under way again.
        os.utime(self.path("again/a/ranks-1_groups-1_seed-3/metrics.jsonl"))
        self.assertEqual(self.study(*arguments, "--set", "train.epochs=7", "--list").count(": cut off\n"), 1)
        # Settings that make another model: each run says so.
        out = self.study(*arguments, "--set", "model.latent=3", code=1)
        self.assertEqual(out.count("model.latent: 3 (here) instead of 2"), 4)

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
        # Without study.json the runs are of different trainings, unless it is said what they are for.
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
        self.assertRegex(out, "b/ranks-2_groups-1_seed-1: left with exit code 75: the same command goes on")
        self.assertFalse(os.path.exists(self.path("sig/b/ranks-1_groups-1_seed-1")), "the rest is not begun")
        left = len(self.lines("sig/b/ranks-2_groups-1_seed-1"))
        self.refuse(1, ["report", "scaling", "sig"], "sig: none of its 1 runs can be tabulated; the first, "
                    "b/ranks-2_groups-1_seed-1, has not ended")
        self.study(*arguments, "--set", f"train.epochs={left + 3}")
        self.assertEqual(len(self.lines("sig/b/ranks-2_groups-1_seed-1")), left + 3)


class Reports(Studies):
    """Tables of runs that were trained by hand, and what is wrong with them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in (1, 2):
            result = cls.run_ranks(ranks, "train", "stnn.toml", "--run", f"hand/run{ranks}", "--set", "train.epochs=4")
            assert result.codes == [0] * ranks, result.err

    def copy(self, name, *runs):
        """A folder with copies of the runs, for a test to spoil."""
        for run in runs or ("run1", "run2"):
            shutil.copytree(self.path(f"hand/{run}"), self.path(f"{name}/{run}"))
        return pathlib.Path(self.path(name))

    def test_runs_of_ones_own(self):
        out, report = self.report("hand", "rep")
        self.assertEqual([(s["label"], s["kind"], [row["ranks"] for row in s["rows"]]) for s in report["studies"]],
                         [("hand", "strong", [1, 2])])
        rows = report["studies"][0]["rows"]
        for row in rows:
            self.check_row(row, rows[0]["step_seconds"], row["ranks"], False, "hand")
        self.assertRegex(out, r"\| hand \| strong \| 2 \| 1 \| \d+ \| 2 x 1 \| 9 \| 1 \| [0-9.]+ \| – \|")
        again = self.succeed(1, "report", "scaling", self.path("hand")).out
        self.assertEqual(again, out, "named by its whole path")

    def test_studies_are_told_apart(self):
        folder = self.copy("two")
        for ranks in (1, 2):
            self.succeed(ranks, *self.arguments(f"two/wide{ranks}", "train.epochs=4", "model.latent=4"))
        studies = self.report("two", "rep_two")[1]["studies"]
        self.assertEqual([(s["label"], [row["ranks"] for row in s["rows"]]) for s in studies],
                         [("two model.latent=2", [1, 2]), ("two model.latent=4", [1, 2])])
        # What leaves the step as it is makes no other study.
        config = folder / "run2" / "config.toml"
        text = config.read_text()
        config.write_text(text.replace("every_minutes = 10", "every_minutes = 3").replace("\nseed = 1\n", "\nseed = 9\n"))
        self.assertNotEqual(config.read_text(), text)
        self.assertEqual(len(self.report("two", "rep_two")[1]["studies"]), 2)
        config.write_text(text.replace("lr = 0.003", "lr = 0.004"))
        self.assertEqual(len(self.report("two", "rep_two")[1]["studies"]), 3)

    def test_left_out(self):
        folder = self.copy("left")
        shutil.copytree(folder / "run1", folder / "cut")
        (folder / "cut/checkpoints/state.h5").unlink()
        shutil.copytree(folder / "run1", folder / "begun")
        (folder / "begun/metrics.jsonl").unlink()
        shutil.copytree(folder / "run1", folder / "half")
        with open(folder / "half/metrics.jsonl", "a", encoding="utf-8") as file:
            file.write('{"epoch": 4, "ste')
        shutil.copytree(folder / "run1", folder / "longer")
        lines = self.lines("left/run1")
        with open(folder / "longer/metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(dict(lines[-1], epoch=4, steps=lines[-1]["steps"] + 1)) + "\n")
        shutil.copytree(folder / "run1", folder / "moved")
        lines[0]["place"].update(ranks=2, row_blocks=2)
        (folder / "moved/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        shutil.copytree(folder / "run1", folder / "old")
        for line in lines:
            line.pop("place")
        (folder / "old/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        out, report = self.report("left", "rep_left")
        reasons = {entry["run"]: entry["reason"] for entry in report["left_out"]}
        for name in ("begun", "cut", "half", "longer"):
            self.assertEqual(reasons.pop(name), "has not ended")
        self.assertEqual(reasons.pop("moved"), "its epochs were trained on different ranks")
        self.assertIn("does not say on how many ranks", reasons.pop("old"))
        self.assertEqual(reasons, {})
        self.assertEqual([len(row["runs"]) for row in report["studies"][0]["rows"]], [1, 1])
        self.assertIn("\n- cut: has not ended\n", out)

    def test_bad_input(self):
        self.refuse(2, ["report", "scaling", "nowhere"], "nowhere: no such folder; give the one that run directories lie in")
        os.makedirs(self.path("empty/deeper"), exist_ok=True)
        self.refuse(1, ["report", "scaling", "empty"], "empty: no run directory of 'rossby train' one or two levels below")
        self.refuse(1, ["report", "scaling", "hand/run1"], "hand/run1 is a run directory itself; give the folder")
        self.refuse(1, ["report", "scaling", "hand", "--output", "stnn.toml"], "--output stnn.toml: cannot make this folder")
        self.refuse(1, ["report"], "a subcommand is missing; there are scaling", code=2)
        self.refuse(1, ["report", "scaling", "hand", "--kind", "week"], "--kind: week not in", code=2)
        self.refuse(1, ["report", "scaling", "hand", "--band", "-3"], "--band: -3 is not a number of at least 0", code=2)
        self.refuse(1, ["report", "scaling", "hand", "--ouput", "x"], r"unknown option --ouput \(did you mean --output\?\)", code=2)

    def test_damaged_files(self):
        folder = self.copy("bad")
        metrics = folder / "run2" / "metrics.jsonl"
        whole = metrics.read_text().splitlines(keepends=True)
        for change, pattern in (
                (lambda line: line[:40] + "\n", "line 2 is not a JSON object"),
                (lambda line: "[1]\n", "line 2 is not a JSON object"),
                (lambda line: "\0\n", "line 2 is not a JSON object"),
                (lambda line: line.replace('"waiting":', '"wating":'), "line 2 is not a line of 'rossby train': .*waiting"),
                (lambda line: re.sub('"epoch_seconds":', '"epoch_seconds":-', line), "line 2 .*: epoch_seconds is -"),
                (lambda line: re.sub('"steps":', '"steps":1e300,"x":', line), "line 2 .*: steps is 1e"),
                (lambda line: line.replace('"ranks":2', '"ranks":0'), "line 2 .*: ranks is 0"),
                (lambda line: line.replace('"ranks":2', '"ranks":3'), "line 2 .*: row_blocks x time_groups is not ranks"),
                (lambda line: re.sub('"step_seconds":{.*?}', '"step_seconds":7', line), "line 2 is not a line of")):
            changed = change(whole[1])
            self.assertNotEqual(changed, whole[1])
            metrics.write_text("".join([whole[0], changed, *whole[2:]]))
            with self.subTest(pattern):
                self.refuse(2, ["report", "scaling", "bad", "-o", "never"], "bad/run2/metrics.jsonl: " + pattern)
                self.assertFalse(os.path.exists(self.path("never")))
        metrics.write_text("".join(whole))
        for name, text, pattern in (
                ("run2/plan.json", "{", "run2/plan.json: not JSON"), ("run2/plan.json", "{}", "run2/plan.json: not a plan"),
                ("study.json", "[", "study.json: not a study"), ("study.json", '{"format": 2}', "study.json: .*format 2"),
                ("study.json", '{"format": 1, "kind": "week"}', "study.json: .*kind \"week\", it is strong or weak"),
                ("study.json", '{"format": 1, "kind": "weak", "label": "x"}', "study.json: .*scaled")):
            (folder / name).write_text(text)
            with self.subTest(text):
                self.refuse(1, ["report", "scaling", "bad"], "bad/" + pattern)
            (folder / name).unlink()
        with open(folder / "run1/config.toml", "a", encoding="utf-8") as file:
            file.write("[modle]\nx = 1\n")
        self.refuse(1, ["report", "scaling", "bad"], "bad/run1/config.toml.*modle")
        shutil.copy(self.path("hand/run1/config.toml"), folder / "run1")
        state = folder / "run1/checkpoints/state.h5"
        state.write_bytes(state.read_bytes()[:500])
        self.refuse(1, ["report", "scaling", "bad"], "bad/run1/checkpoints/state.h5")

    def test_study_files(self):
        for text, pattern in (
                ("ranks = [1\n", "t.toml: Unclosed array"), ('rank = [1]\nconfig = "stnn.toml"\n', "t.toml: unknown key rank; known: label, kind"),
                ("ranks = [1]\n", "no configuration"), ('config = "no.toml"\nranks = [1]\n', "no.toml: no such file"),
                ('config = "stnn.toml"\n', r"ranks is \[\], it must be a list of numbers of at least 1"),
                ('config = "stnn.toml"\nranks = [1, 0]\n', r"ranks is \[1, 0\]"), ('config = "stnn.toml"\nranks = [true]\n', "ranks is"),
                ('config = "stnn.toml"\nranks = 2\n', "ranks is 2"), ('config = "stnn.toml"\nranks = [1]\nset = 1\n', "set is 1"),
                ('config = "stnn.toml"\nranks = [1]\nkind = "week"\n', "kind is 'week', it must be strong or weak"),
                ('config = "stnn.toml"\nranks = [1]\nlabel = "a/b"\n', "label is 'a/b'"),
                ('config = "stnn.toml"\nranks = [3]\ntime_groups = [2]\n', r"no run: none of the time groups \[2\] divides"),
                ('config = "stnn.toml"\nranks = [1]\nkind = "weak"\n', "a weak study needs what grows with the ranks"),
                ('config = "stnn.toml"\nranks = [1]\n[scaled]\n"data.file" = "x_{ranks}"\n', "a strong study is the same training"),
                ('config = "stnn.toml"\nranks = [1]\nkind = "weak"\n[synth]\nlatt = "{ranks}"\n', "synth: unknown key latt"),
                ('config = "stnn.toml"\nranks = [1]\nkind = "weak"\n[scaled]\na = "{ranks} {ranks/2}"\n', "only {ranks} and multiples"),
                ('config = "stnn.toml"\nranks = [1]\nmachine = "no.json"\n', "no.json: no such file")):
            with self.subTest(text):
                self.write("t.toml", text)
                err = self.study("t.toml", "--out", "t", code=1)
                self.assertRegex(err, r"^scaling: [^\n]*" + pattern + r"[^\n]*\n$")
                self.assertFalse(os.path.exists(self.path("t")))
        self.assertIn("none.toml: cannot be read", self.study("none.toml", code=1))
        self.write("t.ini", "")
        self.assertIn("a study file ends in .toml or .json", self.study("t.ini", code=1))
        self.write("t.json", "[")
        self.assertRegex(self.study("t.json", code=1), r"^scaling: t.json: [^\n]*\n$")
        base = ["--config", "stnn.toml", "--ranks", "1", "--out", "t"]
        self.assertIn("--set x: not KEY=VALUE", self.study(*base, "--set", "x", code=1))
        self.assertIn("--ranks-per-node", self.study(*base, "--submit", code=1))
        self.assertIn("train.seed is the study's own to set: use its key seeds", self.study(*base, "--set", "train.seed=2", code=1))
        self.assertRegex(self.study(*base, "--kind", "weak", "--scaled", "model.latent={2*ranks}", "--list"),
                         "ranks-1_groups-1_seed-1: missing")
        os.makedirs(self.path("t/stnn"))
        self.write("t/stnn/study.json", '{"kind": "weak"}')
        self.assertIn("the runs there are of a weak study; choose another --label or --out", self.study(*base, code=1))
        self.write("t/stnn/study.json", "{")
        self.assertIn("t/stnn/study.json: not a study", self.study(*base, code=1))

    def test_without_gnuplot(self):
        for program, pattern in (("/nowhere/gnuplot", "there is no program /nowhere/gnuplot: install gnuplot, or name one with GNUPLOT"),
                                 ("/bin/false", "/bin/false could not draw hand.gp"),
                                 ("/bin/true", "/bin/true has not drawn hand_speed_up.svg")):
            os.makedirs(self.path("none"), exist_ok=True)
            self.write("none/hand_speed_up.svg", "of other data")
            with unittest.mock.patch.dict(os.environ, GNUPLOT=program):
                result = self.run_ranks(2, "report", "scaling", "hand", "-o", "none")
            self.assertEqual(result.codes, [0, 0], result.err)
            self.assertEqual(len(result.lines), 1)
            self.assertRegex(result.lines[0], "rossby: warning: no plots in none: " + pattern)
            self.assertEqual(sorted(os.listdir(self.path("none"))),
                             ["hand.dat", "hand.gp", "hand.regions.dat", "scaling.json", "table.md"], "no plot of other data")

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_plots(self):
        folder = self.copy("it's a \\ $(x) `y` study")
        plan = {"format": 1, "model": "stnn", "nodes": 9, "ranks": 2, "hosts": 1, "threads": self.lines("hand/run2")[0]["place"]["threads"],
                "time_groups": 1, "ops": []}
        step = 1.25 * self.measured("hand/run2")["step"]
        plan["predicted"] = plan["predicted_by_polynomials"] = {
            "forward": step, "backward": 0, "optimiser": 0, "messages": 0, "reduction": 0, "straggler": 0, "step_seconds": step,
            "epoch_steps": 1, "epoch_seconds": step, "memory_bytes": 0, "far_share": 0, "unmeasured": []}
        (folder / "run2/plan.json").write_text(json.dumps(plan))
        report = self.report(folder.name, "it's plots", ranks=2)[1]
        self.assertAlmostEqual(report["studies"][0]["rows"][1]["prediction_error_percent"], 25, delta=1e-6)
        plots = pathlib.Path(self.path("it's plots"))
        stems = {path.stem for path in plots.glob("*.svg")}
        self.assertEqual(len(stems), 3)
        name = min(stems).removesuffix("_efficiency")
        self.assertEqual({path.name for path in plots.iterdir()},
                         {"table.md", "scaling.json", f"{name}.gp", f"{name}.dat", f"{name}.regions.dat",
                          *(f"{name}_{plot}.{kind}" for plot in ("speed_up", "efficiency", "regions") for kind in ("svg", "png"))})
        for path in plots.glob("*.png"):
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        texts = {}
        for path in plots.glob("*.svg"):
            self.assertLess(path.stat().st_size, 60000)
            texts[path.stem.removeprefix(name + "_")] = "\n".join(
                "".join(node.itertext()) for node in xml.etree.ElementTree.parse(path).iter() if node.tag.endswith("}text"))
        for text in texts.values():
            self.assertIn("it's a \\ $(x) `y` study (strong scaling)", re.sub(r"\s+", " ", text.replace("\xa0", " ")))
        for words, plot in ((["speed-up over 1 rank", "ideal", "measured, min to max", "predicted ± 25.0 %"], "speed_up"),
                            (["efficiency over 1 rank", "ideal", "predicted"], "efficiency"),
                            (["forward", "backward", "optimiser", "reduction", "other", "of which waiting", "ms a step"], "regions")):
            for word in words:
                self.assertIn(word, texts[plot].replace("\xa0", " "))
        rows = report["studies"][0]["rows"]
        data = [line.split() for line in (plots / f"{name}.dat").read_text().splitlines() if line and line[0] != "#"]
        for line, row in zip(data, rows):
            self.assertEqual(int(line[0]), row["ranks"])
            for column, value in ((4, 1e3 * row["step_seconds"]), (7, row["speed_up"]), (10, row["efficiency"])):
                self.assertAlmostEqual(float(line[column]) / value, 1, delta=1e-5)
        self.assertEqual(data[0][13], "NaN")
        for column, factor in ((14, 1 / 1.25), (15, 1 / 1.25**2), (16, 1 / 1.25 / 0.75)):
            self.assertAlmostEqual(float(data[1][column]) / (factor * rows[1]["speed_up"]), 1, delta=1e-5)
        # The band that is asked for; the script draws what the program has drawn.
        self.report(folder.name, "it's plots", "--band", "10")
        self.assertIn("± 10.0 %", (plots / f"{name}_speed_up.svg").read_text())
        drawn = {path: path.read_bytes() for path in plots.glob("*.svg")}
        for path in drawn:
            path.unlink()
        subprocess.run(["gnuplot", f"{name}.gp"], cwd=plots, check=True, timeout=60)
        self.assertEqual({path: path.read_bytes() for path in plots.glob("*.svg")}, drawn)


if __name__ == "__main__":
    support.main()
