"""Trainings that begin with another run's weights, and refits on training and validation part together."""

import json
import os

import support
from sensors import SENSORS, Runs, sensors
from test_windows import WINDOWS


class Warm(Runs):
    config = "windows.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.netcdf("longer.nc", sensors(steps=40))
        cls.netcdf("more_nodes.nc", sensors(steps=30, nodes=4, source="0, 1, 3", destination="1, 2, 0"))
        cls.write("windows.toml", WINDOWS)
        cls.write("stnn.toml", SENSORS + "[model]\nlatent = 2\n")

    def state(self, run):
        return json.loads(self.succeed(1, "checkpoint", "inspect", run + "/checkpoints/state.h5", "--json").out)["arrays"]

    def stnn(self, run, *settings):
        return ["train", "stnn.toml", "--run", run, *[word for s in settings for word in ("--set", s)]]

    def test_begins_at_the_weights_of_the_run(self):
        self.succeed(1, *self.arguments("before"))
        none = ["train.epochs=0"]
        out = self.succeed(2, *self.arguments("same", *none), "--from", "before").out
        self.assertRegex(out, r"\nfrom +before/checkpoints/state.h5\n")
        self.assertEqual(self.state("same"), self.state("before"))
        self.succeed(2, *self.arguments("device", *none, "parallel.device=simulated"), "--from", "before")
        self.assertEqual(self.state("device"), self.state("before"))
        # The weights of a window model also serve other nodes and more steps.
        out = self.succeed(1, *self.arguments("elsewhere", "data.file=more_nodes.nc", "data.center=none", *none),
                           "--from", "before/checkpoints/state.h5").out
        self.assertRegex(out, r'from .*state.h5; other settings: data.center: "none" \(here\), "global" \(there\)')
        self.assertEqual(self.state("elsewhere"), self.state("before"))
        whole = [self.arguments(name, "train.epochs=2", "train.from=before") for name in ("at_1", "at_3")]
        self.succeed(1, *whole[0])
        self.succeed(3, *whole[1])
        losses = [[line["loss"] for line in self.lines(run)] for run in ("at_1", "at_3")]
        for one, three in zip(*losses):
            self.assertAlmostEqual(one, three, delta=1e-5 * one)
        self.assertLess(losses[0][0], self.lines("before")[0]["loss"])

    def test_the_line_that_resumes_names_it(self):
        self.succeed(1, *self.arguments("parent"))
        line = self.run_ranks(1, *self.arguments("left"), "--from", "parent", "--stop-after", "0.000001s").out
        self.assertRegex(line, "resume with: .* --stop-after 0.000001s --from parent")
        self.succeed(1, *self.arguments("whole"), "--from", "parent")
        # The weights come from the checkpoint: the parent is not read again.
        os.rename(self.path("parent"), self.path("gone"))
        self.succeed(1, *self.arguments("left"), "--from", "parent")
        self.assertEqual(self.ends("left"), self.ends("whole"))
        self.refuse(1, self.arguments("left"), "train.from: \"\".*\"parent\"")

    def test_latents_of_longer_data(self):
        self.succeed(1, *self.stnn("short"))
        out = self.succeed(2, *self.stnn("long", "data.file=longer.nc", "split.train=20", "train.epochs=0"), "--from", "short").out
        self.assertIn("latents of 12 of 20 training steps, the others begin anew", out)
        groups = ["parallel.time_groups=2", "train.epochs=0"]
        self.succeed(2, *self.stnn("grouped", "data.file=longer.nc", "split.train=20", *groups), "--from", "short")
        self.succeed(1, *self.stnn("alone", "data.file=longer.nc", "split.train=20", "train.epochs=0"), "--from", "short")
        self.assertEqual(self.state("grouped"), self.state("alone"))
        self.refuse(2, [*self.stnn("refused", "split.train=8"), "--from", "short"], "latents of 12 training steps, but split.train has 8")
        self.refuse(2, [*self.stnn("refused", "data.first_step=1"), "--from", "short"], "begins at 2001-01-01T00:00")
        self.refuse(2, [*self.stnn("refused", "data.file=more_nodes.nc"), "--from", "short"], "has 3 nodes, but more_nodes.nc has 4")

    def test_bad_starts(self):
        self.succeed(1, *self.arguments("good"))
        for settings, pattern in [
                (["train.from=nowhere"], "nowhere.*No such file"),
                (["train.from=windows.toml"], "windows.toml"),
                (["train.from=good", "model.name=gru"], 'has a model "dcrnn", but model.name is "gru"'),
                (["train.from=good", "model.units=5"], "encoder0.*in the file")]:
            self.refuse_settings(settings, pattern)
        out = self.succeed(1, *self.arguments("leaks", "split.train=10", "train.epochs=0", "train.from=good")).out
        self.assertRegex(out, "warning +good.* was trained on steps up to 2001-01-01T13:00, and some of these steps are in the validation or test part")


class Refitted(Runs):
    config = "windows.toml"
    refit = ["train.refit=true", "split.validation=4", "train.epochs=4"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.write("windows.toml", WINDOWS)

    def test_trains_on_both_parts_as_many_epochs_as_were_best(self):
        schedule = ["schedule.name=cosine", "train.max_seconds=1000", "train.early_stop=3"]
        out = self.succeed(2, *self.arguments("run", *self.refit, *schedule)).out
        self.assertRegex(out, r"refit +the epochs are chosen in run/chosen\n")
        self.succeed(2, *self.arguments("chosen", *self.refit, *schedule, "train.refit=false"))
        self.assertEqual(self.ends("run/chosen"), self.ends("chosen"))
        validation = [line["validation_mae"] for line in self.lines("chosen")]
        best = validation.index(min(validation)) + 1
        self.assertRegex(out, rf"refit +{best} epochs on training and validation part together\n")
        self.succeed(2, *self.arguments("by_hand", "split.train=18", "split.validation=0", f"train.epochs={best}",
                                        "schedule.name=cosine", "schedule.length=4"))
        self.assertEqual(self.ends("run"), self.ends("by_hand"))
        self.assertIn("nothing is left to do", self.succeed(2, *self.arguments("run", *self.refit, *schedule)).out)
        for run in ("run", "by_hand"):
            self.succeed(2, "evaluate", run, "-o", run + ".json")
        self.succeed(2, "evaluate", "run/chosen", "-o", "first.json")
        with open(self.path("run.json"), encoding="utf-8") as one, open(self.path("by_hand.json"), encoding="utf-8") as other:
            refit, by_hand = json.loads(one.read().replace("run", "by_hand")), json.load(other)
        self.assertEqual(refit.pop("intervals")["validation_origins"], 3, "residuals of the run that chose the epochs")
        with open(self.path("first.json"), encoding="utf-8") as file:
            first = json.load(file)["skill"]["validated"]
        self.assertEqual(refit["skill"].pop("validated")["baseline"], first["baseline"], "the baseline that the first training's validation part picks")
        self.assertEqual(refit, by_hand)

    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("left", *self.refit, "data.cycle=auto")

    def test_test_values_do_not_leak(self):
        self.netcdf("other.nc", sensors(steps=30, holes=[(t, i) for t in range(18, 30) for i in range(3)]))
        for file in ("sensors", "other"):
            self.succeed(2, *self.arguments(file, *self.refit, f"data.file={file}.nc", "split.test=rest"))
        self.assertEqual(self.ends("sensors"), self.ends("other"))

    def test_what_cannot_choose_is_refused(self):
        for settings, pattern in [
                (["split.validation=0"], "train.refit needs a validation part to choose the epochs, but split.validation is 0. Set split.validation"),
                (["split.validation=0", "split.folds=2"], "split.folds = 2"),
                (["train.keep=last"], "Leave train.keep"),
                (["schedule.metric=train"], "Leave schedule.metric"),
                (["schedule.name=plateau"], "plateau")]:
            self.refuse_settings([*self.refit, *settings], pattern)
        self.refuse(1, [*self.arguments("refused", *self.refit), "--write-state"], "has not ended")


if __name__ == "__main__":
    support.main()
