"""Averages of forecasters, and forecasts of the user's own."""

import json
import os
import re
import shutil
import subprocess

import support
from sensors import Runs
from test_schemas import LoadsJson

STEPS, NODES = 72, 5
CONFIG = """
[data]
file = "sensors.nc"
variables = ["v"]
center = "node"
[split]
train = 44
validation = 12
[train]
epochs = 1
[evaluate]
horizons = 2
lim_modes = 2
"""


def value(t, i):
    """An oscillation whose period is no whole number of steps, with a jump now and then."""
    return round((t * (i + 2)) % 7 + 0.5 * i + ((t * t + 3 * i) % 11) / 5, 3)


def daily(t, i):
    """A daily cycle of 8 steps, plus 0.3 times `value`."""
    return (9, 3, 0, -4, -9, -3, 2, 5)[t % 8] * (1 + i) + 0.3 * value(t, i)


def series(steps=STEPS, nodes=NODES, units="m s-1", change=value, hours=1):
    """Returns the CDL of a series v(time, node) with edges and named nodes. Steps are `hours` long and begin
    at 2001-01-01."""
    values = ", ".join(str(change(t, i)) for t in range(steps) for i in range(nodes))
    return f"""netcdf sensors {{
dimensions: time = {steps} ; node = {nodes} ; edge = {nodes} ;
variables:
  double time(time) ; time:units = "hours since 2001-01-01" ;
  string node(node) ;
  int edge_src(edge) ; int edge_dst(edge) ;
  float v(time, node) ; v:_FillValue = NaNf ; v:units = "{units}" ;
data:
  time = {", ".join(str(t * hours) for t in range(steps))} ;
  node = {", ".join(f'"n{i}"' for i in range(nodes))} ;
  edge_src = {", ".join(map(str, range(nodes)))} ;
  edge_dst = {", ".join(str((i + 1) % nodes) for i in range(nodes))} ;
  v = {values} ;
}}
"""


def forecasts(off, origins=range(40, STEPS - 2), leads=(1, 2), lead_units="", lead="lead", units="m s-1",
              order=range(NODES), name="v", dimensions="init_time, lead, node", holes=()):
    """Returns the CDL of forecasts: the values plus off(lead, i). Origins are in hours since the first
    step."""
    values = ", ".join("_" if (t, i) in holes else str(value(t + h, i) + off(h, i))
                       for t in origins for h in range(1, len(leads) + 1) for i in order)
    attribute = f'{lead}:units = "{lead_units}" ;' if lead_units else ""
    return f"""netcdf forecasts {{
dimensions: init_time = {len(origins)} ; {lead} = {len(leads)} ; node = {len(order)} ;
variables:
  double init_time(init_time) ; init_time:units = "hours since 2001-01-01" ;
  double {lead}({lead}) ; {attribute}
  string node(node) ;
  double {name}({dimensions}) ; {name}:_FillValue = -99. ; {name}:units = "{units}" ;
data:
  init_time = {", ".join(map(str, origins))} ;
  {lead} = {", ".join(map(str, leads))} ;
  node = {", ".join(f'"n{i}"' for i in order)} ;
  {name} = {values} ;
}}
"""


class Averages(Runs, LoadsJson):
    config = "average.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", series())
        cls.write("average.toml", CONFIG)
        cls.netcdf("up.nc", forecasts(lambda h, i: 1))
        cls.netcdf("down.nc", forecasts(lambda h, i: -1))
        cls.netcdf("far.nc", forecasts(lambda h, i: 3))

    def trained(self, name="gru"):
        """A GRU of rows in blocks, or an STNN whose rows follow its graph."""
        settings = {"gru": ("model.name=gru", "window.inputs=3", "window.outputs=3", "model.units=4", "model.layers=1"),
                    "stnn": ("relation.graph=edges", "model.latent=2", "parallel.partition=graph"),
                    "double": ("model.name=gru", "window.inputs=5", "window.outputs=2", "model.units=4", "model.layers=1",
                               "model.precision=double")}[name]
        if not os.path.exists(self.path(f"{name}/checkpoints/state.h5")):
            self.succeed(2, *self.arguments(name, *settings))
        return name

    def average(self, *members, weights="equal", output="made", ranks=1, sets=()):
        shutil.rmtree(self.path(output), ignore_errors=True)
        self.succeed(ranks, "average", *members, "-o", output, "--weights", weights,
                     *[word for s in sets for word in ("--set", s)])
        return self.load(output + "/average.json", "average.schema.json")

    def weights(self, *members, weights):
        return [horizon["weights"] for horizon in self.average(*members, weights=weights)["horizons"]]

    def scores(self, name, file="scores.json", ranks=1, more=()):
        self.succeed(ranks, "evaluate", name, "-o", file, *more)
        return self.load(file, "evaluation.schema.json")

    def forecast(self, name, *more, ranks=1):
        """Returns the values of each variable that `rossby forecast` writes."""
        self.succeed(ranks, "forecast", name, "--steps", "2", "-o", "forecast.nc", *more)
        text = subprocess.run(["ncdump", "-p", "9,17", self.path("forecast.nc")], check=True, capture_output=True, text=True).stdout
        values = {}
        for name, numbers in re.findall(r"^ (\w+) =([^;\"]*) ;", text.split("data:")[1], re.M):
            values[name] = [float(x) for x in numbers.replace("\n", "").split(",")]
        return values

    def assert_near(self, a, b, delta=1e-5):
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            self.assertAlmostEqual(x, y, delta=delta)

    def test_weights_are_best_in_the_validation_part(self):
        """One forecast is a unit too large, one a unit too small: their mean is right."""
        run = self.trained()
        self.assertEqual(self.weights(run, "up.nc", weights="equal"), [[0.5, 0.5]] * 2)
        for found in self.weights(run, "up.nc", "down.nc", weights="stacking"):
            self.assert_near(found, [0, 0.5, 0.5], 1e-3)
        for horizon in self.load("made/average.json", "average.schema.json")["horizons"]:
            self.assertLess(horizon["validation_mae"]["average"], 1e-3)
        self.assertLess(self.scores("made")["mean"]["rmse"]["model"], 0.01)
        made = self.average(run, "up.nc", "far.nc", weights="validation")
        for horizon in made["horizons"]:
            self.assert_near(horizon["validation_rmse"]["members"][1:], [1, 3])
            self.assert_near(horizon["validation_mae"]["members"][1:], [1, 3])
            self.assertLess(horizon["validation_mae"]["average"], sum(horizon["validation_mae"]["members"]))
            inverse = [1 / error**2 for error in horizon["validation_rmse"]["members"]]
            self.assert_near(horizon["weights"], [x / sum(inverse) for x in inverse])
        self.assertEqual(made["horizons"][1]["lead"], "2 h")

    def test_refit_runs_are_weighed_by_those_that_chose_their_epochs(self):
        """A refit run has no validation part, because it trained on it. The run that chose its epochs gives
        its errors there."""
        for run, units in (("one", 4), ("two", 3)):
            self.succeed(2, *self.arguments("refit_" + run, "model.name=gru", "window.inputs=3", "window.outputs=3",
                                            f"model.units={units}", "model.layers=1", "train.refit=true", "train.epochs=2"))
        chosen = self.average("refit_one/chosen", "refit_two/chosen", "cycle", weights="stacking")
        for ranks in (1, 3):
            found = self.average("refit_one", "refit_two", "cycle", weights="stacking", ranks=ranks)
            for here, there in zip(found["horizons"], chosen["horizons"], strict=True):
                self.assert_near(here["weights"], there["weights"])
                self.assert_near(here["validation_rmse"]["members"], there["validation_rmse"]["members"])
        self.assertEqual([member.get("path") for member in found["members"]], ["../refit_one", "../refit_two", None])
        self.assertNotEqual(found["members"][0]["hash"], chosen["members"][0]["hash"])
        self.scores("made", ranks=2)
        self.average("refit_one", "up.nc", weights="stacking")
        self.refuse(2, ["average", "refit_one", self.trained(), "-o", "refused", "--weights", "stacking"], "its parts are training")
        shutil.rmtree(self.path("refit_two/chosen"))
        self.refuse(2, ["average", "refit_two", "cycle", "-o", "refused", "--weights", "stacking"],
                    "Train the members with a longer split.validation, or set --weights equal")
        self.assertFalse(os.path.exists(self.path("refused")))

    def test_an_average_is_scored_like_a_run(self):
        run = self.trained()
        self.average(run, "direct_ridge", "stnn" if self.trained("stnn") else "", weights="stacking")
        found = self.scores("made")
        own = self.scores(run)
        self.assertEqual(list(found["mean"]["rmse"]), list(own["mean"]["rmse"]))
        self.assertEqual(found["data"], own["data"])
        for name, score in own["mean"]["rmse"].items():
            if name != "model":
                self.assertAlmostEqual(found["mean"]["rmse"][name], score, delta=1e-6)
        # With all weight on one member, the scores are its own.
        with open(self.path("made/average.json"), encoding="utf-8") as file:
            made = json.load(file)
        for number, name in enumerate(("model", "direct_ridge")):
            for horizon in made["horizons"]:
                horizon["weights"] = [float(k == number) for k in range(3)]
            self.write("made/average.json", json.dumps(made))
            found = self.scores("made")
            for a, b in zip(found["horizons"], own["horizons"]):
                self.assertAlmostEqual(a["rmse"]["model"], b["rmse"][name], delta=1e-4)

    def test_ranks_have_the_same_average(self):
        """Members differ in row order and precision; some cases have more ranks than nodes."""
        members = [self.trained("gru"), self.trained("stnn"), self.trained("double"), "direct_ar", "far.nc"]
        made = [self.average(*members, weights="stacking", output=f"on{ranks}", ranks=ranks) for ranks in (1, 2, 3, 6)]
        scores = [self.scores("on1", f"scores{ranks}.json", ranks) for ranks in (1, 2, 3, 6)]
        values = [self.forecast("on1", "--members", "--origin", "2001-01-03T20:00", ranks=ranks) for ranks in (1, 3)]
        for other in made[1:]:
            for a, b in zip(made[0]["horizons"], other["horizons"]):
                self.assert_near(a["weights"], b["weights"], 1e-3)
                self.assert_near(a["validation_rmse"]["members"], b["validation_rmse"]["members"], 1e-5)
        for other in scores[1:]:
            self.assert_near(list(scores[0]["mean"]["rmse"].values()), list(other["mean"]["rmse"].values()), 1e-4)
        for name in values[0]:
            self.assert_near(values[0][name], values[1][name], 1e-4)

    def test_forecasts_keep_their_members(self):
        members = [self.trained("gru"), "ridge_var", "up.nc"]
        weights = [h["weights"] for h in self.average(*members, weights="validation")["horizons"]]
        origin = ("--origin", "2001-01-03T20:00")
        values = self.forecast("made", "--members", *origin)
        self.assertEqual(values["realization"], [0, 1, 2])
        for step in range(2):
            for i in range(NODES):
                each = [values["v_members"][(k * 2 + step) * NODES + i] for k in range(3)]
                self.assertAlmostEqual(values["v"][step * NODES + i], sum(w * x for w, x in zip(weights[step], each)), delta=1e-4)
                self.assertAlmostEqual(each[2], value(69 + step, i) + 1, delta=1e-4)
        alone = self.forecast("gru", *origin)
        self.assert_near(values["v_members"][:2 * NODES], alone["v"])
        self.assertNotIn("v_members", self.forecast("made", *origin))
        text = subprocess.run(["ncdump", "-h", self.path("forecast.nc")], check=True, capture_output=True, text=True).stdout
        self.assertIn("average (validation) of", text)
        self.refuse(2, ["forecast", "gru", "--steps", "1", "--members"], "--members works only with averages")
        self.refuse(2, ["forecast", "made", "--steps", "3"], "3 horizons are too many: .*weights for 2 steps")
        self.refuse(2, ["forecast", "made", "--steps", "1"], "up.nc: this file has no forecast from 2001-01-03T23:00; its init_time is")

    def test_baselines_go_on_behind_the_data(self):
        """A forecast from the end of the data equals that of longer data from the same origin, at any
        hour."""
        self.netcdf("daily.nc", series(change=daily, hours=3))
        self.netcdf("short.nc", series(60, change=daily, hours=3))
        self.succeed(2, *self.arguments("daily", "data.file=daily.nc", "relation.graph=edges", "model.latent=2"))
        for names in (("time_of_week", "cycle", "direct_ar", "direct_ridge"), ("ridge_var", "lim", "persistence", "climatology")):
            self.average("daily", *names)
            short = self.forecast("made", "--members", "--set", "data.file=short.nc")
            long = self.forecast("made", "--members", "--origin", "2001-01-08T09:00")
            self.assertEqual(short["time"], [180, 183])
            self.assert_near(short["v_members"], long["v_members"], 1e-3)

    def test_test_values_do_not_leak(self):
        members = [self.trained(), "direct_ridge", "up.nc"]
        texts = []
        for change in (lambda t, i: value(t, i), lambda t, i: value(t, i) + (100 * i + t if t >= 56 else 0)):
            self.netcdf("sensors.nc", series(change=change))
            try:
                self.average(*members, weights="stacking")
                with open(self.path("made/average.json"), encoding="utf-8") as file:
                    texts.append(file.read())
            finally:
                self.netcdf("sensors.nc", series())
        self.assertEqual(texts[0], texts[1])

    def test_files_of_forecasts_are_baselines(self):
        run = self.trained()
        self.netcdf("My Own.2.nc", forecasts(lambda h, i: 0.01 * h, lead_units="hours", order=[3, 1, 0, 2, 4]))
        found = self.scores(run, more=("--baseline", "up.nc", "--baseline", "My Own.2.nc"))
        for horizon in found["horizons"]:
            self.assertAlmostEqual(horizon["rmse"]["file_up"], 1, delta=1e-5)
            self.assertAlmostEqual(horizon["mae"]["file_my_own_2"], 0.01 * horizon["step"], delta=1e-5)
        self.assertEqual(found["skill"]["baseline"], "file_my_own_2")
        self.netcdf("some.nc", forecasts(lambda h, i: 2, origins=range(60, 64)))
        out = self.succeed(2, "evaluate", run, "--baseline", "some.nc", "--set", "evaluate.baselines=false", "-o", "scores.json").out
        self.assertIn("4 of 15 origins are in all files of forecasts; only these origins are used", out)
        found = self.load("scores.json", "evaluation.schema.json")
        self.assertEqual(found["data"]["origins"], 4)
        self.assertEqual(list(found["mean"]["rmse"]), ["model", "file_some"])
        self.assertNotIn("by position", out)
        with self.subTest("missing forecasts"):
            self.netcdf("hole.nc", forecasts(lambda h, i: 2, holes=[(60, 2)]))
            out = self.succeed(2, "evaluate", run, "--baseline", "hole.nc", "-o", "scores.json").out
            self.assertIn('remark    hole.nc: 2 observed values have no forecast, so that 2 of 2 leads have no figure ("-"), the first', out)
            self.assertEqual([h["rmse"]["file_hole"] for h in self.load("scores.json", "evaluation.schema.json")["horizons"]], [None, None])
        with self.subTest("nodes without ids"):
            cdl = forecasts(lambda h, i: 1)
            self.netcdf("bare.nc", "\n".join(line for line in cdl.split("\n") if not line.startswith(("  string node", "  node ="))))
            warning = "warning   bare.nc: its nodes have no ids: they are matched by position with those of sensors.nc\n"
            self.assertEqual(self.succeed(2, "evaluate", run, "--baseline", "bare.nc", "-o", "bare.json").out.count(warning), 1)
            self.assertEqual(self.succeed(2, "average", run, "bare.nc", "-o", "of_bare").out.count(warning), 1)
        with self.subTest("as a member, too"):
            self.average(run, "up.nc")
            self.netcdf("some.nc", forecasts(lambda h, i: 2, origins=range(60, 90)))
            found = self.scores("made", more=("--baseline", "some.nc"))
            self.assertEqual(found["data"]["origins"], 10)

    def test_xarray_writes_and_reads_them(self):
        try:
            import numpy
            import xarray
        except ImportError:
            self.skipTest("python3-xarray is not installed")
        run = self.trained()
        data = xarray.open_dataset(self.path("sensors.nc"))
        origins = numpy.arange(50, STEPS - 2)
        last = numpy.stack([data.v.values[origins]] * 2, axis=1)
        xarray.Dataset({"v": (("init_time", "lead", "node"), last)},
                       coords={"init_time": data.time[origins].values, "node": data.node,
                               "lead": numpy.array([1, 2]) * numpy.timedelta64(1, "h")}).to_netcdf(self.path("last.nc"))
        for horizon in self.scores(run, more=("--baseline", "last.nc"))["horizons"]:
            self.assertAlmostEqual(horizon["rmse"]["file_last"], horizon["rmse"]["persistence"], delta=1e-6)
        self.average(run, "last.nc")
        self.forecast("made", "--members", "--origin", "2001-01-03T20:00")
        with xarray.open_dataset(self.path("forecast.nc")) as made:
            self.assertEqual(made.v_members.dims, ("realization", "time", "node"))
            self.assertEqual(list(made.member.values), [run, "last.nc"])
            numpy.testing.assert_allclose(made.v_members.mean("realization"), made.v, rtol=1e-5)

    def test_bad_files_of_forecasts(self):
        run = self.trained()
        for name, cdl, *patterns in (
                ("no_lead", forecasts(lambda h, i: 0, lead="ahead", dimensions="init_time, ahead, node"), r"variable v has dimensions \(init_time = 30, ahead = 2, node = 5\)",
                 r"\(init_time, lead, node\) in this order"),
                ("turned", forecasts(lambda h, i: 0, dimensions="lead, init_time, node"), "in this order"),
                ("kelvin", forecasts(lambda h, i: 0, units="km h-1"), 'variable v has units "km h-1", but the data have units "m s-1" .sensors.nc.'),
                ("other", forecasts(lambda h, i: 0, name="w"), "no variable v, but sensors.nc has this variable. Add the variable to the forecast file"),
                ("short", forecasts(lambda h, i: 0, leads=(1,)), "forecasts of 1 steps ahead, but 2 are needed"),
                ("zero", forecasts(lambda h, i: 0, leads=(0, -1)), "no forecast of the first step after init_time"),
                ("late", forecasts(lambda h, i: 0, leads=("3600", "7200"), lead_units="hours"), "no forecast of the first step"),
                ("month", forecasts(lambda h, i: 0, lead_units="months"), 'units "months", in which a step of the data .1 hour. has no'),
                ("early", forecasts(lambda h, i: 0, origins=range(10, 20)), "no forecast from any of the 15 origins from 2001-01-03T07:00"),
                ("few", forecasts(lambda h, i: 0, order=[0, 1, 4]), 'no forecasts of node "n2", but the run has this node'),
                ("undated", forecasts(lambda h, i: 0).replace("hours since 2001-01-01", "1"), "init_time is not dated")):
            with self.subTest(name):
                self.netcdf(name + ".nc", cdl)
                self.refuse(2 if name == "few" else 1, ["evaluate", run, "--baseline", name + ".nc"], f"{name}.nc: ", *patterns)
        self.refuse(1, ["evaluate", run, "--baseline", "none.nc"], "none.nc: ")
        self.refuse(1, ["evaluate", run, "--baseline", "up.nc", "--baseline", "up.nc"], "two files of forecasts would be called file_up")
        self.refuse(2, ["evaluate", run, "--baseline", "up.nc", "-o", "up.nc"], "up.nc")
        self.netcdf("holes.nc", forecasts(lambda h, i: 0, holes=[(50, 2)]))
        self.refuse(3, ["average", run, "holes.nc", "-o", "no", "--weights", "stacking"], "holes.nc: 2 forecasts of observed values .* missing")
        self.assertFalse(os.path.exists(self.path("no")))

    def test_bad_members(self):
        run = self.trained()
        self.trained("stnn")
        if not os.path.exists(self.path("other/config.toml")):
            self.succeed(2, *self.arguments("other", "relation.graph=edges", "model.latent=2", "split.train=40"))
            self.succeed(2, *self.arguments("blind", "relation.graph=edges", "model.latent=2", "split.validation=0"))
            self.netcdf("copy.nc", series())
            self.succeed(2, *self.arguments("copied", "relation.graph=edges", "model.latent=2", "data.file=copy.nc"))
            self.leave("unfinished", 2, "relation.graph=edges", "model.latent=2", "train.epochs=50")
        os.makedirs(self.path("empty"), exist_ok=True)
        for members, *patterns in (
                ((), "members is required|members"),
                ((run,), "needs two members or more, but only gru is named"),
                ((run, run + "/"), "this member is named twice"),
                ((run, "lim", "lim"), "lim: this member is named twice"),
                ((run, "limm"), "limm: not a run directory, a file of forecasts or a baseline", "persistence, "),
                ((run, "annual_cycle"), "annual_cycle: this baseline does not exist for these data"),
                ((run, "empty"), "empty: not a run directory"),
                ((run, "unfinished"), "unfinished: the training has not ended"),
                (("lim", "up.nc"), "none of the members is a run"),
                ((run, "other"), "other: its parts are training .*2001-01-02T15:00, .* same split"),
                ((run, "copied"), "copied: its data are copy.nc, and those of gru are sensors.nc")):
            with self.subTest(members):
                self.refuse(2 if "other" in members else 1, ["average", *members, "-o", "no"], *patterns, code=1 if members else 2)
                self.assertFalse(os.path.exists(self.path("no")), "no directory is made")
        for weights in ("validation", "stacking"):
            self.refuse(2, ["average", "blind", "lim", "-o", "no", "--weights", weights], f"--weights {weights} needs errors in the validation part")
        self.refuse(1, ["average", run, "stnn", "-o", "no", "--weights", "best"], "--weights", code=2)
        self.refuse(2, ["average", self.trained("double"), run, "-o", "no", "--set", "evaluate.horizons=3"],
                    r"double: this run forecasts 2 steps \(window.outputs\), but the average needs 3")
        self.refuse(1, ["average", run, "lim", "-o", "gru"], "gru: this is a run directory")
        self.refuse(1, ["average", run, "lim", "-o", "sensors.nc"], "sensors.nc: cannot make this directory")
        self.refuse(1, ["average", run, "lim", "-o", "not/there/yet"], "not/there/yet: cannot write into the folder .*not/there: No such file")
        self.average(run, "lim")
        self.refuse(2, ["average", run, "lim", "-o", "made"], "made/average.json: this file already exists")
        self.refuse(1, ["average", run, "made", "-o", "no"], "made: an average cannot be a member of an average. Name the members of this average")

    def test_no_run_goes_where_an_average_is(self):
        self.succeed(1, "average", self.trained(), "lim", "--weights", "equal", "-o", "taken")
        self.refuse(2, self.arguments("taken"), "taken contains an average of forecasters")

    def test_what_happens_to_members_is_noticed(self):
        run = self.trained()
        shutil.copytree(self.path(run), self.path("again"))
        shutil.copy(self.path("up.nc"), self.path("mine.nc"))
        self.average("again", "mine.nc", "lim", output="of_again")
        self.scores("of_again")
        with self.subTest("moved together"):
            os.makedirs(self.path("there/runs"))
            for name in ("again", "mine.nc", "of_again"):
                (shutil.copytree if os.path.isdir(self.path(name)) else shutil.copy)(self.path(name), self.path("there/runs/" + name))
            self.scores("there/runs/of_again")
        self.netcdf("mine.nc", forecasts(lambda h, i: 1.5))
        self.refuse(2, ["evaluate", "of_again"], "of_again/average.json: mine.nc was written again after the average was made")
        self.netcdf("mine.nc", forecasts(lambda h, i: 1))
        shutil.rmtree(self.path("again"))
        self.refuse(2, ["forecast", "of_again", "--steps", "1"], "member again is missing")
        self.succeed(2, *self.arguments("again", "model.name=gru", "window.inputs=3", "window.outputs=3", "model.units=4",
                                        "model.layers=1", "train.seed=7"))
        self.refuse(2, ["evaluate", "of_again"], "again was trained again after the average was made")
        for text in ("{", "[]", '{"weighting": "equal", "members": [], "horizons": []}',
                     '{"weighting": "equal", "members": [{"kind": "baseline", "name": "lim"}, {"kind": "run", "path": "../gru", "hash": ""}], '
                     '"horizons": [{"weights": [0.5, 0.6]}]}'):
            self.write("of_again/average.json", text)
            self.refuse(3, ["evaluate", "of_again"], "of_again/average.json: not a file of 'rossby average'")


if __name__ == "__main__":
    support.main()
