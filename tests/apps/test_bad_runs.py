"""Runs that cannot continue: run directories, damaged states, a failing rank, full disks. No partial file
stays."""

import os
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest.mock

import support
from sensors import BadInput, sensors
from test_end_to_end import state_values


class Run(BadInput):

    def trained(self, name):
        if not os.path.exists(self.path(name)):
            self.succeed(2, "train", "sensors.toml", "--run", name)
        return name

    def test_directory_that_holds_a_run(self):
        run = self.trained("held")
        before = sorted(os.listdir(self.path(run)))
        self.refuse(2, ["train", "sensors.toml", "--run", run, "--resume", "never"],
                    "held already contains a run. Choose another --run")
        result = self.succeed(2, "train", "sensors.toml", "--run", run)
        self.assertRegex(result.out, "nothing is left to do: all epochs done. Raise train.epochs")
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
                            r"busy: this run directory is in use by process \d+ on .*. Wait until this process ends, or name another run directory")
        finally:
            os.killpg(holder.pid, signal.SIGKILL)
            holder.communicate()
        begin = time.monotonic()  # without mpiexec, ranks end within seconds
        while "in use by process" in self.run_ranks(2, "evaluate", "busy").err:
            self.assertLess(time.monotonic() - begin, 30)
        self.refuse(2, ["evaluate", "busy"], "has no trained state", "Train this run first")
        self.succeed(2, "train", "sensors.toml", "--run", "busy")
        with open(self.path("busy/metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 2, "the metrics are those of the new run")

    def test_training_that_diverges(self):
        arguments = ["train", "sensors.toml", "--run", "wild"]
        self.refuse(2, [*arguments, "--set", "optimiser.name=sgd", "--set", "optimiser.lr=1e6",
                        "--set", "train.epochs=50"],
                    "the loss is .*not finite.*. Lower optimiser.lr, or set optimiser.clip")
        self.succeed(2, *arguments)

    def test_damaged_state(self):
        run = self.trained("hurt")
        state = self.path(run + "/checkpoints/state.h5")
        with open(state, "rb") as file:
            whole = file.read()
        value = struct.pack("<3f", *state_values(state)["factors"][:3])
        self.assertEqual(whole.count(value), 1)
        for content, pattern in [(whole[:len(whole) // 2], "truncated, damaged"), (b"", "truncated, damaged"),
                                 (whole.replace(value, value[::-1]), "array 'factors' is damaged: its checksum")]:
            with open(state, "wb") as file:
                file.write(content)
            self.refuse(2, ["evaluate", run], "state file 'hurt/checkpoints/state.h5' cannot be used", pattern)
        self.assertFalse(os.path.exists(self.path(run + "/evaluation.json")))
        # The state of an ended run is also rewritten from the checkpoint.
        result = self.run_ranks(2, "train", "sensors.toml", "--run", run)
        self.assertEqual(result.codes, [0, 0], result.err)
        self.assertRegex(result.err, "^rossby: warning: state file 'hurt/checkpoints/state.h5' .*'factors' is damaged.*; the run goes on from its checkpoint\n$")
        self.assertNotIn("nothing is left to do", result.out)
        with open(state, "rb") as file:
            self.assertIn(value, file.read())
        self.succeed(2, "evaluate", run)

    def test_files_that_an_ended_run_lost(self):
        run = self.trained("lost")
        record, config = (self.path(f"{run}/{name}") for name in ("checkpoints/data.h5", "config.toml"))
        again = ["train", "sensors.toml", "--run", run]
        before = self.succeed(2, "evaluate", run, "--set", "data.file=sensors.nc").out
        with open(config, encoding="utf-8") as file:
            text = file.read()
        os.remove(config)
        os.remove(record)
        self.assertRegex(self.succeed(3, *again).out,
                         "(?m)^restored  lost/config.toml, lost/checkpoints/data.h5: missing or damaged\ndone      nothing is left to do")
        with open(config, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)
        with open(record, "r+b") as file:
            file.truncate(3000)
        self.refuse(2, ["evaluate", run, "--accept-changed-data"], "lost/checkpoints/data.h5. cannot be used: .*truncated",
                    "The command that trained this run writes this file again")
        self.assertRegex(self.succeed(2, *again).out, "(?m)^restored  lost/checkpoints/data.h5: missing")
        self.assertNotIn("restored", self.succeed(2, *again).out)
        accepted = self.succeed(2, "evaluate", run, "--accept-changed-data").out
        self.assertNotIn("warning", accepted)
        self.assertEqual(self.succeed(2, "evaluate", run, "--set", "data.file=sensors.nc").out, before)

    def test_advice_to_go_on(self):
        for setting, more, text in (("schedule.name=plateau", "schedule.min_lr=0.002", r"learning rate fell to schedule.min_lr\n"),
                                    ("train.early_stop=1", "schedule.name=plateau", "early stop: .*. Raise train.early_stop to go on"),
                                    ("train.max_seconds=1e-6", "log.seconds=1", "train.max_seconds reached. Raise train.max_seconds to go on")):
            run = setting.split("=", maxsplit=1)[0]
            arguments = ["train", "sensors.toml", "--run", run, "--set", setting, "--set", more, "--set", "train.epochs=40", "--set", "schedule.metric=train", "--set",
                         "schedule.threshold=0.9", "--set", "schedule.patience=1"]
            self.succeed(1, *arguments)
            self.assertRegex(self.succeed(1, *arguments).out, "nothing is left to do: " + text)

    def test_evaluate_and_forecast(self):
        run = self.trained("good")
        self.refuse(2, ["evaluate", run, "--set", "model.latent=3"], "would change the model", r"model\.latent: 3 \(asked for\), 1")
        self.refuse(2, ["evaluate", run, "--set", "evaluate.horizons=9"],
                    "too few for a forecast of 9 steps", "evaluate.horizons")
        self.refuse(2, ["evaluate", run, "--set", "evaluate.last_origin=19"], "choose origins from 0 to 17")
        self.refuse(2, ["forecast", run, "--steps", "1", "--origin", "1999-01-01"], "2001-01-01", "1999-01-01")
        self.refuse(2, ["forecast", run, "--steps", "1", "--origin", "soon"], "soon")
        os.rename(self.path("sensors.nc"), self.path("away.nc"))
        try:
            self.refuse(2, ["evaluate", run], r"sensors\.nc: no such file")
        finally:
            os.rename(self.path("away.nc"), self.path("sensors.nc"))
        self.assertEqual(sorted(os.listdir(self.path(run))), [".lock", "checkpoints", "config.toml", "metrics.jsonl"])

    def test_another_petsc(self):
        with open(support.rossby, "rb") as file:
            name = re.search(rb"\0(libpetsc[\w.-]*\.so[\w.]*)\0", file.read())
        compiler = shutil.which("cc")
        if not name or not compiler:
            self.skipTest("PETSc is linked, or there is no compiler")
        library = self.path("petsc/" + name.group(1).decode())
        os.mkdir(self.path("petsc"))
        subprocess.run([compiler, "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
        with unittest.mock.patch.dict(os.environ, LD_LIBRARY_PATH=self.path("petsc") + ":" + os.environ.get("LD_LIBRARY_PATH", "")):
            self.refuse(2, ["train", "sensors.toml", "--run", "other_petsc", "--set", "parallel.row_order=rcm"],
                        "petsc/libpetsc.* has no PETSC_COMM_WORLD, so it is not PETSc 3.*Load the module of that version")
            self.succeed(2, "train", "sensors.toml", "--run", "without_petsc")

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
            return  # permissions do not stop root
        os.mkdir(self.path("shut"), 0o555)
        self.refuse(2, ["train", "sensors.toml", "--run", "shut"],
                    "shut: cannot write into this run directory: Permission")
        self.refuse(2, ["train", "sensors.toml", "--run", "shut/run"],
                    "shut/run: cannot make this run directory: Permission")


class OneRank(BadInput):
    """A failure on only one rank ends all of them, and the line names the rank."""

    def folders(self, name, ranks=2):
        """Returns working directories of ranks; the caller spoils the last one."""
        folders = [self.path(f"{name}{rank}") for rank in range(ranks)]
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
        self.refuse_second(folders, r"^rossby: rank 1: sensors\.nc differs from that of rank 0")

    def test_configuration_is_missing_or_another(self):
        folders = self.folders("config")
        with open(os.path.join(folders[1], "sensors.toml"), "a", encoding="utf-8") as file:
            file.write("[log]\nseconds = 2\n")
        self.refuse_second(folders, r"^rossby: rank 1: sensors\.toml differs from that of rank 0")
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

    def test_graph_of_one_time_group(self):
        """One line, at once, with the rank's number in the job, not in its group."""
        folders = self.folders("graphs", 4)
        self.netcdf("negative.nc", sensors(weight="1, -0.5, 2"))
        for folder in folders[2:]:
            shutil.copy(self.path("negative.nc"), os.path.join(folder, "sensors.nc"))
        settings = ["model.name=dcrnn", "window.inputs=2", "window.outputs=1", "evaluate.horizons=1", "parallel.time_groups=2"]
        result = self.refuse(4, self.train(*settings), "^rossby: rank [23]: sensors.nc: an edge has weight -0.5", folders=folders)
        self.assertLess(result.seconds, 8, "no rank waits for others to come")

    def test_run_directory_is_not_shared(self):
        folders = self.folders("apart")
        self.refuse(2, ["train", "sensors.toml", "--run", "run"], "rank 1: ", "run/checkpoints: the directory does not exist",
                    "Put the run directory on a file system that all hosts share", folders=folders)
        self.assertEqual(os.listdir(os.path.join(folders[0], "run", "checkpoints")), [])
        self.assertFalse(os.path.exists(os.path.join(folders[1], "run")))


class FullDisk(BadInput):
    """A separate small file system, in a mount namespace that ends with the command."""

    def in_small_disk(self, kilobytes, script):
        """Runs a shell script with a file system of that size mounted on ./small."""
        os.makedirs(self.path("small"), exist_ok=True)
        mount = f"mount -t tmpfs -o size={kilobytes}k none small || exit 77\n"
        result = subprocess.run(
            ["unshare", "--mount", "--map-root-user", "sh", "-c", mount + script, "sh", support.rossby,
             support.mpiexec],
            cwd=self.folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False,
            # Root of this namespace may not write to the folder of mpiexec's files, which the real root owns.
            env=dict(os.environ, TMPDIR=self.folder))
        return result

    def setUp(self):
        if shutil.which("unshare") is None or self.in_small_disk(16, "exit 0").returncode != 0:
            self.skipTest("a small file system cannot be mounted here (no user namespaces?)")

    def check(self, kilobytes, command, *patterns, after="find small -type f", lines=1):
        """Checks that the last of so many lines says the disk is full. Returns the output of `after`."""
        result = self.in_small_disk(kilobytes, f'{command} >out.txt 2>err.txt; code=$?; {after}; exit $code')
        with open(self.path("err.txt"), encoding="utf-8") as file:
            shown = support.Result(result.returncode, "", file.read(), [], 0)
        self.assertEqual(shown.code, 1, shown.err + result.stderr)
        self.assertEqual(len(shown.lines), lines, shown.err)
        for pattern in ["^rossby: ", "No space left on device", *patterns]:
            self.assertRegex(shown.lines[-1], pattern)
        self.assertNotRegex(result.stdout, r"\.(tmp|part)\b")
        return result.stdout

    def test_synthetic_series(self):
        left = self.check(64, '"$1" data synth --lat 40 --lon 40 --steps 60 -o small/p.nc', r"small/p\.nc")
        self.assertEqual(left, "")

    def test_hindcasts(self):
        self.succeed(1, "data", "synth", "--lat", "40", "--lon", "40", "--steps", "60", "-o", "grid.nc")
        sets = ["data.file=grid.nc", "relation.graph=grid", "train.epochs=1", "evaluate.horizons=3", "evaluate.lim_modes=3"]
        self.write("empty.toml", "")
        self.succeed(2, "train", "empty.toml", "--run", "grid", *[word for s in sets for word in ("--set", s)])
        for more in ["", "--deflate 1"]:
            with self.subTest(more):
                left = self.check(192, f'"$2" -n 2 "$1" evaluate grid -o small/e.json --hindcasts small/h.nc {more}',
                                  r"small/h\.nc: cannot write this file")
                self.assertEqual(left, "")

    def test_configuration(self):
        left = self.check(4, '"$2" -n 2 "$1" train sensors.toml --run small/run', "small/run")
        self.assertNotIn("config.toml", left)

    def test_metrics(self):
        """Lines without room wait: the training goes on with a warning, and fails at its end."""
        fill = "dd if=/dev/zero of=small/fill bs=1k 2>/dev/null; truncate -s -40960 small/fill; "
        train = '"$2" -n 2 "$1" train sensors.toml --run small/run'
        left = self.check(8192, f"{fill} {train} --set train.epochs=60 --set checkpoint.keep=0", r"small/run/metrics\.jsonl: cannot write",
                          lines=2, after="find small/run -type f; tail -c 1 small/run/metrics.jsonl | od -An -c; rm small/fill; "
                                f"{train} >>out.txt 2>>again.txt && wc -l small/run/metrics.jsonl && "
                                "ls small/run/checkpoints")
        self.assertIn("\\n", left, "whole lines only")
        self.assertRegex(left, "(?m)^2 small/run/metrics.jsonl\ndata.h5\nstate.h5\nstep-",
                         "the directory serves again, when there is room")

    def test_no_room_for_checkpoints_is_found_before_the_first_step(self):
        left = self.check(200, '"$2" -n 2 "$1" train sensors.toml --run small/run', r"step-\d+\.h5' could not be written",
                          after="find small/run -type f; cat small/run/metrics.jsonl; cat out.txt")
        self.assertNotRegex(left, r"\.h5\n|epoch")

    def test_state(self):
        left = self.check(40, '"$2" -n 2 "$1" train sensors.toml --run small/run --set checkpoint.keep=0', r"(data|state)\.h5' is not written")
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

    def test_results_go_to_another_disk(self):
        self.succeed(2, "train", "sensors.toml", "--run", "other")
        result = self.in_small_disk(256, "cp -r other small/; dd if=/dev/zero of=small/fill bs=1k 2>/dev/null; "
                                    '"$2" -n 2 "$1" forecast small/other --steps 2 -o other.nc && "$2" -n 2 "$1" evaluate small/other -o other.json')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(os.path.exists(self.path("other.nc")) and os.path.exists(self.path("other.json")))


if __name__ == "__main__":
    support.main()
