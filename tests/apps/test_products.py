"""Products with operands rounded to bf16 on CPUs: every window model, ranks, checkpoint contents, plans."""

import json

import support
from sensors import RingRuns

CONFIG = """
[data]
file = "sensors.nc"
variables = ["v"]
center = "global"
spread = "global"
[split]
train = 14
validation = 6
[relation]
graph = "edges"
[model]
name = "dcrnn"
layers = 1
units = 32
[window]
inputs = 3
outputs = 2
batch = 4
time_of_day = true
[optimiser]
beta1 = 0.9
lr = 0.003
[train]
epochs = 2
[evaluate]
horizons = 2
lim_modes = 2
baselines = false
"""

BF16 = "parallel.products=bf16"
MODELS = {
    "dcrnn": [],
    "gru": ["model.name=gru", "relation.graph=none"],
    "tgcn": ["model.name=tgcn"],
    "stgcn": ["model.name=stgcn", "model.units=64", "window.inputs=9", "model.block_channels=[32, 32, 32]"],
    "graph_wavenet": ["model.name=graph_wavenet", "model.units=64", "model.channels=32", "model.skip=32", "model.end=32",
                      "model.blocks=1", "model.adaptive_width=2"],
    "stid": ["model.name=stid", "model.units=64", "relation.graph=none", "model.input_embedding=32", "model.node_embedding=16",
             "model.time_of_day_embedding=16", "model.day_of_week_embedding=0", "model.residual_layers=1"],
}


def has_instructions():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return " avx512_bf16" in file.read()


class Products(RingRuns):
    config = "products.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("products.toml", CONFIG)

    def inspected(self, run):
        return json.loads(self.succeed(1, "checkpoint", "inspect", run + "/checkpoints/state.h5", "--json").out)

    def near(self, run, other, tolerance):
        """Checks that losses and validations of two runs agree within `tolerance`. Returns the difference."""
        apart = 0
        for here, there in zip(self.lines(run), self.lines(other), strict=True):
            for key in ("loss", "validation_mae"):
                self.assertAlmostEqual(here[key], there[key], delta=tolerance * (1 + abs(there[key])), msg=f"{run} {key}")
                apart = max(apart, abs(here[key] - there[key]))
        return apart

    def test_every_model_rounds(self):
        for name, settings in MODELS.items():
            with self.subTest(name):
                self.succeed(1, *self.arguments(name + "_float", *settings))
                out = self.succeed(1, *self.arguments(name, *settings, BF16)).out
                self.assertRegex(out, r"\nproducts  operands rounded to bf16(, which is no faster than floats, because some "
                                      r"processors have no instructions for bf16)?\n")
                self.assertGreater(self.near(name, name + "_float", 2e-2), 1e-6)
        self.succeed(1, *self.arguments("double", "model.precision=double"))
        self.succeed(1, *self.arguments("double_bf16", "model.precision=double", BF16))
        self.assertEqual(self.near("double_bf16", "double", 0), 0, "doubles are not rounded")

    def test_ranks_and_instruction_sets(self):
        self.succeed(1, *self.arguments("one", BF16))
        for ranks in (2, 3):
            self.succeed(ranks, *self.arguments(f"ranks{ranks}", BF16))
            self.near(f"ranks{ranks}", "one", 2e-3)
        # In software: only the message shows it, because the products have the same bits.
        out = self.succeed(2, *self.arguments("portable", BF16, "parallel.isa=portable")).out
        self.assertIn("which is no faster than floats, because some processors have no instructions for bf16", out)
        self.near("portable", "one", 2e-3)

    def test_what_auto_chose_is_kept(self):
        chosen = "bf16" if has_instructions() else "model"
        out = self.succeed(2, *self.arguments("auto", "parallel.products=auto")).out
        self.assertIn("products  operands rounded to bf16\n" if chosen == "bf16" else
                      "products  floats, because not all processors have instructions for bf16\n", out)
        self.assertEqual(self.inspected("auto")["products"], chosen)
        self.succeed(2, *self.arguments("named", f"parallel.products={chosen}"))
        self.assertEqual(self.ends("auto"), self.ends("named"))
        # Without bf16 instructions, auto does not round. A run that already rounds continues in software.
        self.succeed(2, *self.arguments("without", "parallel.products=auto", "parallel.isa=portable"))
        self.assertEqual(self.inspected("without")["products"], "model")
        self.leave("moved", 2, BF16, "parallel.isa=portable")
        result = self.run_ranks(2, *self.arguments("moved", "parallel.products=auto", "parallel.isa=portable"))
        self.assertEqual((result.codes, result.err), ([0, 0], ""))
        self.assertEqual(self.inspected("moved")["products"], "bf16")
        self.succeed(2, *self.arguments("whole", BF16, "parallel.isa=portable"))
        self.assertEqual(self.ends("moved"), self.ends("whole"))
        # A run that never asked for bf16 does not change either.
        self.leave("floats", 2)
        self.succeed(2, *self.arguments("floats", "parallel.products=auto"))
        self.succeed(2, *self.arguments("plain"))
        self.assertEqual(self.ends("floats"), self.ends("plain"))
        for left, asked, was in (([], BF16, "model"), ([BF16], "parallel.products=model", "bf16")):
            run = "other_" + was
            self.leave(run, 2, *left)
            result = self.run_ranks(2, *self.arguments(run, asked))
            self.assertEqual(result.codes, [0, 0], result.err)
            self.assertRegex(result.err, f'^rossby: warning: .* was computed with parallel.products = "{was}". From here on, results equal '
                                         "those of an uninterrupted run only up to rounding\n$")
        self.refuse_settings(["parallel.products=fp8"], "parallel.products", "model, auto, tf32, bf16")

    def test_plans(self):
        self.succeed(1, "calibrate", "-o", "machine.json", "--quick", "--precision", "bf16", "--device", "none")
        with open(self.path("machine.json"), encoding="utf-8") as file:
            self.assertEqual({op["precision"] for op in json.load(file)["ops"]}, {"bf16"})
        plan = ["plan", self.config, "--machine", "machine.json", "--set"]
        for products in ("bf16", "auto"):
            self.succeed(1, *plan, f"parallel.products={products}")
        self.refuse(1, [*plan, "parallel.products=model", "--no-measure"], "the machine was not measured in float")
        self.refuse(1, [*plan, BF16, "--set", "model.precision=double", "--no-measure"], "the machine was not measured in double")
        self.refuse(1, ["calibrate", "-o", "none.json", "--precision", "tf32", "--device", "none"], "Give --device cuda instead")

    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("often", "parallel.products=auto", "train.epochs=4")


if __name__ == "__main__":
    support.main()
