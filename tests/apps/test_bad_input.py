"""Bad data and settings: all ranks end in time, and one line says what is wrong and how to correct it."""

import json
import os
import shutil
import subprocess

import support
from sensors import SENSORS, BadInput, sensors


class Data(BadInput):

    def test_no_file(self):
        self.refuse_training(["data.file=none.nc"], r"none\.nc: no such file")
        self.refuse_training(["data.file="], r"data\.file is not set.*data\.file=series\.nc")
        self.refuse(2, ["data", "inspect", "none.nc"], r"none\.nc: no such file")

    def test_damaged_file(self):
        with open(self.path("sensors.nc"), "rb") as file:
            whole = file.read()
        for name, content in [("half.nc", whole[:len(whole) // 2]), ("most.nc", whole[:-1]), ("start.nc", whole[:100]),
                              ("empty.nc", b""), ("text.nc", b"time,value\n1,2\n")]:
            with open(self.path(name), "wb") as file:
                file.write(content)
            self.refuse_training([f"data.file={name}"], name + ": ", "truncated|damaged|empty|not a NetCDF")

    def test_variable(self):
        self.refuse_training(["data.variables=w"], "no variable w", "that fit: v")
        self.refuse_training(["data.variables=edge_src"], "edge_src has no time axis", r"\(time, lat, lon\)")
        self.netcdf("two.nc", sensors().replace("float v(", "float vv(time, node) ; float vu(").replace(
            "v:", "vu:").replace(" v =", " vu ="))
        self.refuse_training(["data.file=two.nc", "data.variables=[]"],
                             "several variables fit: vv, vu", "data.variables")
        self.refuse_training(["data.file=two.nc", "data.variables=uv"], "no variable uv", "did you mean")

    def test_no_time_axis(self):
        self.netcdf("still.nc", sensors().replace("time = 20 ;", "level = 20 ;").replace("(time", "(level").replace(
            'double time(level) ; time:units = "hours since 2001-01-01" ;', "").replace("  time = 0", "  // 0"))
        self.refuse_training(["data.file=still.nc"], "v has no time axis", r"\(level, node\)", "expected dimensions are")

    def test_edges(self):
        self.netcdf("far.nc", sensors(source="0, 1, 3"))
        self.refuse_training(["data.file=far.nc"], r"edge 2 \(3 -> 0\) names node 3, but nodes are 0 to 2")
        self.netcdf("low.nc", sensors(destination="1, -1, 0"))
        self.refuse_training(["data.file=low.nc"], r"edge 1 \(1 -> -1\) names node -1")
        self.netcdf("nan.nc", sensors(weight="1, NaN, 2"))
        self.refuse_training(["data.file=nan.nc"], r"edge 1 \(1 -> 2\) has weight nan, but weights have to be finite")
        self.netcdf("bare.nc", sensors().replace("edge_src", "a").replace("edge_dst", "b").replace("edge_weight", "c"))
        self.refuse_training(["data.file=bare.nc"], "bare.nc has no edges", "relation.graph")

    def test_nothing_observed(self):
        self.netcdf("blank.nc", sensors(missing=(0, 1, 2)))
        self.refuse_training(["data.file=blank.nc"], "no node has an observed value")
        self.refuse_training(["data.file=blank.nc", "data.nodes=all"], "the training part .* has no observed value")
        self.netcdf("blind.nc", sensors(holes=[(t, i) for t in range(12, 17) for i in range(3)]))
        for groups in (1, 2):
            self.refuse_training(["data.file=blind.nc", "split.validation=5", "train.early_stop=1", "schedule.metric=validation",
                                  f"parallel.time_groups={groups}"], "blind.nc: .*nothing to watch: the validation part")
        self.netcdf("late.nc", sensors(observed_from=12))
        self.refuse_training(["data.file=late.nc"],
                             r"late\.nc: the training part \(2001-01-01T00:00 to 2001-01-01T11:00\) has no")


class Corners(BadInput):
    """Cases that look wrong and work."""

    def test_node_that_is_never_observed(self):
        self.netcdf("gap.nc", sensors(nodes=4, missing=(1,)))
        for choice, nodes in [("observed", 3), ("all", 4)]:
            for scaling in ["none", "node"]:
                with self.subTest(choice, scaling=scaling):
                    run = f"run_{choice}_{scaling}"
                    out = self.succeed(2, "train", "sensors.toml", "--run", run, "--set", "data.file=gap.nc", "--set",
                                       f"data.nodes={choice}", "--set", f"data.center={scaling}", "--set",
                                       f"data.spread={scaling}").out
                    self.assertIn(f"gap.nc: {nodes} nodes", out)
                    self.succeed(2, "evaluate", run)
                    with open(self.path(run + "/evaluation.json"), encoding="utf-8") as file:
                        found = json.load(file)
                    for scores in [found["mean"], *found["horizons"]]:
                        scores.pop("acc")  # null if forecasts are the climatology
                    self.assertNotIn("null", json.dumps(found), "what is not observed is masked")
                    self.succeed(2, "forecast", run, "--steps", "2")

    def test_ranks_with_different_numbers_of_threads(self):
        command = [support.mpiexec]
        for threads in (1, 2):
            command += [":"] * (threads - 1) + ["-n", "1", "-x", f"OMP_NUM_THREADS={threads}", support.rossby, *self.train("train.epochs=1")]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, "warning   ranks have different numbers of threads, and reports assume 1 on each: "
                                        r"1 on rank 0 \(host \S+\), 2 on rank 1 \(host \S+\). Set the same OMP_NUM_THREADS")
        shutil.rmtree(self.path("run"))

    def test_more_ranks_than_nodes(self):
        for settings in [[], ["relation.mode=refine", "relation.self=true"],
                         ["relation.graph=none", "relation.discover=dense"],
                         ["relation.graph=none", "relation.discover=dense", "relation.precision=bf16"],
                         ["relation.discover=low_rank", "relation.rank=2"], ["parallel.partition=graph"]]:
            with self.subTest(settings):
                run = "many_" + "_".join(settings)
                self.succeed(5, "train", "sensors.toml", "--run", run, *[w for s in settings for w in ("--set", s)])
                self.succeed(5, "evaluate", run)
        self.succeed(5, "forecast", "many_", "--steps", "1")
        self.assertTrue(os.path.exists(self.path("many_/forecast.nc")))


class Settings(BadInput):

    def test_keys(self):
        self.refuse_training(["train.epoch=3"], r"unknown key train\.epoch", r"nearest key is train\.epochs")
        self.refuse_training(["epochs=3"], r"unknown key epochs", r"did you mean train\.epochs\?")
        self.refuse_training(["train=3"], r"this is a table with the keys train\.sampling")
        self.write("wrong.toml", SENSORS + "horizon = 3\n")
        self.refuse(2, ["train", "wrong.toml", "--run", "run"], r"wrong\.toml:\d+: unknown key evaluate\.horizon\b",
                    r"evaluate\.horizons")

    def test_values(self):
        self.refuse_training(["train.epochs=many"], r"train\.epochs needs an integer")
        self.refuse_training(["train.epochs=2.5"], r"train\.epochs needs an integer, not .*2\.5")
        self.refuse_training(["train.epochs=-1"], r"out of range: the value must be 0 to")
        self.refuse_training(["optimiser.lr=nan"], r"optimiser\.lr = nan is not a finite number")
        self.refuse_training(["optimiser.lr=-1e300"], r"out of range: the value must be 0 to 1000000")
        self.refuse_training(["optimiser.lr_scaling=linear"], r"optimiser\.lr_scaling = \"linear\" works only with window models")
        self.refuse_training(["optimiser.lr=0", "optimiser.lr_z=0.02"], r"optimiser\.lr_z = 0\.02 is scaled with optimiser\.lr")
        self.refuse_training(["optimiser.lr=0", "optimiser.lr_relation=0.02"], r"optimiser\.lr_relation = 0\.02 is scaled")
        self.refuse_training(["checkpoint.keep=0", "train.stop_after=1m"], r"checkpoint\.keep = 0 writes none")
        self.refuse_training(["model.dropout_z=1e301"], r"out of range: the value must be 0 to 0\.999")
        self.refuse_training(["relation.refine_start=1e301"], r"out of range: the value must be -1e\+300 to 1e\+300")
        self.refuse_training(["relation.self=maybe"], r"relation\.self needs true or false")
        self.refuse_training(["relation.mode=refined"], r"not one of given, refine; the nearest is refine")
        self.refuse_training(["relation.hops=[2, 1]"], r"relation\.hops is not a list of ascending powers")
        self.refuse_training(["train.epochs"], r"Write --set key=value")

    def test_files(self):
        self.refuse(2, ["train", "none.toml", "--run", "run"], r"none\.toml: cannot read this file: No such file")
        self.write("broken.toml", "[train]\nepochs = = 3\n")
        self.refuse(2, ["train", "broken.toml", "--run", "run"], r"broken\.toml:2")

    def test_splits(self):
        self.refuse_training(["split.train=1000"], r"split\.train", "the series has 20")
        self.refuse_training(["split.train=15", "split.validation=5", "split.test=1"],
                             r"15 \+ 5 \+ 1 steps, but the series has 20")
        self.refuse_training(["split.train=1"], "training needs at least 2")
        self.refuse_training(["split.train=1.5"], "not a share between 0 and 1")
        self.refuse_training(["split.train=2001-01-01T12", "split.validation=2001-01-01T06"], "but the part begins later")
        self.refuse_training(["split.train=1999-01-01"], "training needs at least 2|split.train")
        self.refuse_training(["split.train=soon"], "Give a number of steps, a share")
        self.refuse_training(["split.folds=3", "split.fold=3"], "the folds are 0 to 2")

    def test_settings_that_do_not_go_together(self):
        self.refuse_training(["relation.graph=grid"], "needs a gridded file", '"edges" or "nearest"')
        self.refuse_training(["relation.graph=nearest"], "needs coordinates, but .*sensors.nc has none")
        self.refuse_training(["model.start=data", "model.latent=2"], "needs as many latents as features")
        self.refuse_training(["train.joint=true", "train.sampling=pairs"],
                             'train.joint = true needs train.sampling = "slabs"')
        self.refuse_training(["schedule.name=plateau"], "split.validation .* or split.folds")
        short = ["split.train=10", "split.validation=2", "evaluate.horizons=3"]
        self.refuse_training([*short, "train.early_stop=1", "schedule.metric=validation"],
                             "nothing to watch: the validation part has 2 steps, fewer than evaluate.horizons = 3")
        words = [word for s in (*short, "train.epochs=1", "train.keep=last") for word in ("--set", s)]
        out = self.succeed(1, "train", "sensors.toml", "--run", "short", *words).out
        self.assertIn("warning   validation is left out, because its part has 2 steps, fewer than evaluate.horizons = 3", out)
        self.refuse_training(["schedule.name=step", "schedule.milestones=[30, 20]"], r"schedule\.milestones do not ascend")
        self.refuse_training(["schedule.name=step", "schedule.milestones=[20, 20]"], r"schedule\.milestones do not ascend")
        self.refuse_training(["parallel.partition=tiles"], "needs a gridded file")
        self.refuse_training(["parallel.partition=graph", "relation.discover=dense"],
                             "does not work with a dense relation")
        self.refuse_training(["parallel.row_order=rcm", "relation.graph=none", "relation.discover=dense"],
                             "needs relations. Set relation.graph")
        self.refuse_training(["parallel.row_order=rcm", "relation.discover=dense"],
                             "does not work with a dense relation")
        for start in ("x", "", "1/m"):
            self.refuse_training(["relation.discover=dense", f"relation.discover_start={start}"], '"1/n" or a number')
        for start in ("0", "1", "-0.5", "1e300"):
            self.refuse_training(["relation.discover=dense", f"relation.discover_start={start}"], "never change")
            self.refuse_training(["relation.mode=refine", f"relation.refine_start={start}"], "never change|is out of range")
        refined = ["relation.mode=refine", "relation.refine_start=0.99999999"]
        self.refuse_training([*refined, "model.precision=float"], r"0\.99999999 \(rounded to 1\): weights with this initial value never change")
        for learns in [[*refined, "model.precision=double"], ["relation.mode=refine", "relation.refine_start=1", "optimiser.lr_relation=0"],
                       ["relation.self=true", "relation.self_start=1", "optimiser.lr_relation=0"]]:
            self.succeed(1, "train", "sensors.toml", "--run", "starts_" + str(len(learns)) + learns[-2], *[w for s in learns for w in ("--set", s)])
        self.netcdf("turned.nc", sensors(weight="1, -0.5, 2"))
        # Edge weights that sum to zero up to rounding are not divided by their sum.
        self.netcdf("cancelled.nc", sensors(nodes=5, source="0, 1, 2, 3", destination="4, 4, 4, 4", weight="0.1, 0.2, -0.3, -2e-17"))
        self.succeed(1, "train", "sensors.toml", "--run", "cancelled", "--set", "data.file=cancelled.nc", "--set", "train.epochs=1")
        self.refuse_training(["data.file=turned.nc"], "have a sum of -0.5, and dividing by this sum would change the signs of the weights. Set relation.normalise = false")
        self.refuse_training(["data.file=turned.nc", "relation.normalise=false", "model.name=dcrnn", "window.inputs=3", "window.outputs=2"], "turned.nc: an edge has weight -0.5")
        for settings, needs in [(["relation.discover=low_rank"], "a dense learned relation"),
                                (["relation.discover=dense", "model.precision=double"], "model.precision"),
                                (["relation.discover=dense", "optimiser.name=sgd"], "optimiser.name"),
                                (["relation.discover=dense", "train.sampling=pairs"], "train.sampling")]:
            self.refuse_training(["relation.precision=bf16", *settings], f'relation.precision = "bf16" needs {needs}')


if __name__ == "__main__":
    support.main()
