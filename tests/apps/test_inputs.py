"""Inputs besides the target as users give them: past inputs, inputs known ahead, static inputs of nodes."""

import json
import re
import subprocess

import support
from sensors import Runs
from test_windows import GRAPH_WAVENET, TGCN, WINDOWS

STEPS, NODES = 30, 3
FURTHER = ["data.inputs=[\"rain\"]", "data.known_inputs=[\"tide\", \"works\"]", "data.static=[\"depth\", \"latitude\"]",
           "window.day_of_year=true", "window.known_times=true"]
IDS = "s7", "s3", "s5"


def values(name, steps, first=0, nodes=range(NODES), change=lambda name, t, i, x: x):
    """Returns a variable's values as text, step by step; `change` gets name, step, node and value."""
    rule = {"v": lambda t, i: (t * (i + 2)) % 7 + 0.5 * i, "rain": lambda t, i: (3 * t + i) % 5 + 100.0,
            "tide": lambda t, i: (5 * t + 2 * i) % 11 - 3.0, "works": lambda t, i: float(t % 6 == i)}[name]
    return ", ".join(str(change(name, t, i, rule(t, i))) for t in range(first, first + steps) for i in nodes)


def series(steps=STEPS, first=0, nodes=range(NODES), names=("v", "rain", "tide", "works"), ids=False,
           change=lambda name, t, i, x: x, depth=("10", "20", "45"), units="m"):
    """Returns the CDL of a series with inputs, edges and static variables."""
    unit = {"v": "m s-1", "rain": "mm", "tide": units, "works": "1"}
    count = len(list(nodes))
    lines = "".join(f'  float {n}(time, node) ; {n}:_FillValue = NaNf ; {n}:units = "{unit[n]}" ;\n' for n in names)
    data = "".join(f"  {n} = {values(n, steps, first, nodes, change)} ;\n" for n in names)
    label = "  string name(node) ; name:cf_role = \"timeseries_id\" ;\n" if ids else ""
    label_data = "  name = " + ", ".join(f'"{IDS[i]}"' for i in nodes) + " ;\n" if ids else ""
    return f"""netcdf sensors {{
dimensions: time = {steps} ; node = {count} ; edge = 3 ;
variables:
  double time(time) ; time:units = "hours since 2001-01-01" ;
  int edge_src(edge) ; int edge_dst(edge) ; double edge_weight(edge) ;
  double node_lat(node) ; node_lat:units = "degrees_north" ; double node_lon(node) ; node_lon:units = "degrees_east" ;
  double depth(node) ; depth:units = "m" ; depth:_FillValue = -1. ;
{lines}{label}data:
  time = {", ".join(map(str, range(first, first + steps)))} ;
  edge_src = 0, 1, 2 ; edge_dst = 1, 2, 0 ; edge_weight = 1, 0.5, 2 ;
  node_lat = {", ".join(str(40 + i) for i in nodes)} ; node_lon = {", ".join(str(10 - i) for i in nodes)} ;
  depth = {", ".join(depth[i] for i in nodes)} ;
{data}{label_data}}}
"""


class Further(Runs):
    config = "inputs.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", series())
        cls.write("inputs.toml", WINDOWS)

    def training(self, run, *settings):
        return self.arguments(run, *FURTHER, *settings)

    def dump(self, file):
        text = subprocess.run(["ncdump", "-v", "v", "-p", "9,17", self.path(file)], check=True, capture_output=True, text=True).stdout
        return [float(v) for v in re.findall(r"-?[\d.]+(?:e[+-]\d+)?", text.split("data:")[1])]

    def forecasts(self, run, *words, ranks=1):
        """Returns the values of a forecast of two steps."""
        self.succeed(ranks, "forecast", run, "--steps", "2", "-o", f"{run}_out.nc", *words)
        return self.dump(f"{run}_out.nc")

    def test_trains_scores_and_forecasts(self):
        out = self.succeed(2, *self.training("run")).out
        self.assertRegex(out, r"windows +10 of 3 \+ 2 steps for training, 9 channels")
        self.assertRegex(out, r"variable +rain \(input\)\nunits +mm\n")
        self.assertRegex(out, r"variable +tide \(input, known ahead\)\nunits +m\n")
        self.assertRegex(out, r"static +depth, latitude\n")
        self.succeed(2, "evaluate", "run")
        with open(self.path("run/evaluation.json"), encoding="utf-8") as file:
            two = json.load(file)
        self.assertNotIn("variables", two, "inputs are not scored")
        self.succeed(1, "evaluate", "run")
        with open(self.path("run/evaluation.json"), encoding="utf-8") as file:
            one = json.load(file)
        for a, b in zip(two["horizons"], one["horizons"]):
            self.assertAlmostEqual(a["mae"]["model"], b["mae"]["model"], delta=1e-5)
        out = self.succeed(1, "data", "inspect", "sensors.nc").out
        self.assertRegex(out, r"static +depth: one value for each node")

    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("whole", *FURTHER)

    def test_ranks_grids_stages_and_devices_have_the_same_losses(self):
        shared = ["model.precision=double", "window.sampling=global", "data.spread=node"]
        self.succeed(1, *self.training("one", *shared))
        for name, ranks, *settings in (("two", 2), ("four", 4), ("groups", 2, "parallel.time_groups=2"),
                                       ("grid", 4, "parallel.time_groups=2"), ("stages", 2, "parallel.stages=2"),
                                       ("stages_cells", 4, "parallel.stages=4", "train.recompute=cell"),
                                       ("device", 1, "parallel.device=simulated"),
                                       ("device_grid", 4, "parallel.device=simulated", "parallel.time_groups=2"),
                                       ("device_stages", 2, "parallel.device=simulated", "parallel.stages=2")):
            with self.subTest(name):
                self.succeed(ranks, *self.training(name, *shared, *settings))
                for mine, other in zip(self.lines(name), self.lines("one"), strict=True):
                    for key in ("loss", "validation_mae"):
                        self.assertAlmostEqual(mine[key], other[key], delta=1e-9 * other[key])
        words = ["--origin", "2001-01-02T00:00"]
        first = self.forecasts("one", *words)
        for name, ranks, *more in (("grid", 3), ("device", 1), ("device_grid", 2, "--device", "simulated")):
            for a, b in zip(self.forecasts(name, *words, *more, ranks=ranks), first, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5, msg=name)

    def test_every_model_reads_past_and_static_inputs(self):
        for name, settings in (("gru", ["model.name=gru", "relation.graph=none"]), ("tgcn", TGCN), ("wavenet", GRAPH_WAVENET)):
            known = name == "gru"
            inputs = FURTHER if known else ["data.inputs=[\"rain\", \"tide\"]", "data.static=[\"depth\"]"]
            with self.subTest(name):
                self.succeed(2, *self.arguments(name, *settings, *inputs))
                self.succeed(1, *self.arguments(name + "_without", *settings))
                self.assertNotEqual(self.lines(name)[-1]["loss"], self.lines(name + "_without")[-1]["loss"])
                self.succeed(2, "evaluate", name)

    def test_test_values_of_inputs_do_not_leak(self):
        """The validation part begins at step 14, the test part at step 20."""
        self.netcdf("other.nc", series(change=lambda name, t, i, x: x + 50 if t >= 20 and name != "v" else x))
        self.succeed(2, *self.training("clean"))
        self.succeed(2, *self.training("other", "data.file=other.nc"))
        self.assertEqual(self.ends("other"), self.ends("clean"))
        # Validation values do not leak into training. Later values do not leak into the scales of a forecast.
        self.netcdf("valid.nc", series(change=lambda name, t, i, x: x + 50 if t >= 14 and name != "v" else x))
        self.succeed(2, *self.training("valid", "data.file=valid.nc"))
        self.assertEqual([line["loss"] for line in self.lines("valid")], [line["loss"] for line in self.lines("clean")])
        origin = ["--origin", "2001-01-01T16:00"]
        self.assertEqual(self.forecasts("clean", *origin, "--set", "data.file=other.nc"), self.forecasts("clean", *origin))
        self.netcdf("training.nc", series(change=lambda name, t, i, x: x + 50 if t == 3 and name == "tide" else x))
        self.succeed(2, *self.training("changed", "data.file=training.nc"))
        self.assertNotEqual(self.ends("changed"), self.ends("clean"))
        # Changed inputs of the training part are different data.
        self.refuse(2, ["evaluate", "clean", "--set", "data.file=training.nc"], "is not what .* was trained on")
        self.netcdf("deeper.nc", series(depth=("10", "20", "46")))
        self.refuse(2, ["evaluate", "clean", "--set", "data.file=deeper.nc"], "is not what .* was trained on")
        self.succeed(2, "evaluate", "clean", "--set", "data.file=other.nc", "-o", "other.json")

    def test_missing_inputs_are_filled(self):
        holes = lambda name, t, i, x: "_" if name in ("rain", "tide") and (t + i) % 4 == 1 else x
        self.netcdf("holes.nc", series(change=holes))
        for fill in ("mean", "zero"):
            self.succeed(2, *self.training(f"filled_{fill}", "data.file=holes.nc", f"window.fill={fill}"))
            self.assertTrue(all(line["loss"] > 0 for line in self.lines(f"filled_{fill}")))
        self.assertNotEqual(self.lines("filled_mean")[-1]["loss"], self.lines("filled_zero")[-1]["loss"])
        # A null value applies only to the target: zeros of the input "works" are values.
        out = self.succeed(2, *self.training("null", "data.null_value=0")).out
        self.assertRegex(out, "remark +data.null_value = 0 applies only to variables that are forecast")
        self.assertRegex(out, r"variable +works .input, known ahead.\nunits +1\nvalues +0 to 1")
        self.assertRegex(self.succeed(1, *self.training("late", "window.holidays=[\"2001-01-02\"]")).out,
                         "warning +none of window.holidays is in the training part")
        self.netcdf("silent.nc", series(change=lambda name, t, i, x: "_" if name == "rain" and t < 14 else x))
        self.refuse(2, self.training("refused", "data.file=silent.nc"), "rain has no value in the training part")

    def test_forecasts_read_what_is_known_ahead(self):
        self.succeed(2, *self.training("ahead"))
        message = "2 steps, but 2 of them are after the end of the data, 2001-01-02T05:00.* --inputs"
        self.refuse(2, ["forecast", "ahead", "--steps", "2"], message)
        self.refuse(1, ["forecast", "ahead", "--steps", "2", "--origin", "2001-01-02T04:00"], "2 steps, but 1 of them are after")
        names = ("tide", "works")
        self.netcdf("next.nc", series(4, 29, names=names))
        first = self.forecasts("ahead", "--inputs", "next.nc", ranks=2)
        for place, ranks in (("cpu", 3), ("simulated", 2)):
            for a, b in zip(self.forecasts("ahead", "--inputs", "next.nc", "--device", place, ranks=ranks), first, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5)
        # A longer file of the data gives the same forecast from the same origin.
        self.netcdf("longer.nc", series(STEPS + 2))
        same = self.forecasts("ahead", "--set", "data.file=longer.nc", "--origin", "2001-01-02T05:00")
        self.assertEqual(same, self.forecasts("ahead", "--inputs", "next.nc"))
        # The forecast reads inputs that are known ahead, but not the targets of these steps.
        hidden = lambda name, t, i, x: "_" if name in ("v", "rain") and t >= STEPS else x
        self.netcdf("hidden.nc", series(STEPS + 2, change=hidden))
        self.assertEqual(self.forecasts("ahead", "--set", "data.file=hidden.nc"), same)
        self.netcdf("storm.nc", series(4, 29, names=names, change=lambda name, t, i, x: x + 9 if t == STEPS else x))
        other = self.forecasts("ahead", "--inputs", "storm.nc")
        self.assertNotEqual(other, same)
        # For an origin inside the data, the file of inputs counts after the origin.
        self.netcdf("inside.nc", series(6, 10, names=names, change=lambda name, t, i, x: x + 9))
        inside = ["--origin", "2001-01-01T11:00"]
        self.assertNotEqual(self.forecasts("ahead", *inside, "--inputs", "inside.nc"), self.forecasts("ahead", *inside))

    def test_beside_a_cycle(self):
        """With a cycle, training steps are stored twice, after the inputs known beyond the data."""
        self.netcdf("days.nc", series(100))
        self.netcdf("next_days.nc", series(4, 99, names=("tide", "works")))
        self.netcdf("longer_days.nc", series(102))
        settings = ["data.file=days.nc", "split.train=72", "data.cycle=time_of_day", "data.transform=asinh"]
        self.succeed(2, *self.training("days", *settings))
        ahead = self.forecasts("days", "--inputs", "next_days.nc", ranks=2)
        for a, b in zip(self.forecasts("days", "--inputs", "next_days.nc"), ahead, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-5)
        longer = ["--set", "data.file=longer_days.nc", "--origin", "2001-01-05T03:00"]
        self.assertEqual(self.forecasts("days", *longer), self.forecasts("days", "--inputs", "next_days.nc"))
        self.succeed(1, "evaluate", "days")

    def test_bad_files_of_what_is_known_ahead(self):
        self.succeed(2, *self.training("run_ahead"))
        names = ("tide", "works")
        for file, cdl, message in (
                ("late.nc", series(4, 31, names=names), r"no values for 2001-01-02T06:00.*has the times 2001-01-02T07:00 to"),
                ("fewer.nc", series(4, 29, nodes=range(2), names=names), "2 nodes instead of 3"),
                ("feet.nc", series(4, 29, names=names, units="ft"), 'tide has units "ft", but units "m" in'),
                ("lacking.nc", series(4, 29, names=("tide",)), "no variable works"),
                ("empty.nc", series(4, 29, names=names, change=lambda name, t, i, x: "_" if t == 31 else x),
                 "no node has a value of data.known_inputs at 2001-01-02T07:00"),
                ("moved.nc", series(4, 29, names=names).replace("node_lat = 40", "node_lat = 50"), "node 0 lies at 50")):
            self.netcdf(file, cdl)
            with self.subTest(file):
                self.refuse(2, ["forecast", "run_ahead", "--steps", "2", "--inputs", file], message)
        self.refuse(2, ["forecast", "run_ahead", "--steps", "2", "--inputs", "nothing.nc"], "nothing.nc")
        self.refuse(1, ["forecast", "run_ahead", "--steps", "2", "--inputs", "late.nc", "-o", "late.nc"], "late.nc")
        self.netcdf("unknown.nc", series(STEPS + 2, change=lambda name, t, i, x: "_" if t >= STEPS else x))
        self.refuse(2, ["forecast", "run_ahead", "--steps", "2", "--set", "data.file=unknown.nc"],
                    "unknown.nc: no node has a value of data.known_inputs at 2001-01-02T06:00.*--inputs FILE")
        self.succeed(1, *self.arguments("without"))
        self.refuse(1, ["forecast", "without", "--steps", "2", "--inputs", "late.nc"], "the run does not read data.known_inputs")

    def test_nodes_are_matched_by_their_ids(self):
        self.netcdf("named.nc", series(ids=True))
        named = ["data.file=named.nc"]
        self.succeed(2, *self.training("named", *named))
        self.netcdf("in_order.nc", series(4, 29, names=("tide", "works"), ids=True))
        self.netcdf("turned.nc", series(4, 29, names=("tide", "works"), ids=True, nodes=(2, 0, 1)))
        self.assertEqual(self.forecasts("named", "--inputs", "turned.nc"), self.forecasts("named", "--inputs", "in_order.nc"))
        self.netcdf("others.nc", series(4, 29, names=("tide", "works"), ids=True).replace('"s3"', '"s4"'))
        self.refuse(2, ["forecast", "named", "--steps", "2", "--inputs", "others.nc"], 'the file has no node "s3"')
        # Static values by id, from a table and from NetCDF.
        self.write("nodes.csv", "id,lanes,depth\ns3,2,20\ns5,3,45\ns9,4,\ns7,1,10\n")
        self.succeed(2, *self.training("table", *named, "data.static_file=nodes.csv", "data.static=[\"depth\", \"latitude\"]"))
        self.assertEqual(self.ends("table"), self.ends("named"))
        self.succeed(2, *self.training("turned", *named, "data.static_file=turned.nc"))
        self.assertEqual(self.ends("turned"), self.ends("named"))
        self.netcdf("bare.nc", series(4, 29, names=("tide", "works")))
        warning = r"warning +bare.nc \(data.static_file\): the nodes have no ids and are matched by position with the nodes of named.nc"
        self.assertRegex(self.succeed(2, *self.training("bare", *named, "data.static_file=bare.nc")).out, warning)
        self.assertNotRegex(self.succeed(1, *self.training("ids", *named, "data.static_file=turned.nc")).out, "matched by position")
        for text, message in (("id,depth\ns3,2\ns5,3\n", 'node "s7" has no value of depth'),
                              ("id,depth\ns3,2\ns5,3\ns7,\n", 'node "s7" has no value of depth'),
                              ("id,depth\ns3,2\ns5,deep\ns7,1\n", 'nodes.csv:3: "deep" in column depth'),
                              ("id,depth\ns3,2\ns3,3\n", "nodes.csv:3: node s3 was already given in line 2"),
                              ("id,depth\n3,2\n", 'no id in the first column, id, is a node of the series'),
                              ("id,deep\ns3,2\n", "nodes.csv:1: there is no column depth .* id, deep"),
                              ("id,depth\ns3\n", "nodes.csv:2: the line has 1 columns"), ("", "the table is empty")):
            self.write("nodes.csv", text)
            with self.subTest(text):
                self.refuse_settings([*FURTHER, *named, "data.static_file=nodes.csv", "data.static=[\"depth\"]"], message)

    def test_bad_settings(self):
        for settings, message in (
                (["model.name=stnn", "data.static=[\"depth\"]"], 'data.static: model.name = "stnn"'),
                (["model.name=stnn", "data.inputs=[\"rain\"]"], 'data.inputs: model.name = "stnn"'),
                ([*TGCN, "data.known_inputs=[\"tide\"]"], 'data.known_inputs: model.name = "tgcn" does not read'),
                ([*GRAPH_WAVENET, "window.known_times=true"], 'window.known_times = true: model.name = "graph_wavenet"'),
                (["window.known_times=true", "window.time_of_day=false"], "there are no time features"),
                (["data.inputs=[\"v\"]"], "v is also forecast"), (["data.inputs=[\"rain\"]", "data.known_inputs=[\"rain\"]"], "rain is named twice"),
                (["data.inputs=[\"reign\"]"], "no variable reign .did you mean rain"), (["data.inputs=[\"depth\"]"], "depth has no time axis"),
                (["data.static=[\"rain\"]"], r"rain has dimensions .time = 30, node = 3.*data.static"),
                (["data.static=[\"deep\"]"], "no variable deep .data.static"), (["data.static=[\"depth\", \"depth\"]"], "depth is named twice"),
                (["data.static_file=nodes.csv"], "is not used"),
                (["window.holidays=[\"2001-01-32\"]"], 'window.holidays: "2001-01-32" is not a day'),
                (["window.holidays=[\"2005-01-01\"]"], "none of the 1 days is in the series")):
            self.refuse_settings(settings, message)
        self.netcdf("shallow.nc", series(depth=("10", "_", "45")))
        self.refuse_settings([*FURTHER, "data.file=shallow.nc"], "node 1 has no value of depth")
        fine = series(change=lambda name, t, i, x: x + 1e10 if name == "tide" else x)
        self.netcdf("fine.nc", fine.replace("float tide", "double tide").replace("tide:_FillValue = NaNf", "tide:_FillValue = NaN"))
        self.refuse_settings([*FURTHER, "data.file=fine.nc"], "variable tide varies by less than the precision of float32")
        self.netcdf("counted.nc", re.sub(r'time:units = "[^"]*" ;', 'time:units = "1" ;', series()))
        self.refuse_settings(["data.file=counted.nc", "window.time_of_day=false", "window.day_of_year=true"],
                             "window.day_of_year: the time axis counts steps")

    def test_the_only_variable_that_is_no_input_is_forecast(self):
        inputs = ["data.inputs=[\"rain\"]", "data.known_inputs=[\"tide\", \"works\"]"]
        out = self.succeed(1, *self.arguments("only", "data.variables=[]", *inputs)).out
        self.assertIn("1 feature\n", out)
        self.refuse_settings(["data.variables=[]", "data.inputs=[\"rain\"]"], "several variables fit")

    def test_plans_count_inputs(self):
        self.succeed(1, "graph", "inputs.toml", *[w for s in FURTHER for w in ("--set", s)], "-o", "graph.json")
        with open(self.path("graph.json"), encoding="utf-8") as file:
            self.assertIn("decoder0", file.read())


if __name__ == "__main__":
    support.main()
