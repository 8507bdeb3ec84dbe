"""Bad input: all ranks end in time, one line says what is wrong and what would be right, nothing half-written stays."""

import os
import shutil
import signal
import subprocess
import time
import unittest

import support

SENSORS = """
[data]
file = "sensors.nc"
variables = ["v"]
[split]
train = 12
[relation]
graph = "edges"
[train]
epochs = 2
[evaluate]
horizons = 2
lim_modes = 2
"""


def sensors(steps=20, nodes=3, source="0, 1, 2", destination="1, 2, 0", weight="1, 0.5, 2", missing=(),
            observed_from=0):
    """CDL of a series v(time, node) with edges; nodes in `missing` have no value at all,
    no node has one before step `observed_from`."""
    values = ["_" if i in missing or t < observed_from else f"{(t * (i + 2)) % 7 + 0.5 * i}"
              for t in range(steps) for i in range(nodes)]
    return f"""netcdf sensors {{
dimensions: time = {steps} ; node = {nodes} ; edge = {len(source.split(","))} ;
variables:
  double time(time) ; time:units = "hours since 2001-01-01" ;
  int edge_src(edge) ; int edge_dst(edge) ; double edge_weight(edge) ;
  float v(time, node) ; v:_FillValue = NaNf ; v:units = "m s-1" ;
data:
  time = {", ".join(map(str, range(steps)))} ;
  edge_src = {source} ; edge_dst = {destination} ; edge_weight = {weight} ;
  v = {", ".join(values)} ;
}}
"""


class BadInput(support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors())
        cls.write("sensors.toml", SENSORS)

    def train(self, *settings):
        """Arguments of a training that must not touch its run directory."""
        return ["train", "sensors.toml", "--run", "run", *[word for s in settings for word in ("--set", s)]]

    def refuse_training(self, settings, *patterns):
        with self.subTest(settings):
            self.refuse(2, self.train(*settings), *patterns)
            self.assertFalse(os.path.exists(self.path("run")), "no run directory is made")


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
        self.refuse_training(["data.file=still.nc"], "v has no time axis", r"\(level, node\)", "is right")

    def test_edges(self):
        self.netcdf("far.nc", sensors(source="0, 1, 3"))
        self.refuse_training(["data.file=far.nc"], r"edge 2 \(3 -> 0\) names node 3, but nodes are 0…2")
        self.netcdf("low.nc", sensors(destination="1, -1, 0"))
        self.refuse_training(["data.file=low.nc"], r"edge 1 \(1 -> -1\) names node -1")
        self.netcdf("nan.nc", sensors(weight="1, NaN, 2"))
        self.refuse_training(["data.file=nan.nc"], r"edge 1 \(1 -> 2\) has weight nan; weights must be finite")
        self.netcdf("bare.nc", sensors().replace("edge_src", "a").replace("edge_dst", "b").replace("edge_weight", "c"))
        self.refuse_training(["data.file=bare.nc"], "bare.nc has no edges", "relation.graph")

    def test_nothing_observed(self):
        self.netcdf("blank.nc", sensors(missing=(0, 1, 2)))
        self.refuse_training(["data.file=blank.nc"], "no node has a single observed value")
        self.refuse_training(["data.file=blank.nc", "data.nodes=all"], "the training part .* has no observed value")
        self.netcdf("late.nc", sensors(observed_from=12))
        self.refuse_training(["data.file=late.nc"],
                             r"late\.nc: the training part \(2001-01-01T00:00 to 2001-01-01T11:00\) has no")


class Corners(BadInput):
    """What looks wrong and works."""

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
                        self.assertNotIn("null", file.read(), "what is not observed is masked")
                    self.succeed(2, "forecast", run, "--steps", "2")

    def test_more_ranks_than_nodes(self):
        for settings in [[], ["relation.mode=refine", "relation.self=true"],
                         ["relation.graph=none", "relation.discover=dense"],
                         ["relation.discover=low_rank", "relation.rank=2"], ["parallel.partition=graph"]]:
            with self.subTest(settings):
                run = "many_" + "_".join(settings)
                self.succeed(5, "train", "sensors.toml", "--run", run, *[w for s in settings for w in ("--set", s)])
                self.succeed(5, "evaluate", run)
                self.succeed(5, "forecast", run, "--steps", "1")
                self.assertTrue(os.path.exists(self.path(run + "/forecast.nc")))


class Settings(BadInput):

    def test_keys(self):
        self.refuse_training(["train.epoch=3"], r"unknown key train\.epoch", r"nearest key is train\.epochs")
        self.refuse_training(["epochs=3"], r"unknown key epochs", r"did you mean train\.epochs\?")
        self.refuse_training(["train=3"], r"it is a table; its keys are train\.sampling")
        self.write("wrong.toml", SENSORS + "horizon = 3\n")
        self.refuse(2, ["train", "wrong.toml", "--run", "run"], r"wrong\.toml:\d+: unknown key evaluate\.horizon\b",
                    r"evaluate\.horizons")

    def test_values(self):
        self.refuse_training(["train.epochs=many"], r"train\.epochs needs an integer")
        self.refuse_training(["train.epochs=2.5"], r"train\.epochs needs an integer, not .*2\.5")
        self.refuse_training(["train.epochs=-1"], r"out of range: allowed is 0 to")
        self.refuse_training(["optimiser.lr=nan"], r"optimiser\.lr = nan is not a finite number")
        self.refuse_training(["relation.self=maybe"], r"relation\.self needs true or false")
        self.refuse_training(["relation.mode=refined"], r"none of given, refine; the nearest is refine")
        self.refuse_training(["relation.hops=[2, 1]"], r"relation\.hops must be a list of ascending powers")
        self.refuse_training(["train.epochs"], r"--set key=value is right")

    def test_files(self):
        self.refuse(2, ["train", "none.toml", "--run", "run"], r"none\.toml: cannot read this file: No such file")
        self.write("broken.toml", "[train]\nepochs = = 3\n")
        self.refuse(2, ["train", "broken.toml", "--run", "run"], r"broken\.toml:2")

    def test_splits(self):
        self.refuse_training(["split.train=1000"], r"split\.train", "the series has 20")
        self.refuse_training(["split.train=15", "split.validation=5", "split.test=1"],
                             r"15 \+ 5 \+ 1 steps; the series has 20")
        self.refuse_training(["split.train=1"], "training needs 2 or more")
        self.refuse_training(["split.train=1.5"], "a share lies between 0 and 1")
        self.refuse_training(["split.train=2001-01-01T12", "split.validation=2001-01-01T06"], "before the part begins")
        self.refuse_training(["split.train=1999-01-01"], "training needs 2 or more|split.train")
        self.refuse_training(["split.train=soon"], "neither a count of steps, a share")
        self.refuse_training(["split.folds=3", "split.fold=3"], "the folds are 0 to 2")

    def test_settings_that_do_not_go_together(self):
        self.refuse_training(["relation.graph=grid"], "needs a gridded file", '"edges" or "nearest"')
        self.refuse_training(["relation.graph=nearest"], "needs coordinates, but .*sensors.nc has none")
        self.refuse_training(["model.start=data", "model.latent=2"], "needs model.latent = features")
        self.refuse_training(["train.joint=true", "train.sampling=pairs"],
                             'train.joint goes with train.sampling = "slabs"')
        self.refuse_training(["schedule.name=plateau"], "split.validation or split.folds")
        self.refuse_training(["parallel.partition=tiles"], "needs a gridded file")
        self.refuse_training(["parallel.partition=graph", "relation.discover=dense"],
                             "does not go with a dense relation")
        self.refuse_training(["relation.discover=dense", "relation.discover_start=x"], '"1/n" or a number')


class Run(BadInput):

    def trained(self, name):
        if not os.path.exists(self.path(name)):
            self.succeed(2, "train", "sensors.toml", "--run", name)
        return name

    def test_directory_that_holds_a_run(self):
        run = self.trained("held")
        before = sorted(os.listdir(self.path(run)))
        self.refuse(2, ["train", "sensors.toml", "--run", run], "held already holds a run: choose another --run")
        self.assertEqual(sorted(os.listdir(self.path(run))), before)

    def test_directory_that_is_no_run(self):
        self.refuse(2, ["evaluate", "nowhere"], "nowhere: no such run directory")
        os.mkdir(self.path("plain"))
        self.refuse(2, ["forecast", "plain", "--steps", "1"], "plain: not a run directory: it has no config.toml")
        self.assertEqual(os.listdir(self.path("plain")), [])
        self.refuse(2, ["evaluate", "sensors.nc"], "sensors.nc: no such run directory")

    def test_directory_in_use_and_left_by_a_killed_run(self):
        holder = self.start(2, ["train", "sensors.toml", "--run", "busy", "--set", "train.epochs=1000000000"])
        try:
            begin = time.monotonic()
            while not os.path.exists(self.path("busy/metrics.jsonl")):
                self.assertIsNone(holder.poll(), "the holder trains")
                self.assertLess(time.monotonic() - begin, 120)
                time.sleep(0.05)
            for arguments in [["train", "sensors.toml", "--run", "busy"], ["evaluate", "busy"]]:
                self.refuse(2, arguments,
                            r"busy: this run directory is in use by process \d+ on .*; wait for it or choose")
        finally:
            support.kill_group(holder)
            holder.communicate()
        self.refuse(2, ["evaluate", "busy"], "has no trained state", "train it first")
        self.succeed(2, "train", "sensors.toml", "--run", "busy")
        with open(self.path("busy/metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 2, "the metrics are those of the new run")

    def test_training_that_diverges(self):
        arguments = ["train", "sensors.toml", "--run", "wild"]
        self.refuse(2, [*arguments, "--set", "optimiser.name=sgd", "--set", "optimiser.lr=1e6",
                        "--set", "train.epochs=50"],
                    "the loss is .*not finite.*; lower optimiser.lr or set optimiser.clip")
        self.succeed(2, *arguments)

    def test_damaged_state(self):
        run = self.trained("hurt")
        state = self.path(run + "/checkpoints/state.h5")
        with open(state, "rb") as file:
            whole = file.read()
        for content, pattern in [(whole[:len(whole) // 2], "truncated, damaged"), (b"", "state.h5"),
                                 (whole[:-40] + bytes(b ^ 1 for b in whole[-40:]), "damaged|checksum|HDF5 cannot|it has no")]:
            with open(state, "wb") as file:
                file.write(content)
            self.refuse(2, ["evaluate", run], "state file 'hurt/checkpoints/state.h5' cannot be used", pattern)
        self.assertFalse(os.path.exists(self.path(run + "/evaluation.json")))

    def test_evaluate_and_forecast(self):
        run = self.trained("good")
        self.refuse(2, ["evaluate", run, "--set", "model.latent=3"], "would make another model", r"model\.latent: 1")
        self.refuse(2, ["evaluate", run, "--set", "evaluate.horizons=9"],
                    "no origin with 9 horizons fits", "evaluate.horizons")
        self.refuse(2, ["evaluate", run, "--set", "evaluate.last_origin=19"], "an origin lies between 0 and 17")
        self.refuse(2, ["forecast", run, "--steps", "1", "--origin", "1999-01-01"], "2001-01-01", "1999-01-01")
        self.refuse(2, ["forecast", run, "--steps", "1", "--origin", "soon"], "soon")
        os.rename(self.path("sensors.nc"), self.path("away.nc"))
        try:
            self.refuse(2, ["evaluate", run], r"sensors\.nc: no such file")
        finally:
            os.rename(self.path("away.nc"), self.path("sensors.nc"))
        self.assertEqual(sorted(os.listdir(self.path(run))), [".lock", "checkpoints", "config.toml", "metrics.jsonl"])

    def test_unwritable(self):
        run = self.trained("open")
        self.refuse(2, ["train", "sensors.toml", "--run", "sensors.nc"],
                    "sensors.nc: cannot make this run directory: (a file|Not a directory)")
        self.refuse(2, ["train", "sensors.toml", "--run", "sensors.nc/run"],
                    "sensors.nc/run: cannot make this run directory")
        self.refuse(2, ["forecast", run, "--steps", "1", "-o", "no/folder/f.nc"],
                    r"no/folder/f\.nc.*No such file or directory")
        self.refuse(2, ["data", "synth", "-o", "no/folder/f.nc"], r"no/folder/f\.nc.*No such file or directory")
        if os.geteuid() == 0:
            return  # whom no permission stops
        os.mkdir(self.path("shut"), 0o555)
        self.refuse(2, ["train", "sensors.toml", "--run", "shut"],
                    "shut: cannot write into this run directory: Permission")
        self.refuse(2, ["train", "sensors.toml", "--run", "shut/run"],
                    "shut/run: cannot make this run directory: Permission")


class OneRank(BadInput):
    """A failure on one rank only ends all of them, and the line names the rank."""

    def folders(self, name):
        """Working directories of two ranks; the caller spoils the second one's."""
        folders = [self.path(f"{name}{rank}") for rank in range(2)]
        for folder in folders:
            os.mkdir(folder)
            for file in ["sensors.nc", "sensors.toml"]:
                shutil.copy(self.path(file), folder)
        return folders

    def refuse_second(self, folders, *patterns):
        for arguments in [["train", "sensors.toml", "--run", "run"]]:
            self.refuse(2, arguments, *patterns, folders=folders)
            self.assertFalse(os.path.exists(os.path.join(folders[0], "run")))

    def test_file_is_missing(self):
        folders = self.folders("missing")
        os.remove(os.path.join(folders[1], "sensors.nc"))
        self.refuse_second(folders, r"^rossby: rank 1: sensors\.nc: no such file")

    def test_file_is_damaged(self):
        folders = self.folders("damaged")
        os.truncate(os.path.join(folders[1], "sensors.nc"), 3000)
        self.refuse_second(folders, r"^rossby: rank 1: sensors\.nc: .*(truncated|damaged)")

    def test_file_is_another(self):
        folders = self.folders("other")
        self.netcdf("five.nc", sensors(nodes=5))
        shutil.copy(self.path("five.nc"), os.path.join(folders[1], "sensors.nc"))
        self.refuse_second(folders, r"^rossby: rank 1: sensors\.nc is not the same as on rank 0")

    def test_configuration_is_missing_or_another(self):
        folders = self.folders("config")
        with open(os.path.join(folders[1], "sensors.toml"), "a", encoding="utf-8") as file:
            file.write("[log]\nseconds = 2\n")
        self.refuse_second(folders, r"^rossby: rank 1: sensors\.toml is not the same as on rank 0")
        os.remove(os.path.join(folders[1], "sensors.toml"))
        self.refuse_second(folders, r"^rossby: rank 1: sensors\.toml: cannot read this file")

    def test_exit_code_of_mpiexec(self):
        folders = self.folders("code")
        os.remove(os.path.join(folders[1], "sensors.nc"))
        command = [support.mpiexec]
        for rank, folder in enumerate(folders):
            command += ([":"] if rank else []) + ["-n", "1", "-wdir", folder, support.rossby, *self.train()]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 1, result.stderr)

    def test_edges_on_one_rank_only(self):
        self.netcdf("far_end.nc", sensors(source="0, 1, 9"))  # the second rank reads the last edge
        self.refuse(2, self.train("data.file=far_end.nc"), r"far_end\.nc: edge 2 \(9 -> 0\) names node 9")

    def test_run_directory_is_not_shared(self):
        folders = self.folders("apart")
        self.refuse(2, ["train", "sensors.toml", "--run", "run"], "rank 1: ",
                    "state.h5' is not written", "all ranks need to see", folders=folders)
        self.assertEqual(os.listdir(os.path.join(folders[0], "run", "checkpoints")), [])
        self.assertFalse(os.path.exists(os.path.join(folders[1], "run")))


class FullDisk(BadInput):
    """A small file system of its own, in a mount namespace that ends with the command."""

    def in_small_disk(self, kilobytes, script):
        """Runs a shell script where ./small is a file system of that size."""
        os.makedirs(self.path("small"), exist_ok=True)
        mount = f"mount -t tmpfs -o size={kilobytes}k none small || exit 77\n"
        result = subprocess.run(
            ["unshare", "--mount", "--map-root-user", "sh", "-c", mount + script, "sh", support.rossby,
             support.mpiexec],
            cwd=self.folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
        return result

    def setUp(self):
        if shutil.which("unshare") is None or self.in_small_disk(16, "exit 0").returncode != 0:
            self.skipTest("a small file system cannot be mounted here (no user namespaces?)")

    def check(self, kilobytes, command, *patterns, after="find small -type f"):
        """One line that says the disk is full; returns what `after` prints."""
        result = self.in_small_disk(kilobytes, f'{command} >out.txt 2>err.txt; code=$?; {after}; exit $code')
        with open(self.path("err.txt"), encoding="utf-8") as file:
            shown = support.Result(result.returncode, "", file.read(), [], 0)
        self.assertEqual(shown.code, 1, shown.err + result.stderr)
        self.assertEqual(len(shown.lines), 1, shown.err)
        for pattern in ["^rossby: ", "No space left on device", *patterns]:
            self.assertRegex(shown.lines[0], pattern)
        self.assertNotRegex(result.stdout, r"\.(tmp|part)\b")
        return result.stdout

    def test_synthetic_series(self):
        left = self.check(64, '"$1" data synth --lat 40 --lon 40 --steps 60 -o small/p.nc', r"small/p\.nc")
        self.assertEqual(left, "")

    def test_configuration(self):
        left = self.check(4, '"$2" -n 2 "$1" train sensors.toml --run small/run', "small/run")
        self.assertNotIn("config.toml", left)

    def test_metrics(self):
        left = self.check(20, '"$2" -n 2 "$1" train sensors.toml --run small/run --set train.epochs=60',
                          r"small/run/metrics\.jsonl: cannot write",
                          after='find small -type f; tail -c 1 small/run/metrics.jsonl | od -An -c; '
                                'mount -o remount,size=8m small; "$2" -n 2 "$1" train sensors.toml --run small/run '
                                '>>out.txt 2>>again.txt && wc -l small/run/metrics.jsonl && ls small/run/checkpoints')
        self.assertIn("\\n", left, "whole lines only")
        self.assertRegex(left, "(?m)^2 small/run/metrics.jsonl\nstate.h5$",
                         "the directory serves again, when there is room")

    def test_state(self):
        left = self.check(40, '"$2" -n 2 "$1" train sensors.toml --run small/run', r"state\.h5' is not written")
        self.assertNotIn("state.h5", left)

    def test_evaluation_and_forecast(self):
        if not os.path.exists(self.path("done")):
            self.succeed(2, "train", "sensors.toml", "--run", "done")
        fill = "cp -r done small/; dd if=/dev/zero of=small/fill bs=1k 2>/dev/null; truncate -s -4096 small/fill; "
        left = self.check(256, fill + '"$2" -n 2 "$1" evaluate small/done',
                          r"small/done/evaluation\.json: cannot write")
        self.assertNotIn("evaluation.json", left)
        left = self.check(256, fill + '"$2" -n 2 "$1" forecast small/done --steps 2', r"small/done/forecast\.nc")
        self.assertNotIn("forecast.nc", left)


if __name__ == "__main__":
    support.main()
