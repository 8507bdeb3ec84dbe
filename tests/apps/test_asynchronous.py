"""Asynchronous trainings of window models on every grid: stopped, resumed, killed, hung, diverged,
replayed."""

import json
import os
import signal
import time

import support
from sensors import Runs, sensors
from test_resume import FullCheckpoint
from test_schemas import faults, schema_of
from test_windows import GRAPH_WAVENET, WINDOWS

WINDOWS_AN_EPOCH = 10


class Asynchronous(Runs):
    config = "windows.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.write("windows.toml", WINDOWS + '[parallel]\ndevice = "cpu"\n')

    def arguments(self, run, *settings):
        return super().arguments(run, "train.updates=asynchronous", *settings)

    def assert_whole(self, run, sub_batches, epochs=3):
        """Checks that each epoch trained on each window once."""
        lines = self.lines(run)
        schema = schema_of("metrics.schema.json")
        self.assertEqual([line["epoch"] for line in lines], list(range(epochs)))
        steps = 0
        for line in lines:
            self.assertEqual(faults(line, schema, schema), [])
            updates = line["updates"]
            steps += updates["count"]
            self.assertEqual(line["steps"], steps)
            self.assertEqual(sum(n for _, n in updates["windows"]["times"]), updates["count"])
            self.assertEqual(sum(w * n for w, n in updates["windows"]["times"]), WINDOWS_AN_EPOCH)
            self.assertEqual(sum(n for _, n in updates["staleness"]["times"]), sub_batches)
            self.assertGreater(line["validation_mae"], 0)
        return lines


    def state(self, run):
        """Returns checksums of the final parameters."""
        return json.loads(self.succeed(1, "checkpoint", "inspect", run + "/checkpoints/state.h5", "--json").out)["arrays"]


class Grids(Asynchronous):

    def test_every_grid(self):
        # Batches of 4: a group has 5 windows in sub-batches of 2, or 10 / 4 of them in sub-batches of 1.
        for ranks, groups, batch, sub_batches in ((1, 1, 4, 3), (2, 2, 4, 6), (3, 3, 3, 10), (4, 4, 4, 10), (4, 2, 4, 6),
                                                  (4, 1, 4, 3)):
            run = f"grid_{ranks}_{groups}"
            out = self.succeed(ranks, *self.arguments(run, f"parallel.time_groups={groups}", f"window.batch={batch}")).out
            self.assertRegex(out, r"updates   asynchronous, by a thread of each rank\n")
            self.assertRegex(out, r"updates   \d+, with [\d.]+ windows each \(deviation .*\), staleness ")
            self.assert_whole(run, sub_batches)
        self.succeed(2, "evaluate", "grid_4_2")

    def test_one_batch_an_epoch_is_a_synchronous_step(self):
        self.succeed(2, *self.arguments("whole", "window.batch=10", "parallel.time_groups=1"))
        self.succeed(2, *self.arguments("steps", "window.batch=10", "train.updates=synchronous"))
        for mine, one in zip(self.lines("whole"), self.lines("steps")):
            self.assertAlmostEqual(mine["loss"], one["loss"], delta=1e-5 * one["loss"])
            self.assertAlmostEqual(mine["validation_mae"], one["validation_mae"], delta=1e-5)

    def test_momentum_is_lowered_by_the_staleness(self):
        """Momentum b lags b / (1 - b) updates: 1 less a half is that of 1 / 3, and no momentum remains if staleness lags more."""
        one = ["window.batch=10", "parallel.time_groups=1", "optimiser.name=sgd", "optimiser.lr=0.001"]
        for k, (momentum, correction, left) in enumerate((("0.5", "0.5", "0.3333333333333333"), ("0.5", "2", "0"))):
            corrected, lower = f"corrected_{k}", f"lower_{k}"
            self.succeed(1, *self.arguments(corrected, *one, f"optimiser.momentum={momentum}", f"train.momentum_correction={correction}"))
            self.succeed(1, *self.arguments(lower, *one, f"optimiser.momentum={left}"))
            self.assertEqual([line["loss"] for line in self.lines(corrected)], [line["loss"] for line in self.lines(lower)])

    def test_a_limit_of_staleness(self):
        for stale in ("drop", "wait"):
            os.environ["ROSSBY_SLOW_GROUPS"] = "1:0.02"
            try:
                self.succeed(3, *self.arguments(stale, "parallel.time_groups=3", "window.batch=3", "train.max_staleness=1",
                                                f"train.stale={stale}", "train.staleness_lr=inverse"))
            finally:
                del os.environ["ROSSBY_SLOW_GROUPS"]
            for line in self.lines(stale):
                updates = line["updates"]
                self.assertLessEqual(updates["staleness"]["times"][-1][0], 1)
                taken = sum(n for _, n in updates["staleness"]["times"])
                self.assertEqual(taken + updates["dropped"], 10)
                if stale == "wait":
                    self.assertEqual(updates["dropped"], 0)

    def test_recorded_trainings_repeat(self):
        # 3 epochs: recorded on one grid, replayed with as many row blocks and fewer groups.
        for ranks, groups, on in ((3, 3, ((1, 1), (3, 3))), (4, 2, ((2, 1),))):
            settings = ["window.batch=6", "train.staleness_lr=power", "parallel.threads=1"]
            self.succeed(ranks, *self.arguments(f"first_{ranks}", *settings, f"parallel.time_groups={groups}"),
                         "--record", f"log_{ranks}")
            for fewer, of_groups in on:
                run = f"again_{ranks}_{fewer}"
                out = self.succeed(fewer, *self.arguments(run, *settings, f"parallel.time_groups={of_groups}"),
                                   "--replay", f"log_{ranks}").out
                self.assertIn("updates   asynchronous, as recorded", out)
                self.assertEqual(self.state(run), self.state(f"first_{ranks}"))
        self.refuse(1, [*self.arguments("refused", *settings, "train.seed=2"), "--replay", "log_3"],
                    "log_3: this recording was made with other settings")
        self.refuse(1, [*self.arguments("refused", *settings, "parallel.products=bf16"), "--replay", "log_3"],
                    "log_3: this recording was made with other (parallel.products|settings)")
        self.refuse(1, [*self.arguments("refused", *settings, "optimiser.lr=0.5"), "--replay", "log_3"],
                    "log_3: this recording was made with another optimiser.lr,.*Use the configuration of the recorded training")
        for record, message in (("windows.toml", "windows.toml: this file exists, and is no recording of updates"),
                                ("refused/config.toml", "this recording would lie in the run directory"),
                                ("refused/checkpoints/u.log", "this recording would lie in the run directory")):
            self.refuse(1, [*self.arguments("refused", *settings), "--record", record], message)
        self.refuse(2, [*self.arguments("refused", *settings, "train.seed=2", "parallel.time_groups=2"), "--record", "log_3"],
                    "log_3: this recording was made with other settings. Name another file with --record")
        # The recording of two row blocks, replayed on one.
        out = self.succeed(1, *self.arguments("one_block", *settings, "parallel.time_groups=1"), "--replay", "log_4").out
        self.assertIn("as recorded, but on other row blocks or another device: sums are added in another order", out)
        for mine, recorded in zip(self.lines("one_block"), self.lines("first_4")):
            self.assertEqual(mine["updates"]["windows"], recorded["updates"]["windows"])
            self.assertAlmostEqual(mine["loss"], recorded["loss"], delta=1e-4 * recorded["loss"])
            self.assertAlmostEqual(mine["validation_mae"], recorded["validation_mae"], delta=1e-4)
        self.assertNotEqual(self.state("one_block"), self.state("first_4"))
        self.write("no_log", "nothing")
        self.refuse(1, [*self.arguments("refused"), "--replay", "no_log"], "no_log: not a recording of a training")
        self.refuse(1, [*self.arguments("refused", "train.updates=synchronous"), "--record", "new"], "--record and --replay work only with asynchronous")

    @support.long_test
    def test_five_hundred_updates_repeat(self):
        for ranks, groups, on in ((3, 3, 1), (2, 2, 1), (4, 2, 2)):
            settings = ["window.batch=6", "parallel.threads=1", "train.epochs=510", "validation.every=1000"]  # updates in every epoch
            run = f"long_{ranks}"
            self.succeed(ranks, *self.arguments(run, *settings, f"parallel.time_groups={groups}"), "--record", run + ".log")
            self.assertGreaterEqual(self.lines(run)[-1]["steps"], 500)
            self.succeed(on, *self.arguments(run + "_again", *settings, "parallel.time_groups=1"), "--replay", run + ".log")
            self.assertEqual(self.state(run + "_again"), self.state(run))

class Devices(Asynchronous):
    """Models on a simulated device: gradients are summed on the host."""

    def arguments(self, run, *settings):
        return super().arguments(run, "parallel.threads=1", "model.precision=double", *settings)

    def near(self, run, other):
        for mine, theirs in zip(self.lines(run), self.lines(other), strict=True):
            self.assertEqual(mine["updates"]["windows"], theirs["updates"]["windows"])
            for key in ("loss", "validation_mae"):
                self.assertAlmostEqual(mine[key], theirs[key], delta=1e-10 * theirs[key], msg=f"{run} {key}")

    def test_the_host_and_the_device_repeat_each_other(self):
        for ranks, groups, batch in ((1, 1, 4), (2, 2, 4), (2, 1, 4), (4, 2, 6)) if support.long_tests else ((1, 1, 4), (4, 2, 6)):
            grid = [f"parallel.time_groups={groups}", f"window.batch={batch}", "train.staleness_lr=power"]
            places = {}
            for place in ("cpu", "simulated"):
                run = places[place] = f"{place}_{ranks}_{groups}"
                out = self.succeed(ranks, *self.arguments(run, *grid, f"parallel.device={place}"), "--record", run + ".log").out
                self.assertRegex(out, r"updates   asynchronous, by a thread of each rank\n")
                self.assert_whole(run, sum(n for _, n in self.lines(run)[0]["updates"]["staleness"]["times"]))
            for recorded, on in (("cpu", "simulated"), ("simulated", "simulated"), ("simulated", "cpu")):
                run = f"{places[recorded]}_on_{on}"
                out = self.succeed(ranks, *self.arguments(run, *grid, f"parallel.device={on}"), "--replay", places[recorded] + ".log").out
                self.assertEqual("or another device: sums are added in another order" in out, recorded != on)
                self.near(run, places[recorded])
                if recorded == on:
                    self.assertEqual(self.state(run), self.state(places[recorded]))

    def test_a_replay_on_fewer_groups(self):
        settings = ["window.batch=6", "parallel.device=simulated"]
        self.succeed(3, *self.arguments("three", *settings, "parallel.time_groups=3"), "--record", "three.log")
        self.succeed(1, *self.arguments("one", *settings, "parallel.time_groups=1"), "--replay", "three.log")
        self.assertEqual(self.state("one"), self.state("three"))

    def test_left_and_resumed_on_either(self):
        for ranks, groups in ((1, 1), (4, 2)):
            run = f"either_{ranks}"
            settings = [f"parallel.time_groups={groups}", "window.batch=6", "train.epochs=2"]
            for starts in range(40):
                place = "parallel.device=" + ("simulated" if starts % 3 else "cpu")
                result = self.run_ranks(ranks, *self.arguments(run, *settings, place), "--stop-after", "0.000001s")
                if result.codes == [0] * ranks:
                    break
                self.assertEqual(result.codes, [75] * ranks, result.err)
            self.assertGreaterEqual(starts, 2, "several starts")
            lines = self.lines(run)
            self.assertEqual([sum(w * n for w, n in line["updates"]["windows"]["times"]) for line in lines],
                             [WINDOWS_AN_EPOCH] * 2)

    def test_one_batch_an_epoch_is_a_synchronous_step_left_and_resumed(self):
        """With one update an epoch, a resumed training is bit-equal to one that was never stopped."""
        settings = ["parallel.time_groups=1", "window.batch=10", "parallel.device=simulated"]
        self.succeed(2, *self.arguments("whole", *settings))
        self.succeed(2, *self.arguments("steps", *settings, "train.updates=synchronous"))
        for mine, one in zip(self.lines("whole"), self.lines("steps"), strict=True):
            for key in ("loss", "validation_mae"):
                self.assertAlmostEqual(mine[key], one[key], delta=1e-10 * one[key])
        self.leave("left", 2, *settings)
        self.succeed(2, *self.arguments("left", *settings))
        self.assertEqual(self.state("left"), self.state("whole"))

    def ends_with(self, pattern, ranks, arguments):
        """Checks that all ranks end with an error. Simulated devices take too long for the time limit of `refuse`."""
        result = self.run_ranks(ranks, *arguments)
        self.assertEqual(result.codes, [1] * ranks, result.out + result.err)
        self.assertRegex(result.err, pattern)
        return result.err

    def test_values_that_are_not_finite(self):
        wild = ["parallel.device=simulated", "model.precision=float", "optimiser.name=sgd", "optimiser.clip=0", "optimiser.lr=1000000",
                "optimiser.decay=1", "train.epochs=20"]
        for ranks, groups in ((2, 2), (4, 2)):
            err = self.ends_with(r"training: .*not finite.* in step \d+ .*. There is no checkpoint. Lower optimiser.lr",
                                 ranks, self.arguments("wild", f"parallel.time_groups={groups}", *wild))
            self.assertRegex(err, r"(value|gradient) of \w+ on rank \d: \d+ values? (is|are) not finite")

    def test_ops_are_checked(self):
        wild = ["optimiser.name=sgd", "optimiser.clip=0", "optimiser.lr=1000000", "optimiser.decay=1", "train.epochs=20"]
        self.ends_with(r"training: .*not finite", 1, self.arguments("checked", "parallel.device=simulated", "train.check=ops",
                                                                  "model.precision=float", *wild))

    def test_no_prediction(self):
        self.succeed(1, "calibrate", "--quick", "--device", "simulated", "-o", "machine.json")
        asked = ["parallel.device=simulated", "model.precision=float", "train.epochs=1"]
        self.refuse(1, [*self.arguments("planned", *asked), "--machine", "machine.json"],
                    "asynchronous updates are predicted only for the host. Set parallel.device = .cpu., or leave --machine out")
        out = self.succeed(1, "plan", "windows.toml", "--machine", "machine.json", "--updates", "asynchronous", "--set", asked[0]).out
        self.assertIn("asynchronous updates are predicted only for the host", out)


class Ends(Asynchronous, support.LiveTest):

    def test_left_and_resumed(self):
        for ranks, groups in ((1, 1), (3, 3), (4, 2)):
            run = f"left_{ranks}_{groups}"
            settings = [f"parallel.time_groups={groups}", "window.batch=6", "train.epochs=2"]
            for starts in range(40):
                result = self.run_ranks(ranks, *self.arguments(run, *settings), "--stop-after", "0.000001s")
                self.assertEqual(result.lines, [])
                if result.codes == [0] * ranks:
                    break
                self.assertEqual(result.codes, [75] * ranks, result.err)
            self.assertGreaterEqual(starts, 2, "several starts")
            lines = self.lines(run)
            self.assertEqual([sum(w * n for w, n in line["updates"]["windows"]["times"]) for line in lines],
                             [WINDOWS_AN_EPOCH] * 2)
            self.assertEqual(lines[-1]["steps"], sum(line["updates"]["count"] for line in lines))
        # On another grid, each group continues with the mean.
        self.leave("moved", 3, "parallel.time_groups=3", "window.batch=6")
        self.run_ranks(2, *self.arguments("moved", "parallel.time_groups=2", "window.batch=6"))
        self.assertEqual([line["epoch"] for line in self.lines("moved")], [0, 1, 2])

    def test_killed_and_resumed(self):
        settings = ["parallel.time_groups=2", "window.batch=2", "train.epochs=4000", "checkpoint.every_steps=3"]
        process = self.launch([support.mpiexec, "-n", "2", support.rossby, *self.arguments("killed", *settings)])
        begin = time.monotonic()
        while not os.path.isdir(self.path("killed/checkpoints")) or len(self.checkpoints("killed")) < 3:
            self.assertIsNone(process.poll(), "it ended")
            self.assertLess(time.monotonic() - begin, 100)
            time.sleep(0.01)
        for pid in self.ranks(process):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=100)
        done = len(self.lines("killed")) + 2
        settings[2] = f"train.epochs={done}"
        out = self.succeed(2, *self.arguments("killed", *settings)).out
        self.assertIn("resumed   killed/checkpoints/step-", out)
        self.assertEqual([line["epoch"] for line in self.lines("killed")], list(range(done)))

    def test_a_rank_that_hangs(self):
        settings = ["parallel.time_groups=2", "window.batch=2", "train.epochs=1000000", "parallel.watchdog_seconds=2"]
        process = self.launch([support.mpiexec, "-n", "2", support.rossby, *self.arguments("hung", *settings)])
        begin = time.monotonic()
        while not os.path.exists(self.path("hung/metrics.jsonl")):
            self.assertIsNone(process.poll(), "it ended")
            self.assertLess(time.monotonic() - begin, 100)
            time.sleep(0.02)
        pids = self.ranks(process)
        os.kill(pids[1], signal.SIGSTOP)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 76, err)
        self.assertRegex(err, r"rank 0.* has waited for \d+ s in ")

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            run = f"signal_{number}"
            settings = ["parallel.time_groups=3", "window.batch=3", "train.epochs=1000000"]
            process = self.launch([support.mpiexec, "-n", "3", support.rossby, *self.arguments(run, *settings)])
            begin = time.monotonic()
            while not os.path.exists(self.path(run + "/metrics.jsonl")):
                self.assertIsNone(process.poll(), "it ended")
                self.assertLess(time.monotonic() - begin, 100)
                time.sleep(0.02)
            os.kill(self.ranks(process)[2], number)  # one rank is enough
            out, err = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 75, out + err)
            self.assertRegex(out, "checkpoint written: ")
            done = len(self.lines(run)) + 2
            settings[2] = f"train.epochs={done}"
            self.assertIn("resumed   " + run, self.succeed(3, *self.arguments(run, *settings)).out)
            self.assertEqual([line["epoch"] for line in self.lines(run)], list(range(done)))

    def test_rollback(self):
        """The weight decay multiplies weights by a thousand at each update; at a lower rate it does not."""
        settings = ["optimiser.name=sgd", "optimiser.clip=0", "optimiser.lr=1000", "optimiser.decay=1", "train.epochs=8",
                    "checkpoint.every_steps=1", "checkpoint.keep=50", "train.on_nan=rollback"]
        for ranks, groups, device in ((2, 2, "cpu"), (4, 2, "cpu"), (1, 1, "simulated")):
            run = f"rolled_{ranks}_{device}"
            grid = [f"parallel.time_groups={groups}", f"parallel.device={device}", *settings]
            failed = self.run_ranks(ranks, *self.arguments(run, *grid, "train.rollbacks=1"))
            self.assertEqual(failed.codes, [1] * ranks, failed.err)
            self.assertRegex(failed.err, f"rolled back to {run}/checkpoints/step-.* with learning rate x 0.5 .rollback 1 of 1")
            self.assertRegex(failed.err, f"The last good checkpoint is {run}/checkpoints/step-")
            result = self.run_ranks(ranks, *self.arguments(run, *grid, "train.rollbacks=40", "train.rollback_lr=0.1"))
            self.assertEqual(result.codes, [0] * ranks, result.err)
            lines = self.lines(run)
            self.assertEqual([line["epoch"] for line in lines], list(range(8)))
            self.assertGreater(lines[-1]["rollbacks"], 0)
            self.assertIsNotNone(lines[-1]["loss"])

    def test_values_that_are_not_finite(self):
        for ranks, groups in ((2, 2), (4, 2)):
            self.refuse(ranks, self.arguments("wild", f"parallel.time_groups={groups}", "optimiser.name=sgd",
                                              "optimiser.clip=0", "optimiser.lr=1000", "optimiser.decay=1",
                                              "train.epochs=200"),
                        r"training: .*not finite.* in step \d+ .*. There is no checkpoint. Lower optimiser.lr",
                        r"(value|gradient) of \w+ on rank \d: \d+ values? (is|are) not finite")

    def test_what_is_refused(self):
        for settings, pattern in (
                (["window.sampling=global"], 'window.sampling is "global"'),
                ([*GRAPH_WAVENET], "model.name = \"graph_wavenet\", because its batch normalisation"),
                (["parallel.stages=2"], "parallel.stages = 2"),
                (["train.updates=sometimes"], "train.updates"),
                (["train.max_staleness=-1"], "train.max_staleness")):
            self.refuse_settings(settings, pattern)


class FullDisk(FullCheckpoint, Asynchronous):
    """Runs only the test below; another test file runs the tests of FullCheckpoint."""

    def test_checkpoint(self):
        settings = " ".join("--set " + s for s in ("train.updates=asynchronous", "parallel.time_groups=2", "window.batch=4"))
        train = f'"$2" -n 2 "$1" train windows.toml --run small/run {settings}'
        script = (f"{train} --stop-after 0.000001s >out.txt 2>err.txt; echo $?; "
                  "dd if=/dev/zero of=small/fill bs=1k 2>/dev/null; truncate -s -1100000 small/fill; "
                  f"{train} --set checkpoint.every_steps=2 --set checkpoint.keep=50 --set train.epochs=99999 --stop-after 4s >>out.txt 2>>err.txt; echo $?; "
                  f"rm small/fill; {train} >>out.txt 2>again.txt; echo $?; ls small/run/checkpoints")
        result = self.in_small_disk(4096, script)
        with open(self.path("err.txt"), encoding="utf-8") as file:
            err = file.read()
        words = result.stdout.split()
        self.assertEqual(words[:3], ["75", "1", "0"], result.stdout + err)
        self.assertNotIn(".tmp", result.stdout)
        self.assertRegex(err, "(?m)^rossby: .*No space left on device")


if __name__ == "__main__":
    support.main()
