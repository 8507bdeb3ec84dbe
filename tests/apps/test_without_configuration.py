"""A series trained without a configuration: settings that suit it, its run directory, and bad input."""

import os
import random
import re
import shutil

import support
from sensors import Runs, sensors


class WithoutConfiguration(Runs):
    quick = ["--set", "train.epochs=2"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("hourly.nc", sensors(steps=24 * 30))

    def config(self, run):
        with open(self.path(run + "/config.toml"), encoding="utf-8") as file:
            return file.read()

    def test_trains_scores_and_forecasts(self):
        out = self.succeed(2, "train", "hourly.nc", *self.quick).out
        self.assertRegex(out, r"split +train 504 steps .*, validation 72 .*, test 144 ")
        self.assertIn("data.cycle = \"auto\" is ", out)
        config = self.config("hourly.run")
        for line in ['name = "stid"', "inputs = 12", "outputs = 12", "epochs = 2", 'file = "hourly.nc"']:
            self.assertIn(line, config)
        self.assertRegex(self.succeed(2, "evaluate", "hourly.run").out, "12 h")
        self.succeed(1, "forecast", "hourly.run", "--steps", "12")
        self.assertIn("nothing is left to do", self.succeed(1, "train", "hourly.nc", *self.quick).out)

    def test_ends_with_an_average_beside_a_baseline(self):
        train = ["train", "hourly.nc", "--run", "both"]
        out = self.succeed(2, *train, *self.quick).out
        found = re.search(r"average   of the run, direct_ridge, direct_ar, cycle and persistence: validation rmse ([\d.]+) m s-1; ([\d.]+) the run, "
                          r"([\d.]+) direct_ridge, ([\d.]+) direct_ar, ([\d.]+) cycle, ([\d.]+) persistence\n"
                          r"average   score this average with: rossby evaluate both/average\n$", out)
        self.assertIsNotNone(found, out)
        mean, *members = map(float, found.groups())
        self.assertLessEqual(mean, min(members) * 1.001)
        self.assertIn("direct_ridge", self.succeed(2, "evaluate", "both/average").out)
        self.succeed(1, "forecast", "both/average", "--steps", "3")
        # The average is made once. A longer training makes a new one and keeps the old one.
        before = self.text("both/average/average.json")
        self.assertIn(found.group(0), self.succeed(1, *train, *self.quick).out)
        self.assertEqual(self.text("both/average/average.json"), before)
        self.succeed(1, *train, "--set", "train.epochs=3")
        self.assertNotEqual(self.text("both/average/average.json"), before)
        self.assertEqual(self.text("both/earlier_state/average/average.json"), before)
        self.assertIn("evaluation.json", os.listdir(self.path("both/earlier_state/average")))

    def test_averages_that_are_not_made(self):
        out = self.succeed(1, "train", "hourly.nc", "--run", "unvalidated", "--set", "split.validation=0", "--set", "schedule.metric=train", *self.quick).out
        self.assertRegex(out, "average   the average of the run and baselines could not be made: --weights stacking needs errors in the validation part")
        self.succeed(1, "train", "hourly.nc", "--run", "own", *self.quick)
        shutil.rmtree(self.path("own/average"))
        self.succeed(1, "average", "own", "cycle", "-o", "own/average")
        before = self.text("own/average/average.json")
        self.assertNotIn("average   ", self.succeed(1, "train", "hourly.nc", "--run", "own", "--set", "train.epochs=3").out)
        self.assertEqual(self.text("own/average/average.json"), before)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def test_averages_of_few_windows(self):
        """Weights of many members need many windows."""
        self.netcdf("few.nc", sensors(steps=60))
        out = self.succeed(2, "train", "few.nc", *self.quick).out
        self.assertRegex(out, r"average   of the run and direct_ridge: validation rmse [\d.]+ m s-1; [\d.]+ the run, [\d.]+ direct_ridge\n")
        self.assertIn("nothing is left to do", self.succeed(1, "train", "few.nc", *self.quick).out)

    def test_a_random_walk_is_forecast_by_persistence(self):
        """On such data networks and regressions are worse than persistence, the average is not."""
        draw, values = random.Random(4), [100.0] * 4
        rows = []
        for _ in range(1500):
            values = [value + draw.gauss(0, 1) for value in values]
            rows += [f"{value:.4f}" for value in values]
        cdl = sensors(steps=1500, nodes=4)
        self.netcdf("walk.nc", re.sub(r"  v = [^;]*;", "  v = " + ", ".join(rows) + " ;", cdl))
        self.succeed(1, "train", "walk.nc", *self.quick)
        out = self.succeed(1, "evaluate", "walk.run/average").out
        mean = next(line.split() for line in out.splitlines() if line.split()[:1] == ["mean"])
        self.assertLess(float(mean[1]), 1.03 * float(mean[2]), out)

    def test_settings_and_names(self):
        self.succeed(1, "train", "hourly.nc", "--run", "mine", "--set", "model.name=gru", "--set", "model.units=3", *self.quick)
        self.assertIn('name = "gru"', self.config("mine"))
        self.succeed(1, "train", "hour*.nc", *self.quick)
        self.assertTrue(os.path.isdir(self.path("hour.run")))
        left = self.run_ranks(1, "train", "hourly.nc", "--run", "left", *self.quick, "--stop-after", "0.000001s")
        self.assertEqual(left.codes, [75])
        self.assertRegex(left.out, "rossby train hourly.nc --run left --resume auto")

    def test_short_and_undated_series(self):
        self.netcdf("short.nc", sensors(steps=39))
        self.refuse(2, ["train", "short.nc"], "short.nc: 39 steps are too few .*needs at least 40")
        self.netcdf("counted.nc", sensors(steps=60).replace(' time:units = "hours since 2001-01-01" ;', ""))
        self.assertNotIn("data.cycle", self.succeed(1, "train", "counted.nc", *self.quick).out)

    def test_what_is_neither_series_nor_configuration(self):
        os.makedirs(self.path("folder"), exist_ok=True)
        self.refuse(2, ["train", "nowhere.nc"], "nowhere.nc: no such file")
        self.refuse(2, ["train", "folder"], "folder")
        self.assertFalse(os.path.exists(self.path("nowhere.run")))


if __name__ == "__main__":
    support.main()
