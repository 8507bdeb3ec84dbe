"""Files and machines as people have them: problems reported in public, tried on the program from end to end.

Cases named after a folder read ../shared/field (ROSSBY_FIELD) and are skipped if it is absent."""

import contextlib
import fcntl
import json
import math
import os
import random
import re
import shutil
import subprocess
import time
import unicodedata

import support

FIELD = os.environ.get("ROSSBY_FIELD", os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "field"))

NO_LOCKS = """
#include <errno.h>
#include <stdlib.h>
int flock(int fd, int operation) {
  (void)fd, (void)operation;
  errno = atoi(getenv("NO_LOCKS"));
  return -1;
}
"""

TOML = """
[data]
center = "node"
[split]
train = 0.6
validation = 0.2
[model]
name = "gru"
units = 4
[window]
inputs = 3
outputs = 2
[train]
epochs = 2
[evaluate]
horizons = 2
lim_modes = 2
"""


def series(values, units="days since 2000-01-01", stamps=None, ids=None, kind="float", more="", head="", attributes=""):
    """Returns the CDL of v(time, node): one row of values per step."""
    steps, nodes = len(values), len(values[0])
    stamps = range(steps) if stamps is None else stamps
    named = "" if ids is None else f"  node = {', '.join(map(str, ids))} ;\n"
    return f"""netcdf s {{
dimensions: time = {steps} ; node = {nodes} ; {head}
variables:
  double time(time) ; time:units = "{units}" ;
  {'int node(node) ;' if ids else ''}
  {kind} v(time, node) ; {attributes}
{more}
data:
  time = {', '.join(map(str, stamps))} ;
{named}  v = {', '.join(repr(x) if x is not None else '_' for row in values for x in row)} ;
}}
"""


def waves(steps, nodes, seed=1):
    """Autoregressive noise in which each node follows the one before it."""
    draw = random.Random(seed)
    rows, state = [], [0.0] * nodes
    for _ in range(steps):
        state = [0.5 * state[i] + 0.4 * state[i - 1] + draw.gauss(0, 1) for i in range(nodes)]
        rows.append([round(x, 6) for x in state])
    return rows


@contextlib.contextmanager
def environment(**values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Field(support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("t.toml", TOML)
        cls.netcdf("small.nc", series(waves(60, 4)))

    def field(self, name):
        path = os.path.join(FIELD, name)
        if not os.path.exists(path):
            self.skipTest(f"{path} is not there (ROSSBY_FIELD)")
        return path

    def train(self, run, data, *settings, ranks=1, config="t.toml"):
        words = [w for s in (f"data.file={data}", *settings) for w in ("--set", s)]
        return self.succeed(ranks, "train", config, "--run", run, *words).out

    def dump(self, name, variable):
        """Returns the numbers or texts of a variable."""
        text = subprocess.run(["ncdump", "-p", "9,17", "-v", variable, self.path(name)], capture_output=True, text=True,
                              check=True).stdout
        body = re.search(rf"\n {variable} =([^;]*);", text.split("\ndata:")[1]).group(1)
        return [word.strip() for word in body.replace("\n", " ").split(",")]

    def rmse(self, run, *arguments, forecaster="model"):
        self.succeed(1, "evaluate", run, *arguments)
        with open(self.path(run + "/evaluation.json"), encoding="utf-8") as file:
            return [h["rmse"][forecaster] for h in json.load(file)["horizons"]]

    # Coordinates

    def test_nearest_nodes_are_the_same_in_radians(self):
        draw = random.Random(3)
        places = [(draw.uniform(-80, 80), draw.uniform(0, 360)) for _ in range(40)]
        for name, unit, factor in (("degrees", "degrees", 1), ("radians", "radian", math.pi / 180), ("minutes", "arcmin", 60)):
            lat, lon = (", ".join(repr(p[k] * factor) for p in places) for k in (0, 1))
            more = (f'  double a(node) ; a:standard_name = "latitude" ; a:units = "{unit}" ;\n'
                    f'  double o(node) ; o:standard_name = "longitude" ; o:units = "{unit}" ;')
            cdl = series(waves(4, 40), more=more, attributes='v:coordinates = "a o" ;')
            self.netcdf(name + ".nc", cdl.replace("data:\n", f"data:\n  a = {lat} ;\n  o = {lon} ;\n"))
            self.succeed(1, "data", "graph", name + ".nc", "--from", "coordinates", "--neighbours", "4", "-o", name + "_g.nc")
        for name in ("radians", "minutes"):
            for variable in ("edge_src", "edge_dst"):
                self.assertEqual(self.dump(name + "_g.nc", variable), self.dump("degrees_g.nc", variable))
            for a, b in zip(self.dump(name + "_g.nc", "node_lat"), self.dump("degrees_g.nc", "node_lat")):
                self.assertAlmostEqual(float(a), float(b), delta=1e-9)

    def test_01_radians(self):
        for name in ("deg", "rad"):
            self.succeed(1, "data", "graph", self.field(f"01_radians/{name}.nc"), "--from", "coordinates", "--neighbours", "4",
                         "-o", name + ".nc")
        for variable in ("edge_src", "edge_dst"):
            self.assertEqual(self.dump("rad.nc", variable), self.dump("deg.nc", variable))

    # Time

    def test_dates_as_numbers_are_continued(self):
        stamps = [10000 * (2015 + m // 12) + 100 * (m % 12 + 1) + 1 for m in range(60)]
        self.netcdf("dates.nc", series(waves(60, 3), units="1", stamps=stamps))
        out = self.train("dates", "dates.nc")
        self.assertIn("read as YYYYMMDD (guessed: it has no unit)", out)
        self.assertRegex(out, r"\ntime      2015-01 to 2019-12, 60 steps, step 1 month\n")
        self.succeed(1, "forecast", "dates", "--steps", "2")
        text = subprocess.run(["ncdump", "-t", "-v", "time", self.path("dates/forecast.nc")], capture_output=True, text=True,
                              check=True).stdout
        self.assertRegex(text, r'time = "2020-01-01", "2020-02-01"')

    def test_02_yyyymmdd(self):
        for name in ("time_plain", "time_std"):
            self.train(name, self.field(f"02_yyyymmdd/{name}.nc"))
            self.succeed(1, "forecast", name, "--steps", "2")
        stamps = [self.dump(f"{name}/forecast.nc", "time") for name in ("time_plain", "time_std")]
        self.assertEqual(stamps[0], stamps[1])

    def test_26_dekads(self):
        self.train("dekads", self.field("26_dekads/dekads.nc"), "window.outputs=4", "evaluate.horizons=4")
        self.succeed(1, "forecast", "dekads", "--steps", "4")
        text = subprocess.run(["ncdump", "-t", "-v", "time", self.path("dekads/forecast.nc")], capture_output=True, text=True,
                              check=True).stdout
        self.assertIn('"2018-01-01", "2018-01-11", "2018-01-21", "2018-02-01"', " ".join(text.split()))

    def test_steps_of_unequal_length_are_said(self):
        self.netcdf("odd.nc", series(waves(40, 3), stamps=[t + (0.4 if t % 3 == 1 else 0) for t in range(40)]))
        out = self.succeed(1, "data", "inspect", "odd.nc").out
        self.assertIn("not regular", out)
        self.assertIn("not regular", self.train("odd", "odd.nc", "model.name=stnn", "window.inputs=12", "window.outputs=12"))

    def test_23_float_time(self):
        self.train("fvcom", self.field("23_float_time/fvcom.nc"), "window.outputs=12", "evaluate.horizons=12")
        self.succeed(1, "forecast", "fvcom", "--steps", "12")
        leads = [float(x) for x in self.dump("fvcom/forecast.nc", "lead_time")]
        self.assertAlmostEqual(leads[-1], 0.5, delta=1e-6)  # days

    # Values

    def test_small_signals_on_large_offsets(self):
        """Errors of persistence are those of double precision, for any subtracted offset."""
        rows = waves(120, 4)
        for name, offset, scale in (("plain", 0.0, 0.005), ("offset", 4.1e6, 0.005), ("pressure", 4.0e7, 1.0)):
            values = [[offset + scale * x for x in row] for row in rows]
            self.netcdf(name + ".nc", series(values, kind="double", attributes='v:units = "m" ;'))
            out = self.train(name, name + ".nc")
            found = self.rmse(name, forecaster="persistence")[0]
            test = range(95, 119)  # origins of the last fifth: 96 steps lie before it
            errors = [(values[t + 1][i] - values[t][i]) ** 2 for t in test for i in range(4)]
            expected = math.sqrt(sum(errors) / len(errors))
            self.assertAlmostEqual(found, expected, delta=0.05 * expected, msg=name)
            self.assertEqual("is subtracted in double" in out, name != "plain", out)
        self.assertAlmostEqual(self.rmse("offset")[0], self.rmse("plain")[0], delta=1e-3 * self.rmse("plain")[0])
        self.succeed(1, "forecast", "offset", "--steps", "2")
        for value in self.dump("offset/forecast.nc", "v"):
            self.assertAlmostEqual(float(value), 4.1e6, delta=1)
            self.assertNotEqual(float(value), round(float(value) * 4) / 4, "more than float32 keeps")
        self.succeed(2, "evaluate", "offset", "-o", "two.json")

    def test_errors_of_any_unit_train_and_print_alike(self):
        """Gradients in units such as kg m-2 s-1 are as large as optimiser.epsilon and optimiser.decay."""
        rows = waves(120, 4)
        scales = {"large": 1.0, "little": 2.0**-24, "giant": 2.0**40}
        for name, scale in scales.items():
            self.netcdf(name + ".nc", series([[scale * (x + 20) for x in row] for row in rows], kind="double",
                                             attributes='v:units = "kg m-2 s-1" ;'))
        for loss, others in (("mae", ("little",)), ("mse", ("little", "giant"))):
            found = {}
            for name in ("large", *others):
                self.train(name + loss, name + ".nc", "data.spread=node", "train.epochs=10", "optimiser.lr=0.02",
                           f"train.loss={loss}")
                found[name] = self.rmse(name + loss)[0] / scales[name]
                self.assertAlmostEqual(found[name], found["large"], delta=0.01 * found["large"], msg=f"{loss} {name}")
        out = self.succeed(2, "evaluate", "littlemae").out
        self.assertNotIn("0.0000 ", out.split("Bias and")[0])
        self.assertRegex(out, r"\n +mean +\d\.\d+e-0[678] ")
        self.assertRegex(out, r"CRPS \d\.\d+e-0[678]\n")
        out = self.succeed(1, "report", "compare", "littlemae", "persistence").out
        self.assertRegex(out, r"\nmean +\d\.\d+e-0[678] ")

    def test_values_that_float32_cannot_hold(self):
        rows = waves(60, 3)
        for name, scale, kind in (("subnormal", 1e-42, "double"), ("strain", 1e-21, "double"), ("strain32", 1e-21, "float"),
                                  ("luminosity", 1e44, "double"), ("flux", 1e-7, "double")):
            self.netcdf(name + ".nc", series([[scale * (abs(x) + 2) for x in row] for row in rows], kind=kind))
        for name, model, unit in (("subnormal", "gru", r"1e4[23]"), ("strain", "stnn", r"1e2[12]"),
                                  ("strain32", "gru", r"1e2[12]")):
            self.refuse(2, ["train", "t.toml", "--run", "none", "--set", f"data.file={name}.nc", "--set", f"model.name={model}"],
                        rf"{name}\.nc: variable v varies by only .*Multiply the values by {unit}")
        self.refuse(2, ["train", "t.toml", "--run", "none", "--set", "data.file=luminosity.nc"],
                    r"luminosity\.nc: no node has an observed value.*beyond 3\.4e38 count as missing.*larger unit")
        told = 'warning   data.spread = "none" leaves v as it is'
        self.assertIn(told, self.train("flux", "flux.nc"))
        self.assertNotIn(told, self.train("flux2", "flux.nc", "data.spread=node"))
        self.assertNotIn(told, self.train("usual", "small.nc"))

    def test_21_resolution(self):
        shutil.copy(self.field("21_resolution/gru.toml"), self.path("gru.toml"))
        self.train("gnss", self.field("21_resolution/gnss.nc"), "train.epochs=1", config="gru.toml")
        self.assertAlmostEqual(self.rmse("gnss", forecaster="persistence")[0], 0.005245, delta=2e-6)

    def test_numbers_in_text(self):
        rows = [[int(100 * x) + 2000 for x in row] for row in waves(60, 3)]
        rows[5][1] = -999
        text = series(rows, kind="short",
                      attributes='v:scale_factor = "0.01" ; v:missing_value = "-999" ; v:units = "degC" ;')
        self.netcdf("text.nc", text)
        self.netcdf("numbers.nc", text.replace('"0.01"', "0.01").replace('"-999"', "-999s"))
        for name in ("text", "numbers"):
            self.assertRegex(self.train(name, name + ".nc"), r"missing   0\.93 % of the training part")
            self.succeed(1, "forecast", name, "--steps", "2")
        self.assertEqual(self.dump("text/forecast.nc", "v"), self.dump("numbers/forecast.nc", "v"))

    def test_files_that_go_on_without_values(self):
        rows = waves(60, 4) + [[None] * 4 for _ in range(7)]
        self.netcdf("padded.nc", series(rows, attributes="v:_FillValue = -999.f ;"))
        self.train("padded", "padded.nc", "split.train=40", "split.validation=10", "split.test=10")
        out = self.succeed(2, "forecast", "padded", "--steps", "2").out
        self.assertIn("the 7 steps from 2000-03-01 to 2000-03-07 have no value of any node; the forecast starts from "
                      "2000-02-29, the last step with values", out)
        self.assertIn("2 steps from 2000-02-29", out)
        out = self.succeed(1, "forecast", "padded", "--steps", "2", "--origin", "2000-03-02").out
        self.assertRegex(out, r"warning: .*: .* no value of any node; the last values before this origin are from 2000-02-29")
        self.train("whole", "small.nc")
        self.assertNotIn("no value", self.succeed(1, "forecast", "whole", "--steps", "1").out)

    def test_files_that_are_padded_with_values(self):
        """Steps that repeat the one before them at every node are no observations."""
        rows = waves(60, 4)
        rain = [[x if t % 10 < 3 and t < 56 else 0.0 for x in row] for t, row in enumerate(rows)]
        for name, values in (("frozen", rows[:50] + [rows[49]] * 10), ("zeros", rows[:50] + [[0.0] * 4] * 10), ("rain", rain)):
            self.netcdf(name + ".nc", series(values))
        for name, count, last in (("frozen", 10, 50), ("zeros", 9, 51)):
            said = f"{count} steps up to 2000-02-29 repeat the values of the step before them at every node"
            out = self.train(name, name + ".nc", ranks=2)
            self.assertIn(f"warning   the {said}. Leave these steps out with data.last_step = {last} ", out)
            self.assertIn(f"warning: the {said}", self.succeed(2, "forecast", name, "--steps", "2").out)
            self.assertNotIn("repeat", self.succeed(1, "forecast", name, "--steps", "2", "--origin", "2000-02-15").out)
        self.assertNotIn("repeat", self.train("rain", "rain.nc"))
        self.assertNotIn("repeat", self.succeed(1, "forecast", "rain", "--steps", "2").out)

    def test_parts_without_values(self):
        rows = waves(30, 4) + [[None] * 4 for _ in range(30)]
        self.netcdf("half.nc", series(rows, attributes="v:_FillValue = -999.f ;"))
        for model in ("gru", "stnn"):
            out = self.train("half" + model, "half.nc", f"model.name={model}")
            self.assertIn("No target of the validation part is observed: move this part with split.validation", out)
            self.assertNotIn("optimiser.lr", out)
            self.assertIn("warning: no target of these forecasts is observed, so that nothing is scored",
                          self.succeed(1, "evaluate", "half" + model).out)

    def test_bytes_that_are_no_utf8(self):
        cdl = series(waves(60, 4), attributes='v:units = "DEGC" ; v:long_name = "Temperatur K\\366ln" ;')
        self.write("latin.cdl", cdl)
        subprocess.run(["ncgen", "-k", "classic", "-o", self.path("latin.nc"), self.path("latin.cdl")], check=True)
        with open(self.path("latin.nc"), "rb") as file:
            content = file.read()
        with open(self.path("latin.nc"), "wb") as file:
            file.write(content.replace(b"DEGC", b"\xb0C\0\0"))
        self.train("latin", "latin.nc")
        out = self.succeed(1, "evaluate", "latin").out
        self.assertIn("\u00b0C", out)
        with open(self.path("latin/evaluation.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["units"], "\u00b0C")
        self.succeed(1, "forecast", "latin", "--steps", "2")
        with open(self.path("latin/forecast.nc"), "rb") as file:
            self.assertIn("\u00b0C".encode(), file.read())

    def test_text_in_other_encodings(self):
        names = ["Z\u00fcrich", "Gen\u00e8ve", "Bern"]
        cdl = series(waves(20, 3), head="len = 12 ;", more="  char name(node, len) ;")
        self.netcdf("towns.nc", cdl.replace("data:\n", "data:\n  name = " + ", ".join(f'"{n}"' for n in names) + " ;\n"))
        table = "from,to,weight\n" + "".join(f"{a},{b},1\n" for a, b in zip(names, names[1:]))

        def graph(coding):
            with open(self.path(coding + ".csv"), "wb") as file:
                file.write(unicodedata.normalize("NFD", table).encode() if coding == "apart" else table.encode(coding))
            return ["data", "graph", "towns.nc", "--from", "edges", "--table", coding + ".csv", "--ids", "name", "-o", "g.nc"]

        for coding in ("utf-8", "latin-1"):
            self.assertIn("3 nodes, 2 edges", self.succeed(1, *graph(coding)).out)
        for coding in ("utf-16", "utf-16-le"):
            self.refuse(1, graph(coding), rf"{coding}\.csv: the text is UTF-16.*iconv -f UTF-16 -t UTF-8")
        self.refuse(1, graph("apart"), r"apart\.csv:2: .*separate accent characters: .*uconv -x nfc")
        for coding, said in (("latin-1", r"latin-1\.toml:1: not valid TOML.*iconv -f LATIN1 -t UTF-8"),
                             ("utf-16", r"utf-16\.toml: the text is UTF-16.*iconv -f UTF-16 -t UTF-8")):
            with open(self.path(coding + ".toml"), "wb") as file:
                file.write(("# Gr\u00fc\u00dfe\n" + TOML).encode(coding))
            self.refuse(1, ["train", coding + ".toml", "--run", "none", "--set", "data.file=small.nc"], said)

    # Nodes

    def test_graphs_are_matched_by_node_ids(self):
        """A graph made from one file fits another order of the same nodes."""
        rows = waves(80, 8)
        ids, order = [100 + 7 * i for i in range(8)], [5, 2, 7, 0, 3, 6, 1, 4]
        self.netcdf("asis.nc", series(rows, ids=ids))
        self.netcdf("mixed.nc", series([[row[i] for i in order] for row in rows], ids=[ids[i] for i in order]))
        self.netcdf("others.nc", series(rows, ids=[1 + i for i in ids]))
        self.write("edges.csv", "from,to,weight\n" + "".join(f"{ids[i]},{ids[(i + 1) % 8]},1\n" for i in range(8)))
        for name in ("asis", "mixed"):
            self.succeed(1, "data", "graph", name + ".nc", "--from", "edges", "--table", "edges.csv", "--ids", "node", "-o",
                         name + "_g.nc")
        dcrnn = ("model.name=dcrnn", "relation.graph=edges")
        out = self.train("foreign", "mixed.nc", *dcrnn, "relation.file=asis_g.nc")
        self.assertIn("nodes of asis_g.nc are in another order, and are matched by node ids", out)
        out = self.train("own", "mixed.nc", *dcrnn, "relation.file=mixed_g.nc")
        self.assertNotIn("another order", out)
        self.assertEqual(self.rmse("foreign"), self.rmse("own"))
        self.refuse(2, ["train", "t.toml", "--run", "none", "--set", "data.file=others.nc", "--set", "model.name=dcrnn",
                        "--set", "relation.graph=edges", "--set", "relation.file=asis_g.nc"],
                    r'asis_g\.nc: node 0 is "100", which is not a node of others\.nc')

    def test_19_graph_order(self):
        shutil.copy(self.field("19_graph_order/dcrnn.toml"), self.path("dcrnn.toml"))
        self.succeed(1, "data", "graph", self.field("19_graph_order/asis.nc"), "--from", "edges", "--table",
                     self.field("19_graph_order/edges.csv"), "--ids", "sensor", "-o", "g19.nc")
        for name in ("asis", "sorted"):
            self.train(name + "19", self.field(f"19_graph_order/{name}.nc"), "relation.file=g19.nc", "train.epochs=6",
                       config="dcrnn.toml")
        self.assertAlmostEqual(self.rmse("sorted19")[0], self.rmse("asis19")[0], delta=0.1)

    # Messages about what is read

    def test_inspect_and_train_say_the_same(self):
        self.netcdf("said.nc", series(waves(60, 4), stamps=[t + 5 * (t >= 30) for t in range(60)],
                                      attributes='v:units = "m s-1" ; v:long_name = "wind" ;'))
        inspected = self.succeed(1, "data", "inspect", "said.nc").out.splitlines()
        trained = self.train("said", "said.nc", ranks=2).splitlines()
        for begin in ("time ", "gaps ", "variable ", "units "):
            line = next(line for line in inspected if line.startswith(begin))
            self.assertIn(line, trained)
        self.assertRegex("\n".join(trained), r"values    -\d.*, mean .*\nmissing   0\.00 % of the training part\n")
        self.assertRegex("\n".join(trained), r"\nbaselines persistence, climatology, .*ar1, lim, ridge_var, cycle, direct_ar, direct_ridge\n")

    # Machines

    def left(self, run, *arguments, data="small.nc", **more):
        with environment(**more):
            result = self.run_ranks(1, "train", "t.toml", "--run", run, "--set", f"data.file={data}", *arguments)
        self.assertEqual(result.lines, [], result.err)
        return result

    def test_an_end_that_has_passed_is_not_believed(self):
        for value in (str(int(time.time()) - 86400), "1", "soon", "2026-11-29T02:15:00", "-5", "nan"):
            result = self.left("stale_" + value, SLURM_JOB_ID="7", SLURM_JOB_END_TIME=value)
            self.assertEqual(result.codes, [0], result.out)
            self.assertRegex(result.out, r"warning   SLURM_JOB_END_TIME = .*. This time is not used")
        self.assertNotIn("SLURM_JOB_END_TIME", self.left("unset").out)

    def test_every_pause_says_why(self):
        with self.in_a_job_that_ends():
            result = self.left("ends")
        self.assertEqual(result.codes, [75], result.out)
        self.assertRegex(result.out, r"paused    the job ends at 20.*Z \(SLURM_JOB_END_TIME\)")
        result = self.left("after", "--stop-after", "0.000001s")
        self.assertEqual(result.codes, [75])
        self.assertIn("paused    the time of train.stop_after is over\n", result.out)

    def test_one_rank_of_several_that_a_launcher_meant(self):
        for name in ("SLURM_NTASKS", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE"):
            out = self.left("tasks_" + name, **{name: "4"}).out
            self.assertRegex(out, rf"warning   this is one MPI rank, but {name} = 4: .*Open MPI")
        self.assertNotIn("one MPI rank", self.left("tasks_1", SLURM_NTASKS="1").out)

    def test_more_threads_than_cores(self):
        cores = len(os.sched_getaffinity(0))
        out = self.left("threads", OMP_NUM_THREADS=str(3 * cores)).out
        self.assertRegex(out, rf"warning   {3 * cores} threads a rank wait for each other on {cores} core.*OMP_NUM_THREADS")
        self.assertNotIn("wait for each other", self.left("thread", OMP_NUM_THREADS="1").out)

    def test_limits_of_the_address_space(self):
        """OpenBLAS would wait forever for memory."""
        if b"libasan" in subprocess.run(["ldd", support.rossby], capture_output=True, check=False).stdout:
            self.skipTest("a sanitizer takes more")
        said = None
        for mib in (*range(200, 551, 50), 2000):
            result = subprocess.run(["sh", "-c", f'ulimit -v {mib * 1024}; exec "$@"', "sh", support.rossby, "train", "t.toml",
                                     "--run", f"limit{mib}", "--set", "data.file=small.nc"], cwd=self.folder, timeout=60,
                                    env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, check=False)
            said = said or re.search(r"rossby: .*ulimit -v\) is \d+ MiB, but OpenBLAS needs 129 MiB", result.stderr)
        self.assertIsNotNone(said)
        self.assertEqual(result.returncode, 0, result.stderr)

    # Locks

    def test_a_file_that_is_locked(self):
        with open(self.path("small.nc"), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.refuse(1, ["data", "inspect", "small.nc"], r"small\.nc: .*locked.*HDF5_USE_FILE_LOCKING=FALSE")
            with environment(HDF5_USE_FILE_LOCKING="FALSE"):
                self.succeed(1, "data", "inspect", "small.nc")
        self.succeed(1, "data", "inspect", "small.nc")

    def test_file_systems_without_locks(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler")
        self.write("locks.c", NO_LOCKS)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.path("locks.so"), self.path("locks.c")], check=True)
        if b"libasan" in subprocess.run(["ldd", support.rossby], capture_output=True, check=False).stdout:
            self.skipTest("a sanitizer has to be loaded first")
        for number in ("37", "38", "95", "524", "5"):
            run = "nolocks" + number
            result = self.left(run, LD_PRELOAD=self.path("locks.so"), NO_LOCKS=number)
            self.assertEqual(result.codes, [0], result.out)
            self.assertTrue(os.path.exists(self.path(run + "/checkpoints/state.h5")), os.listdir(self.path(run)))
            with environment(LD_PRELOAD=self.path("locks.so"), NO_LOCKS=number):
                self.succeed(1, "evaluate", run)
                self.succeed(1, "forecast", run, "--steps", "1")


if __name__ == "__main__":
    support.main()
