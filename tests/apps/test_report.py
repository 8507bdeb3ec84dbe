"""rossby report scaling: tables and plots of runs trained by hand; bad input, also of jobscripts/scaling."""

import json
import os
import pathlib
import re
import shutil
import unittest
import unittest.mock

import support
from report_files import has_matplotlib, svg_texts
from studies import Studies


class Reports(Studies):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in (1, 2):
            result = cls.run_ranks(ranks, "train", "stnn.toml", "--run", f"hand/run{ranks}", "--set", "train.epochs=4")
            assert result.codes == [0] * ranks, result.err

    def fake(self, name, text):
        self.write(name, "#!/bin/sh\n" + text + "\n")
        os.chmod(self.path(name), 0o755)

    def copy(self, name, *runs):
        """Copies runs into a folder for a test to damage."""
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

    @support.long_test
    def test_studies_are_told_apart(self):
        folder = self.copy("two")
        for ranks in (1, 2):
            self.succeed(ranks, *self.arguments(f"two/wide{ranks}", "train.epochs=4", "model.latent=4"))
        studies = self.report("two", "rep_two")[1]["studies"]
        self.assertEqual([(s["label"], [row["ranks"] for row in s["rows"]]) for s in studies],
                         [("two model.latent=2", [1, 2]), ("two model.latent=4", [1, 2])])
        # Settings that do not change the step do not make another study.
        config = folder / "run2" / "config.toml"
        text = config.read_text()
        self.assertIn("epochs = 4", text)
        text = text.replace("epochs = 4", "epochs = 5")
        config.write_text(text.replace("every_minutes = 10", "every_minutes = 3").replace("\nseed = 1\n", "\nseed = 9\n"))
        self.assertNotEqual(config.read_text(), text)
        self.assertEqual(len(self.report("two", "rep_two")[1]["studies"]), 2)
        config.write_text(text.replace("lr = 0.003", "lr = 0.004"))
        self.assertEqual(len(self.report("two", "rep_two")[1]["studies"]), 3)

    def test_an_epoch_that_was_cut_short_is_no_measure(self):
        folder = self.copy("cut_short", "run1")
        lines = self.lines("cut_short/run1")
        lines[2]["steps"] = lines[3]["steps"] - 1
        for line, before, step in zip(lines[1:], lines, (1, 3, 2)):
            line["epoch_seconds"] = step * (line["steps"] - before["steps"])
        (folder / "run1/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        row = self.report("cut_short", "rep_cut")[1]["studies"][0]["rows"][0]
        self.assertAlmostEqual(row["step_seconds"], 3, msg="of the epoch of most steps, not of the median one")

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
        (folder / "study.json").write_text(json.dumps({"format": 1, "kind": "strong", "label": "left", "scaled": [],
                                                       "runs": [{"run": run} for run in (
                                                           "run1", "gone", "bare", "begun", "cut", "half", "longer", "moved", "old")]}))
        # A run killed before its first checkpoint, and a copy that is no run of the study.
        (folder / "bare").mkdir()
        shutil.copy(folder / "run1/config.toml", folder / "bare")
        out, report = self.report("left", "rep_left")
        reasons = {entry["run"]: entry["reason"] for entry in report["left_out"]}
        for name in ("begun", "cut", "half", "longer"):
            self.assertEqual(reasons.pop(name), "has not ended")
        self.assertEqual(reasons.pop("moved"), "its epochs were trained on different ranks or machines")
        self.assertIn("does not say on how many ranks", reasons.pop("old"))
        self.assertEqual(reasons.pop("gone"), "is in study.json, but has left no run directory")
        self.assertEqual(reasons.pop("bare"), "has not ended: it has neither metrics.jsonl nor checkpoints")
        self.assertEqual(reasons.pop("run2"), "is not among the runs that study.json lists, and has no name of such a run")
        self.assertEqual(reasons, {})
        self.assertEqual([[run["run"] for run in row["runs"]] for row in report["studies"][0]["rows"]], [["run1"]])
        self.assertIn("\n- cut: has not ended\n", out)

    def test_bad_input(self):
        self.refuse(2, ["report", "scaling", "nowhere"], "nowhere: no such folder. Give the folder that contains the run directories")
        os.makedirs(self.path("empty/deeper"), exist_ok=True)
        self.refuse(1, ["report", "scaling", "empty"], "empty: this folder has no run directory of 'rossby train' .* one or two levels down")
        self.refuse(1, ["report", "scaling", "hand/run1"], "hand/run1 is a run directory itself. Give the folder")
        self.refuse(1, ["report", "scaling", "hand", "--output", "stnn.toml"], "--output stnn.toml: cannot make this folder")
        self.refuse(1, ["report"], "a subcommand is missing; there are run, compare, scaling", code=2)
        self.refuse(1, ["report", "scaling", "hand", "--kind", "week"], "--kind: week not in", code=2)
        self.refuse(1, ["report", "scaling", "hand", "--band", "-3"], "--band: -3 is not a number of at least 0", code=2)
        self.refuse(1, ["report", "scaling", "hand", "--ouput", "x"], r"unknown option --ouput \(did you mean --output\?\)", code=2)

    def left_out(self, folder, run, reason):
        """Checks that the report names one damaged run and tabulates the others."""
        out, report = self.report(folder, "rest")
        self.assertEqual([entry["run"] for entry in report["left_out"]], [run])
        self.assertRegex(report["left_out"][0]["reason"], reason)
        self.assertRegex(out, rf"\n- {run}: .*{reason}")
        self.assertEqual([len(row["runs"]) for row in report["studies"][0]["rows"]], [1])

    @support.long_test
    def test_several_machines_and_versions(self):
        folder = self.copy("mixed")
        self.assertEqual(self.report("mixed", "rest")[1]["studies"][0]["notes"], [])
        lines = self.lines("mixed/run2")
        self.assertTrue(lines[0]["place"]["processor"])
        for line in lines:
            line["place"].update(processor="Abacus 9", rossby="0.0.1")
        (folder / "run2/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        out, report = self.report("mixed", "rest")
        notes = report["studies"][0]["notes"]
        self.assertEqual([note.split(":")[0] for note in notes], ["runs of several machines", "runs of several versions"])
        self.assertIn("Abacus 9", notes[0])
        self.assertIn("0.0.1", notes[1])
        self.assertIn(f"\nmixed: {notes[0]}.\n", out)
        # A run extended with another version: only the epochs of that version count.
        for line in lines[-2:]:
            line["place"].update(rossby="0.0.2")
        (folder / "run2/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        _, report = self.report("mixed", "rest")
        self.assertEqual((report["left_out"], "0.0.2" in report["studies"][0]["notes"][1]), ([], True))
        lines[-1]["place"].update(processor="Abacus 10")
        (folder / "run2/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.left_out("mixed", "run2", "its epochs were trained on different ranks or machines")

    @support.long_test
    def test_damaged_files(self):
        folder = self.copy("bad")
        metrics = folder / "run2" / "metrics.jsonl"
        whole = metrics.read_text().splitlines(keepends=True)
        for change, pattern in (
                (lambda line: line[:40] + "\n", "line 2 is not a JSON object"),
                (lambda line: "[1]\n", "line 2 is not a JSON object"),
                (lambda line: "\0\n", "line 2 is not a JSON object"),
                (lambda line: line.replace('"waiting":', '"wating":'), "'rossby train' did not write line 2: .*waiting"),
                (lambda line: re.sub('"epoch_seconds":', '"epoch_seconds":-', line), "'rossby train' did not write line 2: epoch_seconds is -"),
                (lambda line: re.sub('"steps":', '"steps":1e300,"x":', line), "'rossby train' did not write line 2: steps is 1e"),
                (lambda line: line.replace('"ranks":2', '"ranks":0'), "'rossby train' did not write line 2: ranks is 0"),
                (lambda line: line.replace('"ranks":2', '"ranks":3'), "'rossby train' did not write line 2: row_blocks x stages x time_groups is not ranks"),
                (lambda line: re.sub('"step_seconds":{.*?}', '"step_seconds":7', line), "'rossby train' did not write line 2")):
            changed = change(whole[1])
            self.assertNotEqual(changed, whole[1])
            metrics.write_text("".join([whole[0], changed, *whole[2:]]))
            with self.subTest(pattern):
                self.left_out("bad", "run2", "bad/run2/metrics.jsonl: " + pattern)
        shutil.copytree(folder / "run2", self.path("all_bad/run2"))
        self.refuse(2, ["report", "scaling", "all_bad", "-o", "never"], "none of the 1 runs can be tabulated. .*line 2")
        self.assertFalse(os.path.exists(self.path("never")))
        metrics.write_text("".join(whole))
        for text, pattern in (("{", "run2/plan.json: the file is damaged: not JSON"), ("{}", "run2/plan.json: not a plan")):
            (folder / "run2/plan.json").write_text(text)
            with self.subTest(text):
                self.left_out("bad", "run2", "bad/" + pattern)
            (folder / "run2/plan.json").unlink()
        for name, text, pattern in (
                ("study.json", "[", "study.json: not a study"), ("study.json", '{"format": 2}', "study.json: .*format 2"),
                ("study.json", '{"format": 1, "kind": "week"}', "study.json: .*kind is \"week\", but must be"),
                ("study.json", '{"format": 1, "kind": "weak", "label": "x"}', "study.json: .*scaled")):
            (folder / name).write_text(text)
            with self.subTest(text):
                self.refuse(1, ["report", "scaling", "bad"], "bad/" + pattern)
            (folder / name).unlink()
        with open(folder / "run1/config.toml", "a", encoding="utf-8") as file:
            file.write("[modle]\nx = 1\n")
        self.left_out("bad", "run1", "bad/run1/config.toml.*modle")
        shutil.copy(self.path("hand/run1/config.toml"), folder / "run1")
        state = folder / "run1/checkpoints/state.h5"
        state.write_bytes(state.read_bytes()[:500])
        self.left_out("bad", "run1", "bad/run1/checkpoints/state.h5")

    def test_study_files(self):
        for text, pattern in (
                ("ranks = [1\n", "t.toml: Unclosed array"), ('rank = [1]\nconfig = "stnn.toml"\n', "t.toml: unknown key rank. Known keys are label, kind"),
                ("ranks = [1]\n", "the configuration is missing"), ('config = "no.toml"\nranks = [1]\n', "no.toml: no such file"),
                ('config = "stnn.toml"\n', r"ranks is \[\], but must be a list of numbers of at least 1"),
                ('config = "stnn.toml"\nranks = [1, 0]\n', r"ranks is \[1, 0\]"), ('config = "stnn.toml"\nranks = [true]\n', "ranks is"),
                ('config = "stnn.toml"\nranks = 2\n', "ranks is 2"), ('config = "stnn.toml"\nranks = [1]\nset = 1\n', "set is 1"),
                ('config = "stnn.toml"\nranks = [1]\nkind = "week"\n', "kind is 'week', but must be strong or weak"),
                ('config = "stnn.toml"\nranks = [1]\nlabel = "a/b"\n', "label is 'a/b'"),
                ('config = "stnn.toml"\nranks = [3]\ntime_groups = [2]\n', r"there is no run: time groups times stages must divide the ranks, but none of \[2\] .* divides one of \[3\]"),
                ('config = "stnn.toml"\nranks = [1]\nkind = "weak"\n', "a weak study needs something that grows with the ranks"),
                ('config = "stnn.toml"\nranks = [1]\n[scaled]\n"data.file" = "x_{ranks}"\n', "a strong study trains the same"),
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
        self.assertIn("the name of a study file must end with .toml or .json", self.study("t.ini", code=1))
        self.write("t.json", "[")
        self.assertRegex(self.study("t.json", code=1), r"^scaling: t.json: [^\n]*\n$")
        base = ["--config", "stnn.toml", "--ranks", "1", "--out", "t"]
        self.assertIn("--set x: not KEY=VALUE", self.study(*base, "--set", "x", code=1))
        self.assertIn("--ranks-per-node", self.study(*base, "--submit", code=1))
        self.assertIn("train.seed is set by the study. Use the key seeds", self.study(*base, "--set", "train.seed=2", code=1))
        self.assertRegex(self.study(*base, "--kind", "weak", "--scaled", "model.latent={2*ranks}", "--list"),
                         "ranks-1_groups-1_seed-1: missing")
        os.makedirs(self.path("t/stnn"))
        self.write("t/stnn/study.json", '{"kind": "weak"}')
        self.assertIn("this file lists runs of a weak study. Choose another --label or --out", self.study(*base, code=1))
        self.write("t/stnn/study.json", "{")
        self.assertIn("t/stnn/study.json: not a study", self.study(*base, code=1))

    def test_without_matplotlib(self):
        """Table and figures are written nevertheless."""
        self.fake("blind_python", "exit 1")
        self.fake("failing_python", 'if [ "$1" = -c ]; then exit 0; fi\necho "of no use" >&2\necho "broken figure" >&2\nexit 1')
        for program, pattern in (("/nowhere/python", "no Python with matplotlib was found. Run apt-get install python3-matplotlib, or name a Python with ROSSBY_PYTHON"),
                                 ("./blind_python", "no Python with matplotlib was found"), ("./failing_python", "broken figure")):
            with unittest.mock.patch.dict(os.environ, ROSSBY_PYTHON=program):
                result = self.run_ranks(2, "report", "scaling", "hand", "-o", "none")
            self.assertEqual(result.codes, [0, 0], result.err)
            self.assertEqual(len(result.lines), 1)
            self.assertRegex(result.lines[0], "rossby: warning: no plots in none: " + pattern)
            self.assertEqual(sorted(os.listdir(self.path("none"))), ["scaling.json", "table.md"])
        with unittest.mock.patch.dict(os.environ, ROSSBY_REPORT=self.path("nowhere")):
            self.assertRegex(self.run_ranks(1, "report", "scaling", "hand", "-o", "none").lines[0], "no plots in none: .*nowhere")

    @unittest.skipUnless(has_matplotlib(), "python3-matplotlib is not installed")
    def test_plots(self):
        folder = self.copy("it's a \\ $(x) `y` <b> study")
        plan = {"format": 1, "model": "stnn", "nodes": 9, "ranks": 2, "hosts": 1, "threads": self.lines("hand/run2")[0]["place"]["threads"],
                "time_groups": 1, "ops": []}
        step = 1.25 * self.measured("hand/run2")["step"]
        plan["predicted"] = {
            "forward": step, "backward": 0, "optimiser": 0, "messages": 0, "reduction": 0, "straggler": 0, "step_seconds": step,
            "imbalance": 1, "sent": {"messages": 0, "bytes": 0, "ranks": 2}, "epoch_steps": 1, "epoch_seconds": step, "memory_bytes": 0, "far_share": 0, "unmeasured": []}
        (folder / "run2/plan.json").write_text(json.dumps(plan))
        report = self.report(folder.name, "it's plots", ranks=2)[1]
        self.assertAlmostEqual(report["studies"][0]["rows"][1]["prediction_error_percent"], 25, delta=1e-6)
        plots = pathlib.Path(self.path("it's plots"))
        stems = {path.stem for path in plots.glob("*.svg")}
        self.assertEqual(len(stems), 3)
        name = min(stems).removesuffix("_efficiency")
        self.assertEqual({path.name for path in plots.iterdir()},
                         {"table.md", "scaling.json", *(f"{name}_{plot}.{kind}" for plot in ("speed_up", "efficiency", "regions") for kind in ("svg", "png"))})
        for path in plots.glob("*.png"):
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        texts = {path.stem.removeprefix(name + "_"): svg_texts(path) for path in plots.glob("*.svg")}
        for path in plots.glob("*.svg"):
            self.assertLess(path.stat().st_size, 100000)
        for text in texts.values():
            self.assertIn("it's a \\ $(x) `y` <b> study (strong scaling)", text)
        for words, plot in ((["speed-up over 1 rank", "ideal", "measured, min to max", "predicted ± 25.0 %"], "speed_up"),
                            (["efficiency over 1 rank", "ideal", "predicted"], "efficiency"),
                            (["forward", "backward", "optimiser", "reduction", "other", "of which waiting", "ms a step", "predicted"], "regions")):
            for word in words:
                self.assertIn(word, texts[plot])
        # The plot has the requested band, and the same figures give the same plots.
        self.report(folder.name, "it's plots", "--band", "10")
        self.assertIn("predicted ± 10.0 %", svg_texts(plots / f"{name}_speed_up.svg"))
        drawn = {path: path.read_bytes() for path in plots.glob("*.svg")}
        self.report(folder.name, "it's plots", "--band", "10")
        self.assertEqual({path: path.read_bytes() for path in plots.glob("*.svg")}, drawn)
        # Plots of deleted studies are removed; files that the report did not draw stay.
        (plots / "mine_speed_up.svg").write_text("<svg/>")
        shutil.copytree(folder, self.path("other"))
        self.report("other", "it's plots")
        self.assertEqual({path.stem for path in plots.glob("*.svg")}, {"mine_speed_up", "other_speed_up", "other_efficiency", "other_regions"})


if __name__ == "__main__":
    support.main()
