"""A small series of sensors with edges, and helpers that damage it."""

import json
import os
import re
import subprocess

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
            observed_from=0, holes=(), dropped=()):
    """Returns the CDL of a series v(time, node) with edges. Nodes in `missing` have no value, and no node has
    one before step `observed_from`. Each (step, node) in `holes` is missing; steps in `dropped` are left
    out."""
    kept = [t for t in range(steps) if t not in dropped]
    values = ["_" if i in missing or t < observed_from or (t, i) in holes else f"{(t * (i + 2)) % 7 + 0.5 * i}"
              for t in kept for i in range(nodes)]
    return f"""netcdf sensors {{
dimensions: time = {len(kept)} ; node = {nodes} ; edge = {len(source.split(","))} ;
variables:
  double time(time) ; time:units = "hours since 2001-01-01" ;
  int edge_src(edge) ; int edge_dst(edge) ; double edge_weight(edge) ;
  float v(time, node) ; v:_FillValue = NaNf ; v:units = "m s-1" ;
data:
  time = {", ".join(map(str, kept))} ;
  edge_src = {source} ; edge_dst = {destination} ; edge_weight = {weight} ;
  v = {", ".join(values)} ;
}}
"""


def ring(steps=30, nodes=9):
    """Returns the CDL of sensors on a ring: each acts on the next, the last on the first."""
    return sensors(steps, nodes, ", ".join(map(str, range(nodes))), ", ".join(str((i + 1) % nodes) for i in range(nodes)),
                   ", ".join("1" for _ in range(nodes)))


def mixed(x):
    """splitmix64's finaliser, as in checksums of state files."""
    x &= 2**64 - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def rewrite_metadata(path, *pairs):
    """Replaces texts in a state file's metadata by others of the same length, as another program version
    would write them."""
    with open(path, "rb") as file:
        whole = file.read()
    begin = whole.index(b'{"format":')
    end = begin + json.JSONDecoder().raw_decode(whole[begin:].decode("latin-1"))[1]
    before = after = whole[begin:end]
    for old, new in pairs:
        assert len(old) == len(new) and old.encode() in after, old
        after = after.replace(old.encode(), new.encode())
    sums = [sum(mixed(mixed(i + 1) + byte) for i, byte in enumerate(text)) % 2**64 for text in (before, after)]
    known = sums[0].to_bytes(8, "little")
    assert whole.count(known) == 1
    whole = (whole[:begin] + after + whole[end:]).replace(known, sums[1].to_bytes(8, "little"))
    with open(path, "wb") as file:
        file.write(whole)


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


class Runs(BadInput):
    """Trainings of the configuration `config`, and their results."""
    config = ""

    def arguments(self, run, *settings):
        return ["train", self.config, "--run", run, *[word for s in settings for word in ("--set", s)]]

    def lines(self, run):
        with open(self.path(run + "/metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def ends(self, run):
        """Returns the final state, and the line of each epoch without times."""
        arrays = json.loads(self.succeed(1, "checkpoint", "inspect", run + "/checkpoints/state.h5", "--json").out)
        return arrays["arrays"], [{k: v for k, v in line.items() if not re.search("second|bytes|sent|place", k)}
                                  for line in self.lines(run)]

    def refuse_settings(self, settings, *patterns):
        with self.subTest(settings):
            self.refuse(2, self.arguments("refused", *settings), *patterns)
            self.assertFalse(os.path.exists(self.path("refused")), "no run directory is made")

    def resumed_at_every_step(self, name, *settings, ranks=2):
        """Compares a training that is left and resumed at every step with one that is not. Daily all starts are in
        one process per rank (train_often.cpp), in a fraction of the time; nightly each is a program of its own, as
        in test_resume.py."""
        self.succeed(ranks, *self.arguments(name, *settings))
        starts = (self.programs_often if support.long_tests else self.train_often)(name + "_often", ranks, *settings)
        self.assertGreater(starts, 7, "several starts")
        self.assertEqual(self.ends(name + "_often"), self.ends(name))

    def train_often(self, run, ranks, *settings):
        program = os.path.join(os.path.dirname(support.rossby), "../tests/apps/train_often")
        command = [support.mpiexec, "-n", str(ranks), program, *self.arguments(run, *settings)[1:]]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=240)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return int(result.stdout)

    def programs_often(self, run, ranks, *settings):
        for start in range(1, 100):
            result = self.run_ranks(ranks, *self.arguments(run, *settings), "--stop-after", "0.000001s")
            self.assertEqual(result.lines, [])
            if result.codes == [0] * ranks:
                return start
            self.assertEqual(result.codes, [75] * ranks, result.err)
        return self.fail("it does not end")

    def leave(self, run, ranks, *settings):
        result = self.run_ranks(ranks, *self.arguments(run, *settings), "--stop-after", "0.000001s")
        self.assertEqual(result.codes, [75] * ranks, result.out + result.err)
        self.assertEqual(result.lines, [])

    def checkpoints(self, run):
        """Returns the names of a run's checkpoints, oldest first."""
        folder = self.path(run + "/checkpoints")
        return sorted(name for name in os.listdir(folder) if name.startswith("step-") and name.endswith(".h5"))


class RingRuns(Runs):
    """Trainings on a ring of sensors."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", ring())
