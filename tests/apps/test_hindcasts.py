"""Hindcast files, score maps, and scores by weights, times and regions: compared with NumPy on the same forecasts."""

import contextlib
import os
import shutil
import signal
import struct
import time
import unittest
import warnings

import support
from test_schemas import LoadsJson

try:
    import numpy
    import xarray
except ImportError:
    numpy = None

DATA = os.environ.get("ROSSBY_DATA", "")

GRID = """
[data]
file = "pacific.nc"
[split]
train = 48
validation = 12
[model]
latent = 4
[relation]
graph = "grid"
[train]
epochs = 2
[evaluate]
horizons = 3
lim_modes = 3
"""


def pearson(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / numpy.sqrt((a * a).sum() * (b * b).sum())


@unittest.skipIf(numpy is None, "NumPy and xarray are not installed")
class Files(LoadsJson, support.ProgramTest):
    """What all tests of files do."""

    def dataset(self, name):
        with xarray.open_dataset(self.path(name)) as data:
            return data.load()

    def columns(self, data, name):
        """Returns (lead, all other dimensions) of a hindcast variable in double, with its times and nodes."""
        values = data[name].transpose("lead", "init_time", ...).values.astype(float)
        return values.reshape(len(values), -1)

    def hold_scores(self, data, found, variable, weights=None, chosen=None):
        """Compares evaluation.json with NumPy: `chosen` (init_time, lead, nodes…) selects values, weights belong to
        nodes."""
        shape = data[variable].transpose("lead", "init_time", ...).shape
        w = numpy.ones(shape) if weights is None else numpy.broadcast_to(weights, shape)
        if chosen is not None:
            w = w * chosen
        w = w.reshape(shape[0], -1)
        observed = self.columns(data, variable + "_observation")
        climatology = self.columns(data, variable + "_climatology")
        of = {"model": self.columns(data, variable), data.attrs["baseline"]: self.columns(data, variable + "_baseline")}
        self.assertEqual(found["climatology"], data.attrs["climatology"])
        for h, entry in enumerate(found["horizons"]):
            known = ~numpy.isnan(observed[h]) & (w[h] > 0)
            o, c, weight = observed[h][known], climatology[h][known], w[h][known]
            weight = weight / weight.sum()
            for name, forecasts in of.items():
                f = forecasts[h][known]
                x, y = f - c, o - c
                x, y = x - (weight * x).sum(), y - (weight * y).sum()
                with numpy.errstate(invalid="ignore"):
                    acc = (weight * x * y).sum() / numpy.sqrt((weight * x * x).sum() * (weight * y * y).sum())
                scale = (weight * abs(f - o)).sum()
                expected = {"rmse": numpy.sqrt((weight * (f - o) ** 2).sum()), "mae": scale,
                            "bias": (weight * (f - o)).sum(), "acc": acc}
                for measure, value in expected.items():
                    if measure == "acc" and name == data.attrs["climatology"]:
                        continue
                    if entry[measure][name] is None:
                        self.assertTrue(numpy.isnan(value) or len(o) < 3, f"{measure} of {name}: {value}")
                        continue
                    self.assertAlmostEqual(entry[measure][name], value, delta=1e-6 * max(1 if measure == "acc" else 0, scale),
                                           msg=f"{measure} of {name} at step {h + 1}")

    def hold_intervals_of_leads(self, found):
        """Maps hold the right errors, which are not all equal."""
        validated = found["skill"]["validated"]
        for entry, paired in zip(found["horizons"], validated["horizons"], strict=True):
            bounds, rmse = entry["interval"]["rmse"], entry["rmse"]["model"]
            self.assertTrue(bounds["low"] < rmse < bounds["high"], entry)
            self.assertEqual(paired["step"], entry["step"])
            self.assertAlmostEqual(paired["rmse"], 1 - rmse / entry["rmse"][validated["baseline"]], 9)
            self.assertTrue(paired["interval"]["low"] <= paired["rmse"] <= paired["interval"]["high"], paired)
        self.assertEqual(len({entry["interval"]["rmse"]["low"] for entry in found["horizons"]}), len(found["horizons"]))

    def hold_maps(self, data, maps, variable):
        """Maps of the model, by node."""
        f, o, b, c = (data[variable + name].transpose("lead", "init_time", ...).values.astype(float)
                      for name in ("", "_observation", "_baseline", "_climatology"))
        error = f - o
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # land is NaN
            rmse, other = (numpy.sqrt(numpy.nanmean(e**2, 1)) for e in (error, b - o))
            mae, bias = numpy.nanmean(abs(error), 1), numpy.nanmean(error, 1)
        scale = numpy.nanmean(abs(error))
        for name, values in {"rmse": rmse, "mae": mae, "bias": bias, "baseline_rmse": other}.items():
            numpy.testing.assert_allclose(maps[f"{variable}_{name}"].values, values, rtol=2e-5, atol=1e-5 * scale, err_msg=name)
        numpy.testing.assert_allclose(maps[variable + "_skill"].values, 1 - rmse / other, rtol=1e-3, atol=1e-4)
        numpy.testing.assert_array_equal(numpy.nan_to_num(maps[variable + "_count"].values), (~numpy.isnan(o)).sum(1))
        places = numpy.argwhere(~numpy.isnan(o).any((0, 1)))
        for place in places[:: max(1, len(places) // 20)]:
            at = (0, slice(None), *place)
            with numpy.errstate(invalid="ignore"):
                expected = pearson(f[at] - c[at], o[at] - c[at])
            if not numpy.isnan(expected):
                self.assertAlmostEqual(maps[variable + "_acc"].values[(0, *place)], expected, delta=1e-4)


class GridFiles(Files, support.LiveTest):
    """A run on a small grid."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("grid.toml", GRID)

    def trained(self):
        if not os.path.exists(self.path("run")):
            self.succeed(1, "data", "synth", "--kind", "pacific", "--lat", "6", "--lon", "8", "--steps", "84", "--seed", "3",
                         "-o", "pacific.nc")
            self.succeed(2, "train", "grid.toml", "--run", "run")
        return "run"

    def evaluated(self, ranks, *options):
        run = self.trained()
        out = f"e{ranks}.json"
        result = self.succeed(ranks, "evaluate", run, "-o", out, *options)
        return self.load(out, "evaluation.schema.json"), result.out


class Grid(GridFiles):

    def test_numpy_finds_the_same_scores_at_any_number_of_ranks(self):
        one = None
        for ranks in [1, 3]:
            with self.subTest(ranks):
                found, _ = self.evaluated(ranks, "--hindcasts", "h.nc", "--scores", "s.nc")
                data, maps = self.dataset("h.nc"), self.dataset("s.nc")
                self.assertEqual(data.sst.dims, ("init_time", "lead", "lat", "lon"))
                self.assertEqual(maps.sst_rmse.dims, ("lead", "lat", "lon"))
                self.assertEqual(data.attrs["baseline"], found["skill"]["validated"]["baseline"])
                self.assertEqual(data.lead.values.tolist(), [1, 2, 3])
                self.assertEqual(data.lead.attrs["units"], "months")
                self.assertEqual(data.valid_time.dtype.kind, "M")
                months = data.valid_time.values.astype("datetime64[M]") - data.init_time.values.astype("datetime64[M]")[:, None]
                numpy.testing.assert_array_equal(months.astype(int), numpy.broadcast_to([1, 2, 3], months.shape))
                with xarray.open_dataset(self.path("pacific.nc")) as series:
                    numpy.testing.assert_array_equal(series.sst.sel(time=data.valid_time).values, data.sst_observation.values)
                self.hold_scores(data, found, "sst")
                self.hold_intervals_of_leads(found)
                self.hold_maps(data, maps, "sst")
                if one is None:
                    one = data, maps
                for a, b in zip(one, (data, maps)):
                    self.assertEqual(list(a.variables), list(b.variables))
                    for name in a.variables:
                        if a[name].dtype.kind == "f":
                            numpy.testing.assert_allclose(a[name].values, b[name].values, rtol=2e-4, atol=1e-5, err_msg=name)

    def test_deflated_files_have_the_same_values(self):
        self.evaluated(2, "--hindcasts", "plain.nc")
        plain = self.dataset("plain.nc")
        for ranks in [1, 2, 4]:
            self.evaluated(ranks, "--hindcasts", "deflated.nc", "--deflate", "1")
            deflated = self.dataset("deflated.nc")
            for name in plain.variables:
                compare = numpy.testing.assert_array_equal if ranks == 2 or plain[name].dtype.kind != "f" else (
                    lambda a, b: numpy.testing.assert_allclose(a, b, rtol=1e-5))
                compare(plain[name].values, deflated[name].values)

    def killed(self, file):
        """Returns what a killed evaluation left: the kept file and its progress."""
        progress = self.path(file + ".progress")
        for _ in range(20):
            process = self.launch([support.mpiexec, "-n", "2", support.rossby, "evaluate", "run", "-o", "killed.json",
                                   "--hindcasts", file])
            while process.poll() is None and not os.path.exists(progress):
                time.sleep(0.001)
            ranks = self.ranks(process)
            for pid in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            if os.path.exists(progress):
                with open(progress, encoding="utf-8") as text:
                    return text.read().splitlines()
        raise AssertionError("20 evaluations ended before they were killed")

    def test_what_a_killed_evaluation_has_written_is_kept(self):
        found, _ = self.evaluated(2, "--hindcasts", "whole.nc")
        whole = self.dataset("whole.nc")
        identity, part, numbers = self.killed("h.nc")
        bytes_, steps, first, *others = numbers.split()
        self.assertEqual(int(steps), whole.sizes["init_time"])
        shutil.copy(self.path(part), self.path("part.kept"))
        leave = lambda text: (shutil.copy(self.path("part.kept"), self.path(part)), self.write("h.nc.progress", text))
        for ranks, kept in [(1, int(steps)), (2, 5), (3, 7)]:
            leave(f"{identity}\n{part}\n{bytes_} {kept} {first} {' '.join(others)}\n")
            again, out = self.evaluated(ranks, "--hindcasts", "h.nc")
            self.assertIn(f"h.nc: continues after {kept} of {steps} origins", out)
            self.assertFalse(os.path.exists(self.path("h.nc.progress")) or os.path.exists(self.path(part)))
            data = self.dataset("h.nc")
            for name in whole.variables:
                if whole[name].dtype.kind == "f":
                    numpy.testing.assert_allclose(data[name].values, whole[name].values, rtol=2e-4, atol=1e-5, err_msg=name)
            for a, b in zip(found["horizons"], again["horizons"]):
                for name, rmse in a["rmse"].items():
                    self.assertAlmostEqual(rmse, b["rmse"][name], delta=1e-5 * rmse)
        # The kept values are those of the file.
        leave(f"{identity}\n{part}\n{bytes_} 5 {first} {' '.join(others)}\n")
        with open(self.path(part), "r+b") as file:
            file.seek(int(first))
            file.write(struct.pack("<f", 1234))
        self.evaluated(2, "--hindcasts", "h.nc")
        self.assertEqual(self.dataset("h.nc").sst.values.flat[0], 1234)
        # Starts anew with other settings, a truncated file, invalid text or a deflated file.
        for text, options in [(None, ("--set", "split.test=12")), (f"{identity}\n{part}\n{int(bytes_) + 1} 5 {first}\n", ()),
                              ("nonsense", ()), (f"{identity}\n../{part}\n{numbers}\n", ()), (None, ("--deflate", "1"))]:
            leave(text or f"{identity}\n{part}\n{numbers}\n")
            _, out = self.evaluated(2, "--hindcasts", "h.nc", *options)
            self.assertNotIn("continues after", out)
            self.assertFalse(os.path.exists(self.path(part)))

    def test_weights_times_and_regions(self):
        self.trained()
        box = "west=-10,10,-200,-160"
        found, out = self.evaluated(3, "--hindcasts", "h.nc", "--weights", "area", "--by", "season", "--region", box,
                                    "--against", "persistence")
        data = self.dataset("h.nc")
        self.assertEqual(data.attrs["baseline"], "persistence")
        self.assertEqual(found["skill"]["against"]["baseline"], "persistence")
        self.assertIn("against persistence:", out)
        self.assertEqual(found["weights"], "area")
        area = numpy.cos(numpy.radians(data.lat.values))[:, None]
        self.hold_scores(data, found, "sst", area)
        season = data.valid_time.transpose("lead", "init_time").dt.month.values % 12 // 3
        self.assertEqual([s["name"] for s in found["slices"]], ["DJF", "MAM", "JJA", "SON", "west"])
        for k in range(4):
            self.hold_scores(data, {**found, **found["slices"][k]}, "sst", area, (season == k)[:, :, None, None])
        lat, lon = data.lat.values, data.lon.values % 360
        inside = ((lat >= -10) & (lat <= 10))[:, None] & ((lon >= 160) & (lon <= 200))
        self.assertGreater(inside.sum(), 0, lon)
        self.hold_scores(data, {**found, **found["slices"][4]}, "sst", area, inside)

    def test_a_file_of_hindcasts_is_a_baseline(self):
        found, _ = self.evaluated(1, "--hindcasts", "mine.nc")
        again, _ = self.evaluated(2, "--baseline", "mine.nc")
        for a, b in zip(found["horizons"], again["horizons"]):
            self.assertAlmostEqual(a["rmse"]["model"], b["rmse"]["file_mine"], delta=1e-6 * a["rmse"]["model"])

    def test_intervals(self):
        run = self.trained()
        result = self.succeed(2, "evaluate", run, "--hindcasts", "h.nc")
        found = self.load(run + "/evaluation.json", "evaluation.schema.json")["intervals"]
        self.assertIn("intervals from", result.out)
        self.assertEqual(found["validation_origins"], 10)
        self.assertEqual([entry["step"] for entry in found["horizons"]], [1, 2, 3])
        self.assertAlmostEqual(sum(found["mean"]["pit"]), 1, 9)
        self.assertIn("on left-out blocks of the validation part", result.out)
        self.assertEqual([entry["step"] for entry in found["left_out"]["horizons"]], [1, 2, 3])
        self.assertAlmostEqual(sum(entry["coverage"]["interval_90"] for entry in found["left_out"]["horizons"]) / 3, found["left_out"]["mean"]["interval_90"], 9)
        one = None
        for ranks in [1, 3]:
            self.succeed(ranks, "forecast", run, "--steps", "3", "--intervals", "50,90", "-o", "f.nc")
            data = self.dataset("f.nc")
            self.assertEqual(data.sst_quantiles.dims, ("quantile", "time", "lat", "lon"))
            numpy.testing.assert_allclose(data["quantile"].values, [0.05, 0.25, 0.75, 0.95])
            known = ~numpy.isnan(data.sst.values)
            ends = data.sst_quantiles.values[:, known]
            self.assertTrue((ends[1:] > ends[:-1]).all())
            self.assertTrue((data.sst_quantiles.sel(quantile=0.95).values[known] > data.sst.values[known]).mean() > 0.8)
            one = data if one is None else one
            numpy.testing.assert_allclose(data.sst_quantiles.values, one.sst_quantiles.values, rtol=1e-4, atol=1e-5)
        self.refuse(2, ["forecast", run, "--steps", "4", "--intervals", "50"], "residuals of only 3 steps")
        self.refuse(2, ["forecast", run, "--steps", "2", "--intervals", "100"], "--intervals 100 is out of range")
        os.remove(self.path(run + "/intervals.h5"))
        self.refuse(2, ["forecast", run, "--steps", "2", "--intervals", "50"], "intervals.h5: .*Run rossby evaluate run")

    def test_intervals_cover(self):
        """Compares coverage with NumPy: shares of observations inside the intervals of forecasts from their
        origins."""
        run = self.trained()
        self.succeed(2, "evaluate", run, "--hindcasts", "h.nc")
        found, data = self.load(run + "/evaluation.json", "evaluation.schema.json")["intervals"], self.dataset("h.nc")
        self.succeed(1, "forecast", run, "--steps", "3", "--intervals", "50,90", "-o", "f.nc")
        ends = self.dataset("f.nc")
        offsets = ends.sst_quantiles - ends.sst  # the same from every origin, without a transform
        for h in range(3):
            of = offsets.isel(time=h).transpose("quantile", "lat", "lon").values
            error = (data.sst_observation - data.sst).isel(lead=h).values
            known = ~numpy.isnan(error)
            for name, low, high in [("interval_50", 1, 2), ("interval_90", 0, 3)]:
                inside = ((error >= of[low]) & (error <= of[high]))[known].mean()
                self.assertAlmostEqual(found["horizons"][h]["coverage"][name], inside, delta=0.005)
                width = numpy.broadcast_to(of[high] - of[low], error.shape)[known].mean()
                self.assertAlmostEqual(found["horizons"][h]["width"][name], width, delta=1e-3 * width)

    def test_intervals_of_another_state_are_refused(self):
        run = self.trained()
        self.succeed(1, "evaluate", run)
        self.succeed(1, "train", "grid.toml", "--run", "other", "--set", "train.epochs=1")
        os.replace(self.path(run + "/intervals.h5"), self.path("other/intervals.h5"))
        self.refuse(2, ["forecast", "other", "--steps", "1", "--intervals", "50"], "do not belong to the current state of other")

    def test_after_a_refit_residuals_are_of_the_training_before(self):
        self.trained()
        self.succeed(1, "train", "grid.toml", "--run", "again", "--set", "train.refit=true")
        self.succeed(2, "evaluate", "again")
        found = self.load("again/evaluation.json", "evaluation.schema.json")
        self.assertEqual(found["intervals"]["validation_origins"], 10)
        self.succeed(2, "forecast", "again", "--steps", "3", "--intervals", "90")

    def test_bad_options(self):
        run = self.trained()
        self.refuse(2, ["evaluate", run, "--hindcasts", "pacific.nc"], "pacific.nc: this input file would be overwritten")
        evaluate = ["evaluate", run, "-o", "bad.json"]
        for options, pattern in {
                ("--against", "nobody"): "--against nobody: this is not a scored forecaster. Choose from persistence",
                ("--weights", "nothing"): "--weights nothing: .*nothing",
                ("--region", "box"): "--region box: not a region. Write NAME=",
                ("--region", "box=1,2,3"): "3 numbers",
                ("--region", "box=5,2,0,10"): "lat_min is above lat_max",
                ("--region", "far=80,85,0,10"): "--region far: no node",
                ("--region", "sea=nothing"): "--region sea=nothing: .*nothing",
                ("--hindcasts", "nowhere/h.nc"): "nowhere/h.nc: cannot write into the folder nowhere: No such file",
                ("--scores", "nowhere/h.nc"): "nowhere/h.nc: cannot write into the folder nowhere: No such file",
                ("--hindcasts", "x.nc", "--scores", "x.nc"): "--hindcasts and --scores name the same file",
                ("--scores", "./bad.json"): "-o and --scores name the same file"}.items():
            with self.subTest(options):
                self.refuse(3, [*evaluate, *options], pattern)
        self.refuse(1, [*evaluate, "--by", "day"], "--by", code=2)


class Sensors(Files):

    def test_several_variables_missing_values_and_few_nodes(self):
        steps, nodes = 60, 2
        values = ", ".join("_" if (t * 7 + i) % 11 == 0 else f"{(t * (i + 2)) % 7 + 0.5 * i - 2}"
                           for t in range(steps) for i in range(nodes))
        more = ", ".join(f"{(t * t + 3 * i + 5 * f) % 13 + 1}" for t in range(steps) for i in range(nodes) for f in range(2))
        self.netcdf("two.nc", f"""netcdf two {{
dimensions: time = {steps} ; node = {nodes} ; f = 2 ;
variables:
  double time(time) ; time:units = "hours since 2001-01-01" ;
  float v(time, node) ; v:_FillValue = NaNf ; v:units = "m s-1" ;
  float u(time, node, f) ; u:units = "K" ;
  float mask(node) ;
data:
  time = {", ".join(map(str, range(steps)))} ; v = {values} ; u = {more} ; mask = 1, 0 ;
}}
""")
        self.write("two.toml", """
[data]
file = "two.nc"
variables = ["v", "u"]
[split]
train = 36
[model]
latent = 2
[relation]
graph = "none"
discover = "dense"
[train]
epochs = 1
[evaluate]
horizons = 2
lim_modes = 1
""")
        self.succeed(1, "train", "two.toml", "--run", "two")
        for ranks in [1, 4]:
            with self.subTest(ranks):
                result = self.succeed(ranks, "evaluate", "two", "--hindcasts", "h.nc", "--scores", "s.nc", "--by", "hour", "--region",
                                      "one=mask")
                self.assertIn("MAPE is left out", result.out)
                found, data = self.load("two/evaluation.json", "evaluation.schema.json"), self.dataset("h.nc")
                self.assertEqual(data.u.dims, ("init_time", "lead", "node", "f"))
                self.assertEqual(data.lead.dtype.kind, "m")
                for part in found["variables"]:
                    self.hold_scores(data, {**found, **part}, part["variable"])
                    hours = data.valid_time.transpose("lead", "init_time").dt.hour.values
                    self.assertEqual(len(part["slices"]), 25)
                    for k in [0, 7, 24]:
                        if not part["slices"][k]["observations"]:
                            continue
                        chosen = (hours == k)[:, :, None] if k < 24 else numpy.array([1, 0])
                        chosen = chosen[..., None] if part["variable"] == "u" else chosen
                        self.hold_scores(data, {**found, **part, **part["slices"][k]}, part["variable"], chosen=chosen)
                self.assertNotIn("mape_percent", found["horizons"][0])
                self.assertIn("mape_percent", found["variables"][1]["horizons"][0])
                self.hold_maps(data, self.dataset("s.nc"), "v")


@unittest.skipIf(not os.path.isdir(DATA), "ROSSBY_DATA names no folder with measured series")
@support.long_test
class Measured(Files):
    """Series that were measured, with short trainings."""

    def evaluated(self, config, name, variable, *settings):
        sets = [f"data.file={DATA}/{name}.nc", "train.epochs=1", *settings]
        config = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps", "configs", config)
        self.succeed(2, "train", config, "--run", name, *[word for s in sets for word in ("--set", s)])
        self.succeed(2, "evaluate", name, "--hindcasts", "h.nc", "--scores", "s.nc")
        found, data = self.load(name + "/evaluation.json", "evaluation.schema.json"), self.dataset("h.nc")
        self.hold_scores(data, found, variable)
        self.hold_maps(data, self.dataset("s.nc"), variable)
        return found, data

    def test_pacific(self):
        _, data = self.evaluated("pacific_sst.toml", "pacific_sst_2deg_monthly", "sst_anomaly", "relation.rank=5")
        self.assertTrue(numpy.isnan(data.sst_anomaly_observation).all(("init_time", "lead")).any(), "there is land")

    def test_metr_la_week(self):
        _, data = self.evaluated("metr_la_week.toml", "metr_la_week_5min", "speed")
        self.assertEqual(data.lead.values.astype("timedelta64[m]").astype(int).tolist(), list(range(5, 65, 5)))

    def test_ersst(self):
        self.evaluated("ersst_global.toml", "ersst_v5_global_2deg_monthly", "sst", "relation.rank=5")


if __name__ == "__main__":
    support.main()
