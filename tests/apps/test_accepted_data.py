"""evaluate and forecast with --accept-changed-data: corrected values, rolling archives, and messages."""

import json
import os
import re
import subprocess

import support
from sensors import SENSORS, Runs, sensors

STEPS, NODES = 80, 3
CONFIG = SENSORS.replace("train = 12", "train = 0.7\nvalidation = 0.1").replace('["v"]', '["v"]\ncenter = "node"')
WINDOWS = "model.name=gru", "window.inputs=3", "window.outputs=2", "split.train=54"
ANOMALIES = "data.cycle=time_of_day", "data.trend=linear"


def changed(first=0, last=STEPS, corrected=(), offset=0, kind="float", unit="hours", origin="2001-01-01"):
    """Returns the CDL of steps [first, last), counted from `origin`; `corrected` are (step, node, text)."""
    cdl = sensors(last)
    values = re.search("  v = ([^;]*) ;", cdl).group(1).split(", ")
    values = [str(float(value) + offset) for value in values]
    for step, node, text in corrected:
        values[step * NODES + node] = text
    shift = {"2001-01-01": 0, "2000-12-31": 24}[origin]
    cdl = re.sub("time = [0-9]+ ;", f"time = {last - first} ;", cdl, count=1)
    cdl = re.sub("  time = [^;]* ;\n  edge", "  time = " + ", ".join(str(t + shift) for t in range(first, last)) + " ;\n  edge", cdl)
    cdl = re.sub("  v = [^;]* ;", "  v = " + ", ".join(values[first * NODES:]) + " ;", cdl)
    return cdl.replace("float v", f"{kind} v").replace("NaNf", "NaN" if kind == "double" else "NaNf").replace("since 2001-01-01", f"since {origin}")


class Accepted(Runs):
    config = "accepted.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("accepted.toml", CONFIG)
        cls.netcdf("sensors.nc", changed())
        # These values would change every mean, deviation, cycle and trend.
        cls.netcdf("corrected.nc", changed(corrected=((5, 1, "900"), (6, 2, "_"), (30, 1, "-700"))))
        cls.netcdf("cut.nc", changed(first=7, origin="2000-12-31"))
        cls.netcdf("both.nc", changed(first=7, last=90, corrected=((3, 0, "5000"), (20, 1, "900"))))
        cls.netcdf("late.nc", changed(first=60))

    def trained(self, name, *settings):
        if not os.path.exists(self.path(name)):
            self.succeed(2, *self.arguments(name, *settings))
        return name

    def forecast(self, ranks, run, file, *words):
        out = self.succeed(ranks, "forecast", run, "--steps", "2", "--origin", "2001-01-04T05:00", "-o", "out.nc", "--set",
                           f"data.file={file}", *words).out
        text = subprocess.run(["ncdump", "-v", "v", "-p", "9,17", self.path("out.nc")], check=True, capture_output=True,
                              text=True).stdout
        return out, re.findall(r"-?[\d.]+(?:e[+-]\d+)?", text.split("data:")[1])

    def forecasts_are_the_same(self, run):
        """Forecasts stay the same: they depend on the training part only through scales, cycles and
        trends."""
        _, before = self.forecast(1, run, "sensors.nc")
        for ranks, file, patterns in (
                (3, "corrected.nc", [r"accepted  corrected.nc: 3 of 5\d training steps changed, from 2001-01-01T05:00 to "
                                     r"2001-01-02T06:00: their mean changed by [+-][\d.]+ m s-1, their number of values from 9 to 8\n"]),
                (1, "cut.nc", [r"accepted  cut.nc: the first 7 steps of the training, 2001-01-01T00:00 to 2001-01-01T06:00, are gone\n"]),
                (3, "both.nc", [r"the first 7 steps of the training", r"1 of 5\d training steps changed, 2001-01-01T20:00: their mean changed by"]),
                (2, "sensors.nc", [r"accepted  no step of the training part has changed\n"])):
            with self.subTest(run=run, file=file):
                out, values = self.forecast(ranks, run, file, "--accept-changed-data")
                self.assertEqual([float(v) for v in values], [float(v) for v in before])
                for pattern in patterns:
                    self.assertRegex(out, pattern)
                if file != "sensors.nc":
                    self.refuse(2, ["forecast", run, "--steps", "2", "--set", f"data.file={file}"], "--accept-changed-data")

    def test_stnn(self):
        self.forecasts_are_the_same(self.trained("stnn", *ANOMALIES))

    def test_windows(self):
        self.forecasts_are_the_same(self.trained("gru", *WINDOWS, *ANOMALIES))

    def test_offsets_that_are_subtracted(self):
        """Each node's first value is subtracted before float32; the new file may lack or change this
        value."""
        self.netcdf("high.nc", changed(offset=4e8, kind="double"))
        self.netcdf("high_cut.nc", changed(offset=4e8, kind="double", first=7, corrected=((8, 0, "3.9e8"),)))
        run = self.trained("high", *WINDOWS, "data.file=high.nc")
        _, before = self.forecast(2, run, "high.nc")
        out, values = self.forecast(2, run, "high_cut.nc", "--accept-changed-data")
        self.assertEqual(values, before)
        self.assertIn("1 of 54 training steps changed, 2001-01-01T08:00: their mean changed by -3.333e+06 m s-1", out)

    def test_steps_in_use(self):
        """data.first_step and data.last_step count steps of the file of the training."""
        run = self.trained("some", *WINDOWS, "data.first_step=3", "data.last_step=79")
        _, before = self.forecast(1, run, "sensors.nc")
        out, values = self.forecast(1, run, "cut.nc", "--accept-changed-data")
        self.assertEqual(values, before)
        self.assertIn("the first 4 steps of the training, 2001-01-01T03:00 to 2001-01-01T06:00, are gone", out)

    def test_evaluation(self):
        run = self.trained("stnn", *ANOMALIES)
        results = []
        for ranks, file, words in ((2, "sensors.nc", ()), (3, "cut.nc", ["--accept-changed-data"])):
            out = self.succeed(ranks, "evaluate", run, "--set", f"data.file={file}", "-o", "score.json", *words).out
            with open(self.path("score.json"), encoding="utf-8") as text:
                results.append(json.load(text))
        self.assertIn("baselines are fitted to the current values of the training part", out)
        self.assertEqual(results[1]["data"]["accepted"], {"changed_steps": 0, "missing_steps": 7})
        self.assertNotIn("accepted", results[0]["data"])
        for a, b in zip(*(result["horizons"] for result in results)):
            self.assertAlmostEqual(a["rmse"]["model"], b["rmse"]["model"], delta=1e-6)
            self.assertEqual(a["rmse"]["persistence"], b["rmse"]["persistence"])

    def test_what_is_not_accepted(self):
        run = self.trained("gru", *WINDOWS, *ANOMALIES)
        self.netcdf("other_nodes.nc", changed().replace("edge_weight = 1, ", "edge_weight = 3, "))
        accept = ["--steps", "2", "--accept-changed-data"]
        graphed = self.trained("graphed", *WINDOWS, "relation.graph=edges")
        self.refuse(2, ["forecast", graphed, *accept, "--set", "data.file=other_nodes.nc"], "not only values have changed")
        self.netcdf("lost_step.nc", changed(first=1).replace("time = 1, 2, 3", "time = 0, 2, 3"))
        self.refuse(2, ["forecast", run, *accept, "--set", "data.file=lost_step.nc"], "not only values have changed")
        self.refuse(3, ["forecast", run, *accept, "--set", "data.file=late.nc"],
                    "late.nc: this file .2001-01-03T12:00 to 2001-01-04T07:00. has no step of the training part.*goes further back, or train a new run")
        self.refuse(2, ["forecast", run, "--steps", "2", "--set", "data.file=late.nc"],
                    "late.nc: this file .2001-01-03T12:00 to 2001-01-04T07:00. begins after the training part of gru/checkpoints/data.h5.*"
                    "--accept-changed-data")
        self.netcdf("hours.nc", changed(corrected=((5, 1, "900"),)).replace('"m s-1"', '"km h-1"'))
        self.refuse(2, ["forecast", run, *accept, "--set", "data.file=hours.nc"],
                    'hours.nc: variable v has units "km h-1", but gru/checkpoints/state.h5 was trained on units "m s-1"')
        roots = self.trained("roots", *WINDOWS, "data.transform=sqrt")
        self.refuse(2, ["forecast", roots, *accept, "--set", "data.file=both.nc"], "data.point = .mean. forecasts depend on errors")
        self.refuse(2, [*self.arguments("gru", *WINDOWS, *ANOMALIES, "train.epochs=9", "data.file=corrected.nc")],
                    "was written with other data.*--from gru")

    def test_runs_that_kept_nothing(self):
        """Runs of a version that did not write the fitted values."""
        run = self.trained("early", *WINDOWS)
        _, before = self.forecast(2, run, "sensors.nc")
        self.assertEqual(self.forecast(3, run, "corrected.nc", "--accept-changed-data")[1], before)
        os.remove(self.path(run + "/checkpoints/data.h5"))
        out, values = self.forecast(2, run, "corrected.nc", "--accept-changed-data")
        self.assertNotEqual(values, before, "scales that are fitted anew are others")
        self.assertRegex(out, "the training part has changed; .*warning   scaling, cycle and trend are computed anew from the changed data"
                         .replace(".*", "(?s:.*)"))
        self.refuse(2, ["forecast", run, "--steps", "2", "--accept-changed-data", "--set", "data.file=cut.nc"],
                    "the data begin at 2001-01-01T07:00, but the training began at 2001-01-01T00:00")
        again = self.trained("again", *WINDOWS)
        with open(self.path(again + "/checkpoints/data.h5"), "r+b") as file:
            file.truncate(3000)
        self.refuse(2, ["forecast", again, "--steps", "2", "--accept-changed-data"], "data.h5")


if __name__ == "__main__":
    support.main()
