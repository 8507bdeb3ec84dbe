"""Shared by the tests of scaling studies: a study of tiny runs, and figures from the metrics of runs."""

import json
import pathlib
import statistics
import subprocess
import sys

import support
from sensors import RingRuns
from test_device import STNN
from test_schemas import LoadsJson

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


class Studies(LoadsJson, RingRuns):
    config = "stnn.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("stnn.toml", STNN.replace('"nearest"', '"edges"').replace('"double"', '"float"'))
        cls.write("a.toml", STUDY)

    def program(self, name, text):
        path = pathlib.Path(self.path(name))
        path.parent.mkdir(exist_ok=True)
        path.write_text('#!/bin/bash\nhere=$(dirname "$0")\n' + text + "\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def study(self, *arguments, code=0):
        """Runs jobscripts/scaling. Returns stdout, or stderr if it must fail."""
        command = [sys.executable, str(DRIVER), *arguments, "--rossby", support.rossby,
                   "--launcher", f"{support.mpiexec} -n {{ranks}}"]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=240)
        self.assertEqual(result.returncode, code, f"{command}\n{result.stdout}\n{result.stderr}")
        return result.stdout if code in (0, 75) or not result.stderr else result.stderr

    def stamps(self, folder):
        return {str(path): path.stat().st_mtime_ns for path in pathlib.Path(self.path(folder)).rglob("*") if path.is_file()}

    def report(self, folder, output, *arguments, ranks=1):
        """Returns the table and scaling.json of a report."""
        out = self.succeed(ranks, "report", "scaling", folder, "-o", output, *arguments).out
        with open(self.path(output + "/table.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), out)
        return out, self.load(output + "/scaling.json", "scaling.schema.json")

    def measured(self, run):
        """Returns seconds per step of a run by region, and its memory, from its metrics alone."""
        lines = self.lines(run)
        steps = [line["steps"] - before for line, before in zip(lines, [0, *(line["steps"] for line in lines)])]
        epochs = list(zip(lines, steps))[1:]
        line, count = sorted(epochs, key=lambda pair: pair[0]["epoch_seconds"] / pair[1])[(len(epochs) - 1) // 2]
        found = {region: seconds / count for region, seconds in line["step_seconds"].items()}
        return dict(found, step=line["epoch_seconds"] / count, memory=lines[-1]["peak_rss_bytes"])

    def check_row(self, row, base, ratio, weak, folder):
        """Checks a row against the metrics of its runs; `base` is the baseline's median."""
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
