"""A dense learned relation that streams from files: the same bits as in memory, with less memory."""

import json
import os
import re

import support
from sensors import Runs, sensors

NODES = 13
STNN = """
[data]
file = "sensors.nc"
variables = ["v"]
center = "node"
[split]
train = 21
validation = 5
[relation]
graph = "none"
discover = "dense"
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
epochs = 3
slab_steps = 4
[evaluate]
horizons = 2
lim_modes = 2
"""


def of_rows(rows, chunks, word=4, arrays=3):
    """Returns settings for chunks of `rows` rows, with `chunks` of them in memory."""
    size = rows * NODES * word
    return [f"relation.chunk_mib={(size + 1) / 2**20}", f"relation.stream_gib={(chunks * arrays * size + 1) / 2**30}"]


class Streamed(Runs):
    config = "stnn.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30, nodes=NODES))
        cls.write("stnn.toml", STNN)
        os.mkdir(cls.path("scratch"))

    def streamed(self):
        return ["relation.memory=streamed", f"relation.stream_folder={self.path('scratch')}"]

    @support.long_test
    def test_the_bits_of_memory(self):
        for name, ranks, rows, chunks, *settings in (
                ("one", 1, 2, 2), ("all", 1, 2, 9), ("odd", 2, 4, 2), ("three", 3, 1, 3), ("whole", 2, 100, 1),
                ("closed", 2, 2, 2, "optimiser.beta1=0", "optimiser.decay_z=0"),
                ("decay", 2, 2, 2, "optimiser.decay_relation=0.01"), ("adamw", 1, 3, 2, "optimiser.name=adamw"),
                ("joint", 2, 2, 2, "train.joint=true"), ("grid", 4, 2, 2, "parallel.time_groups=2"),
                ("double", 2, 2, 2, "model.precision=double"), ("bf16", 2, 2, 2, "relation.precision=bf16")):
            with self.subTest(name):
                word = {"double": 8, "bf16": 2}.get(name, 4)
                settings += of_rows(rows, chunks, word)
                self.succeed(ranks, *self.arguments(name, *settings))
                self.succeed(ranks, *self.arguments(name + "_streamed", *settings, *self.streamed()))
                self.assertEqual(self.ends(name + "_streamed"), self.ends(name))
                self.assertEqual(os.listdir(self.path("scratch")), [])

    def test_evaluation_and_forecast(self):
        for run, settings in (("in_memory", []), ("in_files", self.streamed())):
            self.succeed(2, *self.arguments(run, *of_rows(2, 2), *settings))
            self.succeed(2, "evaluate", run)
            self.succeed(2, "forecast", run, "--steps", "3")
        def text(run):
            with open(self.path(run + "/evaluation.json"), encoding="utf-8") as file:
                return file.read()
        self.assertEqual(text("in_memory"), text("in_files"))
        self.succeed(1, "evaluate", "in_files", "--set", "relation.memory=resident")
        # The stream folder of the training no longer exists.
        for settings in (["relation.memory=resident"], [f"relation.stream_folder={self.path('.')}"]):
            self.succeed(1, "forecast", "in_files", "--steps", "2", "--set", settings[0])
        self.refuse(1, ["forecast", "in_files", "--steps", "2", "--set", "relation.stream_folder=/no/such/folder"], "/no/such/folder")
        self.refuse(1, ["forecast", "in_files", "--steps", "2", "--set", "model.latent=9"], "model.latent")

    def test_too_little_memory_of_one_rank_alone(self):
        """One rank needs memory for one chunk, another for two: all ranks report that it is not enough."""
        chunk = 4 * 2 * NODES  # two rows of W
        for ranks in (2, 3):
            self.refuse(ranks, self.arguments("alone", "optimiser.beta1=0", f"relation.chunk_mib={(chunk + 1) / 2**20}",
                                              f"relation.stream_gib={1.5 * chunk / 2**30}", *self.streamed()), "are not enough: ")
            self.assertFalse(os.path.exists(self.path("alone")))

    def test_goes_on_in_files_after_memory(self):
        """The memory for chunks is unchanged, but the run in memory did not need to fit it."""
        room = "relation.stream_gib=1e-6"
        self.leave("from_memory", 1, room)
        result = self.run_ranks(1, *self.arguments("from_memory", *self.streamed(), room))
        self.assertEqual(result.codes, [0], result.err)
        self.assertRegex(result.err, "warning: .* was computed with relation.chunk_mib = 32")

    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("left", *of_rows(2, 2), *self.streamed(), "train.slab_steps=12")

    def test_resumed_in_memory_and_in_files(self):
        settings = of_rows(3, 2)
        self.succeed(2, *self.arguments("stays", *settings))
        self.leave("moves", 2, *settings, *self.streamed())
        self.leave("moves", 2, *settings)
        self.leave("moves", 2, *settings, *self.streamed())
        self.succeed(2, *self.arguments("moves", *settings))
        self.assertEqual(self.ends("moves"), self.ends("stays"))
        # With so many steps, groups in memory sum gradients.
        groups = [*settings, "train.slab_steps=8", "parallel.time_groups=2", "train.lanes=2"]
        self.leave("grid_moves", 2, *groups)
        result = self.run_ranks(2, *self.arguments("grid_moves", *groups, *self.streamed()))
        self.assertEqual(result.codes, [0, 0], result.err)
        self.assertRegex(result.err, "warning: .* was computed with relation.memory = resident. From here on, results "
                                     "equal those of an uninterrupted run only up to rounding\n$")

    def inspected(self, run):
        return json.loads(self.succeed(1, "checkpoint", "inspect", run + "/checkpoints/state.h5", "--json").out)

    def test_what_was_chosen_is_said_and_kept(self):
        """A trial chooses the kernel of a dense relation, and the processor the instruction set. Resumed
        trainings keep both."""
        # Large enough that a trial may choose either.
        self.netcdf("tried.nc", sensors(steps=8, nodes=1200))
        data = ["data.file=tried.nc", "split.train=6", "split.validation=1", "train.epochs=2", "evaluate.baselines=false", "model.latent=16",
                "model.start=uniform"]
        said = re.search(r"\ndense     products: (own|blas) \(own [0-9.]+ ms, blas [0-9.]+ ms\)\n", self.succeed(2, *self.arguments("tried", *data)).out)
        self.assertIsNotNone(said)
        self.assertEqual(self.inspected("tried")["dense_kernel"], said[1])
        for name, member, key, chosen, other in (("kernel", "dense_kernel", "parallel.dense_kernel", "blas", "own"),
                                                 ("isa", "isa", "parallel.isa", "portable", None)):
            with self.subTest(name):
                if other is None:
                    other = self.inspected("tried")["isa"]
                    data = [*data, "parallel.dense_kernel=own"]  # trials of two first starts may end differently
                self.succeed(2, *self.arguments(name, *data, f"{key}={chosen}"))
                self.assertEqual(self.inspected(name)[member], chosen)
                self.leave(name + "_left", 2, *data, f"{key}={chosen}")
                result = self.run_ranks(2, *self.arguments(name + "_left", *data))
                self.assertEqual((result.codes, result.err), ([0, 0], ""))
                self.assertEqual(self.inspected(name + "_left")[member], chosen)
                self.assertEqual(self.ends(name + "_left"), self.ends(name))
                if other == chosen:
                    continue
                self.leave(name + "_moved", 2, *data, f"{key}={chosen}")
                result = self.run_ranks(2, *self.arguments(name + "_moved", *data, f"{key}={other}"))
                self.assertEqual(result.codes, [0, 0], result.err)
                self.assertRegex(result.err, f"^rossby: warning: .* was computed with .*{chosen}.*. From here on, results equal those of an "
                                             "uninterrupted run only up to rounding\n$")
        self.refuse_settings(["parallel.isa=sse9"], "parallel.isa")

    def test_resumed_with_the_chunks_that_it_had(self):
        """The chunks follow from the memory at the first start, unless the user sets another size."""
        self.netcdf("middle.nc", sensors(steps=8, nodes=600))  # 1.4 MiB of weights
        settings = ["data.file=middle.nc", "split.train=6", "split.validation=1", "train.epochs=2", "evaluate.baselines=false",
                    "parallel.dense_kernel=own"]
        little = [*settings, *self.streamed(), "parallel.device_memory=2MiB"]
        self.succeed(2, *self.arguments("chunks", *little))
        self.succeed(2, *self.arguments("chunk", *settings))
        self.assertNotEqual(self.ends("chunk")[0], self.ends("chunks")[0], "chunks sum in another order")
        for run, more in (("kept", []), ("other", ["relation.chunk_mib=32"])):
            self.leave(run, 2, *little)
            result = self.run_ranks(2, *self.arguments(run, *settings, *more))
            self.assertEqual(result.codes, [0, 0], result.err)
            self.assertEqual("was computed with relation.chunk_mib = 0.0625" in result.err, run == "other", result.err)
        self.assertEqual(self.ends("kept"), self.ends("chunks"))
        # A chunk size above the default also stays, if there is memory for it.
        self.leave("asked", 2, *settings, *self.streamed(), "relation.chunk_mib=40")
        self.succeed(2, *self.arguments("asked", *settings, *self.streamed()))

    def test_resumed_with_less_memory(self):
        """There is no memory for the earlier chunks: the run uses smaller ones and says so."""
        self.succeed(1, *self.arguments("less", *self.streamed(), "relation.stream_gib=0.01", "train.epochs=2"))
        less = f"relation.stream_gib={3 * 4 * 4 * NODES / 2**30}"  # two rows of W and its moments, and their copies
        result = self.run_ranks(1, *self.arguments("less", *self.streamed(), less))
        self.assertEqual(result.codes, [0], result.err)
        self.assertRegex(result.err, r"warning: .* was computed with relation.chunk_mib = .*. From here on, results equal")
        self.succeed(1, *self.arguments("more", *self.streamed(), "relation.stream_gib=0.01", "train.epochs=2"))
        self.succeed(1, *self.arguments("more", *self.streamed(), "relation.stream_gib=0.02"))

    def test_memory(self):
        nodes = 4000  # 61 MiB of weights, as much of each moment
        self.netcdf("wide.nc", sensors(steps=8, nodes=nodes))
        # A trial of BLAS may or may not take 32 MiB.
        settings = ["data.file=wide.nc", "split.train=6", "split.validation=1", "train.epochs=2",
                    "relation.chunk_mib=2", "evaluate.baselines=false", "parallel.dense_kernel=own"]
        most, training = {}, {}
        for run, more in (("much", []), ("little", [*self.streamed(), "relation.stream_gib=0.03"])):
            out = self.succeed(1, *self.arguments(run, *settings, *more)).out
            most[run] = float(re.search(r"at most ([0-9.]+) MiB a rank", out)[1])
            training[run] = max(line["peak_rss_bytes"] for line in self.lines(run)) / 2**20
        self.assertEqual(self.ends("little"), self.ends("much"))
        # W, m and v have 183 MiB, the chunks in memory 31. Checkpoints are written in pieces of 64 MiB.
        self.assertGreater(training["much"] - training["little"], 140, training)
        self.assertGreater(most["much"] - most["little"], 80, most)

    def test_bad_settings(self):
        self.refuse_settings(["relation.memory=streamed", "relation.discover=low_rank"],
                             "streamed. needs a dense learned relation")
        self.refuse_settings(["relation.memory=streamed", "train.sampling=pairs"], "needs train.sampling = .slabs")
        self.refuse_settings(["relation.memory=streamed", "optimiser.name=sgd"], "needs optimiser.name")
        self.refuse_settings(["relation.memory=streamed", "relation.stream_folder=/no/such"], "/no/such: cannot create a file in this folder")
        self.refuse_settings(["relation.memory=streamed", *of_rows(2, 1)], "are not enough: two chunks of .* are needed")
        self.refuse_settings(["relation.memory=streamed", "relation.discover=none", "model.name=gru"], "streamed. works only with model.name")


if __name__ == "__main__":
    support.main()
