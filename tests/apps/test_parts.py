"""Series in many files: the same training as from one file, the list that a run keeps, and errors."""

import json
import os
import re
import shutil

import support
from sensors import SENSORS, Runs, sensors

CONFIG = SENSORS.replace("epochs = 2", "epochs = 3") + "[model]\nlatent = 2\n"
STEPS, NODES = 20, 4
WHOLE = sensors(STEPS, NODES, holes=((2, 1), (7, 0), (13, 2)))


def cut(first, last, cdl=WHOLE, nodes=NODES):
    """Returns the CDL of steps [first, last) of a series of sensors."""
    times, values = [re.search(rf"  {name} = ([^;]*) ;", cdl).group(1).split(", ") for name in ("time", "v")]
    cdl = re.sub("time = [0-9]+ ;", f"time = {last - first} ;", cdl, count=1)
    cdl = re.sub("  time = [^;]* ;\n  edge", f"  time = {', '.join(times[first:last])} ;\n  edge", cdl)
    return re.sub("  v = [^;]* ;", f"  v = {', '.join(values[first * nodes:last * nodes])} ;", cdl)


class Parts(Runs):
    config = "parts.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("parts.toml", CONFIG)
        cls.netcdf("whole.nc", WHOLE)
        for k, (first, last) in enumerate(((0, 7), (7, 8), (8, 9), (9, 15), (15, STEPS))):
            cls.netcdf(f"part_{k}.nc", cut(first, last))
        cls.write("list.txt", "# latest first\npart_4.nc\n\npart_[0-3].nc\n")

    def trained(self, run, ranks, file, *settings):
        if not os.path.exists(self.path(run)):
            self.succeed(ranks, *self.arguments(run, f"data.file={file}", *settings))
        return run

    def data_hash(self, run):
        name = sorted(n for n in os.listdir(self.path(run + "/checkpoints")) if n.startswith("step-"))[-1]
        return json.loads(self.succeed(1, "checkpoint", "inspect", f"{run}/checkpoints/{name}", "--json").out)

    def test_train_as_the_one_file(self):
        windows = ("model.name=gru", "window.inputs=3", "window.outputs=2", "window.batch=4")
        for ranks, settings in ((1, ()), (2, ()), (3, ()), (2, ("parallel.time_groups=2",)), (2, windows)):
            with self.subTest(ranks=ranks, settings=settings):
                name = f"{ranks}_{len(settings)}_"
                more = ("checkpoint.every_steps=1", *settings)
                one = self.ends(self.trained(name + "one", ranks, "whole.nc", *more))
                parts = self.ends(self.trained(name + "parts", ranks, "part_*.nc", *more))
                self.assertEqual(one, parts)
                hashes = [re.search('"data_hash": ?"([0-9a-f]*)"', json.dumps(self.data_hash(name + run))).group(1)
                          for run in ("one", "parts")]
                self.assertEqual(hashes[0], hashes[1])

    def test_list_that_the_run_keeps(self):
        run = self.trained("kept", 2, "list.txt")
        with open(self.path(run + "/config.toml"), encoding="utf-8") as file:
            kept = re.search(r"^file = (.*)$", file.read(), re.M).group(1)
        self.assertEqual(json.loads(kept), ["part_4.nc", *[f"part_{k}.nc" for k in range(4)]])
        self.succeed(2, "evaluate", run)
        self.succeed(1, "forecast", run, "--steps", "2", "-o", "kept.nc")
        one = self.trained("kept_one", 2, "whole.nc")
        self.succeed(2, "evaluate", one)
        results = []
        for name in (run, one):
            with open(self.path(name + "/evaluation.json"), encoding="utf-8") as file:
                results.append(json.load(file)["horizons"])
        self.assertEqual(results[0], results[1])
        result = self.run_ranks(1, "forecast", run, "--steps", "2", "-o", "part_2.nc")
        self.assertEqual(result.codes, [1])
        self.assertIn("this input file would be overwritten", result.err)

    def test_opening_lines_and_inspect(self):
        out = self.succeed(2, *self.arguments("opened", "data.file=list.txt", "train.epochs=1")).out
        self.assertRegex(out, r"data      part_0.nc \.\.\. part_4.nc \(5 files\): 4 nodes, 20 steps")
        self.assertIn("the files are taken in the order of their first times", out)
        text = self.succeed(1, "data", "inspect", "part_0.nc", "part_1.nc", "part_3.nc").out
        self.assertIn("files     part_0.nc ... part_3.nc (3 files)", text)
        self.assertIn("1 steps missing in all", text)
        self.assertEqual(self.succeed(1, "data", "inspect", "part_*.nc").out.split("\n", 1)[1],
                         self.succeed(1, "data", "inspect", "whole.nc").out.split("\n", 1)[1])

    def test_a_resumed_run_keeps_its_files(self):
        def arguments(run):
            return self.arguments(run, "data.file=grows/*.nc")

        os.makedirs(self.path("grows"))
        for k in range(4):
            shutil.copy(self.path(f"part_{k}.nc"), self.path("grows"))
        self.succeed(2, *arguments("resumed_whole"))
        result = self.run_ranks(2, *arguments("resumed"), "--stop-after", "0.000001s")
        self.assertEqual(result.codes, [75, 75], result.err)
        shutil.copy(self.path("part_4.nc"), self.path("grows"))
        result = self.run_ranks(2, *arguments("resumed"))
        self.assertEqual(result.codes, [0, 0], result.err)
        self.assertIn("data.file now names 5 files. The run goes on with the 4 files that it started with", result.err)
        self.assertEqual(self.ends("resumed"), self.ends("resumed_whole"))
        out = self.succeed(1, "forecast", "resumed", "--steps", "2", "-o", "on.nc", "--set", "data.file=grows/*.nc").out
        self.assertIn("2 steps from 2001-01-01T19:00", out)
        # Other values in one of many files.
        self.netcdf("grows/part_1.nc", cut(7, 8).replace("  v = ", "  v = 1").replace("v = 1_", "v = 1"))
        result = self.run_ranks(2, *self.arguments("resumed", "data.file=grows/*.nc", "train.epochs=9"))
        self.assertEqual(result.codes, [1, 1])
        self.assertRegex(result.err, r"written with other data: its data_hash is .*, that of grows/part_0.nc \.\.\. ")

    def test_bad_files_are_named(self):
        self.netcdf("late.nc", cut(14, 16))
        self.netcdf("other.nc", sensors(STEPS + 1, NODES + 1))
        self.write("cut.nc", "CDF")
        for file, pattern in (('["part_0.nc", "part_3.nc", "late.nc"]', "part_3.nc .* and late.nc .* overlap in time"),
                              ('["part_0.nc", "other.nc"]', "other.nc: 5 nodes, but part_0.nc has 4 nodes|overlap in time"),
                              ('["part_0.nc", "part_1.nc", "cut.nc"]', "cut.nc: this is not a readable NetCDF file"),
                              ('["part_0.nc", "part_0.nc"]', "part_0.nc: the file is named twice"),
                              ("gone_*.nc", "no file matches this pattern"),
                              ('["part_0.nc", "gone.nc"]', "gone.nc: no such file")):
            with self.subTest(file):
                self.refuse(3, self.arguments("bad", f"data.file={file}"), pattern)
                self.assertFalse(os.path.exists(self.path("bad")))


if __name__ == "__main__":
    support.main()
