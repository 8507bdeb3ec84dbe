"""From a synthetic file to a scored forecast, at 1, 2 and 3 ranks."""

import json
import math
import os
import re
import shutil
import subprocess
import unittest

import support

PACIFIC = """
[data]
file = "pacific.nc"
center = "node"
spread = "global"
[split]
train = "0.6"
validation = "0.2"
[relation]
graph = "grid8"
mode = "refine"
self = true
discover = "low_rank"
rank = 3
[model]
precision = "double"
[train]
epochs = 4
[evaluate]
horizons = 3
lim_modes = 5
"""

MONTHLY = [*support.BASELINES[:3], "annual_cycle", *support.BASELINES[3:]]

HEAT = """
[data]
file = "heat.nc"
[split]
train = 40
test = "rest"
[relation]
graph = "edges"
[train]
sampling = "pairs"
pairs = 100
epochs = 30
[evaluate]
kind = "rollout"
"""


def ncdump(*arguments):
    if shutil.which("ncdump") is None:
        raise unittest.SkipTest("ncdump (netcdf-bin) is not installed")
    return subprocess.run(["ncdump", *arguments], check=True, capture_output=True, text=True).stdout


def state_values(path):
    """Returns the numbers of every array of a state file, by the array's name."""
    arrays = {}
    for part in ncdump("-p", "17,17", path).split("group: ")[1:]:
        if found := re.search(r"\n\s+value =(.*?) ;", part, re.S):
            arrays[part.split()[0]] = [float(word) for word in found[1].replace(",", " ").split()]
    return arrays


class Pacific(support.ProgramTest):
    ranks = [1, 2, 3]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("pacific.toml", PACIFIC)

    def pipeline(self, ranks):
        """Runs train → evaluate → forecast into run<ranks>, once."""
        run = f"run{ranks}"
        if not os.path.exists(self.path("pacific.nc")):
            self.succeed(1, "data", "synth", "--kind", "pacific", "--lat", "6", "--lon", "8", "--steps", "72", "--seed",
                         "3", "-o", "pacific.nc")
        if not os.path.exists(self.path(run)):
            self.succeed(ranks, "train", "pacific.toml", "--run", run)
            self.succeed(ranks, "evaluate", run)
            self.succeed(ranks, "forecast", run, "--steps", "4")
        return run

    def evaluation(self, run):
        with open(self.path(run + "/evaluation.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_files_of_a_run(self):
        for ranks in self.ranks:
            run = self.pipeline(ranks)
            self.assertEqual(sorted(os.listdir(self.path(run))),
                             [".lock", "checkpoints", "config.toml", "evaluation.json", "forecast.nc", "intervals.h5",
                              "metrics.jsonl"])
            self.assertEqual(sorted(os.listdir(self.path(run + "/checkpoints"))), ["data.h5", "state.h5", "step-000000000048.h5"])

    def test_evaluation_has_its_shape(self):
        for ranks in self.ranks:
            found = self.evaluation(self.pipeline(ranks))
            self.assertEqual([entry["step"] for entry in found["horizons"]], [1, 2, 3])
            for entry in found["horizons"]:
                self.assertEqual(list(entry), ["step", "lead", "rmse", "mae", "mape_percent", "bias", "acc", "interval"])
            self.assertEqual([entry["lead"] for entry in found["horizons"]], ["1 month", "2 months", "3 months"])
            for entry in [*found["horizons"], found["mean"]]:
                for measure in ["rmse", "mae", "mape_percent"]:
                    self.assertEqual(list(entry[measure]), MONTHLY)
                for name in MONTHLY:
                    self.assertTrue(math.isfinite(entry["rmse"][name]))
                    self.assertGreater(entry["mae"][name], 0)
                    self.assertGreaterEqual(entry["rmse"][name], entry["mae"][name], "RMSE is never below MAE")
            for name in MONTHLY:
                for measure in ["rmse", "mae", "mape_percent"]:
                    mean = sum(entry[measure][name] for entry in found["horizons"]) / 3
                    self.assertAlmostEqual(found["mean"][measure][name], mean, 12)
            self.assertEqual(found["units"], "degree_Celsius")
            self.assertLessEqual(set(found), {"horizons", "mean", "units", "skill", "climatology", "intervals", "state", "data"})

    def test_metrics_are_lines_of_json(self):
        for ranks in self.ranks:
            with open(self.path(self.pipeline(ranks) + "/metrics.jsonl"), encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            self.assertEqual([line["epoch"] for line in lines], [0, 1, 2, 3])
            for line in lines:
                self.assertTrue(math.isfinite(line["loss"]))
                self.assertGreater(line["validation_rmse"], 0)
                self.assertGreater(line["peak_rss_bytes"], 1e6)

    def test_rank_counts_agree(self):
        one = self.evaluation(self.pipeline(1))
        state = state_values(self.path("run1/checkpoints/state.h5"))
        self.assertIn("factors", state)
        self.assertGreaterEqual(len(state), 6, state.keys())
        for ranks in self.ranks[1:]:
            other = self.evaluation(self.pipeline(ranks))
            for a, b in zip([*one["horizons"], one["mean"]], [*other["horizons"], other["mean"]]):
                for measure in ["rmse", "mae", "mape_percent"]:
                    for name in MONTHLY:
                        self.assertAlmostEqual(a[measure][name], b[measure][name], delta=1e-8 * abs(a[measure][name]),
                                               msg=f"{measure} of {name} at {ranks} ranks")
            there = state_values(self.path(f"run{ranks}/checkpoints/state.h5"))
            self.assertEqual(state.keys(), there.keys())
            for name, values in state.items():
                self.assertEqual(len(values), len(there[name]), name)
                scale = max(map(abs, values), default=0)
                for a, b in zip(values, there[name]):
                    self.assertAlmostEqual(a, b, delta=1e-8 * scale, msg=f"{name} at {ranks} ranks")

    def test_row_order_moves_rounding_alone(self):
        for ranks in [1, 3]:
            with self.subTest(ranks):
                expected = self.evaluation(self.pipeline(ranks))
                state = state_values(self.path(f"run{ranks}/checkpoints/state.h5"))
                order = ["--set", "parallel.row_order=rcm"]
                run = f"rcm{ranks}"
                # Two epochs in the order of the file, the others in the new one: states are in global order.
                self.succeed(ranks, "train", "pacific.toml", "--run", run, "--set", "train.epochs=2", "--set",
                             "checkpoint.keep=3")
                self.succeed(ranks, "train", "pacific.toml", "--run", run, *order)
                self.succeed(ranks, "evaluate", run)
                for a, b in zip(expected["horizons"], self.evaluation(run)["horizons"]):
                    for name in MONTHLY:
                        self.assertAlmostEqual(a["rmse"][name], b["rmse"][name], delta=1e-8 * abs(a["rmse"][name]))
                there = state_values(self.path(f"{run}/checkpoints/state.h5"))
                self.assertEqual(state.keys(), there.keys())
                same = True
                for name, values in state.items():
                    scale = max(map(abs, values), default=0)
                    for a, b in zip(values, there[name]):
                        self.assertAlmostEqual(a, b, delta=1e-8 * scale, msg=name)
                    same = same and values == there[name]
                self.assertFalse(same, "rows have been in another order")
                self.succeed(ranks, "forecast", run, "--steps", "4")
                number = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?")
                texts = [ncdump("-p", "7,15", self.path(f"{name}/forecast.nc")) for name in (f"run{ranks}", run)]
                values = [[float(word) for word in number.findall(text[text.index("data:"):])] for text in texts]
                self.assertEqual(len(values[0]), len(values[1]))
                self.assertGreater(len(values[0]), 50)
                for a, b in zip(*values):
                    self.assertAlmostEqual(a, b, delta=1e-5 * max(1, abs(a)))

    def test_any_rank_count_evaluates(self):
        self.pipeline(2)
        shutil.copytree(self.path("run2"), self.path("moved"), dirs_exist_ok=True)
        before = self.evaluation("moved")
        self.succeed(3, "evaluate", "moved")
        for a, b in zip(before["horizons"], self.evaluation("moved")["horizons"]):
            self.assertAlmostEqual(a["rmse"]["model"], b["rmse"]["model"], 8)
        self.succeed(1, "evaluate", "moved", "--set", "evaluate.horizons=1", "--set", "evaluate.baselines=false")
        found = self.evaluation("moved")
        self.assertEqual([list(entry["rmse"]) for entry in found["horizons"]], [["model"]])
        self.assertAlmostEqual(found["horizons"][0]["rmse"]["model"] / before["horizons"][0]["rmse"]["model"], 1, 1)

    def test_two_runs_are_equal(self):
        self.pipeline(2)
        shutil.rmtree(self.path("again"), ignore_errors=True)
        self.succeed(2, "train", "pacific.toml", "--run", "again")
        with open(self.path("run2/checkpoints/state.h5"), "rb") as file:
            first = file.read()
        with open(self.path("again/checkpoints/state.h5"), "rb") as file:
            self.assertEqual(first, file.read(), "at one rank count two runs are equal to the bit")

    def test_forecast_in_ncdump(self):
        text = ncdump(self.path(self.pipeline(2) + "/forecast.nc"))
        for line in ["time = 4 ;", "lat = 6 ;", "lon = 8 ;", "float sst(time, lat, lon) ;", "sst:_FillValue = NaNf ;",
                     'sst:units = "degree_Celsius" ;', 'sst:standard_name = "sea_surface_temperature" ;',
                     'time:units = "days since 1970-01-01" ;', 'time:calendar = "standard" ;',
                     'lat:units = "degrees_north" ;', 'lon:units = "degrees_east" ;', ':Conventions = "CF-1.8" ;']:
            self.assertIn(line, text)
        # 72 months from 1970-01 end in December 1975 (day 2160 of the axis).
        self.assertIn(" forecast_reference_time = 2160 ;", text)
        self.assertIn(" time = 2191, 2222, 2251, 2282 ;", text)
        self.assertIn(" lead_time = 31, 62, 91, 122 ;", text)

    def test_forecast_in_xarray(self):
        try:
            import numpy
            import xarray
        except ImportError:
            self.skipTest("python3-xarray is not installed")
        source = xarray.open_dataset(self.path("pacific.nc") if self.pipeline(1) else "")
        forecasts = [xarray.open_dataset(self.path(self.pipeline(ranks) + "/forecast.nc")) for ranks in self.ranks]
        first = forecasts[0]
        self.assertEqual(first["sst"].dims, ("time", "lat", "lon"))
        self.assertEqual(first["sst"].attrs["units"], source["sst"].attrs["units"])
        for name in ["lat", "lon"]:
            numpy.testing.assert_array_equal(first[name], source[name])
            self.assertEqual(first[name].attrs["units"], source[name].attrs["units"])
        self.assertEqual([str(day)[:10] for day in first["time"].values],
                         ["1976-01-01", "1976-02-01", "1976-03-01", "1976-04-01"])
        self.assertEqual(str(first["forecast_reference_time"].values)[:10], "1975-12-01")
        land = numpy.isnan(source["sst"].values).all(axis=0)
        self.assertTrue(land.any() and not land.all())
        for forecast in forecasts:
            for step in forecast["sst"].values:
                numpy.testing.assert_array_equal(numpy.isnan(step), land, "NaN on land, and only there")
            numpy.testing.assert_allclose(forecast["sst"].values, first["sst"].values, rtol=1e-5)
        self.assertLess(abs(float(first["sst"].mean() - source["sst"].mean())), 5, "in original units")

    def test_forecast_from_an_origin(self):
        run = self.pipeline(1)
        self.succeed(2, "forecast", run, "--steps", "2", "--origin", "1974-06", "-o", "middle.nc")
        text = ncdump("-t", "-v", "time,forecast_reference_time", self.path("middle.nc"))
        self.assertRegex(text, r'forecast_reference_time = "1974-06-01"')
        self.assertRegex(text, r'\btime = "1974-07-01", "1974-08-01"')


class Heat(support.ProgramTest):

    MODES = {
        "given": [],
        "refine": ["--set", "relation.mode=refine"],
        "discover": ["--set", "relation.graph=none", "--set", "relation.discover=dense"],
    }

    def test_modes_forecast_the_rest_in_one_go(self):
        self.succeed(1, "data", "synth", "--kind", "heat", "--lat", "1", "--lon", "11", "--steps", "60",
                     "-o", "heat.nc")
        self.write("heat.toml", HEAT)
        for mode, settings in self.MODES.items():
            with self.subTest(mode):
                self.succeed(2, "train", "heat.toml", "--run", mode, *settings)
                out = self.succeed(2, "evaluate", mode).out
                self.assertIn("1 origins from 39 to 39", out)
                with open(self.path(mode + "/evaluation.json"), encoding="utf-8") as file:
                    found = json.load(file)
                self.assertEqual([entry["step"] for entry in found["horizons"]], list(range(1, 21)))
                self.assertEqual(list(found["mean"]["mae"]), support.ROLLOUT_BASELINES)
                self.assertTrue(math.isfinite(found["mean"]["mae"]["model"]))
                self.succeed(2, "forecast", mode, "--steps", "3")
                text = ncdump(self.path(mode + "/forecast.nc"))
                self.assertIn("float heat(time, node) ;", text)
                self.assertIn(" time = 60, 61, 62 ;", text)


if __name__ == "__main__":
    support.main()
