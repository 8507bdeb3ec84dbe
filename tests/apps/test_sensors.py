"""Features for sensor data: horizons as times, null values, graphs, the ridge VAR of many steps."""

import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess

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
    """A series of sensors and a model that trains quickly."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.write("gru.toml", GRU)

    def run_of(self, run, ranks, *settings):
        """Trains and scores. Returns (losses, hash of the data, scores)."""
        self.succeed(ranks, "train", "gru.toml", "--run", run, *[word for s in settings for word in ("--set", s)])
        self.succeed(ranks, "evaluate", run)
        with open(self.path(run + "/metrics.jsonl"), encoding="utf-8") as file:
            losses = [json.loads(line)["loss"] for line in file]
        with open(self.path(run + "/evaluation.json"), encoding="utf-8") as file:
            scores = json.load(file)
        del scores["data"]  # names the file
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
        self.assertNotIn("seen", out)
        self.assertFalse(scores["data"]["seen"])
        for words, seen in [(["forecast", "run", "--steps", "1", "--origin", "2001-01-01T05:00", "-o", "seen.nc"], True),
                            (["forecast", "run", "--steps", "1", "-o", "new.nc"], False),
                            (["evaluate", "run", "-o", "seen.json", "--set", "evaluate.first_origin=5", "--set", "evaluate.last_origin=20"], True)]:
            self.assertEqual("the model has seen" in self.succeed(1, *words).out, seen)
        # Folds have validation parts before training steps.
        self.succeed(1, "train", "gru.toml", "--run", "folded", "--set", "split.validation=0", "--set", "split.folds=3", "--set", "split.fold=0",
                     "--set", "train.epochs=1")
        self.assertIn("the model has seen", self.succeed(1, "evaluate", "folded", "--set", "evaluate.first_origin=3").out)
        with open(self.path("folded/evaluation.json"), encoding="utf-8") as file:
            self.assertTrue(json.load(file)["data"]["seen"])
        for wrong, why in [("90 min", "not a whole number of steps.* 1 hour"), ("3", "not one of the 2 horizons"),
                           ("soon", "Write a number and a unit")]:
            self.refuse(2, ["evaluate", "run", "--set", f'evaluate.report=["{wrong}"]'],
                        rf'evaluate\.report: "{wrong}" .*{why}')


class CrossValidation(Sensors):
    """Tests jobscripts/local/cross_validate.sh."""
    script = pathlib.Path(__file__).resolve().parents[2] / "jobscripts/local/cross_validate.sh"
    # The high rate makes errors go up and down. Epochs and folds differ, and the best epoch by training is
    # seldom the last.
    settings = ["train.epochs=6", "optimiser.lr=0.3", "schedule.metric=train", "window.inputs=2", "window.outputs=1", "evaluate.horizons=1"]

    def validate(self, *words):
        return subprocess.run(["bash", str(self.script), *words, "--rossby", support.rossby], cwd=self.folder, capture_output=True,
                              text=True, check=False, timeout=300)

    def test_errors_are_of_the_states_that_are_kept(self):
        sets = [word for s in self.settings for word in ("--set", s)]
        others = 0
        for keep in ("best", "last"):
            result = self.validate("gru.toml", "--folds", "3", *sets, "--set", f"train.keep={keep}")
            self.assertEqual(result.returncode, 0, result.stderr)
            *errors, _, mean = result.stdout.split()
            expected = []
            for fold in range(3):
                run = f"{keep}_{fold}"
                self.succeed(1, "train", "gru.toml", "--run", run, *sets, "--set", f"train.keep={keep}", "--set", "split.folds=3",
                             "--set", f"split.fold={fold}", "--set", "split.validation=0")
                with open(self.path(run + "/metrics.jsonl"), encoding="utf-8") as file:
                    lines = [json.loads(line) for line in file]
                best = min(range(6), key=lambda epoch: lines[epoch]["loss"]) if keep == "best" else 5
                others += best < 5
                expected.append(lines[best]["validation_mae"])
            self.assertEqual(errors, [f"{error:.4f}" for error in expected])
            self.assertAlmostEqual(float(mean), statistics.mean(expected), delta=6e-5)
        self.assertGreater(others, 0, "epochs that are not the last one's are the best")

    def test_refused(self):
        for words, pattern in ((["--folds", "0"], "--folds 0: give a whole number of at least 2"), (["--folds", "x"], "--folds x"),
                               (["--ranks", "0"], "--ranks 0: give a whole number of at least 1"), (["more.toml"], "more.toml: there is already a configuration, .*gru.toml"),
                               (["--fold", "2"], "unknown option --fold")):
            result = self.validate("gru.toml", *words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            self.assertRegex(result.stderr, f"^cross_validate.sh: {pattern}.*\n$")
        result = subprocess.run(["bash", str(self.script), "gru.toml", "--set"], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (2, "cross_validate.sh: --set needs a value\n"))
        self.assertIn("fold 0 has no validation error of the kept state. Use fewer folds",
                      self.validate("gru.toml", "--folds", "6", "--set", "train.keep=last").stderr)


class Variables(Sensors):

    def test_several_are_scored_on_their_own_too(self):
        text = sensors(steps=30)
        values = re.search(r"\n  v = ([^;]*);", text)[1]
        large = ", ".join("_" if word == "_" else str(1000 * float(word)) for word in values.split(", "))
        text = text.replace('v:units = "m s-1" ;', 'v:units = "m s-1" ; float w(time, node) ; w:units = "mm s-1" ;')
        self.netcdf("both.nc", text.replace(f"  v = {values};", f"  v = {values} ;\n  w = {large} ;"))
        run = ["train", "gru.toml", "--run", "both", "--set", 'data.file="both.nc"', "--set", 'data.variables=["v", "w"]', "--set",
               'data.center="node"', "--set", 'data.spread="node"']
        self.assertIn("warning   one loss in original units covers v (m s-1), w (mm s-1), so that variables with large values dominate",
                      self.succeed(2, *run).out)
        out = self.succeed(3, "evaluate", "both").out
        with open(self.path("both/evaluation.json"), encoding="utf-8") as file:
            scores = json.load(file)
        with open(os.path.join(SCHEMAS, "evaluation.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        self.assertEqual(faults(scores, schema, schema), [])
        self.assertEqual(scores["units"], "mixed")
        v, w = scores["variables"]
        self.assertEqual([(part["variable"], part["units"]) for part in (v, w)], [("v", "m s-1"), ("w", "mm s-1")])
        # w has a unit of a thousandth, so persistence has a thousand times the error. The larger error
        # dominates the total.
        for own, other, both in zip(v["horizons"], w["horizons"], scores["horizons"]):
            errors = [part["rmse"]["persistence"] for part in (own, other, both)]
            self.assertAlmostEqual(errors[1] / errors[0], 1000, delta=0.01)
            self.assertAlmostEqual(errors[2], math.sqrt((errors[0] ** 2 + errors[1] ** 2) / 2), delta=1e-6 * errors[2])
        self.assertRegex(out, r"(?s)variable v\nRMSE \(m s-1\).*variable w\nRMSE \(mm s-1\).*all variables together, although their units differ")
        self.assertNotIn("variables", self.alone())

    def test_features_are_scored_on_their_own_too(self):
        text = sensors(steps=30)
        values = re.search(r"\n  v = ([^;]*);", text)[1]
        both = ", ".join(f"{word}, {'_' if word.strip() == '_' else 1000 * float(word)}" for word in values.split(", "))
        text = text.replace("float v(time, node)", "float v(time, node, kind)").replace("dimensions:", "dimensions: kind = 2 ;")
        text = text.replace(f"  v = {values};", f"  v = {both} ;\n")
        named = text.replace("variables:", "variables:\n  string kind(kind) ;").replace("data:", 'data:\n  kind = "speed", "flow" ;')
        for name, cdl, labels in (("numbered", text, ["0", "1"]), ("named", named, ["speed", "flow"])):
            self.netcdf(f"{name}.nc", cdl)
            self.succeed(2, "train", "gru.toml", "--run", name, "--set", f'data.file="{name}.nc"', "--set", 'data.spread="node"')
            out = self.succeed(2, "evaluate", name).out
            with open(self.path(f"{name}/evaluation.json"), encoding="utf-8") as file:
                scores = json.load(file)
            with open(os.path.join(SCHEMAS, "evaluation.schema.json"), encoding="utf-8") as file:
                schema = json.load(file)
            self.assertEqual(faults(scores, schema, schema), [])
            self.assertEqual([(part["variable"], part["feature"]) for part in scores["variables"]], [("v", label) for label in labels])
            for own, other, all_ in zip(*(part["horizons"] for part in scores["variables"]), scores["horizons"]):
                errors = [part["rmse"]["persistence"] for part in (own, other, all_)]
                self.assertAlmostEqual(errors[1] / errors[0], 1000, delta=0.01)
                self.assertAlmostEqual(errors[2], math.sqrt((errors[0] ** 2 + errors[1] ** 2) / 2), delta=1e-6 * errors[2])
            self.assertRegex(out, rf"(?s)v, kind {labels[0]}\nRMSE .*v, kind {labels[1]}\nRMSE .*all 2 features of v together: if")

    def alone(self):
        self.succeed(1, "train", "gru.toml", "--run", "alone")
        self.succeed(1, "evaluate", "alone")
        with open(self.path("alone/evaluation.json"), encoding="utf-8") as file:
            return json.load(file)


class Calendars(Sensors):

    def test_forecasts_keep_the_calendar_of_the_file(self):
        # 30 months of mid-month stamps: under "months since" of 30 days each, and in years of 365 days.
        lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        starts = [365 * (t // 12) + sum(lengths[:t % 12]) for t in range(32)]
        for units, calendar, stamps in [
                ("months since 1959-01-01", "360_day", [t + 0.5 for t in range(32)]),
                ("days since 1999-01-01", "noleap", [starts[t] + (14 if t % 12 == 1 else 15) for t in range(32)])]:
            with self.subTest(calendar):
                text = sensors(steps=30).replace("hours since 2001-01-01", f'{units}" ; time:calendar = "{calendar}')
                listed = ", ".join(str(stamp) for stamp in stamps[:30])
                self.netcdf("calendar.nc", re.sub(r"  time = [^;]*;", f"  time = {listed} ;", text))
                run = "run_" + calendar
                self.succeed(2, "train", "gru.toml", "--run", run, "--set", 'data.file="calendar.nc"')
                self.assertIn("annual_cycle", self.succeed(1, "evaluate", run).out)
                first = units[-10:-6]
                self.assertRegex(self.succeed(1, "data", "inspect", "calendar.nc").out, rf"{first}-01-1[5-6].*1 month")
                self.succeed(2, "forecast", run, "--steps", "2", "-o", f"{run}.nc")
                found = subprocess.run(["ncdump", self.path(f"{run}.nc")], check=True, capture_output=True, text=True).stdout
                self.assertIn(f'time:calendar = "{calendar}" ;', found)
                self.assertIn(f'time:units = "{units}" ;', found)
                dumped = re.search(r"\n time = ([^;]*) ;", found)[1]
                self.assertEqual([float(word) for word in dumped.split(",")], stamps[30:])


class NullValue(Sensors):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        plain = sensors(steps=30)
        cls.netcdf("zeros.nc", plain)
        cls.netcdf("missing.nc", re.sub(r"(?<= )0\.0(?=,)", "_", plain))

    def test_stands_for_missing_values(self):
        """Training, hash and scores equal those of a file in which the values are missing."""
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
        """A short integer that equals the null value after scale and offset, up to rounding."""
        self.netcdf("packed.nc", sensors(steps=30).replace("float v(", "short v(").replace(
            "v:_FillValue = NaNf", "v:scale_factor = 0.1 ; v:add_offset = 0.7").replace("0.5", "-7").replace("0.0", "-7"))
        self.assertIn("missing   0.00 %", self.succeed(1, "data", "inspect", "packed.nc").out)
        self.assertRegex(self.succeed(2, "data", "inspect", "packed.nc", "--null-value", "0").out, "missing +[1-9]")

    def test_inspect(self):
        out = self.succeed(2, "data", "inspect", "zeros.nc", "--null-value", "0").out
        self.assertEqual(re.findall("(?:missing|values) .*", out),
                         re.findall("(?:missing|values) .*", self.succeed(1, "data", "inspect", "missing.nc").out))
        self.succeed(1, "data", "inspect", "zeros.nc", "--null-value", "-999")
        self.refuse(2, ["data", "inspect", "zeros.nc", "--null-value", "none"], 'data.null_value = "none" is not a finite number')

    def test_bad_values(self):
        for value in ["none", "nan", "1e999", "'0 '"]:
            self.refuse_training([f"data.null_value={value}"], "data.null_value", "is not a finite number")
        self.netcdf("fives.nc", re.sub(r"v = .* ;\n}", "v = " + ", ".join(["5"] * 60) + " ;\n}", sensors(),
                                       flags=re.DOTALL))
        self.refuse_training(["data.file=fives.nc", "data.null_value=5"],
                             r"no node has an observed value.*data\.null_value = 5")


class Graphs(Sensors):
    """rossby data graph and relation.file."""

    IDS = "int id(node) ; char name(node, letters) ; double node_lat(node) ; double node_lon(node) ;\n  float v("
    PLACES = 'id = 70, 71, 72 ; name = "a", "b ", "cc" ; node_lat = 34, 34.1, 34.5 ; node_lon = -118, -118, -118 ;\n  v ='

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("places.nc", sensors(steps=30).replace("edge = 3 ;", "edge = 3 ; letters = 2 ;").replace(
            "float v(", cls.IDS).replace("v =", cls.PLACES))
        cls.write("d.csv", "from,to,cost\n70,70,0\n70,71,1\n71,70,3\n72,70,2\n70,99,1\n")

    def graph(self, kind, *arguments, ranks=2, series="places.nc"):
        """Returns the edges of a new graph as {(source, destination): weight}, and the output."""
        if os.path.exists(self.path("g.nc")):
            os.remove(self.path("g.nc"))
        out = self.succeed(ranks, "data", "graph", series, "--from", kind, "-o", "g.nc", *arguments).out
        dump = subprocess.run(["ncdump", "-p", "9,17", "-v", "edge_src,edge_dst,edge_weight", self.path("g.nc")],
                              capture_output=True, text=True, check=True).stdout
        lists = [re.search(rf"\n {name} =([^;]*);", dump)[1].split(",") for name in ("edge_src", "edge_dst", "edge_weight")]
        return {(int(i), int(j)): float(w) for i, j, w in zip(*lists)}, out + dump

    def refuse_graph(self, kind, arguments, *patterns, series="places.nc"):
        before = sorted(os.listdir(self.folder))
        with self.subTest(arguments):
            self.refuse(2, ["data", "graph", series, "--from", kind, "-o", "refused.nc", *arguments], *patterns)
            self.assertEqual(sorted(os.listdir(self.folder)), before, "nothing is left behind")

    def test_distances(self):
        edges, text = self.graph("distances", "--table", "d.csv", "--ids", "id", "--skip-unknown")
        sigma = statistics.pstdev([0, 1, 3, 2])
        self.assertEqual(set(edges), {(0, 0), (0, 1)} | ({(2, 0)} if math.exp(-(2 / sigma) ** 2) >= 0.1 else set()))
        self.assertAlmostEqual(edges[0, 1], math.exp(-1 / sigma ** 2), 12)
        self.assertRegex(text, r"d\.csv: 1 lines with unknown nodes are left out")
        self.assertRegex(text, r"standard deviation of 4 distances\), entries below 0\.1 dropped")
        edges, _ = self.graph("distances", "--table", "d.csv", "--ids", "id", "--skip-unknown", "--sigma", "2",
                              "--threshold", "0", "--symmetric")
        self.assertAlmostEqual(edges[1, 0], math.exp(-0.25), 12)
        self.assertEqual(edges[0, 1], edges[1, 0])
        self.assertEqual(len(edges), 5)

    def test_coordinates(self):
        edges, text = self.graph("coordinates", "--neighbours", "1")
        self.assertEqual(edges, {(1, 0): 1, (0, 1): 1, (1, 2): 1})
        self.assertIn("1 for the 1 nearest nodes", text)
        edges, _ = self.graph("coordinates", "--neighbours", "2", "--kernel", "gaussian", "--sigma", "30")
        self.assertAlmostEqual(edges[0, 1], math.exp(-(11.119508 / 30) ** 2), 6)

    def test_correlation_takes_the_training_part_alone(self):
        """Node 1 follows node 0 in the training part and opposes it afterwards; node 2 does the reverse."""
        up = [math.sin(t) for t in range(40)]
        rows = [(x, x if t < 20 else -x, -x if t < 20 else 5 * x) for t, x in enumerate(up)]
        self.netcdf("follow.nc", re.sub(r" v = .* ;\n}", " v = " + ", ".join(f"{x:.6f}" for row in rows for x in row) +
                                        " ;\n}", sensors(steps=40), flags=re.DOTALL))
        edges, text = self.graph("correlation", "--train", "20", "--overlap", "20", series="follow.nc")
        self.assertEqual(set(edges), {(0, 1), (1, 0)})
        self.assertAlmostEqual(edges[0, 1], 1, 6)
        self.assertRegex(text, "over 20 training steps")
        behind, _ = self.graph("correlation", "--train", "20", "--overlap", "20", "--first-step", "20", series="follow.nc")
        self.assertEqual(set(behind), {(0, 2), (2, 0)})
        date, _ = self.graph("correlation", "--train", "2001-01-01T20", "--neighbours", "1", "--overlap", "9",
                             series="follow.nc")
        self.assertEqual(set(date), {(0, 1), (1, 0)})

    def test_edges_and_matrices(self):
        self.write("e.csv", "a,b,0.5\ncc,a\n")
        self.assertEqual(self.graph("edges", "--table", "e.csv", "--ids", "name")[0], {(0, 1): 0.5, (2, 0): 1})
        self.write("m.csv", "0,0.5,0\n0,0,0\n1,0,0\n")
        self.assertEqual(self.graph("matrix", "--table", "m.csv")[0], {(0, 1): 0.5, (2, 0): 1})

    def test_a_graph_file_serves_as_the_series_own_edges(self):
        """Training, scores and hash are the same at 1 and 3 ranks. Another graph gives others."""
        dcrnn = ["model.name=dcrnn", "relation.graph=edges"]
        self.write("own.csv", "0,1,1\n1,2,0.5\n2,0,2\n")
        self.graph("edges", "--table", "own.csv", series="sensors.nc")
        os.rename(self.path("g.nc"), self.path("own.nc"))
        own = self.run_of("own", 1, *dcrnn)
        self.assertEqual(self.run_of("file", 1, *dcrnn, "relation.file=own.nc"), own)
        self.assertEqual(self.run_of("auto", 1, "model.name=dcrnn", "relation.graph=auto", "relation.file=own.nc"), own)
        self.assertEqual(self.run_of("ranks", 3, *dcrnn, "relation.file=own.nc")[1], own[1])
        self.write("own.csv", "0,1,1\n1,2,0.5\n2,1,2\n")
        self.graph("edges", "--table", "own.csv", series="sensors.nc")
        other = self.run_of("other", 1, *dcrnn, "relation.file=g.nc")
        self.assertNotEqual(other[0], own[0])
        self.assertNotEqual(other[1], own[1])

    def test_bad_graph_files(self):
        def refuse(settings, *patterns):
            with self.subTest(settings):
                self.refuse(2, ["train", "gru.toml", "--run", "refused", "--set", "model.name=dcrnn",
                                *[word for s in settings for word in ("--set", s)]], *patterns)
                self.assertFalse(os.path.exists(self.path("refused")))

        self.write("far.csv", "0,3,1\n")
        self.netcdf("four.nc", sensors(steps=30, nodes=4))
        self.graph("edges", "--table", "far.csv", series="four.nc")
        edges = "relation.graph=edges"
        refuse([edges, "relation.file=g.nc"], r"g\.nc: the graph has 4 nodes, but sensors\.nc has 3")
        refuse([edges, "relation.file=none.nc"], r"none\.nc: no such file")
        refuse(["relation.graph=nearest", "relation.file=g.nc"], 'relation.file needs relation.graph = "edges"')
        refuse(["relation.file=g.nc"], 'relation.file needs relation.graph = "edges".*but relation.graph is "none"')
        self.netcdf("bare.nc", sensors(steps=30).replace("edge_src", "a").replace("edge_dst", "b"))
        refuse([edges, "relation.file=bare.nc"], r"bare\.nc has no edges.*rossby data graph")

    def test_bad_input(self):
        table = ["--table", "bad.csv"]
        self.refuse_graph("distances", ["--table", "d.csv", "--ids", "id"], r'd\.csv:6: "99" is not a name in id of places\.nc')
        self.refuse_graph("distances", ["--table", "d.csv"], r'd\.csv:2: "70" is not a node number from 0 to 2')
        self.refuse_graph("distances", ["--table", "none.csv"], r"none\.csv.*No such file")
        self.refuse_graph("distances", [], r"places\.nc has no variable edge_distance.*--table")
        for text, why in [("0,1,1\n1,0,-2\n", r"bad\.csv:2: the distance -2 is negative"), ("0,1,nan\n", r"bad\.csv:1: \"nan\""),
                          ("0,1\n", "2 columns"), ("", "no edge is left"), ("0,1,2\n1,2,2\n", "equal.*--sigma")]:
            self.write("bad.csv", text)
            self.refuse_graph("distances", table, why)
        self.write("bad.csv", "0,1,1\n1,0,9\n")
        self.refuse_graph("distances", [*table, "--sigma", "1", "--threshold", "2"], "no edge is left.*below 2 dropped")
        self.refuse_graph("matrix", table, r"bad\.csv:1: there are 3 columns|Write a matrix of 3 rows")
        self.refuse_graph("edges", [], "--from edges needs a table")
        self.refuse_graph("coordinates", [], "latitudes and longitudes, but sensors.nc has none", series="sensors.nc")
        self.refuse_graph("coordinates", table, "--table does not work with --from coordinates")
        self.refuse_graph("coordinates", ["--sigma", "2"], "--sigma does not work with .* without --kernel gaussian")
        self.refuse_graph("distances", [*table, "--train", "0.5"], "--train does not work with --from distances")
        self.refuse_graph("correlation", ["--threshold", "0.999"], "no edge is left")
        self.refuse_graph("correlation", ["--train", "100"], "split.train")
        self.refuse_graph("correlation", ["--variable", "w"], "no variable w")
        for nan in ("node_lat", "node_lon"):
            self.netcdf("lost.nc", sensors().replace("float v(", self.IDS.replace(", letters", ", node")).replace(
                "v =", re.sub(nan + " = 34|" + nan + " = -118", nan + " = NaN", self.PLACES).replace("name =", "//")
                .replace(' ; node_lat', ' ;\n node_lat')))
            self.refuse_graph("coordinates", [], "node 0 has latitude", series="lost.nc")
        self.refuse(2, ["data", "graph", "places.nc", "--from", "coordinates", "-o", "./places.nc"], "would replace")
        self.refuse(2, ["data", "graph", "places.nc", "--from", "coordinates", "-o", "none/g.nc"], "none/g.nc: cannot write")


class RidgeVar(Sensors):

    def test_forms_agree_on_any_number_of_ranks(self):
        self.succeed(1, "train", "gru.toml", "--run", "run")
        found = {}
        for ranks, solver in ((1, "auto"), (1, "iterative"), (3, "auto"), (3, "iterative"), (5, "dense")):
            out = self.succeed(ranks, "evaluate", "run", "--set", f"evaluate.var_solver={solver}").out
            self.assertRegex(out, "ridge_var: conjugate gradients, 6 coefficients a node, 14 training steps"
                             if solver == "iterative" else "ridge_var: Cholesky of 6 coefficients, 14 training steps")
            with open(self.path("run/evaluation.json"), encoding="utf-8") as file:
                found[ranks, solver] = [entry["rmse"]["ridge_var"] for entry in json.load(file)["horizons"]]
        for scores in found.values():
            for mine, one in zip(scores, found[1, "auto"]):
                self.assertAlmostEqual(mine, one, 5)
        self.refuse(2, ["evaluate", "run", "--set", "evaluate.var_solver=iterative", "--set", "evaluate.ridge=0"],
                    'evaluate.var_solver = "iterative": conjugate gradients need evaluate.ridge above 0')


if __name__ == "__main__":
    support.main()
