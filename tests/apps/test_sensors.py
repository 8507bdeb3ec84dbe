"""What sensor data needs: horizons as times."""

import json
import os

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


class Horizons(BadInput):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.write("gru.toml", GRU)

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


if __name__ == "__main__":
    support.main()
