"""Trainings on a simulated device: losses equal the host's, over ranks and resumed; missing devices are refused."""

import json
import re
import subprocess

import support
from sensors import Runs, sensors
from test_windows import GRAPH_WAVENET, STID, WINDOWS

STNN = """
[data]
file = "sensors.nc"
variables = ["v"]
center = "node"
[split]
train = 21
validation = 5
[relation]
graph = "nearest"
neighbours = 3
[model]
latent = 2
l2_z = 0.01
l1_rel = 0.01
precision = "double"
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

DEVICE = "parallel.device=simulated"
PAIRS = ["train.sampling=pairs", "train.pairs=50"]
STREAMED = ["relation.memory=streamed", "relation.update=device"]
ON_HOST = ["relation.memory=streamed", "relation.update=host"]
GROUPS = ["parallel.time_groups=2", "train.lanes=2"]
LONG_SLABS = "train.slab_steps=12"  # two in a pass: twelve steps to leave at, not 33


class Device(Runs):
    config = "stnn.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30, nodes=9, holes=[(3, 2), (17, 8)]))
        cls.write("stnn.toml", STNN.replace('"nearest"', '"edges"'))
        cls.write("windows.toml", WINDOWS + '[parallel]\ndevice = "cpu"\n')

    def same_losses(self, name, ranks, *settings, tolerance=1e-10):
        self.succeed(ranks, *self.arguments(name + "_host", *settings, "parallel.device=cpu"))
        out = self.succeed(ranks, *self.arguments(name, *settings, DEVICE)).out
        self.assertIn("device    simulated", out)
        self.near(name, name + "_host", tolerance)

    def near(self, run, other, tolerance):
        """Losses and validations of two runs."""
        for here, there in zip(self.lines(run), self.lines(other), strict=True):
            figures = [k for k in there if k in ("loss", "validation_rmse", "validation_mae")]
            self.assertGreaterEqual(len(figures), 2)
            for key in figures:
                self.assertAlmostEqual(here[key], there[key], delta=tolerance * (1 + abs(there[key])), msg=f"{run} {key}")

    def test_stnn(self):
        for name, ranks, *settings in (
                ("given", 2), ("given3", 3, "model.layers=2", "model.hidden=3"), ("refine", 2, "relation.mode=refine"),
                ("low_rank", 2, "relation.discover=low_rank", "relation.rank=2"),
                ("dense", 1, "relation.discover=dense"), ("dense3", 3, "relation.discover=dense", "optimiser.beta1=0"),
                ("stored", 2, "relation.storage=dense", "relation.mode=refine"),
                ("joint", 4, "train.joint=true"), ("adamw", 1, "optimiser.name=adamw", "model.dropout_z=0.2"),
                ("sgd", 2, "optimiser.name=sgd", "optimiser.lr=0.01"), ("self", 3, "relation.self=true"),
                ("pairs", 2, *PAIRS, "relation.mode=refine", "relation.self=true"),
                ("pairs_low_rank", 3, *PAIRS, "relation.discover=low_rank", "relation.rank=2"),
                ("pairs_dense", 2, *PAIRS, "relation.discover=dense", "model.dropout_z=0.2"),
                ("groups", 2, *GROUPS, "relation.mode=refine", "relation.self=true"),
                ("groups_low_rank", 4, *GROUPS, "relation.discover=low_rank", "relation.rank=2"),
                ("groups_dense", 4, *GROUPS, "relation.discover=dense", "optimiser.beta1=0"),
                ("groups_summed", 2, *GROUPS, "relation.discover=dense", "optimiser.name=sgd"),
                ("groups_joint", 4, "parallel.time_groups=4", "train.lanes=4", "train.joint=true")):
            with self.subTest(name):
                self.same_losses(name, ranks, *settings)

    def test_float(self):
        self.same_losses("float", 2, "model.precision=float", "relation.mode=refine", tolerance=1e-4)

    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("left", "relation.discover=dense", DEVICE, LONG_SLABS)

    @support.long_test
    def test_pairs_and_groups_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("pairs_left", *PAIRS, DEVICE, "train.pairs=100")
        self.resumed_at_every_step("groups_left", *GROUPS, "relation.discover=dense", DEVICE, LONG_SLABS)

    def same_forecasts(self, name, ranks, *settings, tolerance=1e-10):
        """Scores and forecasts of a run trained on the host, computed on a device and on the host."""
        self.succeed(1, *self.arguments(name, *settings))
        for words in (["evaluate", name, "--set", "evaluate.baselines=false"], ["forecast", name, "--steps", "2"]):
            figures = []
            for place, count in (("cpu", 1), ("simulated", ranks)):
                file = f"{name}_{place}.{'json' if words[0] == 'evaluate' else 'nc'}"
                out = self.succeed(count, *words, "--device", place, "-o", file).out
                self.assertEqual("device    simulated\n" in out, place == "simulated", "where it was made")
                if words[0] == "evaluate":
                    with open(self.path(file), encoding="utf-8") as text:
                        figures.append([h[m]["model"] for h in json.load(text)["horizons"] for m in ("rmse", "mae")])
                else:
                    dump = subprocess.run(["ncdump", "-v", "v", "-p", "9,17", self.path(file)], check=True, capture_output=True, text=True)
                    figures.append([float(v) for v in re.findall(r"-?[\d.]+(?:e[+-]\d+)?", dump.stdout.split("data:")[1])])
            self.assertGreaterEqual(len(figures[0]), 4)
            for there, here in zip(figures[1], figures[0], strict=True):
                self.assertAlmostEqual(there, here, delta=max(tolerance, 2e-7 * (words[0] == "forecast")) * (1 + abs(here)), msg=name)

    @support.long_test
    def test_forecasts_on_a_device(self):
        streamed = [*STREAMED, f"relation.chunk_mib={(2 * 9 * 8 + 1) / 2**20}"]
        for name, ranks, *settings in (
                ("fgiven", 2, "model.layers=2", "model.hidden=3"), ("fself", 3, "relation.mode=refine", "relation.self=true"),
                ("flow_rank", 2, "relation.discover=low_rank", "relation.rank=2"), ("fdense", 3, "relation.discover=dense"),
                ("fstored", 1, "relation.storage=dense", "relation.mode=refine"), ("fpairs", 2, *PAIRS, "model.decoder=identity", "model.latent=1"),
                ("fstreamed", 2, "relation.discover=dense", *streamed), ("fbf16", 2, "relation.discover=dense", "model.precision=float",
                                                                         "relation.precision=bf16")):
            with self.subTest(name):
                self.same_forecasts(name, ranks, *settings, tolerance=1e-4 if name == "fbf16" else 1e-10)

    def test_evaluation_of_what_a_device_trained(self):
        """A trained run is evaluated on a device if there is one, else on the host."""
        self.succeed(2, *self.arguments("scored", DEVICE))
        self.assertIn("device    simulated\n", self.succeed(2, "evaluate", "scored").out)
        self.assertIn("device    simulated\n", self.succeed(1, "forecast", "scored", "--steps", "2").out)
        self.assertIn("device    cpu (no GPU: ", self.succeed(2, "evaluate", "scored", "--device", "auto").out)
        with open(self.path("scored/config.toml"), encoding="utf-8") as file:
            config = file.read()
        self.write("scored/config.toml", config.replace('device = "simulated"', 'device = "cuda"'))
        self.assertIn("device    cpu (no GPU: ", self.succeed(2, "evaluate", "scored").out)
        for asked in (["--device", "cuda"], ["--set", "parallel.device=cuda"]):
            self.refuse(2, ["evaluate", "scored", *asked], 'parallel.device = "cuda", but no GPU was found')
            self.refuse(2, ["forecast", "scored", "--steps", "2", *asked], 'parallel.device = "cuda", but no GPU was found')

    @support.long_test
    def test_streamed(self):
        """W streams to the device in chunks of two rows: same bits as a resident W, from host memory or from files."""
        dense = ["relation.discover=dense", f"relation.chunk_mib={(2 * 9 * 8 + 1) / 2**20}",
                 f"relation.stream_gib={(2 * 3 * 2 * 9 * 8 + 1) / 2**30}"]
        for ranks in (1, 3):
            name = f"resident{ranks}"
            self.same_losses(name, ranks, *dense)
            for way in ("pageable", "pinned", "pageable-async", "pinned-async"):
                with self.subTest(way):
                    run = f"{way}{ranks}"
                    self.succeed(ranks, *self.arguments(run, *dense, DEVICE, *STREAMED, f"relation.transfer={way}"))
                    self.assertEqual(self.ends(run), self.ends(name))
        self.succeed(1, "evaluate", "pinned-async3")
        self.refuse_settings([DEVICE, "relation.discover=dense", *STREAMED, "relation.stream_gib=1e-7"],
                             "are not enough: two chunks of .* are needed")

    def test_memory_of_a_device_bounds_what_streams_there(self):
        """Chunks take at most a third of parallel.device_memory; on the host it limits only chunks."""
        nodes = 1500  # 9 MiB of weights and as many of their moment, beside 12 that a device reserves
        self.netcdf("wide.nc", sensors(steps=8, nodes=nodes))
        settings = ["data.file=wide.nc", "split.train=6", "split.validation=1", "train.epochs=1", "relation.graph=none",
                    "relation.discover=dense", "evaluate.baselines=false", "parallel.dense_kernel=own"]
        self.refuse_settings([DEVICE, *settings, "parallel.device_memory=24MiB"], "out of device memory: cannot allocate .* MiB for .*discover.* are in use ")
        self.succeed(1, *self.arguments("whole", *settings, DEVICE))
        self.succeed(1, *self.arguments("third", *settings, DEVICE, *STREAMED, "parallel.device_memory=24MiB"))
        self.succeed(1, "evaluate", "third", "--set", "evaluate.horizons=1")
        self.succeed(1, *self.arguments("files", *settings, "relation.memory=streamed", "parallel.device_memory=2MiB"))
        # Chunks sum in a different order.
        losses = {run: self.lines(run)[-1]["loss"] for run in ("whole", "third", "files")}
        for run in ("third", "files"):
            self.assertAlmostEqual(losses[run], losses["whole"], delta=1e-5 * losses["whole"])
        for wrong in ("0", "-1GiB", "4Gib", "1e999GiB"):
            self.refuse_settings([f"parallel.device_memory={wrong}"], "parallel.device_memory = .* is not an amount of memory")

    @support.long_test
    def test_streamed_and_updated_on_the_host(self):
        """Gradients travel, not moments: losses equal those of a device that updates, with the same bits by every
        way."""
        dense = ["relation.discover=dense", f"relation.chunk_mib={(2 * 9 * 8 + 1) / 2**20}"]
        for ranks in (1, 3):
            name = f"updated{ranks}"
            self.same_losses(name, ranks, *dense)
            runs = []
            for way in ("pageable", "pinned-async"):
                runs.append(f"host_{way}{ranks}")
                out = self.succeed(ranks, *self.arguments(runs[-1], *dense, DEVICE, *ON_HOST, f"relation.transfer={way}")).out
                self.assertIn("streamed  weights are updated on: host\n", out)
                self.near(runs[-1], name, 1e-10)
            self.assertEqual(self.ends(runs[0]), self.ends(runs[1]))
        self.succeed(1, "evaluate", "host_pinned-async3")
        self.refuse_settings([DEVICE, *dense, *ON_HOST, f"relation.stream_gib={(4 * 2 * 9 * 8 - 8) / 2**30}"],
                             "gradients of .* are needed")
        self.refuse_settings([DEVICE, *dense, "relation.update=both"], "relation.update", "auto, device, host")

    def test_where_updates_are_made_is_tried_once(self):
        settings = ["relation.discover=dense", DEVICE, "relation.memory=streamed"]
        arguments = self.arguments("tried", *settings)
        first = self.run_ranks(2, *arguments, "--stop-after", "0.000001s")
        self.assertEqual(first.codes, [75, 75], first.err)
        found = re.search(r"streamed  weights are updated on: (device|host) \(device [0-9.]+ ms, host [0-9.]+ ms\)\n", first.out)
        self.assertTrue(found, first.out)
        self.assertIn(f"streamed  weights are updated on: {found[1]}\n", self.succeed(2, *arguments).out)

    @support.long_test
    def test_updated_on_the_host_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("host_updates", "relation.discover=dense", DEVICE, *ON_HOST, LONG_SLABS,
                                   f"relation.chunk_mib={(2 * 9 * 8 + 1) / 2**20}")

    @support.long_test
    def test_streamed_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("streamed", "relation.discover=dense", DEVICE, *STREAMED, LONG_SLABS,
                                   f"relation.chunk_mib={(2 * 9 * 8 + 1) / 2**20}")

    @support.long_test
    def test_bf16(self):
        dense = ["relation.discover=dense", "model.precision=float", "relation.precision=bf16"]
        self.same_losses("bf16", 2, *dense, tolerance=2e-3)
        self.succeed(2, *self.arguments("bf16_chunks", *dense, DEVICE, *STREAMED))
        self.assertEqual(self.ends("bf16_chunks"), self.ends("bf16"))
        self.resumed_at_every_step("bf16_left", *dense, DEVICE, LONG_SLABS)
        self.succeed(2, *self.arguments("bf16_host", *dense, DEVICE, *ON_HOST))
        self.near("bf16_host", "bf16", 2e-3)

    def test_a_rank_that_lacks_memory_alone(self):
        """Other ranks wait in a step for a message of the failed rank: its error ends the job, not a watchdog."""
        nodes = 600  # two blocks of equal cost: node 1 with its many edges, and nearly all rows
        self.netcdf("hub.nc", sensors(steps=8, nodes=nodes, source=", ".join(str(i) for i in [*range(nodes), *range(1, nodes)]),
                                      destination=", ".join(str(i) for i in [*range(1, nodes), 0] + (nodes - 1) * [0]),
                                      weight=", ".join((2 * nodes - 1) * ["1"])))
        settings = ["data.file=hub.nc", "split.train=6", "split.validation=1", "train.epochs=1", "evaluate.horizons=1", "model.precision=float",
                    "parallel.partition=weighted", "parallel.entry_cost=1", "model.latent=16", "train.slab_steps=0"]
        result = self.run_ranks(2, *self.arguments("alone", *settings, DEVICE, "parallel.device_memory=13500KiB"), limit=100)
        self.assertRegex(result.err, "rossby: rank 1: out of device memory: cannot allocate .* are in use ")
        self.assertNotIn("has waited", result.err, "the watchdog has nothing to say")
        self.assertEqual(result.codes[1], 1)
        short = self.run_ranks(2, *self.arguments("short", *settings, DEVICE, "parallel.device_memory=13500KiB",
                                                  "parallel.watchdog_seconds=4"), limit=100)
        self.assertRegex(short.err, "rossby: rank 1: out of device memory: cannot allocate .* are in use ")
        self.assertNotIn("has waited", short.err, "the watchdog's limit leaves room for the cause")
        several = self.run_ranks(4, *self.arguments("several", *settings, DEVICE, "parallel.device_memory=13200KiB",
                                                    "parallel.watchdog_seconds=8"), limit=100)
        spoken = [line for line in several.err.splitlines() if line.startswith("rossby: ")]
        self.assertEqual(len(spoken), 1, several.err)
        self.assertRegex(spoken[0], "rossby: rank 2: out of device memory: cannot allocate .* are in use ")
        self.assertNotIn("Segmentation", several.err, "what still comes finds the memory that it was to go to")

    def test_memory_of_a_device(self):
        self.refuse_settings([DEVICE, "parallel.device_memory=1MiB"], "out of device memory: .* times as many ranks or more")
        self.succeed(1, *self.arguments("on_the_cores"))
        self.refuse(2, ["evaluate", "on_the_cores", "--device", "simulated", "--set", "parallel.device_memory=1MiB"],
                    "out of device memory: .* times as many ranks or more, or --device cpu")
        self.refuse_settings([DEVICE, "parallel.device_memory=much"], "is not an amount of memory", "4GiB")
        self.refuse_settings([DEVICE, "parallel.device_memory=-1GiB"], "is not an amount of memory")

    def test_no_gpu(self):
        out = self.succeed(2, *self.arguments("anything", "parallel.device=auto")).out
        if "no GPU" not in out:
            self.skipTest("there is a GPU")
        self.assertEqual(out.count("device    cpu (no GPU: "), 1)
        self.refuse(2, [*self.arguments("refused"), "--device", "cuda"], 'parallel.device = "cuda", but no GPU was found')
        self.refuse(2, [*self.arguments("refused"), "--device", "gpu"], "parallel.device", "auto, cpu, cuda")
        self.refuse(1, [*self.arguments("refused"), "--device", "simulated", "--device-memory", "1QiB"], "1QiB")


class Windowed(Device):
    """The same for window models."""
    config = "windows.toml"

    def test_forecasters(self):
        double = "model.precision=double"
        for name, ranks, *settings in (
                ("dcrnn", 1), ("dcrnn2", 2), ("legacy", 3, "model.diffusion=legacy"), ("recomputed", 2, "train.recompute=step"),
                ("groups", 2, "parallel.time_groups=2"), ("grid", 4, "parallel.time_groups=2", "window.sampling=global"),
                ("graph_wavenet", 1, *GRAPH_WAVENET), ("graph_wavenet3", 3, *GRAPH_WAVENET, "train.recompute=cell"),
                ("gru", 2, "model.name=gru"), ("tgcn", 2, "model.name=tgcn", "model.layers=1", "model.sampling_decay=0"),
                ("stid", 1, *STID), ("stid_related", 3, *STID, "relation.discover=low_rank", "relation.rank=2"),
                ("stid_layers", 3, *STID, "relation.graph=edges", "model.relate=layers", "relation.discover=low_rank", "relation.rank=2"),
                ("stid_groups", 4, *STID, "relation.discover=low_rank", "relation.rank=2", "relation.low_rank_start=eof", "parallel.time_groups=2")):
            with self.subTest(name):
                self.same_losses(name, ranks, double, *settings)

    def test_forecasts_on_a_device(self):
        double = "model.precision=double"
        for name, ranks, *settings in (("fdcrnn", 3, double), ("fgraph_wavenet", 2, double, *GRAPH_WAVENET), ("fgru", 2, double, "model.name=gru"),
                                       ("ftgcn", 1, double, "model.name=tgcn", "model.layers=1", "model.sampling_decay=0"),
                                       ("fmicro", 2, double, "window.micro_batches=2", "parallel.device_memory=64MiB")):
            with self.subTest(name):
                self.same_forecasts(name, ranks, *settings)

    @support.long_test
    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("left", DEVICE)

    test_streamed_and_updated_on_the_host = test_where_updates_are_made_is_tried_once = None
    test_memory_of_a_device_bounds_what_streams_there = None
    test_updated_on_the_host_left_and_resumed_at_every_step = None
    test_streamed = test_streamed_left_and_resumed_at_every_step = test_bf16 = None
    test_a_rank_that_lacks_memory_alone = None
    test_stnn = test_float = test_memory_of_a_device = test_no_gpu = test_pairs_and_groups_left_and_resumed_at_every_step = None


if __name__ == "__main__":
    support.main()
