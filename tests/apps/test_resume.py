"""Trainings that stop and continue: signals, time limits, damaged checkpoints, changed settings, full
disks."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import support
from sensors import SENSORS, BadInput, rewrite_metadata, sensors
from test_bad_runs import FullDisk

MORE = SENSORS.replace("epochs = 2", "epochs = 40") + "[model]\nlatent = 2\n"


class Resumed(BadInput):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("more.toml", MORE)

    def arguments(self, run, *settings):
        return ["train", "more.toml", "--run", run, *[word for s in settings for word in ("--set", s)]]

    def checkpoints(self, run):
        """Returns the names of a run's checkpoints, oldest first."""
        folder = self.path(run + "/checkpoints")
        return sorted(name for name in os.listdir(folder) if name.startswith("step-"))

    def inspect(self, path):
        return json.loads(self.succeed(1, "checkpoint", "inspect", path, "--json").out)

    def whole(self, *settings, name="whole"):
        """Returns the result of an uninterrupted run."""
        if not os.path.exists(self.path(name)):
            self.succeed(2, *self.arguments(name, *settings))
        return self.ends(name)

    def ends(self, run):
        """Returns the final state, and the line of each epoch without times."""
        arrays = self.inspect(run + "/checkpoints/state.h5")["arrays"]
        with open(self.path(run + "/metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        figures = [{k: v for k, v in line.items() if not re.search("second|bytes|sent|place", k)} for line in lines]
        return arrays, figures

    def leave(self, run, *arguments, ranks=2):
        """A start that stops by itself with code 75 and says how to continue."""
        result = self.run_ranks(ranks, *self.arguments(run), *arguments)
        self.assertEqual(result.codes, [75] * ranks, result.out + result.err)
        self.assertEqual(result.lines, [])
        self.assertRegex(result.out, "checkpoint written: .*; resume with: ((mpirun|srun) -n [0-9]+ )?rossby train more.toml")
        return result

    def stopped_early(self, run, *settings):
        """A run that stopped at its first step."""
        self.leave(run, "--stop-after", "0.000001s", *[word for s in settings for word in ("--set", s)])
        return self.checkpoints(run)[-1]

    def test_other_blas_kernels_are_said(self):
        """Only trainings on the host record BLAS kernels: devices use other libraries."""
        for device, said in (("cpu", True), ("simulated", False)):
            with self.subTest(device):
                run = "blas_" + device
                name = self.stopped_early(run, f"parallel.device={device}")
                path = self.path(f"{run}/checkpoints/{name}")
                with open(path, "rb") as file:
                    knows = re.search(rb'"blas":"([^"]*)"', file.read())
                self.assertEqual(knows is not None, said)
                if said:
                    kernels = knows.group(1).decode()
                    rewrite_metadata(path, (f'"blas":"{kernels}"', f'"blas":"{"x" * len(kernels)}"'))
                result = self.run_ranks(2, *self.arguments(run, "train.epochs=1", f"parallel.device={device}"))
                self.assertEqual(result.codes, [0, 0], result.err)
                self.assertEqual("was computed with BLAS kernels for xxx" in result.err, said, result.err)
                self.assertEqual(len(result.lines), 1 if said else 0, result.err)
        # A run that moves from the host to a device uses the kernels of neither.
        self.stopped_early("blas_cpu_device")
        path = self.path("blas_cpu_device/checkpoints/" + self.checkpoints("blas_cpu_device")[-1])
        rewrite_metadata(path, (f'"blas":"{kernels}"', f'"blas":"{"x" * len(kernels)}"'))
        result = self.run_ranks(2, *self.arguments("blas_cpu_device", "train.epochs=1", "parallel.device=simulated"))
        self.assertEqual(result.codes, [0, 0], result.err)
        self.assertNotIn("BLAS", result.err)

    def test_left_and_resumed_at_every_step(self):
        whole = self.whole("train.epochs=2", name="short")
        more = ["--set", "train.epochs=2"]
        for start in range(100):
            result = self.run_ranks(2, *self.arguments("often"), *more, "--stop-after", "0.000001s")
            self.assertEqual(result.lines, [])
            if result.codes == [0, 0]:
                break
            self.assertEqual(result.codes, [75, 75], result.err)
        self.assertGreater(start, 3, "several starts")
        self.assertEqual(self.ends("often"), whole)
        self.assertEqual(len(self.checkpoints("often")), 3, "the last three are kept")

    def test_signals(self):
        # Long enough for a signal to arrive: 600 steps, a checkpoint after every one.
        more = ["train.epochs=150"]
        whole = self.whole(*more, name="long")
        for number, name in [(signal.SIGTERM, "term"), (signal.SIGINT, "int"), (signal.SIGUSR1, "usr1")]:
            process = subprocess.Popen(
                [support.mpiexec, "-n", "2", support.rossby, *self.arguments(name, *more, "checkpoint.every_steps=1")],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True)
            try:
                begin = time.monotonic()
                while not os.path.isdir(self.path(name + "/checkpoints")) or not self.checkpoints(name):
                    self.assertIsNone(process.poll())
                    self.assertLess(time.monotonic() - begin, 120)
                    time.sleep(0.01)
                pids = self.ranks_of(process)
                self.assertEqual(len(pids), 2)
                if number == signal.SIGUSR1:
                    process.send_signal(number)  # mpiexec forwards it
                else:
                    os.kill(pids[1], number)     # one rank is enough
                out, err = process.communicate(timeout=120)
            finally:
                support.kill_group(process)
            self.assertEqual(process.returncode, 75, out + err)
            self.assertIn("checkpoint written", out)
            self.succeed(2, *self.arguments(name, *more))
            self.assertEqual(self.ends(name), whole, name)

    def test_sigterm_to_mpirun(self):
        """Its ranks have a few seconds to write a checkpoint. If steps may take longer, the log says so."""
        for seconds, warned in (("3", False), ("0", True)):
            run = f"by mpirun {seconds}"
            process = subprocess.Popen(
                [support.mpiexec, "--mca", "odls_base_sigkill_timeout", seconds, "-n", "2", support.rossby,
                 *self.arguments(run, "train.epochs=" + ("5" if warned else "100000"), "checkpoint.every_minutes=0")],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True)
            try:
                begin = time.monotonic()
                while not warned and not os.path.exists(self.path(run + "/metrics.jsonl")):
                    self.assertIsNone(process.poll())
                    self.assertLess(time.monotonic() - begin, 120)
                    time.sleep(0.01)
                if not warned:
                    process.send_signal(signal.SIGTERM)
                out, err = process.communicate(timeout=120)
            finally:
                support.kill_group(process)
            self.assertEqual(out.count("mpirun kills its ranks 0 s after SIGTERM or Ctrl-C. To get a checkpoint, send SIGUSR1"),
                             1 if warned else 0, out + err)
            if not warned:
                self.assertIn("paused    SIGTERM was received", out)
                self.assertEqual(len(self.checkpoints(run)), 1)
                self.assertIn("resumed", self.succeed(1, *self.arguments(run, "train.epochs=1")).out)

    def test_without_checkpoints_signals_end_a_run(self):
        process = subprocess.Popen(
            [support.mpiexec, "-n", "1", support.rossby, *self.arguments("unsaved", "train.epochs=100000000", "checkpoint.keep=0")],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        try:
            begin = time.monotonic()
            while not os.path.exists(self.path("unsaved/metrics.jsonl")):
                self.assertIsNone(process.poll())
                self.assertLess(time.monotonic() - begin, 120)
                time.sleep(0.01)
            os.kill(self.ranks_of(process, 1)[0], signal.SIGTERM)
            process.communicate(timeout=60)
        finally:
            support.kill_group(process)
        self.assertNotIn(process.returncode, (0, 75))

    def ranks_of(self, process, ranks=2):
        found = subprocess.run(["pgrep", "-s", str(process.pid), "-x", "rossby"], capture_output=True, text=True,
                               check=False).stdout.split()
        if len(found) != ranks:  # ranks may have sessions of their own
            found = subprocess.run(["pgrep", "-f", f"^{support.rossby} .*--run"], capture_output=True, text=True,
                                   check=False).stdout.split()
        return [int(pid) for pid in found]

    def test_damaged_newest(self):
        whole = self.whole()
        for _ in range(2):
            self.leave("hurt", "--stop-after", "0.000001s")
        self.assertEqual(len(self.checkpoints("hurt")), 2)
        newest = self.path("hurt/checkpoints/" + self.checkpoints("hurt")[-1])
        with open(newest, "r+b") as file:
            size = os.path.getsize(newest)
            file.seek(size - 40)
            byte = file.read(1)
            file.seek(size - 40)
            file.write(bytes([byte[0] ^ 0xFF]))
        self.refuse(2, ["checkpoint", "verify", newest], "damaged|checksum|cannot be used")
        other = self.checkpoints("hurt")[-2]
        result = self.run_ranks(2, *self.arguments("hurt"))
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(len(result.lines), 1, result.err)
        self.assertRegex(result.lines[0], f"warning: checkpoint {re.escape('hurt/checkpoints/')}step-.* is skipped: ")
        self.assertIn(os.path.basename(newest), result.lines[0])
        self.assertIn("resumed   hurt/checkpoints/" + other, result.out)
        self.assertEqual(self.ends("hurt"), whole)
        for name in self.checkpoints("hurt"):
            os.truncate(self.path("hurt/checkpoints/" + name), 1000)
        result = self.run_ranks(2, *self.arguments("hurt"))
        self.assertEqual(result.codes, [1, 1])
        self.assertRegex(result.lines[-1], "hurt/checkpoints: all checkpoints are damaged")

    def test_other_settings_and_data(self):
        last = self.stopped_early("settled")
        self.refuse(2, self.arguments("settled", "train.seed=7"), "other settings", r"train\.seed: 7 \(here\) instead of 1")
        self.refuse(2, self.arguments("settled", "model.latent=1"), r"model\.latent: 1 \(here\) instead of 2")
        shutil.copy(self.path("sensors.nc"), self.path("kept.nc"))
        try:
            self.netcdf("sensors.nc", sensors(weight="1, 0.5, 2.5"))
            self.refuse(2, self.arguments("settled"), "was written with other data", "data_hash")
            self.netcdf("sensors.nc", sensors(missing=(1,)))
            self.refuse(2, self.arguments("settled", "data.nodes=observed"), "was written with other data")
        finally:
            shutil.move(self.path("kept.nc"), self.path("sensors.nc"))
        self.assertEqual(self.checkpoints("settled"), [last], "nothing has been touched")
        self.refuse(2, [*self.arguments("settled"), "--resume", "never"], "settled already contains a run")
        self.succeed(2, *self.arguments("settled", "train.epochs=3", "log.seconds=2", "checkpoint.keep=1"))
        self.assertEqual(len(self.checkpoints("settled")), 1)

    def test_other_rank_counts(self):
        _, figures = self.whole()
        for ranks, then in [(1, 3), (3, 2)]:
            run = f"from{ranks}"
            self.leave(run, "--stop-after", "0.000001s", ranks=ranks)
            self.succeed(then, *self.arguments(run))
            _, found = self.ends(run)
            self.assertEqual(len(found), len(figures))
            for a, b in zip(found, figures):
                self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-3 * abs(b["loss"]))
                self.assertEqual(a["steps"], b["steps"])

    def test_finished_and_going_on(self):
        whole = self.whole()
        self.succeed(2, *self.arguments("grown", "train.epochs=11"))
        result = self.succeed(2, *self.arguments("grown", "train.epochs=11"))
        self.assertIn("nothing is left to do: all epochs done", result.out)
        self.assertNotIn("from here on with", result.out)
        self.succeed(1, "evaluate", "grown")
        self.succeed(1, "forecast", "grown", "--steps", "1")
        out = self.succeed(2, *self.arguments("grown", "checkpoint.every_steps=7", "parallel.threads=1")).out
        self.assertRegex(out, r"resumed   .*\n          from here on with train.epochs = 40 instead of 11\n")
        self.assertEqual(self.ends("grown"), whole)
        self.assertIn("moved     evaluation.json, forecast.nc of the earlier state to grown/earlier_state\n", out)
        for name in ("evaluation.json", "forecast.nc"):
            self.assertFalse(os.path.exists(self.path(f"grown/{name}")))
        self.succeed(1, "evaluate", "grown")
        for file, epochs in (("grown/earlier_state/evaluation.json", 11), ("grown/evaluation.json", 40)):
            with open(self.path(file), encoding="utf-8") as evaluation:
                self.assertEqual(json.load(evaluation)["state"], {"epochs": epochs})
        self.leave("slower", "--stop-after", "0.000001s")
        out = self.succeed(2, *self.arguments("slower", "optimiser.lr=0.001", "validation.every=2")).out
        self.assertIn("from here on with optimiser.lr = 0.001 instead of ", out)
        self.assertIn(", validation.every = 2 instead of 1\n", out)

    def test_times_of_an_epoch_that_was_left_in(self):
        """The time of an epoch and its parts cover all its steps."""
        checkpoint = self.path("timed/checkpoints/" + self.stopped_early("timed"))
        with open(checkpoint, "rb") as file:
            text = file.read().decode("latin-1")
        training = json.JSONDecoder().raw_decode(text[text.index('{"format":'):])[0]["training"]
        self.assertEqual((training["epoch"], training["batch"]), (0, 1))
        self.assertGreater(training["step_seconds"]["forward"], 0)
        self.succeed(2, *self.arguments("timed", "train.epochs=1"))
        with open(self.path("timed/metrics.jsonl"), encoding="utf-8") as file:
            line = json.loads(file.readline())
        for name, before in training["step_seconds"].items():
            self.assertGreaterEqual(line["step_seconds"][name], before * (1 - 1e-9), name)

    def test_best_epoch_that_is_not_kept(self):
        out = self.succeed(2, *self.arguments("last", "train.epochs=30", "train.keep=last", "optimiser.lr=0.3", "schedule.metric=train")).out
        epoch = int(re.search(r"best +train \S+ after epoch (\d+)", out).group(1))
        self.assertEqual("; the last state is kept (train.keep)" in out, epoch < 30, out)

    def test_ended_run_stays_as_it_is(self):
        self.succeed(2, *self.arguments("ended", "train.epochs=8"))
        files = {name: self.path("ended/" + name) for name in ("config.toml", "metrics.jsonl", "checkpoints/state.h5")}

        def contents():
            found = {}
            for name, path in files.items():
                with open(path, "rb") as file:
                    found[name] = file.read()
            return found

        before = contents()
        out = self.succeed(2, *self.arguments("ended", "optimiser.lr=0.5", "train.epochs=3")).out
        self.assertIn("nothing is left to do: all epochs done", out)
        self.assertEqual(contents(), before)
        self.succeed(2, "evaluate", "ended")

    def test_damaged_state(self):
        """The state only tells whether the run has ended: the checkpoints are good."""
        whole = self.whole("train.epochs=8", name="eight")
        for run, first in (("ends", "train.epochs=8"), ("continues", "train.epochs=4")):
            self.succeed(2, *self.arguments(run, first))
            os.truncate(self.path(run + "/checkpoints/state.h5"), 1000)
            result = self.run_ranks(2, *self.arguments(run, "train.epochs=8"))
            self.assertEqual(result.codes, [0, 0], result.err)
            self.assertEqual(len(result.lines), run == "ends", result.err)
            self.assertRegex("".join(result.lines), "^$|warning: state file .*state.h5' cannot be used: .* goes on from its checkpoint")
            self.assertEqual(self.ends(run), whole)

    def test_named_checkpoint(self):
        whole = self.whole()
        self.leave("named", "--stop-after", "0.000001s")
        first = "named/checkpoints/" + self.checkpoints("named")[0]
        self.leave("named", "--stop-after", "0.000001s")
        self.refuse(2, [*self.arguments("named"), "--resume", "named/none.h5"], r"named/none\.h5.*No such file")
        self.refuse(2, [*self.arguments("fresh"), "--resume", "sensors.nc"], r"sensors\.nc")
        self.assertFalse(os.path.exists(self.path("fresh")))
        # First in another directory, then in the same one, which drops the later checkpoint.
        self.succeed(2, *self.arguments("other"), "--resume", first)
        self.assertEqual(self.ends("other")[0], whole[0])
        self.refuse(2, [*self.arguments("other"), "--resume", first], "other already contains another run, and checkpoint .* does not belong to it")
        self.succeed(2, *self.arguments("named"), "--resume", first)
        self.assertEqual(self.ends("named"), whole)

    def test_the_line_that_is_printed_goes_on_with_the_same_settings(self):
        settings = ["train.epochs=5", "optimiser.lr=0.01", "data.variables=[\"v\"]"]
        whole = self.whole(*settings, name="told whole")
        out = self.leave("told", "--stop-after", "0.000001s", *[word for s in settings for word in ("--set", s)]).out
        line = re.search("resume with: mpirun -n 2 rossby (train .*)", out).group(1)
        self.assertIn("--set 'data.variables=[\"v\"]'", line)
        words = shlex.split(line.replace("0.000001s", "1h"))
        self.succeed(2, *words)
        self.assertEqual(self.ends("told"), whole)

    def test_longer_schedules_say_that_the_rate_rises(self):
        """A linear schedule that had ended is stretched, or kept by schedule.length."""
        linear = ["schedule.name=linear", "schedule.hold=0", "schedule.final=0.1", "optimiser.lr=0.01"]
        rates = {}
        for name, more in (("stretched", []), ("held", ["schedule.length=4"])):
            self.succeed(1, *self.arguments(name, "train.epochs=4", *linear))
            out = self.succeed(1, *self.arguments(name, "train.epochs=8", *linear, *more)).out
            self.assertEqual("the learning rate rises from 0.001 to 0.00486, because the linear schedule is stretched to 8 "
                             "epochs. To keep the rate low, set schedule.length = 4" in out, name == "stretched", out)
            with open(self.path(name + "/metrics.jsonl"), encoding="utf-8") as file:
                rates[name] = [round(json.loads(line)["lr"], 5) for line in file]
        self.assertEqual(rates["held"], [0.01, 0.007, 0.004, 0.001, 0.001, 0.001, 0.001, 0.001])
        self.assertEqual(rates["stretched"][4:], [0.00486, 0.00357, 0.00229, 0.001])

    def test_a_run_that_was_cut_off_forecasts(self):
        """--write-state gives the result of a training that ends at its newest checkpoint."""
        for name, settings in (("early, last", ["train.keep=last", "train.sampling=pairs"]),
                               ("early, best", ["split.validation=3", "train.keep=best"])):
            with self.subTest(name):
                whole = self.whole("train.epochs=6", *settings, name=name + " whole")
                short = self.whole("train.epochs=3", *settings, name=name)
                os.remove(self.path(name + "/checkpoints/state.h5"))
                more = [*settings, "train.epochs=6"]
                with open(self.path(name + "/config.toml"), encoding="utf-8") as file:
                    config = file.read()
                with open(self.path(name + "/config.toml"), "w", encoding="utf-8") as file:
                    file.write(config.replace("epochs = 3", "epochs = 6"))
                line = self.refuse(1, ["forecast", name, "--steps", "2"], "the training has not ended, .* --write-state")
                result = self.succeed(2, *shlex.split(re.search("rossby (train .*)", line.err).group(1)))
                self.assertIn("stopped on request: 3 epochs", result.out)
                self.assertEqual(self.ends(name), short)
                self.assertIn("cut off after 3 of 6 epochs", self.succeed(1, "forecast", name, "--steps", "2").out)
                self.succeed(2, *self.arguments(name, *more))
                self.assertEqual(self.ends(name), whole)
                self.assertNotIn("cut off", self.succeed(1, "forecast", name, "--steps", "2").out)
                self.assertIn("nothing is left to do",
                              self.succeed(1, *self.arguments(name, *more), "--write-state").out)
        self.refuse(1, [*self.arguments("none"), "--write-state"], "there is no checkpoint whose state could be written")

    def test_what_evaluate_refuses_does_not_stop_a_run_that_goes_on(self):
        self.stopped_early("unscored")
        out = self.succeed(2, *self.arguments("unscored", "evaluate.first_origin=500")).out
        self.assertIn("warning   rossby evaluate will fail: evaluate.first_origin = 500", out)

    def test_a_validation_by_other_horizons_is_said(self):
        told = "rossby: warning: evaluate.horizons = 1 instead of 2: validation errors from here on cannot be compared"
        for name, settings, warns in (("measured", ["split.validation=4"], True), ("unmeasured", [], False),
                                      ("rolled", ["split.validation=4", "validation.kind=rollout"], False)):
            self.stopped_early(name, *settings)
            result = self.run_ranks(2, *self.arguments(name, *settings, "evaluate.horizons=1"))
            self.assertEqual(result.codes, [0, 0], result.err)
            self.assertEqual(told in result.err, warns, result.err)

    def test_stop_after(self):
        for text in ["1", "h", "1x", "-3s", "0s", "1h-2m"]:
            self.refuse(2, self.arguments("never", f"train.stop_after={text}"), "is not a time. Write a time like 1h50m")
        self.assertFalse(os.path.exists(self.path("never")))
        with self.in_a_job_that_ends():
            self.leave("slurm")
        self.succeed(2, *self.arguments("slurm"))
        self.assertEqual(self.ends("slurm"), self.whole())

    def test_inspect_and_verify(self):
        name = "looked/checkpoints/" + self.stopped_early("looked")
        text = self.succeed(2, "checkpoint", "inspect", name).out
        for word in ["config_hash", "data_hash", "optimiser_steps", "factors.second", "checksum"]:
            self.assertIn(word, text)
        self.assertRegex(self.succeed(2, "checkpoint", "verify", name).out, r"\d+ arrays, all checksums are right")
        self.refuse(2, ["checkpoint", "verify", "sensors.toml"], r"sensors\.toml")


class Older(Resumed):
    """Runs whose settings are refused today: they were trained before this check existed."""

    def was_trained_with(self, run, *pairs):
        folder = self.path(run + "/checkpoints")
        os.remove(os.path.join(folder, "data.h5"))  # old runs had no such file
        for name in os.listdir(folder):
            rewrite_metadata(os.path.join(folder, name), *pairs)
        with open(self.path(run + "/config.toml"), encoding="utf-8") as file:
            text = file.read()
        for old, new in pairs:
            text = text.replace(old, new)
        self.write(run + "/config.toml", text)

    def goes_on_and_is_used(self, run, settings, now, *pairs, says):
        self.succeed(2, *self.arguments(run, "train.epochs=2", *settings))
        self.was_trained_with(run, *pairs)
        self.succeed(2, "evaluate", run)
        self.succeed(2, "forecast", run, "--steps", "2")
        self.refuse(2, self.arguments(run + "_new", "train.epochs=3", *now), says)
        result = self.succeed(2, *self.arguments(run, "train.epochs=3", *now))
        self.assertIn("resumed ", result.out)
        self.succeed(2, "evaluate", run)

    def test_data_that_moved(self):
        self.netcdf("here.nc", sensors())
        self.succeed(2, *self.arguments("moving", "train.epochs=2", "data.file=here.nc"))
        os.rename(self.path("here.nc"), self.path("there.nc"))
        self.netcdf("other.nc", sensors(weight="1, 0.75, 2"))
        self.netcdf("later.nc", sensors().replace("hours since 2001-01-01", "hours since 2001-01-02"))
        self.refuse(2, self.arguments("moving", "train.epochs=3", "data.file=other.nc"), "was written with other data: its data_hash is")
        self.refuse(2, self.arguments("moving", "train.epochs=3", "data.file=later.nc"), "the training part of later.nc has other times")
        newest = self.path("moving/checkpoints/" + self.checkpoints("moving")[-1])
        rewrite_metadata(newest, ('"training_hash"', '"training_hasx"'))
        self.refuse(2, self.arguments("moving", "train.epochs=3", "data.file=there.nc"), "was written with other settings: data.file: ")
        rewrite_metadata(newest, ('"training_hasx"', '"training_hash"'))
        result = self.succeed(2, *self.arguments("moving", "train.epochs=3", "data.file=there.nc"))
        self.assertIn("resumed ", result.out)
        with open(self.path("moving/config.toml"), encoding="utf-8") as file:
            self.assertIn('file = "there.nc"', file.read())
        self.succeed(2, "evaluate", "moving")

    def test_signs_that_turn(self):
        self.netcdf("turned.nc", sensors(weight="1, -0.5, 2"))
        turned = ["data.file=turned.nc", "split.train=10"]
        self.goes_on_and_is_used("turned", [*turned, "relation.normalise=false"], [*turned, "relation.normalise=true"],
                                 ("normalise = false", "normalise = true "), says="would change the signs of the weights")

    def test_starts(self):
        for key, settings in [("refine_start", ["relation.mode=refine"]), ("self_start", ["relation.self=true"])]:
            self.goes_on_and_is_used(key, [*settings, f"relation.{key}=0.25"], [*settings, f"relation.{key}=1.00"],
                                     (f"{key} = 0.25", f"{key} = 1.00"), says=f"relation.{key} = 1: .* never change")

    def test_negative_weights_of_walks(self):
        windows = ["data.file=walks.nc", "model.name=dcrnn", "window.inputs=3", "window.outputs=2"]
        self.netcdf("walks.nc", sensors())
        self.succeed(2, *self.arguments("walks", "train.epochs=2", *windows))
        newest = "walks/checkpoints/" + self.checkpoints("walks")[-1]
        self.netcdf("walks.nc", sensors(weight="1, -0.5, 2"))
        self.refuse(2, self.arguments("walks_new", *windows), "walks.nc: an edge has weight -0.5")
        refused = self.run_ranks(2, *self.arguments("walks", "train.epochs=3", *windows)).lines[0]
        hashes = re.search("its data_hash is ([0-9a-f]{16}), that of walks.nc is ([0-9a-f]{16})", refused).groups()
        rewrite_metadata(self.path(newest), hashes, ('"training_hash"', '"training_hasx"'))
        rewrite_metadata(self.path("walks/checkpoints/state.h5"), ('"training_hash"', '"training_hasx"'))
        self.succeed(2, "evaluate", "walks")
        self.succeed(2, *self.arguments("walks", "train.epochs=3", *windows))


for _name in [name for name in dir(Resumed) if name.startswith("test_")]:
    setattr(Older, _name, None)


class Diverged(BadInput):
    """A loss that is not finite."""

    def test_message(self):
        self.refuse(2, ["train", "sensors.toml", "--run", "wild", "--set", "optimiser.lr=1e6", "--set",
                        "optimiser.name=sgd", "--set", "train.epochs=50"],
                    "training: .*not finite.* in step .*. There is no checkpoint. Lower optimiser.lr",
                    r"(value|gradient) of \w+ on rank \d: \d+ values? (is|are) not finite")

    def test_rollback(self):
        # The learning rate diverges at first, but not after some halvings.
        arguments = ["train", "sensors.toml", "--run", "back", "--set", "optimiser.name=sgd", "--set",
                     "optimiser.lr=1000", "--set", "train.epochs=20", "--set", "checkpoint.every_steps=1", "--set",
                     "checkpoint.keep=50"]
        failed = self.run_ranks(2, *arguments, "--set", "train.on_nan=rollback", "--set", "train.rollbacks=1")
        self.assertEqual(failed.codes, [1, 1], failed.err)
        self.assertRegex(failed.lines[0], "rolled back to back/checkpoints/step-.* with learning rate x 0.5 .rollback 1 of 1")
        self.assertRegex(failed.lines[-1], "The last good checkpoint is back/checkpoints/step-")
        result = self.run_ranks(2, *arguments, "--set", "train.on_nan=rollback", "--set", "train.rollbacks=40",
                                "--set", "train.rollback_lr=0.1")
        self.assertEqual(result.codes, [0, 0], result.err)
        with open(self.path("back/metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["epoch"] for line in lines], list(range(20)))
        self.assertGreater(lines[-1]["rollbacks"], 0)


class FullCheckpoint(FullDisk):
    """Runs only the test below; another test file runs the tests of FullDisk."""

    def test_checkpoint(self):
        # A start is refused if there is no room for a checkpoint, including 1 MiB for its structure. Later
        # there is room for some checkpoints.
        self.write("more.toml", MORE)
        script = ('"$2" -n 2 "$1" train more.toml --run small/run --stop-after 0.000001s >out.txt 2>err.txt; echo $?; '
                  "dd if=/dev/zero of=small/fill bs=1k 2>/dev/null; truncate -s -40960 small/fill; "
                  '"$2" -n 2 "$1" train more.toml --run small/run >>out.txt 2>>err.txt; echo $?; '
                  "truncate -s -1400000 small/fill; "
                  '"$2" -n 2 "$1" train more.toml --run small/run --set checkpoint.every_steps=2 '
                  "--set checkpoint.keep=50 --set train.epochs=99999 --stop-after 4s >>out.txt 2>>err.txt; echo $?; "
                  "ls small/run/checkpoints; rm small/fill; "
                  '"$2" -n 2 "$1" train more.toml --run small/run >>out.txt 2>again.txt; echo $?')
        result = self.in_small_disk(4096, script)
        with open(self.path("err.txt"), encoding="utf-8") as file:
            err = file.read()
        words = result.stdout.split()
        self.assertEqual(words[0], "75", result.stdout + err)
        self.assertEqual(words[1], "1", "no room for a checkpoint\n" + result.stdout + err)
        self.assertEqual(words[2], "1", "what cannot be saved is not to be resumed for ever\n" + result.stdout + err)
        self.assertEqual(words[-1], "0", result.stdout + err)
        self.assertGreaterEqual(len([w for w in words if w.startswith("step-")]), 1, "earlier checkpoints stay")
        self.assertRegex(err, "(?m)^rossby: state file .* could not be written: .*No space left on device")
        self.assertNotIn(".tmp", result.stdout)
        self.assertRegex(err, r"warning: state file .* is not written: .*No space left on device\. Check the free space and the permissions of the folder; training goes on")
        self.assertRegex(err, "(?m)^rossby: .*not written.*No space left on device")


for _name in [name for name in dir(FullDisk) if name.startswith("test_")]:
    setattr(FullCheckpoint, _name, None)

if __name__ == "__main__":
    support.main()
