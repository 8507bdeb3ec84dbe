"""Trainings in stages and in micro-batches, as users start them."""

import json
import os

import support
from sensors import RingRuns
from test_schemas import SCHEMAS, faults
from test_windows import GRAPH_WAVENET, WINDOWS

STAGES = "parallel.stages=2"
DOUBLE = "model.precision=double"


class Pipeline(RingRuns):
    config = "windows.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("windows.toml", WINDOWS)

    def same_losses(self, name, ranks, one, *settings):
        """Trains on these ranks and, once, on one rank. Checks that the losses agree."""
        alone = [s for s in settings if not s.startswith("parallel.")]
        if not os.path.exists(self.path(one)):
            self.succeed(1, *self.arguments(one, DOUBLE, *alone))
        out = self.succeed(ranks, *self.arguments(name, DOUBLE, *settings)).out
        for mine, other in zip(self.lines(name), self.lines(one), strict=True):
            for key in ("loss", "validation_mae"):
                self.assertAlmostEqual(mine[key], other[key], delta=1e-9 * other[key])
        return out

    def test_stages_have_the_losses_of_one_rank(self):
        wavenet = [*GRAPH_WAVENET, "window.micro_batches=2"]
        for name, ranks, one, *settings in (
                ("deep", 2, "one", STAGES), ("pieces", 2, "one_2", STAGES, "window.micro_batches=2"),
                ("coded", 2, "one_2", STAGES, "parallel.stage_layers=[2, 2]", "window.micro_batches=2"),
                ("three", 3, "one_2", "parallel.stages=3", "parallel.stage_layers=[1, 1, 2]", "window.micro_batches=2"),
                ("four", 4, "one", "parallel.stages=4", "train.recompute=cell"),
                ("hybrid", 4, "one_4", STAGES, "window.micro_batches=4"),
                ("grid", 4, "one_blocked", STAGES, "parallel.time_groups=2", "window.sampling=blocked", "window.lanes=2"),
                ("device", 2, "one", STAGES, "parallel.device=simulated"),
                ("wavenet", 2, "wavenet_one", STAGES, *wavenet), ("wavenet_3", 3, "wavenet_one", "parallel.stages=3", *wavenet),
                ("wavenet_device", 2, "wavenet_one", STAGES, "parallel.device=simulated", *wavenet),
                ("wavenet_grid", 4, "wavenet_one", STAGES, "parallel.stage_layers=[1, 3]", *wavenet)):
            with self.subTest(name):
                out = self.same_losses(name, ranks, one, *settings)
                place = self.lines(name)[-1]["place"]
                self.assertEqual(place["ranks"], place["row_blocks"] * place["stages"] * place["time_groups"])
                self.assertRegex(out, f"grid +{place['row_blocks']} row blocks x {place['stages']} stages x "
                                      f"{place['time_groups']} time groups")
        with open(os.path.join(SCHEMAS, "metrics.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        for line in self.lines("hybrid"):
            self.assertEqual(faults(line, schema, schema), [])
        self.succeed(2, "evaluate", "wavenet")
        self.succeed(1, "forecast", "hybrid", "--steps", "2")

    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("whole", STAGES, "window.micro_batches=2")
        self.resumed_at_every_step("wavenet_whole", STAGES, *GRAPH_WAVENET)
        # Stopped in stages, resumed in row blocks.
        self.leave("moved", 2, STAGES, DOUBLE)
        self.same_losses("moved", 2, "one", "parallel.stages=1")

    def test_micro_batches_add_up(self):
        self.same_losses("apart", 2, "one", "window.micro_batches=4")

    def test_another_number_of_micro_batches_on_the_way(self):
        self.leave("more", 2, DOUBLE)
        result = self.run_ranks(2, *self.arguments("more", DOUBLE, "window.micro_batches=4", STAGES))
        self.assertEqual(result.codes, [0, 0], result.err)
        self.assertIn("was computed with window.micro_batches = 1. From here on, results equal those of an uninterrupted "
                      "run only up to rounding", result.err)
        self.same_losses("more", 2, "one", "window.micro_batches=4")
        self.succeed(2, "evaluate", "more")
        self.succeed(1, "evaluate", "more", "--set", "window.micro_batches=2")
        self.leave("normed", 2, *GRAPH_WAVENET)
        self.refuse(2, self.arguments("normed", *GRAPH_WAVENET, "window.micro_batches=2"),
                    r"other settings: window\.micro_batches: 2 \(here\) instead of 1. Set these keys back")

    def test_bad_settings(self):
        for settings, pattern in (
                (["parallel.stages=3"], r"parallel.stages = 3 does not divide the 2 ranks"),
                (["parallel.stages=0"], r"parallel.stages"),
                ([STAGES, "parallel.time_groups=2"], r"parallel.stages = 2 does not divide the 1 ranks of a time group"),
                ([STAGES, "parallel.stage_layers=[1, 2]"], r"parallel.stage_layers = \[1, 2\] does not fit. Give 2 numbers.* 2 or 4"),
                ([STAGES, "parallel.stage_layers=[4]"], r"parallel.stage_layers = \[4\] does not fit. Give 2 numbers"),
                ([STAGES, "parallel.stage_layers=[0, 2]"], r"parallel.stage_layers"),
                ([STAGES, "train.recompute=step"], r'train.recompute = "step".* parallel.stages = 2.*"cell"'),
                ([STAGES, "model.name=tgcn", "model.layers=1", "model.sampling_decay=0"], r"parallel.stages = 2 .*\"tgcn\""),
                ([STAGES, "model.name=stnn"], r"parallel.stages = 2 .*\"stnn\""),
                (["window.micro_batches=5"], r"window.micro_batches = 5 .* window.batch = 4")):
            self.refuse_settings(settings, pattern)
        self.refuse(4, self.arguments("refused", "parallel.stages=4", *GRAPH_WAVENET, "model.blocks=1"),
                    r"parallel.stages = 4 is too many: the model has 2 layers")


if __name__ == "__main__":
    support.main()
