"""Window models on time groups and row blocks: stopped, killed, damaged, diverging trainings; bad input."""

import json
import os
import re
import shutil
import signal
import time

import support
from sensors import Runs, sensors
from test_windows import GRAPH_WAVENET, WINDOWS

# Ten windows in batches of four: an epoch has three steps.
STEPS_AN_EPOCH = 3
MODELS = {
    "dcrnn": [],
    "gru": ["model.name=gru", "relation.graph=none"],
    "tgcn": ["model.name=tgcn", "model.layers=1", "model.sampling_decay=0"],
    "graph_wavenet": GRAPH_WAVENET}
SAMPLINGS = ("local", "global")
STEP = re.compile(r"step-0*(\d+)\.h5$")


class Windowed(Runs):
    config = "windows.toml"
    groups = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.write("windows.toml", WINDOWS + "[parallel]\ntime_groups = 2\n")


class Left(Windowed, support.LiveTest):
    """Trainings on two row blocks x two time groups that end early and continue."""

    def newest(self, run):
        """Returns (step, path) of the newest checkpoint."""
        name = self.checkpoints(run)[-1]
        return int(STEP.search(name).group(1)), f"{run}/checkpoints/{name}"

    def whole(self, sampling):
        """Returns the result of an uninterrupted run of 60 epochs."""
        run = "whole_" + sampling
        if not os.path.exists(self.path(run)):
            self.succeed(4, *self.long(run, sampling))
        return self.ends(run)

    def long(self, run, sampling, *settings):
        return self.arguments(run, "train.epochs=60", f"window.sampling={sampling}", *settings)

    def under_way(self, run, sampling):
        """Starts a long training that writes a checkpoint after every step. Returns it and its ranks."""
        process = self.launch([support.mpiexec, "-n", "4", support.rossby, *self.long(run, sampling, "checkpoint.every_steps=1")])
        begin = time.monotonic()
        while not os.path.isdir(self.path(run + "/checkpoints")) or len(self.checkpoints(run)) < 3:
            if process.poll() is not None:
                self.fail("it ended: " + process.stderr.read())
            self.assertLess(time.monotonic() - begin, 120)
            time.sleep(0.01)
        pids = self.ranks(process)
        self.assertEqual(len(pids), 4)
        return process, pids

    def goes_on(self, run, sampling):
        """Continues from the newest checkpoint without a warning, and ends like the uninterrupted run."""
        _, last = self.newest(run)
        out = self.succeed(4, *self.long(run, sampling)).out
        self.assertIn("resumed   " + last, out)
        self.assertEqual(self.ends(run), self.whole(sampling))

    @support.long_test
    def test_left_at_every_step_of_local_windows(self):
        self.resumed_at_every_step("local", "window.sampling=local", ranks=4)

    def test_left_at_every_step_of_global_windows(self):
        self.resumed_at_every_step("global", "window.sampling=global", ranks=4)

    @support.long_test
    def test_every_model_left_in_an_epoch(self):
        for model, of_model in MODELS.items():
            if model == "dcrnn":
                continue  # another test stops it at every step
            sampling, ranks = ("global", 4) if model == "graph_wavenet" else ("local", 2)
            with self.subTest(model, sampling=sampling, ranks=ranks):
                settings = [*of_model, f"window.sampling={sampling}"]
                self.succeed(ranks, *self.arguments(model, *settings))
                for _ in range(2):
                    self.leave(model + "_left", ranks, *settings)
                step, last = self.newest(model + "_left")
                self.assertNotEqual(step % STEPS_AN_EPOCH, 0, "in the middle of an epoch")
                self.assertIn("resumed   " + last, self.succeed(ranks, *self.arguments(model + "_left", *settings)).out)
                self.assertEqual(self.ends(model + "_left"), self.ends(model))

    def test_killed_rank(self):
        for sampling, victim in (("local", 3), ("global", 0)):
            with self.subTest(sampling, victim=victim):
                run = f"killed_{sampling}_{victim}"
                process, pids = self.under_way(run, sampling)
                os.kill(pids[victim], signal.SIGKILL)
                begin = time.monotonic()
                while left := [f"{pid}: {self.state(pid)}" for pid in pids if self.state(pid) != "Z"]:
                    self.assertLess(time.monotonic() - begin, self.time_limit(4), f"ranks are left: {left}")
                    time.sleep(0.02)
                support.kill_group(process)  # mpiexec sometimes does not notice that its ranks have ended
                self.assertFalse(os.path.exists(self.path(run + "/checkpoints/state.h5")), "it had not come to its end")
                self.goes_on(run, sampling)
                self.assertEqual([name for name in os.listdir(self.path(run + "/checkpoints")) if name.endswith(".tmp")], [])

    def test_signals(self):
        for sampling, number, name in (("local", signal.SIGTERM, "term"), ("global", signal.SIGINT, "int"),
                                       ("global", signal.SIGUSR1, "usr1")):
            with self.subTest(sampling, signal=name):
                process, pids = self.under_way(name, sampling)
                if number == signal.SIGUSR1:
                    process.send_signal(number)  # mpiexec forwards it
                else:
                    os.kill(pids[3], number)     # one rank of one time group is enough
                out, err = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 75, out + err)
                self.assertRegex(out, "checkpoint written: .*; resume with: (mpirun|srun) -n [0-9]+ rossby train windows.toml")
                self.goes_on(name, sampling)

    @support.long_test
    def test_damaged_newest(self):
        whole = self.whole("local")
        for harm in ("flipped", "truncated"):
            with self.subTest(harm):
                settings = ["train.epochs=60", "window.sampling=local"]
                for _ in range(2):
                    self.leave(harm, 4, *settings)
                other, hurt = [f"{harm}/checkpoints/{name}" for name in self.checkpoints(harm)]
                size = os.path.getsize(self.path(hurt))
                if harm == "truncated":
                    os.truncate(self.path(hurt), size // 2)
                else:
                    with open(self.path(hurt), "r+b") as file:
                        file.seek(size - 40)
                        byte = file.read(1)
                        file.seek(size - 40)
                        file.write(bytes([byte[0] ^ 0xFF]))
                self.refuse(4, ["checkpoint", "verify", hurt], "damaged|checksum|cannot be used")
                result = self.run_ranks(4, *self.arguments(harm, *settings))
                self.assertEqual(result.codes, [0] * 4, result.err)
                self.assertEqual(len(result.lines), 1, result.err)
                self.assertRegex(result.lines[0], f"^rossby: warning: checkpoint {re.escape(hurt)} is skipped: ")
                self.assertIn("resumed   " + other, result.out)
                self.assertEqual(self.ends(harm), whole)
                for name in self.checkpoints(harm):
                    os.truncate(self.path(f"{harm}/checkpoints/{name}"), 1000)
                result = self.run_ranks(4, *self.arguments(harm, *settings))
                self.assertEqual(result.codes, [1] * 4)
                self.assertRegex(result.lines[-1], f"{harm}/checkpoints: all checkpoints are damaged")


class Diverged(Windowed):
    """A loss that is not finite on two row blocks x two time groups."""

    # The weight decay multiplies weights by a thousand at each step; at a lower rate it does not.
    settings = ["optimiser.name=sgd", "optimiser.clip=0", "optimiser.lr=1000", "optimiser.decay=1", "train.epochs=20"]
    saved = ["checkpoint.every_steps=1", "checkpoint.keep=50", "train.on_nan=rollback"]

    def test_message(self):
        for model in ("dcrnn", "gru", "tgcn"):
            for sampling in SAMPLINGS:
                with self.subTest(model, sampling=sampling):
                    self.refuse(4, self.arguments(f"wild_{model}_{sampling}", *MODELS[model], *self.settings,
                                                  f"window.sampling={sampling}"),
                                r"training: .*not finite.* in step \d+ .*. There is no checkpoint. Lower optimiser.lr",
                                r"(value|gradient) of \w+ on rank \d: \d+ values? (is|are) not finite")

    def test_rollback(self):
        for sampling in SAMPLINGS:
            with self.subTest(sampling):
                arguments = [*self.settings, *self.saved, f"window.sampling={sampling}"]
                failed = self.run_ranks(4, *self.arguments(sampling, *arguments, "train.rollbacks=1"))
                self.assertEqual(failed.codes, [1] * 4, failed.err)
                self.assertEqual(len(failed.lines), 2, failed.err)
                self.assertRegex(failed.lines[0], f"rolled back to {sampling}/checkpoints/step-.* with learning rate x 0.5 "
                                                  ".rollback 1 of 1")
                self.assertRegex(failed.lines[1], f"The last good checkpoint is {sampling}/checkpoints/step-")
                result = self.run_ranks(4, *self.arguments(sampling, *arguments, "train.rollbacks=40",
                                                           "train.rollback_lr=0.1"))
                self.assertEqual(result.codes, [0] * 4, result.err)
                for line in result.lines:
                    self.assertRegex(line, "^rossby: warning: training: .* rolled back to ")
                lines = self.lines(sampling)
                self.assertEqual([line["epoch"] for line in lines], list(range(20)))
                self.assertGreater(lines[-1]["rollbacks"], 0)
                self.assertIsNotNone(lines[-1]["loss"])


class Bad(Windowed):
    """Trainings on two row blocks, on two time groups and on both; refusals on both."""

    # Numbers of ranks, with the settings that make their process grids.
    grids = ((2, ["parallel.time_groups=1"]), (2, ["window.sampling=global"]), (4, ["window.sampling=local"]))

    def refuse_on_both(self, settings, *patterns):
        """On both: all ranks agree over row blocks and over time groups."""
        ranks, grid = self.grids[2]
        with self.subTest(settings, ranks=ranks, grid=grid):
            shutil.rmtree(self.path("refused"), ignore_errors=True)
            self.refuse(ranks, self.arguments("refused", *settings, *grid), *patterns)
            self.assertFalse(os.path.exists(self.path("refused")), "no run directory is made")

    def train_on_grids(self, *settings):
        """Returns name and output of a run on each grid."""
        runs = []
        for number, (ranks, grid) in enumerate(self.grids):
            run = f"{settings[0].partition('=')[2]}_{number}"
            with self.subTest(settings, ranks=ranks, grid=grid):
                runs.append((run, self.succeed(ranks, *self.arguments(run, *settings, *grid)).out))
        return runs

    def without(self, name, first, last):
        """Writes a series without a value at steps first to last."""
        return self.netcdf(name, sensors(steps=30, holes=[(t, i) for t in range(first, last + 1) for i in range(3)]))

    def with_times(self, name, time_of):
        times = ", ".join(map(str, range(30)))
        return self.netcdf(name, sensors(steps=30).replace("time = " + times, "time = " + ", ".join(
            str(time_of(t)) for t in range(30))))

    def test_window_longer_than_the_series(self):
        self.refuse_on_both(["window.inputs=40"], "window.inputs = 40, window.outputs = 2: no window of 42 steps fits",
                             "The longest stretch .* has 14 steps")
        self.refuse_on_both(["window.outputs=13", "evaluate.horizons=13"], "window.outputs = 13: no window of 16 steps fits")

    def test_fewer_windows_than_groups(self):
        for ranks, groups in ((2, 2), (4, 2), (3, 3)):
            with self.subTest(ranks=ranks, groups=groups):
                settings = ["window.inputs=12", f"parallel.time_groups={groups}", "window.batch=6"]
                self.refuse(ranks, self.arguments("refused", *settings),
                            rf"parallel\.time_groups = {groups} .* training window, .* there is only 1\. Set window\.sampling = "
                            r'"global", or lower .*window\.inputs')
                self.assertFalse(os.path.exists(self.path("refused")), "no run directory is made")
        self.refuse(2, self.arguments("refused", "window.inputs=12", "window.sampling=blocked"), r"window\.lanes = 2 is too large: .* is only 1\.")
        self.assertIn("windows   1 of 12", self.succeed(4, *self.arguments("one", "window.inputs=12",
                                                                           "window.sampling=global")).out)

    def test_gaps_of_the_time_axis(self):
        self.with_times("gaps.nc", lambda t: t + 3 * (t // 4))
        self.refuse_on_both(["data.file=gaps.nc"], "no window of 5 steps fits", "longest stretch of the training part without a gap has 4 steps")
        self.with_times("one_gap.nc", lambda t: t + (3 if t > 8 else 0))
        for _, out in self.train_on_grids("data.file=one_gap.nc"):
            self.assertRegex(out, r"windows +6 of")
        self.with_times("backwards.nc", lambda t: 3 if t == 8 else t)
        self.refuse_on_both(["data.file=backwards.nc"], "time does not ascend: step 8 has 3 .*, but the step before has 7 ")

    def test_filled_gaps(self):
        """A file without some steps gives the same results as a file that has these steps without values."""
        dropped = (5, 13, 14, 22)
        self.netcdf("dropped.nc", sensors(steps=30, dropped=dropped))
        self.netcdf("holes.nc", sensors(steps=30, holes=[(t, i) for t in dropped for i in range(3)]))
        out = self.succeed(2, *self.arguments("lost", "data.file=dropped.nc", "split.train=2001-01-01T14")).out
        self.assertRegex(out, r"warning +\d+ of \d+ training windows are left out, because they cross one of 3 gaps of the "
                              r"time axis\. To keep these windows, set data\.fill_steps = true")
        ends = []
        for name, settings in (("dropped", ["data.fill_steps=true"]), ("holes", [])):
            out = self.succeed(2, *self.arguments(name, f"data.file={name}.nc", "split.train=2001-01-01T14", *settings)).out
            self.assertNotIn("cross one of", out)
            self.assertEqual("filled    3 gaps of the file, 4 steps" in out, name == "dropped", out)
            self.succeed(1, "evaluate", name)
            self.succeed(1, "forecast", name, "--steps", "2")
            with open(self.path(f"{name}/evaluation.json"), encoding="utf-8") as file:
                scores = json.load(file)["horizons"]
            ends.append((self.ends(name), scores))
        self.assertEqual(*ends)
        self.netcdf("jitter.nc", sensors(steps=30).replace("time = 0, 1, 2,", "time = 0, 1.3, 2,"))
        self.refuse(2, self.arguments("refused", "data.file=jitter.nc", "data.fill_steps=true"),
                    r"the time axis is not regular, .*data\.fill_steps = false")

    def test_graph_of_another_size(self):
        self.netcdf("large.nc", sensors(steps=30, source="0, 1, 5"))
        self.refuse_on_both(["data.file=large.nc"], r"large\.nc: edge 2 \(5 -> 0\) names node 5, but nodes are 0 to 2")
        self.netcdf("uneven.nc", sensors(steps=30).replace("edge_dst(edge)", "edge_dst(other)").replace(
            "edge = 3 ;", "edge = 3 ; other = 2 ;").replace("edge_dst = 1, 2, 0", "edge_dst = 1, 2"))
        self.refuse_on_both(["data.file=uneven.nc"], "unequal lengths: edge_src has 3, edge_dst has 2")

    def test_no_target_in_the_training_part(self):
        self.without("none.nc", 0, 13)
        self.refuse_on_both(["data.file=none.nc"], r"none\.nc: the training part .* has no observed value",
                             r"split\.train or data\.first_step")
        self.without("inputs.nc", 3, 13)
        self.refuse_on_both(["data.file=inputs.nc"], r"inputs\.nc: no target of the 10 training windows is observed",
                             r"split\.train or data\.first_step")

    def test_no_target_in_the_share_of_a_group(self):
        """Only the other group has values, in training or validation windows: training continues."""
        self.without("half.nc", 0, 8)
        self.without("half_blind.nc", 14, 16)
        for file in ("half.nc", "half_blind.nc"):
            runs = self.train_on_grids(f"data.file={file}", "train.early_stop=3")
            for run, out in runs:
                self.assertNotIn("validation left out", out)
                for line in self.lines(run):
                    self.assertGreater(line["loss"], 0)
                    self.assertGreater(line["validation_mae"], 0)
            one, two = [self.lines(run) for run, _ in runs[:2]]  # one time group, and two with the same batches
            for mine, other in zip(two, one):
                self.assertAlmostEqual(mine["loss"], other["loss"], delta=1e-4 * other["loss"])
                self.assertAlmostEqual(mine["validation_mae"], other["validation_mae"], delta=1e-4)

    def test_no_target_in_the_validation_part(self):
        self.without("blind.nc", 14, 19)
        self.with_times("torn.nc", lambda t: t + 3 * (t // 4) if t >= 13 else t)
        for file, first, settings in (("blind.nc", "2001-01-01T14:00", ["schedule.name=plateau", "train.keep=best"]),
                                      ("torn.nc", "2001-01-01T23:00", ["train.early_stop=1"])):
            for setting in settings:
                self.refuse_on_both([f"data.file={file}", setting], 'schedule.metric = "validation" has nothing to watch',
                                     rf"{file}: .*the validation part \({first} to .*split\.validation, or set")
            # If no setting needs the validation error, training continues and keeps its last state.
            for run, out in self.train_on_grids(f"data.file={file}"):
                self.assertIn("validation left out: none of its windows has an observed target", out)
                self.assertEqual([line["validation_mae"] for line in self.lines(run)], [None] * 3)
                self.assertEqual([line["best"] for line in self.lines(run)], [False] * 3)

    def test_no_target_in_the_test_part(self):
        """Training does not need the test part; evaluate has no value to compare with."""
        self.without("future.nc", 20, 29)
        self.with_times("torn_future.nc", lambda t: t + 3 * (t // 4) if t >= 20 else t)
        for run, _ in self.train_on_grids("data.file=future.nc"):
            self.succeed(2, "evaluate", run)
            with open(self.path(run + "/evaluation.json"), encoding="utf-8") as file:
                scores = json.load(file)
            self.assertEqual([horizon["mae"]["model"] for horizon in scores["horizons"]], [None] * 2)
        for run, _ in self.train_on_grids("data.file=torn_future.nc"):
            self.refuse(2, ["evaluate", run], "no forecast origin has window.inputs = 3 known steps before it and the [0-9]+ forecast steps")
            self.assertFalse(os.path.exists(self.path(run + "/evaluation.json")))


if __name__ == "__main__":
    support.main()
