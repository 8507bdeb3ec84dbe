"""Models that correct the forecasts of a linear baseline, with the commands that make and use runs."""

import json

import support
from sensors import SENSORS, Runs, sensors
from test_windows import STID, WINDOWS


class BaseForecast(Runs):
    config = "windows.toml"
    ridge = ["model.base_forecast=direct_ridge"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30, holes=[(5, 1), (9, 2)]))
        cls.write("windows.toml", WINDOWS)
        cls.write("stnn.toml", SENSORS)

    def load(self, file):
        with open(self.path(file), encoding="utf-8") as opened:
            return json.load(opened)

    @support.long_test
    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("left", *self.ridge)

    def test_refit_starts_and_averages(self):
        out = self.succeed(2, *self.arguments("run", *self.ridge, "train.refit=true", "split.validation=4")).out
        self.assertRegex(out, r"base +direct_ridge: anomalies from .*; RMSE of the validation part")
        self.assertRegex(out, r"base +direct_ridge: anomalies from .*; RMSE of folds of the training part")
        self.succeed(2, *self.arguments("other", *self.ridge))
        out = self.succeed(1, *self.arguments("warm", "train.epochs=0"), "--from", "other").out
        self.assertIn('model.base_forecast: "none" (here), "direct_ridge" (there)', out)
        self.succeed(2, "average", "other", "direct_ar", "-o", "made", "--weights", "equal")
        for name in ("run", "other", "made"):
            self.succeed(2, "evaluate", name, "--hindcasts", name + ".nc", "-o", name + ".json")
            self.succeed(1, "evaluate", name, "-o", "one.json")
            for a, b in zip(self.load("one.json")["horizons"], self.load(name + ".json")["horizons"], strict=True):
                self.assertAlmostEqual(a["rmse"]["model"], b["rmse"]["model"], delta=1e-5)
            self.assertIn("2 steps from", self.succeed(3, "forecast", name, "--steps", "2", "-o", "forecast.nc").out)

    def test_asynchronous_updates(self):
        settings = [*self.ridge, *STID, "train.updates=asynchronous", "parallel.device=cpu"]
        self.succeed(2, *self.arguments("late", *settings, "parallel.time_groups=2"))
        self.succeed(1, "evaluate", "late")

    def test_what_does_not_fit_is_refused(self):
        self.refuse(2, ["train", "stnn.toml", "--run", "refused", "--set", *self.ridge],
                    'model.base_forecast = "direct_ridge" does not work with model.name = "stnn"')
        self.succeed(2, *self.arguments("kept", *self.ridge))
        self.netcdf("corrected.nc", sensors(steps=30, holes=[(5, 1)]))
        self.refuse(2, ["evaluate", "kept", "--accept-changed-data", "--set", "data.file=corrected.nc"],
                    "is fitted to the training part, whose values have changed")


if __name__ == "__main__":
    support.main()
