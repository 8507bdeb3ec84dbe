"""Trained models on extended, moved or changed data; runs of other users; reports of a training on its
data."""

import json
import os
import re
import shutil
import subprocess

import support
from sensors import SENSORS, Runs, sensors

CONFIG = SENSORS.replace("train = 12", "train = 0.6\nvalidation = 0.1").replace('["v"]', '["v"]\ncenter = "node"')


def with_values(cdl, change):
    """Returns the CDL with change(number, text) in place of every value of v."""
    head, values = cdl.split("  v = ")
    values = values.split(" ;")[0].split(", ")
    return head + "  v = " + ", ".join(change(k, value) for k, value in enumerate(values)) + " ;\n}\n"


class NewData(Runs):
    config = "new.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("new.toml", CONFIG)
        shifted = re.sub(r"  time = [^;]*;", "  time = " + ", ".join(str(12 + t) for t in range(30)) + " ;",
                         sensors(steps=30).replace("hours since 2001-01-01", "hours since 2000-12-31 12:00:00"))
        cls.netcdf("longer.nc", shifted)
        cls.netcdf("changed.nc", with_values(sensors(), lambda k, v: "_" if v == "_" else str(float(v) + 273.15)))

    def trained(self, name, *settings):
        if not os.path.exists(self.path(name)):
            self.succeed(2, "train", "new.toml", "--run", name, *[w for s in settings for w in ("--set", s)])
        return name

    def scores(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def test_longer_files_go_with_the_run(self):
        """The parts are those of the training, whatever share they are of the longer file. Its time may count
        from another day."""
        for model in ("stnn", "gru"):
            with self.subTest(model):
                more = ("window.inputs=3", "window.outputs=2") if model == "gru" else ()
                run = self.trained(f"on_{model}", f"model.name={model}", *more)
                self.succeed(2, "evaluate", run)
                self.succeed(1, "evaluate", run, "--output", "long.json", "--set", "data.file=longer.nc",
                             "--set", "evaluate.last_origin=17")
                self.succeed(2, "evaluate", run, "--output", "same.json", "--set", "evaluate.last_origin=17")
                for a, b in zip(self.scores("long.json")["horizons"], self.scores("same.json")["horizons"]):
                    for name, score in a["rmse"].items():
                        self.assertAlmostEqual(score, b["rmse"][name], delta=1e-5 * abs(score), msg=name)
                out = self.succeed(2, "forecast", run, "--steps", "2", "--set", "data.file=longer.nc", "-o", "on.nc").out
                self.assertIn("2 steps from 2001-01-02T05:00", out)

    def test_steps_that_no_window_reads_are_not_the_models(self):
        """A stride leaves out steps. So does a stretch between gaps that is shorter than a window."""
        times = [t + (9 if t > 6 else 0) + (9 if t > 7 else 0) for t in range(20)]
        self.netcdf("stretches.nc", re.sub(r"  time = [^;]*;", "  time = " + ", ".join(map(str, times)) + " ;", sensors()))
        for name, *settings in (("strides", "window.stride=3", "split.validation=0"),
                                ("stretches", "data.file=stretches.nc", "split.validation=0")):
            run = self.trained(name, "model.name=gru", "window.inputs=3", "window.outputs=2", *settings)
            self.succeed(2, "evaluate", run)
            self.succeed(1, "forecast", run, "--steps", "2")

    def test_stamps_that_need_more_of_a_date(self):
        """A stamp after the training part need not be at midnight: earlier dates stay the same."""
        daily = sensors().replace("hours since", "days since")
        self.netcdf("daily.nc", daily)
        self.netcdf("odd.nc", sensors(steps=30).replace("hours since", "days since").replace(" 29 ;", " 29.5 ;"))
        run = self.trained("daily", "data.file=daily.nc")
        self.succeed(1, "forecast", run, "--steps", "1", "--set", "data.file=odd.nc", "--origin", "2001-01-25", "-o", "odd_on.nc")

    def test_more_nodes_are_counted(self):
        self.netcdf("silent.nc", sensors(nodes=4, missing=(3,)))
        self.netcdf("awake.nc", sensors(steps=30, nodes=4, holes=[(t, 3) for t in range(20)]))
        run = self.trained("silent", "data.file=silent.nc", "data.nodes=observed")
        self.refuse(2, ["evaluate", run, "--set", "data.file=awake.nc"],
                    r"awake.nc: 4 nodes have a value at some step, but .*state.h5 was trained on 3")

    def test_the_newest_steps_are_scored(self):
        run = self.trained("newest", "split.test=0.3")
        out = self.succeed(1, "evaluate", run, "--set", "data.file=longer.nc", "-o", "newest.json").out
        self.assertIn('split.test = "0.3" is a share of another file: all steps after the validation part are the test part', out)
        shutil.copy(self.path("sensors.nc"), self.path("same.nc"))
        out = self.succeed(1, "evaluate", run, "--set", "data.file=same.nc", "-o", "same.json").out
        self.assertNotIn("is a share of another file", out, "as many steps: the same part")
        self.succeed(1, "evaluate", run, "-o", "before.json")
        self.assertEqual(*(self.scores(name)["data"]["origins"] for name in ("same.json", "before.json")))
        out = self.succeed(1, "evaluate", run, "--set", "data.file=./sensors.nc", "-o", "same_file.json").out
        self.assertNotIn("another file", out)
        told = self.scores("newest.json")["data"]
        self.assertEqual((told["file"], told["last_origin"]), ("longer.nc", "2001-01-02T03:00"))

    def test_an_evaluation_has_a_test_part_of_its_own(self):
        run = self.trained("untested", "split.test=0")
        self.refuse(2, ["evaluate", run], "the test part has 0 steps")
        self.succeed(2, "evaluate", run, "--set", "split.test=rest", "-o", "untested.json")
        self.succeed(2, "evaluate", self.trained("tested"), "-o", "tested.json")
        self.assertEqual(self.scores("untested.json")["horizons"], self.scores("tested.json")["horizons"])
        self.refuse(2, ["evaluate", run, "--set", "split.train=10"], "would change the model")

    def test_where_nothing_can_be_written_is_said_at_once(self):
        run = self.trained("nowhere")
        for command in (["evaluate", run], ["forecast", run, "--steps", "1"]):
            self.refuse(2, [*command, "-o", "no/such/folder/x"], "no/such/folder/x: cannot write into the folder no/such/folder: No such")
            # The error comes at once, before the program looks for the data.
            self.refuse(2, [*command, "-o", "/dev/null", "--set", "data.file=gone.nc"], "/dev/null: cannot write this file: it is not a regular")

    def test_what_is_read_is_not_replaced(self):
        run = self.trained("reads")
        state = os.path.join(run, "checkpoints", "state.h5")
        self.succeed(1, "evaluate", run, "-o", "reads.json")
        for path in ("sensors.nc", "./sensors.nc", state, os.path.join(run, "config.toml")):
            with open(self.path(path), "rb") as file:
                before = file.read()
            for command in (["evaluate", run], ["forecast", run, "--steps", "1"]):
                self.refuse(2, [*command, "-o", path], "this input file would be overwritten")
                if path == "sensors.nc":
                    self.refuse(2, [*command, "-o", path, "--set", "data.file=longer.nc"], "this input file would be overwritten")
            with open(self.path(path), "rb") as file:
                self.assertEqual(file.read(), before)
        for name in ("step-000000000001.h5", "anything.json"):
            self.refuse(2, ["evaluate", run, "-o", os.path.join(run, "checkpoints", name)], "the run keeps its checkpoints in this folder")
        self.succeed(1, "evaluate", run, "-o", "reads.json")

    def test_a_changed_configuration_is_refused(self):
        run = self.trained("edited")
        with open(self.path(f"{run}/config.toml"), encoding="utf-8") as file:
            text = file.read()
        self.assertTrue('center = "node"' in text and "every_minutes = 10" in text)
        self.write(f"{run}/config.toml", text.replace('center = "node"', 'center = "none"'))
        self.refuse(2, ["evaluate", run], r"config.toml was changed after the training: data.center: .*none.* \(now\)")
        shutil.copy(self.path("sensors.nc"), self.path("gone_elsewhere.nc"))
        self.write(f"{run}/config.toml", text.replace("every_minutes = 10", "every_minutes = 11").replace("sensors.nc", "gone_elsewhere.nc"))
        self.succeed(1, "evaluate", run)

    def test_a_moved_file_is_named(self):
        run = self.trained("moved")
        shutil.copy(self.path("sensors.nc"), self.path("elsewhere.nc"))
        self.succeed(1, "forecast", run, "--steps", "1", "--set", "data.file=elsewhere.nc", "-o", "moved.nc")

    def test_a_moved_graph_is_held_against_the_one_that_was_trained_on(self):
        for name, weight in (("graph", "1, 0.5, 2"), ("graph_too", "1, 0.5, 2"), ("graph_other", "1, 0.75, 2")):
            self.netcdf(name + ".nc", sensors(weight=weight))
        run = self.trained("graphed", "relation.graph=edges", "relation.file=graph.nc")
        self.succeed(1, "evaluate", run)
        os.rename(self.path("graph.nc"), self.path("graph_gone.nc"))
        for command in (["evaluate", run], ["forecast", run, "--steps", "1", "-o", "graphed.nc"]):
            self.refuse(2, command, "graph.nc: no such file")
            self.succeed(2, *command, "--set", "relation.file=graph_too.nc")
            self.refuse(2, [*command, "--set", "relation.file=graph_other.nc"], "is not what .*state.h5 was trained on")
        # The graph of the training is not overwritten either, even if another graph is read.
        for command in (["evaluate", run], ["forecast", run, "--steps", "1"]):
            for path in ("graph.nc", "graph_too.nc"):
                shutil.copy(self.path("graph_gone.nc"), self.path(path))
                self.refuse(2, [*command, "-o", path, "--set", "relation.file=graph_too.nc"], "this input file would be overwritten")
        os.remove(self.path("graph.nc"))
        resumed = ["train", "new.toml", "--run", run, "--set", "relation.graph=edges", "--set", "train.epochs=9"]
        self.refuse(2, [*resumed, "--set", "relation.file=graph_other.nc"], "was written with other data")
        self.assertIn("resumed ", self.succeed(2, *resumed, "--set", "relation.file=graph_too.nc").out)

    def test_other_data_are_refused(self):
        for model, more in (("stnn", ()), ("gru", ("window.inputs=3", "window.outputs=2"))):
            run = self.trained(f"other_{model}", f"model.name={model}", *more)
            for command in (["evaluate", run], ["forecast", run, "--steps", "1"]):
                self.refuse(2, [*command, "--set", "data.file=changed.nc"],
                            r"changed.nc: the training part \(2001-01-01T00:00 to 2001-01-01T11:00\) is not what "
                            r".*state.h5 was trained on")
        self.refuse(2, ["evaluate", run, "--set", "model.units=3"], r"model.units: 3 \(asked for\), \d+ \(trained with\)")

    def test_runs_of_others_are_read(self):
        if os.geteuid() != 0:
            self.skipTest("becomes another user, which root alone can")
        run = self.trained("theirs")
        self.succeed(1, "evaluate", run)
        outside = self.path("outside")
        os.mkdir(outside)
        os.chmod(outside, 0o777)
        os.chmod(self.folder, 0o755)
        program = shutil.copy(support.rossby, outside)  # other users may not read the build folder

        def as_nobody(*arguments):
            result = subprocess.run([program, *arguments], cwd=self.folder, user=65534, capture_output=True,
                                    text=True, env=dict(os.environ, HOME=outside, TMPDIR=outside), check=False)
            return result.returncode, result.stdout + result.stderr

        before = self.files()
        for command in (["evaluate", run], ["forecast", run, "--steps", "1"]):
            code, text = as_nobody(*command)
            self.assertEqual(code, 1, text)
            self.assertIn("theirs: you cannot write into this run directory. Name a file in another folder with --output", text)
            code, text = as_nobody(*command, "--output", os.path.join(outside, command[0]))
            self.assertEqual(code, 0, text)
        new = {name for name in self.files() - before if "ompi" not in name and "openmpi" not in name}
        self.assertEqual({os.path.basename(name) for name in new}, {"evaluate", "forecast"})


class Told(Runs):
    """Reports of a training and of `data inspect` about data that may surprise their user."""
    config = "new.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("new.toml", CONFIG)
        marked = with_values(sensors(), lambda k, v: "-9999" if k in (4, 8) else "2e20" if k == 11 else v)
        cls.netcdf("marked.nc", marked)
        cls.netcdf("ranged.nc", marked.replace("v:units", "v:valid_range = -100.f, 100.f ; v:units"))
        cls.netcdf("lonely.nc", re.sub(r"  edge_src = .*;\n", "", re.sub(r"  (int|double) edge_.*;\n", "", sensors()))
                   .replace(" ; edge = 3 ;", " ;"))
        cls.netcdf("gap.nc", re.sub(r"  time = [^;]*;",
                                    "  time = " + ", ".join(str(t + (5 if t > 14 else 0)) for t in range(20)) + " ;",
                                    sensors()))

    def start_of(self, *settings, name="told"):
        shutil.rmtree(self.path(name), ignore_errors=True)
        return self.succeed(2, "train", "new.toml", "--run", name, *[w for s in settings for w in ("--set", s)]).out

    def test_marks_of_missing_values(self):
        told = "2 values are -9999, 1 is 1e15 or more in size"
        for settings in ((), ("model.name=gru", "window.inputs=3", "window.outputs=2")):
            out = self.start_of("data.file=marked.nc", "data.center=none", "data.spread=none", *settings)
            self.assertIn(f"warning   {told} in the training part. If these numbers mark missing values, set data.null_value", out)
            self.assertNotIn("warning", self.start_of("data.file=ranged.nc", *settings))
        self.assertIn(f"suspect   {told}", self.succeed(1, "data", "inspect", "marked.nc").out)
        ranged = self.succeed(1, "data", "inspect", "ranged.nc").out
        self.assertNotIn("suspect", ranged)
        self.assertIn("missing   5.00 %", ranged)

    def test_nodes_that_report_late(self):
        self.netcdf("late.nc", sensors(holes=[(t, 2) for t in range(14)]))
        for settings in ((), ("model.name=gru", "window.inputs=3", "window.outputs=2")):
            self.assertIn("warning   1 of 3 nodes has a feature without a value in the training part. This node is scaled with the values of all nodes",
                          self.start_of("data.file=late.nc", *settings))
            self.assertNotIn("without a value in the training part", self.start_of(*settings))

    def test_gaps(self):
        self.assertIn("gaps      1 in the time axis, the first after 2001-01-01T14:00. Model stnn treats a gap like one step",
                      self.start_of("data.file=gap.nc"))
        out = self.start_of()
        self.assertIn("\ngaps      none\n", out)
        self.assertNotIn("in the time axis", out)

    def test_a_graph_without_edges(self):
        self.assertIn("warning   the graph has no edges, so that every node is forecast by itself. Check relation.graph = \"auto\"",
                      self.start_of("data.file=lonely.nc", "relation.graph=auto"))

    def test_settings_of_evaluate_are_held_against_the_data(self):
        self.refuse(2, ["train", "new.toml", "--run", "late", "--set", 'evaluate.report=["x"]'], "evaluate.report")
        self.refuse(2, ["train", "new.toml", "--run", "late", "--set", "evaluate.first_origin=500"], "evaluate.first_origin")
        self.refuse(2, ["train", "new.toml", "--run", "late", "--set", "split.train=2009-01-01"],
                    "2009-01-01 is after the end of the data, 2001-01-01T19:00")
        self.refuse(2, ["train", "new.toml", "--run", "late", "--set", "parallel.stage_layers=[1]"], "parallel.stage_layers")
        self.assertFalse(os.path.exists(self.path("late")))

    def test_a_test_part_that_is_too_short_is_said(self):
        self.assertIn("warning   the test part has 6 steps: 'rossby evaluate' finds no origin in this part with 7 horizons",
                      self.start_of("evaluate.horizons=7", "split.validation=0", "split.train=14"))
        self.assertNotIn("test part", self.start_of("evaluate.horizons=7", "split.train=14", "split.validation=0", "split.test=0"))
        self.refuse(2, ["train", "new.toml", "--run", "late", "--set", "model.name=gru", "--set", "window.inputs=3", "--set",
                        "window.outputs=2", "--set", "evaluate.kind=rollout"],
                    r'evaluate.kind = "rollout" needs one forecast over the whole test part, 6 steps, but the model forecasts window.outputs = 2')

    def test_keys_of_other_models_are_named(self):
        windows = ("model.name=gru", "window.inputs=3", "window.outputs=2")
        self.assertIn('warning   model.name = "gru" does not use these settings: model.latent, validation.kind. Remove these settings, or choose another model\n',
                      self.start_of("model.latent=2", "validation.kind=rollout", *windows))
        self.assertIn('warning   model.name = "stnn" does not use these settings: model.units. Remove', self.start_of("model.units=3"))
        self.assertNotIn("does not use", self.start_of(*windows))

    def test_missing_inputs_without_a_mean(self):
        told = "warning   missing inputs are read as 0 in original units"
        self.netcdf("holes.nc", sensors(holes=[(3, 1)]))
        windows = ("model.name=gru", "window.inputs=3", "window.outputs=2")
        self.assertIn(told, self.start_of("data.file=holes.nc", "data.center=none", *windows))
        for settings in (("data.file=holes.nc",), ("data.file=holes.nc", "data.center=none", "window.fill=zero"),
                         ("data.center=none",)):
            self.assertNotIn(told, self.start_of(*settings, *windows))

    def test_as_many_horizons_as_a_model_puts_out(self):
        self.start_of("model.name=gru", "window.inputs=3", "window.outputs=1", name="short")
        out = self.succeed(2, "evaluate", "short").out
        self.assertIn("evaluate.horizons = 2, but the model forecasts window.outputs = 1 steps: only these steps are scored", out)


if __name__ == "__main__":
    support.main()
