"""What sensor data needs: horizons as times, null values."""

import json
import os
import re
import shutil

import support
from sensors import BadInput, sensors
from test_schemas import SCHEMAS, faults

GRU = """
[data]
file = "sensors.nc"
variables = ["v"]
[split]
train = 14
validation = 6
[model]
name = "gru"
units = 4
[window]
inputs = 3
outputs = 2
batch = 4
[train]
epochs = 1
[evaluate]
horizons = 2
lim_modes = 2
"""


class Sensors(BadInput):
    """A series of sensors and a model that is quick to train."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.write("gru.toml", GRU)

    def run_of(self, run, ranks, *settings):
        """Trains and scores; (losses, hash of the data, scores)."""
        self.succeed(ranks, "train", "gru.toml", "--run", run, *[word for s in settings for word in ("--set", s)])
        self.succeed(ranks, "evaluate", run)
        with open(self.path(run + "/metrics.jsonl"), encoding="utf-8") as file:
            losses = [json.loads(line)["loss"] for line in file]
        with open(self.path(run + "/evaluation.json"), encoding="utf-8") as file:
            scores = json.load(file)
        newest = max(name for name in os.listdir(self.path(run + "/checkpoints")) if name.startswith("step-"))
        held = self.succeed(1, "checkpoint", "inspect", f"{run}/checkpoints/{newest}", "--json").out
        return losses, re.search(r'"data_hash": *"(\w+)"', held)[1], scores


class Horizons(Sensors):

    def test_horizons_are_times(self):
        self.succeed(2, "train", "gru.toml", "--run", "run")
        out = self.succeed(2, "evaluate", "run", "--set", 'evaluate.report=["2 hours"]').out
        self.assertRegex(out, r"MAPE \(%\)\n horizon .*\n     2 h ")
        self.assertNotRegex(out, r"\n     1 h ")
        with open(self.path("run/evaluation.json"), encoding="utf-8") as file:
            scores = json.load(file)
        self.assertEqual([entry["lead_seconds"] for entry in scores["horizons"]], [3600, 7200])
        with open(os.path.join(SCHEMAS, "evaluation.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        self.assertEqual(faults(scores, schema, schema), [])
        for wrong, why in [("90 min", "no whole number of steps.* 1 hour"), ("3", "not among the 2 horizons"),
                           ("soon", "a number and a unit are right")]:
            self.refuse(2, ["evaluate", "run", "--set", f'evaluate.report=["{wrong}"]'],
                        rf'evaluate\.report: "{wrong}" .*{why}')


class NullValue(Sensors):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        plain = sensors(steps=30)
        cls.netcdf("zeros.nc", plain)
        cls.netcdf("missing.nc", re.sub(r"(?<= )0\.0(?=,)", "_", plain))

    def test_stands_for_missing_values(self):
        """Training, hash and scores are those of a file where the values are missing."""
        zero = "data.null_value=0"
        for settings in [[], ["model.name=stnn"], ["model.name=stnn", "data.center=node", "data.spread=global"]]:
            with self.subTest(settings):
                missing = self.run_of("missing", 1, "data.file=missing.nc", *settings)
                self.assertEqual(self.run_of("null", 1, "data.file=zeros.nc", zero, *settings), missing)
                plain = self.run_of("plain", 1, "data.file=zeros.nc", *settings)
                self.assertNotEqual(plain[1], missing[1], "other data")
                self.assertNotEqual(plain[0], missing[0], "other losses")
                losses, data, scores = self.run_of("ranks", 3, "data.file=zeros.nc", zero, *settings)
                self.assertEqual(data, missing[1])
                self.assertAlmostEqual(losses[0], missing[0][0], delta=1e-5)
                self.assertEqual(self.counted(scores), self.counted(missing[2]))
            for run in ["missing", "null", "plain", "ranks"]:
                shutil.rmtree(self.path(run))

    def counted(self, scores):
        return [round(entry["mae"]["persistence"], 5) for entry in scores["horizons"]]

    def test_packed_values(self):
        """A short integer that means the null value after scale and offset, but for the last bits."""
        self.netcdf("packed.nc", sensors(steps=30).replace("float v(", "short v(").replace(
            "v:_FillValue = NaNf", "v:scale_factor = 0.1 ; v:add_offset = 0.7").replace("0.5", "-7").replace("0.0", "-7"))
        self.assertIn("missing     0.00 %", self.succeed(1, "data", "inspect", "packed.nc").out)
        self.assertRegex(self.succeed(2, "data", "inspect", "packed.nc", "--null-value", "0").out, "missing +[1-9]")

    def test_inspect(self):
        out = self.succeed(2, "data", "inspect", "zeros.nc", "--null-value", "0").out
        self.assertEqual(re.findall("(?:missing|values) .*", out),
                         re.findall("(?:missing|values) .*", self.succeed(1, "data", "inspect", "missing.nc").out))
        self.succeed(1, "data", "inspect", "zeros.nc", "--null-value", "-999")
        self.refuse(2, ["data", "inspect", "zeros.nc", "--null-value", "none"], '"none" is no null value')

    def test_bad_values(self):
        for value in ["none", "nan", "1e999", "'0 '"]:
            self.refuse_training([f"data.null_value={value}"], "data.null_value", "is right")
        self.netcdf("fives.nc", re.sub(r"v = .* ;\n}", "v = " + ", ".join(["5"] * 60) + " ;\n}", sensors(),
                                       flags=re.DOTALL))
        self.refuse_training(["data.file=fives.nc", "data.null_value=5"],
                             r"no node has a single observed value.*data\.null_value = 5")


if __name__ == "__main__":
    support.main()
