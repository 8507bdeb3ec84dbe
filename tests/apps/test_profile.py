"""The search for the model of a series: choice, resumption, ranks, and bad input."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import xml.etree.ElementTree

import support
from sensors import Runs
from test_average import series, value
from test_schemas import LoadsJson

CANDIDATES = """
[[candidate]]
name = "tiny"
model.name = "gru"
model.units = 2
optimiser.lr = 0.0001
[[candidate]]
name = "good"
model.name = "gru"
model.units = 8
optimiser.lr = 0.02
[[candidate]]
name = "wide"
ranks = "all"
model.name = "stid"
model.input_embedding = 8
optimiser.lr = 0.01
[[candidate]]
name = "diverging"
model.name = "gru"
model.units = 2
optimiser.name = "sgd"
optimiser.lr = 1e6
optimiser.clip = 0
[[candidate]]
name = "stnn"
model.name = "stnn"
model.latent = 2
train.joint = true
"""


class Profiles(Runs, LoadsJson):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("series.nc", series(steps=480))
        cls.write("candidates.toml", CANDIDATES)
        # Measured costs decide how long candidates train, so all tests share one measurement.
        cls.profiled = cls.run_ranks(1, *cls.arguments("first"))

    @classmethod
    def arguments(cls, output, *more, data="series.nc", candidates="candidates.toml", costs=None, budget="80%"):
        words = ["profile", data, "-o", output, "--budget", budget, "--candidates", candidates, "--set", "train.epochs=10",
                 "--set", "window.batch=16", "--set", "parallel.threads=1", *more]
        return words + (["--costs", costs] if costs else [])

    def found(self, output):
        return self.load(output + "/profile.json", "profile.schema.json")

    def errors(self, output):
        """Returns the results of a profile without times."""
        found = self.found(output)
        for one in found["candidates"]:
            one["reason"] = re.sub(r"\S*/candidates/", "", one["reason"])  # names a checkpoint
            for key in [key for key in one if key.endswith("_seconds")]:
                del one[key]
        return {key: found[key] for key in ("candidates", "baselines", "choice", "rungs", "ended", "trust")}

    def test_finds_the_better_candidates(self):
        self.assertEqual(self.profiled.codes, [0], self.profiled.err)
        found = self.found("first")
        candidates = {one["name"]: one for one in found["candidates"]}
        self.assertIn(found["choice"]["candidate"], ["good", "wide"])
        for worse in ("tiny", "stnn"):
            self.assertGreater(candidates[worse]["predicted"]["regret"], 2 * candidates["wide"]["predicted"]["regret"])
        self.assertEqual(candidates["diverging"]["status"], "failed")
        self.assertRegex(candidates["diverging"]["reason"], "not finite")
        self.assertTrue(found["ended"])
        for one in candidates.values():
            if one["status"] != "failed":
                predicted = one["predicted"]
                self.assertLessEqual(predicted["low"], predicted["error"])
                self.assertLessEqual(predicted["error"], predicted["high"])
                self.assertGreaterEqual(one["folds"][0]["steps"], 4)
        self.assertAlmostEqual(sum(one["predicted"]["probability_best"] or 0
                                   for one in found["candidates"] + found["baselines"]), 1, delta=1e-6)
        self.assertLessEqual(found["cost"]["planned_rank_seconds"], found["cost"]["budget_rank_seconds"] * 1.1)
        for text in ["90 % interval", "choice    " + found["choice"]["candidate"], "failed    diverging", "direct_ridge"]:
            self.assertIn(text, self.profiled.out)
        xml.etree.ElementTree.parse(self.path("first/curves.svg"))
        with open(self.path("first/profile.md"), encoding="utf-8") as file:
            self.assertIn("| good |", file.read())
        # A repeated profile has nothing left to do.
        before = self.errors("first")
        self.assertIn(found["choice"]["candidate"], self.succeed(1, *self.arguments("first")).out)
        self.assertEqual(self.errors("first"), before)

    def test_a_paused_training_is_that_of_train(self):
        """The learning curve of a candidate is that of its complete training."""
        found = self.found("first")
        name = found["choice"]["candidate"]
        curve = {p["steps"]: p["error"] for one in found["candidates"] if one["name"] == name
                 for p in one["folds"][0]["curve"]}
        self.succeed(1, "train", "--profile", "first")
        epochs = {line["steps"]: line["validation_rmse"] for line in self.lines("first/best")}
        shared = set(curve) & set(epochs)
        self.assertGreater(len(shared), 1)
        self.assertEqual({s: curve[s] for s in shared}, {s: epochs[s] for s in shared})
        self.succeed(1, "evaluate", "first/best")

    def test_averages_the_best(self):
        shutil.copytree(self.path("first"), self.path("members"))
        out = self.succeed(2, "average", "--profile", "members", "--best", "2", "--weights", "stacking", "-o", "mean").out
        with open(self.path("mean/average.json"), encoding="utf-8") as file:
            members = [os.path.basename(one["path"]) for one in json.load(file)["members"]]
        self.assertEqual(set(members), {"good", "wide"}, out)
        self.refuse(1, ["average", "--profile", "members", "--best", "9", "-o", "none"], "--best 9: the profile has 4")
        self.refuse(1, ["average", "--profile", "nowhere", "--best", "2", "-o", "none"], "nowhere: contains no profile")

    def test_ranks_find_the_same(self):
        alone = {one["name"]: one for one in self.found("first")["candidates"]}
        for ranks in (2, 3):
            self.succeed(ranks, *self.arguments(f"ranks{ranks}", costs="first"))
            found = self.found(f"ranks{ranks}")
            for one in found["candidates"]:
                with self.subTest(ranks=ranks, candidate=one["name"]):
                    self.assertEqual(one["status"] == "failed", alone[one["name"]]["status"] == "failed")
                    self.assertEqual(one["all_ranks"], one["name"] == "wide")
                    if one["status"] == "failed":
                        continue
                    here, there = ({p["steps"]: p["error"] for p in c["folds"][0]["curve"]} for c in (one, alone[one["name"]]))
                    shared = set(here) & set(there)
                    self.assertTrue(shared)
                    for steps in shared:  # one rank gives equal bits; several ranks sum in another order
                        self.assertAlmostEqual(here[steps] / there[steps], 1, delta=1e-3 if one["all_ranks"] else 0)
            self.assertEqual(found["choice"]["candidate"] in ("good", "wide"), True)

    def written(self, folder):
        """Returns the files that a profile has written so far: names and sizes."""
        found = set()
        for place, _, names in os.walk(self.path(folder)):
            for name in names:
                if name.endswith((".tmp", ".part")):
                    continue
                try:
                    found.add((os.path.join(place, name), os.stat(os.path.join(place, name)).st_size))
                except FileNotFoundError:  # renamed to its final name in the meantime
                    pass
        return found

    def processes(self):
        """Returns all processes in the folder of these tests: ranks outlive a killed mpiexec."""
        def is_here(pid):
            try:
                return os.path.samefile(f"/proc/{pid}/cwd", self.folder)
            except OSError:
                return False
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_here(pid)]

    def kill_all(self):
        begin = time.monotonic()
        while pids := self.processes():
            self.assertLess(time.monotonic() - begin, 60, "processes that cannot be killed")
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)

    def test_killed_and_left_it_ends_the_same(self):
        self.succeed(2, *self.arguments("whole", costs="first"))
        # Each start is killed once it has written something new. The speed of the machine then only decides
        # how many profiles ten kills take.
        kills, profiles = 0, 0
        while kills < 10:
            self.assertLess(profiles, 8, f"only {kills} kills")
            output, seen = f"often{profiles}", set()
            profiles += 1
            while True:
                process = self.start(2, self.arguments(output, costs="first"))
                while process.poll() is None and not self.written(output) - seen:
                    time.sleep(0.002)
                if process.poll() is not None:
                    out, err = process.communicate()
                    self.assertEqual(process.returncode, 0, out + err)
                    break
                if kills % 3 == 2:
                    os.kill(process.pid, signal.SIGTERM)
                    process.wait(timeout=100)
                self.kill_all()
                process.communicate()
                kills += 1
                seen |= self.written(output)
            self.assertEqual(self.errors(output), self.errors("whole"))

    def test_signals_leave_what_was_found(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            output = f"left{number}"
            with subprocess.Popen([support.rossby, *self.arguments(output, costs="first")], cwd=self.folder, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                for line in process.stdout:
                    if line.startswith("profile   rung 1"):
                        break
                process.send_signal(number)
                out, err = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 75, out + err)
            self.assertIn(f"paused    {signal.Signals(number).name} was received: give the same command again to go on", out)
            self.assertRegex(out, "(?m)^direct_ridge ")
            self.assertFalse(self.found(output)["ended"])
            self.assertIn("good: left at step", out)

    def test_test_values_do_not_leak(self):
        """No candidate and no baseline reads the last fifth."""
        self.succeed(1, *self.arguments("same", costs="first"))
        self.netcdf("changed.nc", series(steps=480, change=lambda t, i: value(t, i) if t < 384 else 1000 + t))
        os.makedirs(self.path("elsewhere"), exist_ok=True)
        shutil.copy(self.path("changed.nc"), self.path("elsewhere/series.nc"))
        shutil.copy(self.path("candidates.toml"), self.path("elsewhere/candidates.toml"))
        self.succeed(1, *self.arguments("elsewhere/changed", costs="first", data="elsewhere/series.nc"))
        self.assertEqual(self.errors("elsewhere/changed"), self.errors("same"))

    def test_folds_and_built_in_candidates(self):
        self.netcdf("short.nc", series(steps=90))
        about = {"data": "short.nc", "candidates": "gru-small,stid-small,stnn-given", "budget": "60%"}
        self.succeed(2, *self.arguments("measured", **about))
        measured = self.found("measured")
        for one in measured["candidates"]:  # costs of this machine now would decide which rungs are reached
            one.update(step_seconds=0.001, rung_seconds=0.001, start_seconds=0.001)
        os.makedirs(self.path("fixed"))
        self.write("fixed/profile.json", json.dumps(measured))
        out = self.succeed(2, *self.arguments("folds", costs="fixed", **about)).out
        self.assertIn("mean over 3 folds", out)
        found = self.found("folds")
        self.assertEqual(found["cross_validation_folds"], 3)
        left = 0
        for one in found["candidates"]:
            self.assertEqual(len(one["folds"]), 3)
            if one["status"] != "failed":
                self.assertGreaterEqual(one["folds"][0]["steps"], 4)
            if one["status"] == "running":  # the last ones train on all folds
                left += 1
                self.assertTrue(all(fold["steps"] >= 4 for fold in one["folds"]), one)
        self.assertGreater(left, 0)
        self.assertEqual([rung["folds"] for rung in found["rungs"]], [1] * (len(found["rungs"]) - 1) + [3])
        self.succeed(1, "train", "--profile", "folds", "--run", "folded")
        self.assertIn("folds = 0", self.read("folded/config.toml"))

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def test_bad_input(self):
        def refuse(words, *patterns):
            with self.subTest(words):
                self.refuse(2, words, *patterns)

        self.netcdf("tiny.nc", series(steps=30))
        refuse(self.arguments("none", data="tiny.nc"), "tiny.nc: 30 steps are too few .* needs at least 40")
        refuse(self.arguments("small", budget="0.0001%"), r"--budget 0.0001% is too small for 4 steps of each .*. Give at least [\d.e-]+%")
        refuse(self.arguments("none", budget="200%"), "--budget 200% is neither a share nor a time")
        refuse(self.arguments("none", budget="soon"), "--budget")
        refuse(self.arguments("none", candidates="lstm"), '--candidates: "lstm" is neither a model nor a candidate')
        refuse(self.arguments("none", candidates="gru,gru-small"), "gru-small is named twice")
        self.write("unexpected.toml", '[[candidate]]\nname = "a"\nmodel.name = "gru"\nexpected = 0\n')
        refuse(self.arguments("none", candidates="unexpected.toml"), "unexpected.toml:4: expected must be a number above 0")
        self.write("unnamed.toml", '[[candidate]]\nmodel.name = "gru"\n')
        refuse(self.arguments("none", candidates="unnamed.toml"), "unnamed.toml: candidate 1 has no valid name")
        self.write("other.toml", 'model.name = "gru"\n')
        refuse(self.arguments("none", candidates="other.toml"), r'other.toml:1: "model" is not \[\[candidate\]\]')
        self.write("misspelt.toml", '[[candidate]]\nname = "a"\nmodel.unit = 3\n')
        refuse(self.arguments("none", candidates="misspelt.toml"), "misspelt.toml: candidate a: .*model.unit")
        refuse(self.arguments("first", "--seed", "5"), "first: this profile was made with other data, settings, candidates")
        refuse(["train", "--profile", "nowhere"], "nowhere: contains no profile")
        self.write("plain.toml", '[data]\nfile = "series.nc"\n')
        refuse(self.arguments("plain", data="plain.toml"), "series.nc: there is no validation part .* --folds 5")
        self.netcdf("holes.nc", series(steps=120, change=lambda t, i: "_" if 28 <= t < 56 else value(t, i)))
        refuse(self.arguments("holes", "--folds", "3", data="holes.nc"), "holes.nc: fold 1 of 3 of the training part has no observed value")

    def test_one_node(self):
        self.netcdf("one.nc", series(steps=480, nodes=1).replace("edge = 1", "edge = 1"))
        self.succeed(2, *self.arguments("one", data="one.nc"))
        self.assertIn(self.found("one")["choice"]["candidate"], ["good", "wide", "tiny", "stnn"])


if __name__ == "__main__":
    support.main()
