"""A small series of sensors with edges, and what tests do that spoil it."""

import os

import support

SENSORS = """
[data]
file = "sensors.nc"
variables = ["v"]
[split]
train = 12
[relation]
graph = "edges"
[train]
epochs = 2
[evaluate]
horizons = 2
lim_modes = 2
"""


def sensors(steps=20, nodes=3, source="0, 1, 2", destination="1, 2, 0", weight="1, 0.5, 2", missing=(),
            observed_from=0):
    """CDL of a series v(time, node) with edges; nodes in `missing` have no value at all,
    no node has one before step `observed_from`."""
    values = ["_" if i in missing or t < observed_from else f"{(t * (i + 2)) % 7 + 0.5 * i}"
              for t in range(steps) for i in range(nodes)]
    return f"""netcdf sensors {{
dimensions: time = {steps} ; node = {nodes} ; edge = {len(source.split(","))} ;
variables:
  double time(time) ; time:units = "hours since 2001-01-01" ;
  int edge_src(edge) ; int edge_dst(edge) ; double edge_weight(edge) ;
  float v(time, node) ; v:_FillValue = NaNf ; v:units = "m s-1" ;
data:
  time = {", ".join(map(str, range(steps)))} ;
  edge_src = {source} ; edge_dst = {destination} ; edge_weight = {weight} ;
  v = {", ".join(values)} ;
}}
"""


class BadInput(support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors())
        cls.write("sensors.toml", SENSORS)

    def train(self, *settings):
        """Arguments of a training that must not touch its run directory."""
        return ["train", "sensors.toml", "--run", "run", *[word for s in settings for word in ("--set", s)]]

    def refuse_training(self, settings, *patterns):
        with self.subTest(settings):
            self.refuse(2, self.train(*settings), *patterns)
            self.assertFalse(os.path.exists(self.path("run")), "no run directory is made")
