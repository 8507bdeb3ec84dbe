"""rossby report run: the page of a run, with any content of its files; rossby report compare; rossby relations."""

import base64
import html.parser
import os
import pathlib
import re
import shutil
import unittest
import unittest.mock

import support
from report_files import has_matplotlib, has_netcdf
from test_average import CONFIG, series
from test_schemas import LoadsJson

EVIL = "<img src=x onerror=alert(1)>"
STNN = CONFIG + """
[model]
latent = 1
decoder = "identity"
start = "data"
dynamics_start = "persistence"
[relation]
graph = "edges"
mode = "refine"
self = true
discover = "dense"
"""


def mapped(text):
    """Returns the series with coordinates, and with names that are markup."""
    text = text.replace("  string node(node) ;", '  string node(node) ;\n  double node_lat(node) ; node_lat:units = "degrees_north" ;\n'
                        '  double node_lon(node) ; node_lon:units = "degrees_east" ;')
    text = text.replace('v:units = "m s-1"', 'v:units = "m s-1 $x^2$ <b>" ; v:coordinates = "node_lat node_lon"')
    text = text.replace('"n0"', f'"{EVIL}"').replace('"n1"', '"a & b"')
    return text.replace("  node = ", "  node_lat = 10, 11, 12, 20, 21 ;\n  node_lon = 178, 179, -179, -178, 178 ;\n  node = ")


class Markup(html.parser.HTMLParser):
    """Collects the references of a page, and its texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.images, self.links, self.texts, self.handlers = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.handlers += [name for name in attrs if name.startswith("on")]
        if tag == "img":
            self.images.append(attrs["src"])
        self.links += [attrs[name] for name in ("href", "src") if name in attrs]

    def handle_data(self, data):
        self.texts.append(data)


@unittest.skipUnless(has_matplotlib(), "python3-matplotlib and python3-netcdf4 are not installed")
class Pages(LoadsJson, support.ProgramTest):
    run_name = "a <b> run"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", mapped(series()))
        cls.write("stnn.toml", STNN)
        cls.all_right("train", "stnn.toml", "--run", cls.run_name, "--set", "train.epochs=30")
        cls.all_right("evaluate", cls.run_name)
        cls.all_right("forecast", cls.run_name, "--steps", "3")

    @classmethod
    def all_right(cls, *arguments):
        result = cls.run_ranks(1, *arguments)
        assert result.codes == [0], result.err
        return result

    def page(self, run, *arguments, ranks=1):
        self.succeed(ranks, "report", "run", run, *arguments)
        text = pathlib.Path(self.path(run), "report/index.html").read_text(encoding="utf-8")
        found = Markup(text)
        self.assertNotIn("script", found.tags)
        self.assertEqual(found.handlers, [])
        for link in found.links:
            self.assertRegex(link, "^(#|data:)", "nothing leads out of the page")
        for image in found.images:
            kind, data = re.fullmatch("data:image/(svg[+]xml|png);base64,(.*)", image).groups()
            whole = base64.b64decode(data, validate=True)
            self.assertTrue(whole.startswith(b"\x89PNG") if kind == "png" else b"</svg>" in whole)
        return found, text

    def test_a_page_of_everything(self):
        found, text = self.page(self.run_name, "--node", EVIL, "--node", "10.9,179.2", "--node", "4")
        self.assertLess(len(text), 5_000_000)
        self.assertIn("The mean RMSE is", text)
        words = " ".join(found.texts)
        for name in ("What was trained", "Training", "Errors by lead time", "Last forecast", "Learned relations", "Settings"):
            self.assertIn(name, words)
        self.assertIn(f"Run {self.run_name}", words)
        self.assertIn(f"Forecast at {EVIL}, with the observations before the forecast.", words)
        self.assertIn("Forecast at a & b", words)
        self.assertNotIn(EVIL, text)
        self.assertNotIn("not drawn", words)
        names = set(os.listdir(self.path(self.run_name + "/report")))
        pictures = {name.removesuffix(".svg") for name in names if name.endswith(".svg")}
        self.assertLessEqual({"loss", "validation", "learning_rate", "rmse", "mae", "skill", "forecast_node_0", "forecast_node_2", "relation_0", "relation_1",
                              "self_weight", "relation_distance", "relation_direction", "influence_0"}, pictures)
        self.assertEqual(names, {"index.html", "relations.nc", *(f"{name}.{kind}" for name in pictures for kind in ("svg", "png"))})
        self.assertEqual(len(found.images), len(pictures))

    def test_a_page_of_little(self):
        """A running training, damaged files, missing data."""
        run = pathlib.Path(self.path("little"))
        run.mkdir()
        for name in ("config.toml", "metrics.jsonl"):
            shutil.copy(self.path(f"{self.run_name}/{name}"), run)
        found, text = self.page("little")
        self.assertIn("No errors yet:", text)
        self.assertIn("rossby evaluate little", " ".join(found.texts))
        self.assertEqual(len(found.images), 3)
        lines = (run / "metrics.jsonl").read_text().splitlines()
        (run / "metrics.jsonl").write_text(lines[0] + '\n{"epoch": 1, "lo')
        (run / "evaluation.json").write_text('{"horizons": ')
        (run / "forecast.nc").write_bytes(b"no file of arrays")
        found, text = self.page("little")
        words = " ".join(found.texts)
        self.assertIn("evaluation.json cannot be read", words)
        self.assertIn("forecast.nc cannot be read", words)
        self.assertEqual(len(found.images), 3)
        shutil.copy(self.path(f"{self.run_name}/forecast.nc"), run)
        shutil.copytree(self.path(f"{self.run_name}/checkpoints"), run / "checkpoints")
        os.rename(self.path("sensors.nc"), self.path("moved.nc"))
        try:
            words = " ".join(self.page("little")[0].texts)
        finally:
            os.rename(self.path("moved.nc"), self.path("sensors.nc"))
        self.assertIn("Learned relations are not drawn: ", words)
        self.assertIn("The observations before the forecast are not drawn", words)
        # Files of an earlier page that this one does not use are removed.
        self.assertIn("forecast_node_0.svg", os.listdir(run / "report"))
        (run / "forecast.nc").unlink()
        self.page("little")
        self.assertNotIn("forecast_node_0.svg", os.listdir(run / "report"))

    def test_what_is_wrong_is_said(self):
        self.refuse(2, ["report", "run", "nowhere"], "nowhere: the directory does not exist")
        os.makedirs(self.path("empty"), exist_ok=True)
        self.refuse(1, ["report", "run", "empty"], "empty: there is neither config.toml nor average.json")
        self.refuse(1, ["report", "run", self.run_name, "--node", "n9"], "--node n9: there is no such node")
        with unittest.mock.patch.dict(os.environ, ROSSBY_PYTHON="/nowhere/python"):
            self.refuse(2, ["report", "run", self.run_name], "no Python with matplotlib and netCDF4 was found. Run apt-get install python3-matplotlib python3-netcdf4")

    @support.long_test
    def test_ranks_make_the_same_page(self):
        shutil.copytree(self.path(self.run_name), self.path("ranks"))
        one = self.page("ranks")[0]
        shutil.rmtree(self.path("ranks/report"))
        three = self.page("ranks", ranks=3)[0]
        undated = [re.sub(r", \d{4}-.* UTC", "", text) for text in one.texts]
        self.assertEqual([re.sub(r", \d{4}-.* UTC", "", text) for text in three.texts], undated)
        self.assertEqual(len(three.images), len(one.images))


class Compared(LoadsJson, support.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", series())
        cls.netcdf("knots.nc", series(units="knots"))
        for run, sets in (("a", []), ("b", ["split.validation=16"]), ("knots", ["data.file=knots.nc"]), ("short", ["data.last_step=60"])):
            cls.all_right("train", "stnn.toml", "--run", run, *(word for one in sets for word in ("--set", one)))

    @classmethod
    def all_right(cls, *arguments):
        cls.write("stnn.toml", CONFIG)
        result = cls.run_ranks(1, *arguments)
        assert result.codes == [0], result.err
        return result

    def compare(self, *arguments, ranks=1):
        out = self.succeed(ranks, "report", "compare", *arguments, "-o", "compare.json").out
        return out, self.load("compare.json", "compare.schema.json")

    def test_on_common_origins(self):
        out, found = self.compare("a", "b", "persistence", ranks=2)
        # The test part of b begins four steps later.
        self.assertEqual((found["origins"], found["against"]), (11, "a"))
        self.assertIn("11 common origins from 2001-01-03T11:00", out)
        self.assertEqual([one["name"] for one in found["forecasters"]], ["a", "b", "persistence"])
        self.assertNotIn("skill", found["forecasters"][0]["mean"])
        # The result equals that of an evaluation on these origins.
        self.succeed(1, "evaluate", "a", "--set", "evaluate.first_origin=59", "-o", "a.json")
        scored = self.load("a.json", "evaluation.schema.json")
        self.assertEqual(scored["data"]["origins"], 11)
        for lead, (model, other) in enumerate(zip(found["forecasters"][0]["horizons"], found["forecasters"][2]["horizons"])):
            for score in ("rmse", "mae"):
                self.assertAlmostEqual(model[score], scored["horizons"][lead][score]["model"], delta=1e-6)
                self.assertAlmostEqual(other[score], scored["horizons"][lead][score]["persistence"], delta=1e-6)
            skill = other["skill"]
            self.assertAlmostEqual(skill["rmse"], 1 - other["rmse"] / model["rmse"], delta=1e-6)
            self.assertLessEqual(skill["interval"]["low"], skill["interval"]["high"])
            self.assertGreaterEqual(skill["block"], min(lead + 1, 2))

    def test_averages_take_part(self):
        self.succeed(1, "average", "a", "persistence", "-o", "mean")
        found = self.compare("a", "mean")[1]
        self.succeed(1, "evaluate", "mean", "-o", "mean.json")
        scored = self.load("mean.json", "evaluation.schema.json")
        for lead, one in enumerate(found["forecasters"][1]["horizons"]):
            self.assertAlmostEqual(one["rmse"], scored["horizons"][lead]["rmse"]["model"], delta=1e-6)

    def test_others_are_refused(self):
        self.refuse(2, ["report", "compare", "a", "knots"], "knots: its data are knots.nc, .*Forecasters are compared only on the same nodes of the same data")
        self.refuse(1, ["report", "compare", "a", "short"], "short: it reads 60 steps")
        self.refuse(1, ["report", "compare", "a", "a"], "a is named twice")
        self.refuse(1, ["report", "compare", "a"], "needs at least two forecasters")
        self.refuse(1, ["report", "compare", "persistence", "climatology"], "none of the forecasters is a run")
        self.refuse(1, ["report", "compare", "a", "nowhere"], "nowhere")


class Relations(support.ProgramTest):
    @unittest.skipUnless(has_netcdf(), "python3-netcdf4 is not installed")
    def test_from_the_command_line(self):
        import netCDF4
        self.netcdf("sensors.nc", mapped(series()))
        self.write("stnn.toml", STNN)
        self.succeed(2, "train", "stnn.toml", "--run", "r")
        out = self.succeed(3, "relations", "r", "--edges", "2", "--place", "a & b").out
        self.assertRegex(out, "refined: 5 edges, the strongest from .* km\\): ")
        self.assertIn("discovered: 10 edges", out)
        self.assertIn("written to r/relations.nc", out)
        with netCDF4.Dataset(self.path("r/relations.nc")) as file:
            self.assertEqual(list(file["relation"][:]), ["refined", "discovered"])
            self.assertEqual(file["node"][0], EVIL)
            self.assertEqual(int(file["place"][0]), 1)
            self.assertEqual(file["self_weight"].shape, (5,))
            ring = {(int(s), int(t)) for s, t, r in zip(file["edge_source"][:], file["edge_target"][:], file["edge_relation"][:]) if r == 0}
            self.assertEqual(ring, {(i, (i + 1) % 5) for i in range(5)})
            km = {(int(s), int(t)): float(d) for s, t, d in zip(file["edge_source"][:], file["edge_target"][:], file["edge_distance"][:])}
            self.assertAlmostEqual(km[0, 1], 155.9, delta=1, msg="one degree of each, not around the globe")
        self.refuse(2, ["relations", "r", "--place", "9"], "--place 9: no such node in sensors.nc. Give an id, a number below 5 or latitude,longitude")
        self.refuse(1, ["relations", "r", "--edges", "0"], "--edges", code=2)


if __name__ == "__main__":
    support.main()
