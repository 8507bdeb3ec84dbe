"""rossby report scaling: runs that do not count, unreadable folders, failing plots, lost output."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import support
from studies import Studies


class ReportFaults(Studies):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in (1, 2):
            result = cls.run_ranks(ranks, "train", "stnn.toml", "--run", f"hand/run{ranks}", "--set", "train.epochs=5")
            assert result.codes == [0] * ranks, result.err
        result = cls.run_ranks(1, "train", "stnn.toml", "--run", "short", "--set", "train.epochs=1")
        assert result.codes == [0], result.err

    @classmethod
    def fake(cls, name, text):
        cls.write(name, text)
        os.chmod(cls.path(name), 0o755)

    def copy(self, name, *runs):
        for run in runs or ("run1", "run2"):
            shutil.copytree(self.path(f"hand/{run}"), self.path(f"{name}/{run}"))
        return pathlib.Path(self.path(name))

    def change(self, run, change):
        """Writes a run's metrics anew, each line changed."""
        lines = self.lines(run)
        for number, line in enumerate(lines):
            change(number, line)
        self.write(f"{run}/metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def steps(self, run, seconds):
        """Sets the seconds per step of each epoch."""
        counts = [line["steps"] for line in self.lines(run)]

        def change(number, line):
            line["epoch_seconds"] = seconds[number] * (counts[number] - (counts[number - 1] if number else 0))
        self.change(run, change)

    def row(self, folder):
        return self.report(folder, "one_row")[1]["studies"][0]["rows"][0]

    def left_out(self, folder, **report):
        found = (report or {"found": self.report(folder, "rest")[1]})["found"]
        return {entry["run"]: entry["reason"] for entry in found["left_out"]}

    def test_a_first_epoch_alone(self):
        """A first epoch touches memory for the first time, and does not count beside longer runs."""
        folder = self.copy("first")
        shutil.copytree(self.path("short"), folder / "short")
        report = self.report("first", "rest")[1]
        rows = report["studies"][0]["rows"]
        self.assertEqual([[run["run"] for run in row["runs"]] for row in rows], [["run1"], ["run2"]])
        self.assertEqual(self.left_out("first", found=report), {"short": "only its first epoch was measured, which other runs leave out"})
        # Runs of different lengths share a row. If only first epochs exist, the report uses them.
        config = folder / "run2/config.toml"
        self.change("first/run2", lambda number, line: line["place"].update(ranks=1, row_blocks=1))
        config.write_text(config.read_text().replace("epochs = 5", "epochs = 7"))
        self.assertEqual([len(row["runs"]) for row in self.report("first", "rest")[1]["studies"][0]["rows"]], [2])
        for name in ("run1", "run2"):
            shutil.rmtree(folder / name)
        shutil.copytree(folder / "short", folder / "short2")
        report = self.report("first", "rest")[1]
        self.assertEqual(([len(row["runs"]) for row in report["studies"][0]["rows"]], report["left_out"]), ([2], []))

    def test_epochs_that_count(self):
        folder = self.copy("epochs", "run1")
        # The median of the four epochs after the first is the faster of the middle two.
        self.steps("epochs/run1", [9, 4, 1, 3, 2])
        self.assertAlmostEqual(self.row("epochs")["step_seconds"], 2)
        # Epochs of two starts do not count: their regions cover only the second start.
        self.change("epochs/run1", lambda number, line: line["sent"].update(whole=number not in (2, 4)))
        self.assertAlmostEqual(self.row("epochs")["step_seconds"], 3)
        self.change("epochs/run1", lambda number, line: line["sent"].update(whole=False))
        self.assertAlmostEqual(self.row("epochs")["step_seconds"], 2, msg="there is nothing else")
        self.change("epochs/run1", lambda number, line: line["sent"].update(whole=number == 0))
        self.assertAlmostEqual(self.row("epochs")["step_seconds"], 9, msg="of one start at least")
        shutil.rmtree(folder)

    @support.long_test
    def test_names_of_folders(self):
        """The result is the same for any name of the folder."""
        folder = self.copy("sc/deep")
        study = {"format": 1, "kind": "strong", "label": "x", "scaled": [], "runs": [{"run": "run1"}, {"run": "run2"}, {"run": "gone"}]}
        (folder / "study.json").write_text(json.dumps(study))
        # A study whose runs have left no files.
        os.makedirs(self.path("sc/lost"))
        self.write("sc/lost/study.json", json.dumps(dict(study, runs=[{"run": "a"}])))
        missing = "is in study.json, but has left no run directory"
        for name in ("sc", "./sc", "sc/", "sc/../sc//."):
            with self.subTest(name):
                self.assertEqual(self.left_out(name), {"deep/gone": missing, "lost/a": missing})
        result = self.run_ranks(1, "report", "scaling", ".", folders=[str(folder)])
        self.assertEqual(result.codes, [0], result.err)
        self.assertIn(f"\n- gone: {missing}\n", result.out)
        self.assertIn("| x | strong | 2 |", result.out)
        self.refuse(1, ["report", "scaling", "sc/lost"], f"sc/lost: none of the 1 runs can be tabulated. For example a: {missing}")
        # One damaged study does not end the report of the others.
        self.write("sc/lost/study.json", "{")
        self.assertIn("not a study", self.left_out("sc")["lost"])

    def test_folders_that_cannot_be_read(self):
        folder = self.copy("closed")
        os.symlink("loop", folder / "loop")  # stat of this link fails
        (folder / "odd").mkdir()
        os.symlink("config.toml", folder / "odd/config.toml")
        reasons = self.left_out("closed")
        self.assertEqual(list(reasons), ["odd"])
        self.assertRegex(reasons["odd"], "^cannot be read: ")
        if os.geteuid() != 0:
            (folder / "lost+found").mkdir(mode=0)
            self.assertRegex(self.left_out("closed")["lost+found"], "^cannot be read: Permission denied")

    def test_copies_beside_the_runs(self):
        folder = self.copy("copies")
        shutil.copytree(folder / "run1", folder / "run1.bak")
        self.assertEqual([len(row["runs"]) for row in self.report("copies", "rest")[1]["studies"][0]["rows"]], [2, 1])
        (folder / "study.json").write_text(json.dumps({"format": 1, "kind": "strong", "label": "x", "scaled": [],
                                                       "runs": [{"run": "run1"}, {"run": "run2"}]}))
        report = self.report("copies", "rest")[1]
        self.assertEqual([len(row["runs"]) for row in report["studies"][0]["rows"]], [1, 1])
        self.assertEqual(self.left_out("copies", found=report), {"run1.bak": "is not among the runs that study.json lists, and has no name of such a run"})
        for name in (".bak", "-old", " (copy)", "_old"):
            shutil.copytree(folder / "run1", folder / f"ranks-1_groups-1_seed-1{name}")
        self.assertEqual(len(self.left_out("copies")), 5)
        for name in (".bak", "-old", " (copy)", "_old"):
            shutil.rmtree(folder / f"ranks-1_groups-1_seed-1{name}")
        # Jobs that were started without the driver are runs of the study.
        (folder / "run1.bak").rename(folder / "ranks-1_groups-1_seed-3")
        report = self.report("copies", "rest")[1]
        self.assertEqual(([len(row["runs"]) for row in report["studies"][0]["rows"]], report["left_out"]), ([2, 1], []))

    def test_signals_while_it_draws(self):
        self.fake("slow_python", '#!/bin/sh\nif [ "$1" = -c ]; then exit 0; fi\ntouch drawing\nsleep 60\n')
        for number in (signal.SIGINT, signal.SIGTERM):
            out = self.path(f"signal{number}")
            pathlib.Path(self.path("drawing")).unlink(missing_ok=True)
            with subprocess.Popen([support.rossby, "report", "scaling", "hand", "-o", out], cwd=self.folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=dict(os.environ, ROSSBY_PYTHON="./slow_python")) as process:
                end = time.monotonic() + 30
                while not os.path.exists(self.path("drawing")) and time.monotonic() < end:
                    time.sleep(0.05)
                begin = time.monotonic()
                process.send_signal(number)
                err = process.communicate(timeout=30)[1]
            self.assertLess(time.monotonic() - begin, 20)
            self.assertEqual(process.returncode, 1, err)
            self.assertRegex(err, rf"^rossby: stopped by signal {int(number)} while \./slow_python drew the pictures\n$")
            self.assertEqual(sorted(os.listdir(out)), ["scaling.json", "table.md"])

    def test_output_that_is_lost(self):
        for command in (["report", "scaling", "hand"], ["config"], ["--version"]):
            with self.subTest(command), open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([support.rossby, *command], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                        text=True, check=False, timeout=60)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, "^rossby: [^\n]*(No space left on device|cannot write to the standard output)[^\n]*\n$")


if __name__ == "__main__":
    support.main()
