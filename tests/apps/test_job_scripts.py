"""The job scripts of jobscripts/slurm without Slurm: the commands that they would run, and the errors."""

import os
import pathlib
import shutil
import subprocess

import support
from studies import DRIVER, Studies

ROOT = DRIVER.parents[1]


class Scripts(Studies):
    """The job scripts without Slurm."""

    def script(self, *command, code=0, **environment):
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60,
                                env={**{k: v for k, v in os.environ.items() if not k.startswith("ROSSBY_")}, **environment})
        self.assertEqual(result.returncode, code, f"{command}\n{result.stdout}\n{result.stderr}")
        return result.stdout if code == 0 else result.stderr

    def test_programs_and_paths(self):
        """The repository has spaces in its path, and PATH has the program."""
        self.program("job slurm/scontrol", 'cat "$here/job_$3"')
        slurm = pathlib.Path(self.path("job slurm"))
        program = self.program("job slurm/rossby", "true")
        other = self.program("job slurm/rossby-fast", "true")
        tree = pathlib.Path(self.path("a tree"))
        shutil.copytree(ROOT / "jobscripts", tree / "jobscripts")
        for name in ("train", "train_array", "scaling_strong", "scaling_weak"):
            script = tree / f"jobscripts/slurm/{name}.sbatch"
            shutil.copy(script, self.path("slurm_script"))  # as Slurm does
            (slurm / "job_5").write_text(f"JobId=5 JobName=x\n   Command={script} stnn.toml --run a b\n   WorkDir={self.folder}\n")
            for more, expected in ((None, program), ("rossby-fast", other), ("rossby-none", "rossby-none")):
                environment = {"ROSSBY_PROGRAM": more} if more else {}
                out = self.script("bash", self.path("slurm_script"), "--dry-run", "stnn.toml", "--run=a b", SLURM_JOB_ID="5",
                                  PATH=f"{slurm}:{os.environ['PATH']}", **environment)
                self.assertIn(f"== tree {tree}, ", out)
                self.assertIn(f"== program {expected}\n", out)
        self.assertRegex(self.script("bash", str(tree / "jobscripts/slurm/train.sbatch"), "stnn.toml", "--run", "a", code=1,
                                     ROSSBY_PROGRAM="rossby-none"), "error: no program rossby-none on the PATH. ")
        out = self.script("bash", str(tree / "jobscripts/slurm/train_array.sbatch"), "--dry-run", "stnn.toml", "--run=seeds")
        self.assertIn("--run seeds/seed-1 ", out)

    def test_stages(self):
        script = str(ROOT / "jobscripts/slurm/scaling_strong.sbatch")
        for more, name in (([], "_groups-1_seed-1"), (["--set", "parallel.stages=2"], "_groups-1_stages-2_seed-1"),
                           (["--set=parallel.stages=1", "--set=parallel.time_groups=2"], "_groups-2_seed-1")):
            out = self.script("bash", script, "--dry-run", "stnn.toml", "--study", "st", *more, SLURM_NTASKS="4")
            self.assertIn(f"--run st/ranks-4{name} ", out)

    def test_file_systems_without_hard_links(self):
        self.program("no_links/ln", "exit 1")
        command = ['. "$0/jobscripts/slurm/common.sh"; . "$0/jobscripts/slurm/scaling.sh"; write_study "$@"', str(ROOT)]
        path = {"PATH": f"{self.path('no_links')}:{os.environ['PATH']}"}
        os.mkdir(self.path("linkless"))
        for _ in range(2):
            self.script("bash", "-c", *command, "linkless", "weak", "data.file", **path)
            self.assertEqual(self.load("linkless/study.json", "study.schema.json"),
                             {"format": 1, "kind": "weak", "label": "linkless", "scaled": ["data.file"]})
        self.assertEqual(os.listdir(self.path("linkless")), ["study.json"])
        self.assertIn("this file lists runs of another kind of study, not strong",
                      self.script("bash", "-c", *command, "linkless", "strong", code=1, **path))

    def test_rendered(self):
        render = str(ROOT / "jobscripts/slurm/render.sh")
        for options, run, pattern in (
                (["--seeds", "5-1"], ["--run", "r"], "--seeds 5-1: FIRST is larger than LAST"),
                (["--job-name", "a b"], ["--run", "r"], "--job-name 'a b': use a name without spaces"),
                (["--partition", "a b"], ["--run", "r"], "--partition 'a b': use a name without spaces"),
                (["--time", "2", "--before", "120"], ["--run", "r"], "--before 120: .*--time 2 is 120 s"),
                (["--time", "1-1", "--before", "90000"], ["--run", "r"], "--time 1-1 is 90000 s"),
                ([], ["--run"], "--run needs the folder of the run"), ([], ["--run="], "--run needs the folder of the run"),
                ([], ["--run", "--set", "a=b"], "--run needs the folder of the run"), ([], [], "the run directory is missing. Give --run DIR after CONFIG")):
            with self.subTest(options=options, run=run):
                err = self.script(render, *options, "stnn.toml", *run, code=1)
                self.assertRegex(err, r"\Aerror: [^\n]*" + pattern + r"[^\n]*\n\Z")
        for options in (["--seeds", "09-10"], ["--time", "1-1", "--before", "89999"], ["--time", "2:01"], ["--time", "0"]):
            self.assertTrue(self.script(render, *options, "stnn.toml", "--run=r").endswith(" stnn.toml --run=r\n"))


if __name__ == "__main__":
    support.main()
