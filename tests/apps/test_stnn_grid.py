"""STNN on a process grid as users start it: the same losses, resuming, moving to another grid, bad input."""

import support
from sensors import Runs, sensors

STNN = """
[data]
file = "sensors.nc"
variables = ["v"]
center = "node"
[split]
train = 21
validation = 5
[relation]
graph = "edges"
mode = "refine"
self = true
discover = "low_rank"
rank = 2
[model]
latent = 1
l2_z = 0.01
l1_rel = 0.01
start = "data"
[optimiser]
beta1 = 0.9
clip = 1
[schedule]
metric = "validation"
[train]
epochs = 2
slab_steps = 4
lanes = 4
[evaluate]
horizons = 2
lim_modes = 2
"""


class StnnGrid(Runs):
    config = "stnn.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.write("stnn.toml", STNN)

    def same(self, run, other):
        mine, others = self.lines(run), self.lines(other)
        self.assertEqual(len(mine), len(others))
        for a, b in zip(mine, others):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-5 * b["loss"])
            self.assertAlmostEqual(a["validation_rmse"], b["validation_rmse"], delta=1e-5 * b["validation_rmse"])

    def test_grids(self):
        first = self.succeed(1, *self.arguments("one")).out
        for ranks, groups in ((2, 2), (4, 2), (4, 4)):
            run = f"grid_{ranks}_{groups}"
            out = self.succeed(ranks, *self.arguments(run, f"parallel.time_groups={groups}")).out
            self.assertRegex(out, f"grid +{ranks // groups} row blocks x {groups} time groups")
            for line in first.splitlines():  # data, split, model: counts do not depend on the grid
                if line.startswith(("data ", "split ", "model ")):
                    self.assertIn(line, out)
            self.same(run, "one")
            self.succeed(2, "evaluate", run)
            self.assertIn("written to", self.succeed(1, "forecast", run, "--steps", "2").out)

    def test_other_settings(self):
        for name, *settings in (("joint", "train.joint=true", "train.slab_steps=0"),
                                ("eof", "relation.low_rank_start=eof", "model.start=uniform"),
                                ("dense", "relation.discover=dense"),
                                ("bf16", "relation.discover=dense", "relation.precision=bf16"), ("dense_stored", "relation.storage=dense"),
                                ("folds", "split.folds=3", "split.fold=1", "split.validation=0"),
                                ("sgd", "optimiser.name=sgd")):
            with self.subTest(name):
                self.assertNotIn("warning", self.succeed(1, *self.arguments(name, *settings)).out)
                self.succeed(4, *self.arguments(name + "_grid", "parallel.time_groups=2", *settings))
                self.same(name + "_grid", name)

    def test_factors_travel_where_they_are_fewer_than_the_gradient(self):
        self.succeed(1, "data", "synth", "--kind", "heat", "--lat", "6", "--lon", "10", "--steps", "40", "-o", "heat.nc")
        settings = ["data.file=heat.nc", "data.variables=[]", "split.train=24", "relation.graph=none", "relation.self=false",
                    "relation.discover=dense", "optimiser.clip=0"]
        self.succeed(1, *self.arguments("factors", *settings))
        self.succeed(4, *self.arguments("factors_grid", "parallel.time_groups=2", *settings))
        self.same("factors_grid", "factors")
        line = self.lines("factors_grid")[-1]
        self.assertEqual(line["steps"], 24)  # in 12 of them, of dynamics, both groups would sum 30 x 60 floats
        self.assertLess(line["sent"]["bytes"], 12 * 30 * 60 * 4)

    def test_missing_values_at_the_seam(self):
        missing = [(t, 1) for t in range(8, 14)] + [(t, 2) for t in range(0, 13)]
        self.netcdf("seam.nc", sensors(steps=30, holes=missing))
        self.succeed(1, *self.arguments("seam", "data.file=seam.nc"))
        self.succeed(2, *self.arguments("seam_grid", "data.file=seam.nc", "parallel.time_groups=2"))
        self.same("seam_grid", "seam")

    def test_a_fold_that_is_held_out_is_not_seen(self):
        """Missing values beside the fold do not see it either: they start at the nearest known values."""
        missing = [(t, 1) for t in range(14, 17)] + [(t, 2) for t in range(4, 7)]
        told = sensors(steps=30, holes=missing)
        head, values = told.split("  v = ")
        values = values.split(" ;")[0].split(", ")
        self.netcdf("told.nc", told)
        self.netcdf("other.nc", head + "  v = " + ", ".join(str(float(v) + 50) if 7 <= k // 3 < 14 and v != "_" else v
                                                            for k, v in enumerate(values)) + " ;\n}\n")
        folds = ["split.folds=3", "split.fold=1", "split.validation=0"]
        for ranks, groups in ((1, 1), (2, 2)):
            losses = []
            for name in ("told", "other"):
                run = f"{name}{ranks}"
                self.succeed(ranks, *self.arguments(run, *folds, f"data.file={name}.nc", f"parallel.time_groups={groups}"))
                losses.append([(line["loss"], line["losses"]) for line in self.lines(run)])
            self.assertEqual(*losses)
            validations = [self.lines(f"{name}{ranks}")[0]["validation_rmse"] for name in ("told", "other")]
            self.assertNotAlmostEqual(*validations, places=1)

    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("whole", "parallel.time_groups=2")

    @support.long_test
    def test_left_and_resumed_where_updates_are_owed_in_closed_form(self):
        self.resumed_at_every_step("closed", "parallel.time_groups=2", "optimiser.beta1=0", "optimiser.decay_z=0")

    def test_resumed_on_another_grid(self):
        self.succeed(1, *self.arguments("stays"))
        self.leave("moves", 2, "parallel.time_groups=2")
        self.leave("moves", 4, "parallel.time_groups=4")
        self.leave("moves", 3)
        self.succeed(4, *self.arguments("moves", "parallel.time_groups=2"))
        self.same("moves", "stays")

    def test_lanes_of_another_number_of_groups(self):
        """Without train.lanes, there is one lane per group: the advice of the warning keeps them."""
        lanes = "train.lanes=0"
        for slab, warns in (("train.slab_steps=4", True), ("train.slab_steps=0", False)):
            run = f"lanes_{warns}"
            self.leave(run, 2, lanes, slab, "parallel.time_groups=2")
            result = self.run_ranks(2, *self.arguments(run, lanes, slab), "--stop-after", "0.000001s")
            self.assertEqual(result.codes, [75, 75], result.err)
            self.assertEqual(len(result.lines), warns, result.err)
            if warns:
                self.assertRegex(result.lines[0], "because parallel.time_groups is 1 instead of 2. Set parallel.time_groups = 2 to go on exactly as before")
        self.leave("advised", 2, lanes, "train.slab_steps=4", "parallel.time_groups=2")
        self.leave("advised", 2, lanes, "train.slab_steps=4", "parallel.time_groups=2")

    def test_bad_settings(self):
        two = "parallel.time_groups=2"
        self.refuse(3, self.arguments("refused", two), "parallel.time_groups = 2.* 3 ranks")
        self.refuse_settings([two, "train.sampling=pairs"], "train.sampling = .pairs. does not work with time groups")
        self.refuse_settings([two, "train.lanes=3"], "train.lanes = 3 must be a multiple of parallel.time_groups = 2")
        self.refuse_settings([two, "train.slab_steps=6"], "train.slab_steps = 6 must be a multiple of 4")
        self.refuse_settings(["train.lanes=40", "train.slab_steps=40"], "train.lanes = 40 is more than the 21 training steps")


if __name__ == "__main__":
    support.main()
