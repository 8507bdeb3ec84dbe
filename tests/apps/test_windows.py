"""Window models as users run them: training, resuming, scoring, forecasting, and bad input."""

import json
import os
import re
import subprocess

import support
from sensors import Runs, sensors
from test_schemas import SCHEMAS, faults

WINDOWS = """
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
layers = 2
units = 4
sampling_decay = 4
[window]
inputs = 3
outputs = 2
batch = 4
time_of_day = true
[optimiser]
beta1 = 0.9
epsilon = 1e-3
lr = 0.01
decay = 0
clip = 5
[schedule]
metric = "validation"
[train]
epochs = 3
[evaluate]
horizons = 2
lim_modes = 2
"""

TGCN = ["model.name=tgcn", "model.layers=1", "model.sampling_decay=0"]
GRAPH_WAVENET = ["model.name=graph_wavenet", "model.layers=1", "model.units=64", "model.sampling_decay=0",
                 "model.channels=3", "model.skip=5", "model.end=4", "model.blocks=2", "model.adaptive_width=2"]
GRU = ["model.name=gru", "model.layers=1", "model.sampling_decay=0", "relation.graph=none"]
STGCN = ["model.name=stgcn", "model.layers=1", "model.units=64", "model.sampling_decay=0", "window.inputs=9",
         "model.block_channels=[4, 2, 4]"]
STID = ["model.name=stid", "model.layers=1", "model.units=64", "model.sampling_decay=0", "relation.graph=none",
        "model.input_embedding=3", "model.node_embedding=2", "model.time_of_day_embedding=2",
        "model.day_of_week_embedding=2", "model.residual_layers=2"]


class Windows(Runs):
    config = "windows.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=30))
        cls.write("windows.toml", WINDOWS)

    def test_trains_scores_and_forecasts(self):
        result = self.succeed(2, *self.arguments("run"))
        self.assertRegex(result.out, r"model +dcrnn, .* 2 relations with 6 non-zeros")
        self.assertRegex(result.out, r"windows +10 of 3 \+ 2 steps for training, 2 channels")
        with open(os.path.join(SCHEMAS, "metrics.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        lines = self.lines("run")
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertEqual(faults(line, schema, schema), [])
            self.assertGreater(line["validation_mae"], 0)
        self.succeed(2, "evaluate", "run")
        with open(self.path("run/evaluation.json"), encoding="utf-8") as file:
            scores = json.load(file)
        self.assertEqual(len(scores["horizons"]), 2)
        self.assertEqual(sorted(scores["horizons"][0]["mae"]), sorted(support.BASELINES + ["time_of_week"]))
        self.assertIn("written to", self.succeed(2, "forecast", "run", "--steps", "2").out)
        self.refuse(2, ["forecast", "run", "--steps", "3"], "3 horizons.*window.outputs = 2")
        self.refuse(2, ["forecast", "run", "--origin", "2001-01-01T01:00", "--steps", "2"], "window.inputs = 3")

    def test_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("whole")

    def test_left_and_resumed_where_epochs_differ_in_length(self):
        # Ten windows in sixteen blocks of one or none, two lanes: epochs of 5 and 7 steps.
        self.resumed_at_every_step("dealt", "parallel.time_groups=2", "window.sampling=blocked", "window.lanes=2",
                                   "window.blocks=8", "window.batch=2", "train.epochs=2")

    def test_recomputing_changes_nothing(self):
        self.succeed(2, *self.arguments("kept"))
        for recompute in ("cell", "step"):
            self.succeed(2, *self.arguments(recompute, f"train.recompute={recompute}"))
            self.assertEqual(self.ends(recompute), self.ends("kept"))

    def test_process_grids(self):
        self.succeed(1, *self.arguments("one", "window.sampling=global"))
        for ranks, groups, sampling in ((2, 2, "global"), (4, 2, "global"), (4, 2, "blocked"), (2, 2, "local")):
            run = f"grid_{ranks}_{groups}_{sampling}"
            settings = [f"parallel.time_groups={groups}", f"window.sampling={sampling}", "window.lanes=2"]
            out = self.succeed(ranks, *self.arguments(run, *settings)).out
            self.assertRegex(out, f"grid +{ranks // groups} row blocks x {groups} time groups")
            self.succeed(2, "evaluate", run)
            if sampling == "global":
                for mine, one in zip(self.lines(run), self.lines("one")):
                    self.assertAlmostEqual(mine["loss"], one["loss"], delta=1e-4 * one["loss"])
                    self.assertAlmostEqual(mine["validation_mae"], one["validation_mae"], delta=1e-4)
        # Left on one grid, resumed on another.
        self.leave("moved", 2, "parallel.time_groups=2", "window.sampling=global")
        self.succeed(4, *self.arguments("moved", "window.sampling=global"))
        for mine, one in zip(self.lines("moved"), self.lines("one")):
            self.assertAlmostEqual(mine["loss"], one["loss"], delta=1e-4 * one["loss"])
        for settings, warning in ((["window.sampling=global"], None),
                                  (["window.sampling=local"], 'window.sampling = "local"'),
                                  (["window.sampling=blocked"], "window.lanes = 0"),
                                  (["window.sampling=blocked", "window.lanes=2"], None)):
            run = "regrouped_" + "_".join(settings)
            self.leave(run, 2, "parallel.time_groups=2", *settings)
            result = self.run_ranks(2, *self.arguments(run, *settings))
            self.assertEqual(result.codes, [0, 0], result.err)
            said = f"rossby: warning: {warning}: batches contain other windows from here on than before, because " \
                   "parallel.time_groups is 1 instead of 2. Set parallel.time_groups = 2 to go on exactly as before\n"
            self.assertEqual(result.err, said if warning else "")
        self.refuse(3, self.arguments("refused", "parallel.time_groups=2"), "parallel.time_groups = 2.* 3 ranks")
        self.refuse_settings(["parallel.time_groups=2", "window.batch=3"], "window.batch = 3 must be a multiple of 2")
        self.refuse_settings(["parallel.time_groups=2", "window.sampling=blocked", "window.lanes=3"],
                            "window.lanes = 3 must be a multiple of parallel.time_groups = 2")

    def test_losses(self):
        """Each is the mean of its error, on any ranks and device, and a forecast of a quantile is one."""
        forecasts = {}
        for loss, more in [("mse", ["validation.metric=rmse"]), ("huber", ["train.huber_delta=0.5"]),
                           ("pinball", ["train.quantile=0.9", "validation.metric=loss"]), ("low", ["train.quantile=0.1"])]:
            name = "pinball" if loss == "low" else loss
            settings = [f"train.loss={name}", "train.epochs=20", *more]
            self.succeed(1, *self.arguments(loss, *settings))
            first = self.lines(loss)[0]
            self.assertEqual(list(first["losses"]), [name])
            if loss == "low":
                self.succeed(1, "forecast", loss, "--steps", "1")
                forecasts[loss] = self.values(loss)
                continue
            self.assertIn({"mse": "validation_rmse", "huber": "validation_mae", "pinball": "validation_loss"}[loss], first)
            for run, ranks, setting in [("ranks", 3, []), ("there", 1, ["parallel.device=simulated"])]:
                self.succeed(ranks, *self.arguments(loss + run, *settings, "train.epochs=2", *setting))
                for mine, one in zip(self.lines(loss + run), self.lines(loss)):
                    self.assertAlmostEqual(mine["loss"], one["loss"], delta=1e-4 * one["loss"])
            self.succeed(1, "forecast", loss, "--steps", "1")
            forecasts[loss] = self.values(loss)
        for low, high in zip(forecasts["low"], forecasts["pinball"]):
            self.assertLess(low, high)

    def test_losses_of_scaled_errors(self):
        """Errors are divided by the spread in training and validation, on any ranks and device; metrics keep the
        units."""
        still = ["train.epochs=1", "optimiser.lr=1e-12", "validation.metric=loss", "model.precision=double"]
        ratios = {}
        for loss in ("mae", "mse"):
            for units in ("data", "scaled"):
                self.succeed(1, *self.arguments(f"{loss}_{units}", *still, f"train.loss={loss}", f"train.loss_units={units}"))
            data, scaled = (self.lines(f"{loss}_{units}")[0] for units in ("data", "scaled"))
            ratios[loss] = data["loss"] / scaled["loss"]
            self.assertAlmostEqual(data["validation_loss"] / scaled["validation_loss"], ratios[loss], delta=1e-5 * ratios[loss])
        self.assertGreater(abs(ratios["mae"] - 1), 0.1)
        self.assertAlmostEqual(ratios["mae"] ** 2, ratios["mse"], delta=1e-5 * ratios["mse"])
        each = ["data.spread=node", "train.loss_units=scaled", "model.precision=double"]
        self.succeed(1, *self.arguments("each", *each))
        for run, ranks, setting in [("each_ranks", 3, []), ("each_there", 1, ["parallel.device=simulated"])]:
            self.succeed(ranks, *self.arguments(run, *each, *setting))
            for mine, one in zip(self.lines(run), self.lines("each"), strict=True):
                for key in ("loss", "validation_mae"):
                    self.assertAlmostEqual(mine[key], one[key], delta=1e-6 * one[key], msg=f"{run} {key}")

    def test_quantiles(self):
        """Quantiles trained together: on any ranks, stages and device, resumed, sorted in forecasts, and scored."""
        head = ["train.loss=pinball", "train.quantiles=[5,25,50,75,95]", "validation.metric=loss", "train.epochs=2"]
        for name, model in [("dcrnn", []), ("tgcn", TGCN), ("graph_wavenet", GRAPH_WAVENET), ("stid", STID),
                            ("gru", GRU), ("stgcn", STGCN)][::1 if support.long_tests else 2]:
            grids = {"alone": (1, []), "rows": (3, [])}
            if not model:
                grids |= {"stages": (2, ["parallel.stages=2"]),
                          "there": (1, ["parallel.device=simulated"]), "steps": (1, ["train.recompute=step"])}
            for grid, (ranks, settings) in grids.items():
                self.succeed(ranks, *self.arguments(f"levels_{name}_{grid}", *model, *head, *settings))
                for mine, one in zip(self.lines(f"levels_{name}_{grid}"), self.lines(f"levels_{name}_alone")):
                    self.assertAlmostEqual(mine["loss"], one["loss"], delta=1e-4 * one["loss"], msg=name + grid)
                    self.assertAlmostEqual(mine["validation_loss"], one["validation_loss"], delta=1e-4 * one["validation_loss"])
        self.resumed_at_every_step("levels_resumed", *head, "train.epochs=3")
        before = None
        for run, ranks in [("levels_dcrnn_alone", 1), ("levels_dcrnn_rows", 2), ("levels_dcrnn_there", 1)]:
            self.succeed(ranks, "forecast", run, "--steps", "2")
            levels, forecast = self.values(run, "v_quantiles"), self.values(run)
            self.assertEqual(self.values(run, "quantile"), [0.05, 0.25, 0.5, 0.75, 0.95])
            of = [levels[q * 6:(q + 1) * 6] for q in range(5)]
            self.assertEqual(of[2], forecast, "the median is the forecast")
            for low, high in zip(of, of[1:]):
                self.assertTrue(all(a <= b for a, b in zip(low, high)))
            self.assertTrue(all(a < b for a, b in zip(of[0], of[-1])))
            before = before or levels
            for a, b in zip(levels, before):
                self.assertAlmostEqual(a, b, delta=1e-3)

    def test_quantiles_are_scored(self):
        """Computes shares and losses from a file of forecasts per origin; `evaluate` scores all origins together."""
        settings = ["train.loss=pinball", "train.quantiles=[5,25,50,75,95]", "train.epochs=30", "optimiser.lr=0.05"]
        self.succeed(1, *self.arguments("scored", *settings))
        with open(os.path.join(SCHEMAS, "evaluation.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        found = []
        for ranks in (1, 3):
            out = self.succeed(ranks, "evaluate", "scored").out
            self.assertRegex(out, r"quantiles of the model: the interval of 90 % contains .* %, the interval of 50 % contains .* CRPS .* from 5 quantiles")
            with open(self.path("scored/evaluation.json"), encoding="utf-8") as file:
                found.append(json.load(file))
            self.assertEqual(faults(found[-1], schema, schema), [])
        levels, all_origins = [0.05, 0.25, 0.5, 0.75, 0.95], range(19, 28)
        self.assertEqual(found[0]["quantiles"]["levels"], levels)
        sums = [[0, 0, 0] for _ in levels]  # not above, twice the pinball loss, quantiles
        for origin in all_origins:
            self.succeed(1, "forecast", "scored", "--steps", "1", "--origin", f"2001-01-0{1 + origin // 24}T{origin % 24:02}:00", "-o", "one.nc")
            of = self.values("one.nc", "v_quantiles")
            for i in range(3):
                truth = ((origin + 1) * (i + 2)) % 7 + 0.5 * i
                for q, level in enumerate(levels):
                    error = truth - of[q * 3 + i]
                    sums[q][0] += error <= 0
                    sums[q][1] += 2 * max(level * error, (level - 1) * error)
                    sums[q][2] += of[q * 3 + i]
        count, weights = 3 * len(all_origins), [0.15, 0.225, 0.25, 0.225, 0.15]
        for evaluation in found:
            self.assertEqual(evaluation["data"]["origins"], len(all_origins))
            at = evaluation["quantiles"]["horizons"][0]
            self.assertLess(at["not_above"][0], 0.3, "each level is trained on its own quantile")
            self.assertGreater(at["not_above"][-1], 0.8)
            for share, (below, _, _) in zip(at["not_above"], sums):
                self.assertAlmostEqual(share, below / count, 6)
            self.assertAlmostEqual(at["crps"], sum(w * loss for w, (_, loss, _) in zip(weights, sums)) / count, delta=1e-4 * at["crps"])
            self.assertAlmostEqual(at["intervals"][0]["nominal"], 0.9, 9)
            self.assertAlmostEqual(at["intervals"][0]["width"], (sums[4][2] - sums[0][2]) / count, delta=1e-3)

    def test_bad_quantiles(self):
        head = "train.loss=pinball"
        self.refuse_settings(["train.quantiles=[50]"], "train.quantiles needs train.loss = \"pinball\", but train.loss is \"mae\"")
        self.refuse_settings([head, "train.quantiles=[5,95]"], "does not have 50")
        self.refuse_settings([head, "train.quantiles=[50,5]"], "do not ascend")
        self.refuse_settings([head, "train.quantiles=[0,50]"], "train.quantiles.* is out of range")

    def values(self, run, variable="v"):
        file = run if run.endswith(".nc") else run + "/forecast.nc"
        text = subprocess.run(["ncdump", "-v", variable, self.path(file)], check=True, capture_output=True, text=True).stdout
        return [float(v) for v in re.findall(r"-?[\d.]+(?:e[+-]\d+)?", text.split("data:")[1].split("=")[-1])]

    def test_gru_needs_no_graph(self):
        self.assertRegex(self.succeed(2, *self.arguments("gru", "model.name=gru", "relation.graph=none")).out,
                         r"model +gru, .* 0 relations")

    def test_tgcn(self):
        out = self.succeed(2, *self.arguments("tgcn", *TGCN)).out
        self.assertRegex(out, r"model +tgcn, .* 1 relations with 6 non-zeros")  # edges and self-loops
        self.succeed(2, "evaluate", "tgcn")

    def test_graph_wavenet(self):
        out = self.succeed(2, *self.arguments("wavenet", *GRAPH_WAVENET)).out
        self.assertRegex(out, r"model +graph_wavenet, .* 2 relations with 6 non-zeros")
        self.succeed(2, "evaluate", "wavenet")
        self.assertIn("written to", self.succeed(1, "forecast", "wavenet", "--steps", "2").out)
        names = [array["name"] for array in self.ends("wavenet")[0]]
        for name in ("layer0_norm_running_mean", "layer2_norm_running_variance", "source_factors"):
            self.assertIn(name, names)
        with open(self.path("wavenet/evaluation.json"), encoding="utf-8") as file:
            two = json.load(file)
        self.succeed(1, "evaluate", "wavenet")
        with open(self.path("wavenet/evaluation.json"), encoding="utf-8") as file:
            one = json.load(file)
        for a, b in zip(two["horizons"], one["horizons"]):
            self.assertAlmostEqual(a["mae"]["model"], b["mae"]["model"], delta=1e-5)
        self.assertRegex(self.succeed(2, *self.arguments("no_graph", *GRAPH_WAVENET, "relation.graph=none")).out,
                         r"model +graph_wavenet, .* 0 relations")
        self.succeed(2, *self.arguments("no_adaptive", *GRAPH_WAVENET, "model.adaptive=false"))
        self.succeed(2, *self.arguments("recomputed", *GRAPH_WAVENET, "train.recompute=cell"))
        self.assertEqual(self.ends("recomputed"), self.ends("wavenet"))

    @support.long_test
    def test_graph_wavenet_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("wavenet_whole", *GRAPH_WAVENET)

    def test_graph_wavenet_on_process_grids(self):
        settings = [*GRAPH_WAVENET, "window.sampling=blocked", "window.lanes=2", "train.epochs=2"]
        self.succeed(1, *self.arguments("wavenet_one", *settings))
        for ranks, groups in ((2, 2), (4, 2)):
            run = f"wavenet_{ranks}_{groups}"
            self.succeed(ranks, *self.arguments(run, *settings, f"parallel.time_groups={groups}"))
            for mine, one in zip(self.lines(run), self.lines("wavenet_one")):
                self.assertAlmostEqual(mine["loss"], one["loss"], delta=1e-4 * one["loss"])
                self.assertAlmostEqual(mine["validation_mae"], one["validation_mae"], delta=1e-3)

    def test_stid(self):
        out = self.succeed(2, *self.arguments("stid", *STID)).out
        self.assertRegex(out, r"model +stid, .* 0 relations")
        self.assertRegex(out, r"learned +vectors of node 2, time of day 24 x 2, day of week 7 x 2\n")
        # The training part is a day from 0 to 13 h, and the series ends at 5 h of the next day.
        self.assertRegex(out, r"warning +model.time_of_day_embedding: 10 steps after the training part")
        self.assertRegex(out, r"warning +model.day_of_week_embedding: 6 steps after the training part")
        arrays = {array["name"]: array["shape"] for array in self.ends("stid")[0]}
        self.assertEqual(arrays["time_of_day_embedding"], [1, 1, 48])
        scores = []
        for ranks in (2, 1, 4):  # three nodes
            self.succeed(ranks, "evaluate", "stid")
            with open(self.path("stid/evaluation.json"), encoding="utf-8") as file:
                scores.append([line["mae"]["model"] for line in json.load(file)["horizons"]])
        for others in scores[1:]:
            for mine, other in zip(scores[0], others):
                self.assertAlmostEqual(mine, other, delta=1e-5)
        self.assertIn("written to", self.succeed(1, "forecast", "stid", "--steps", "2").out)
        self.succeed(2, *self.arguments("stid_recomputed", *STID, "train.recompute=cell"))
        self.assertEqual(self.ends("stid_recomputed"), self.ends("stid"))

    @support.long_test
    def test_stid_left_and_resumed_at_every_step(self):
        self.resumed_at_every_step("stid_whole", *STID, "parallel.time_groups=2", "window.sampling=blocked",
                                   "window.lanes=2", "window.blocks=8", "window.batch=2", ranks=4)

    def test_stid_with_a_relation_between_all_nodes(self):
        """On any number of ranks and groups, from the same EOFs; a node reads other nodes."""
        relation = [*STID, "relation.discover=low_rank", "relation.rank=2", "relation.low_rank_start=eof"]
        grid = ["window.sampling=blocked", "window.lanes=2", "window.blocks=4", "window.batch=2", "model.precision=double"]
        self.succeed(1, *self.arguments("related", *relation, *grid))
        arrays = {array["name"]: array["shape"] for array in self.ends("related")[0]}
        self.assertEqual((arrays["low_rank_u"], arrays["low_rank_v"]), ([1, 3, 2], [1, 3, 2]))
        for ranks, groups in ((2, 1), (3, 1), (4, 1), (2, 2), (4, 2)) if support.long_tests else ((3, 1), (4, 2)):
            run = f"related_{ranks}_{groups}"
            self.assertNotIn("does not use these settings", self.succeed(ranks, *self.arguments(run, *relation, *grid, f"parallel.time_groups={groups}")).out)
            for mine, one in zip(self.lines(run), self.lines("related"), strict=True):
                for key in ("loss", "validation_mae"):
                    self.assertAlmostEqual(mine[key], one[key], delta=1e-9 * abs(one[key]), msg=f"{run} {key}")
        self.succeed(1, *self.arguments("related_random", *relation, *grid, "relation.low_rank_start=random"))
        self.succeed(1, *self.arguments("unrelated", *STID, *grid))
        losses = {self.lines(run)[0]["loss"] for run in ("related", "related_random", "unrelated")}
        self.assertEqual(len(losses), 3)
        self.succeed(4, "evaluate", "related_4_2")
        self.assertIn("written to", self.succeed(2, "forecast", "related_4_2", "--steps", "2").out)
        self.resumed_at_every_step("related_whole", *relation, "window.batch=2", ranks=2)
        self.refuse_settings([*STID, "relation.discover=dense"], 'Model stid learns relations of low rank. Set relation.discover = "low_rank"')
        self.refuse_settings(["relation.discover=low_rank"], 'relation.discover works only with model.name = "stnn"')

    def test_stid_whose_layers_read_relations(self):
        """The graph and a learned relation, on any number of ranks and groups, resumed."""
        deep = [*STID, "relation.graph=edges", "model.relate=layers"]
        grid = ["window.sampling=blocked", "window.lanes=2", "window.blocks=4", "window.batch=2", "model.precision=double"]
        both = [*deep, "relation.discover=low_rank", "relation.rank=2"]
        self.assertRegex(self.succeed(1, *self.arguments("deep", *both, *grid)).out, r"model +stid, .* 2 relations with 6 non-zeros")
        arrays = {array["name"]: array["shape"] for array in self.ends("deep")[0]}
        self.assertEqual(arrays["layer0_hidden_weight"], [1, 1, 9 * 36])
        for ranks, groups in ((3, 1), (4, 2)):
            run = f"deep_{ranks}_{groups}"
            self.succeed(ranks, *self.arguments(run, *both, *grid, f"parallel.time_groups={groups}"))
            for mine, one in zip(self.lines(run), self.lines("deep"), strict=True):
                for key in ("loss", "validation_mae"):
                    self.assertAlmostEqual(mine[key], one[key], delta=1e-9 * abs(one[key]), msg=f"{run} {key}")
        self.succeed(1, *self.arguments("graph_alone", *deep, *grid))
        self.succeed(1, *self.arguments("layers_alone", *STID, *grid, "model.relate=layers"))
        self.succeed(1, *self.arguments("inputs_alone", *STID, *grid))
        losses = [self.lines(run)[0]["loss"] for run in ("deep", "graph_alone", "layers_alone", "inputs_alone")]
        self.assertEqual(len(set(losses)), 3)
        self.assertEqual(*losses[2:])
        self.succeed(2, "evaluate", "deep_4_2")
        self.assertIn("written to", self.succeed(3, "forecast", "deep_4_2", "--steps", "2").out)
        self.resumed_at_every_step("deep_whole", *both, "window.batch=2", ranks=2)

    def test_vectors_are_those_of_the_time_axis(self):
        self.netcdf("counted.nc", sensors(steps=30).replace("hours since 2001-01-01", "1"))
        counted = [*STID[:5], "data.file=counted.nc", "window.time_of_day=false", "train.epochs=1"]
        self.assertRegex(self.succeed(2, *self.arguments("counted", *counted)).out,
                         r"learned +vectors of node 32, none of the calendar: the time axis counts steps")
        self.refuse_settings([*counted, "model.month_embedding=4"],
                             r"model.month_embedding = 4: the time axis counts steps and has no dates. Set this key to 0")
        self.refuse_settings([*STID, "model.month_embedding=4"], r"model.month_embedding = 4: .* less than a day")
        self.refuse_settings([*STID, "train.recompute=step"], 'Set train.recompute = "cell" to compute the layers again')
        self.refuse_settings([*STID, "window.known_times=true"], "does not read inputs of the steps that it forecasts")
        cycle = self.succeed(2, *self.arguments("stid_cycle", *STID, "data.cycle=time_of_day", "split.train=26",
                                                "split.validation=0", "schedule.metric=train", "train.epochs=1")).out
        self.assertIn("learned", cycle)
        self.assertIn("written to", self.succeed(2, "forecast", "stid_cycle", "--steps", "2").out)

    def test_vectors_of_a_recurrent_model(self):
        settings = ["model.node_embedding=3", "model.time_of_day_embedding=2", "train.epochs=1"]
        out = self.succeed(2, *self.arguments("vectors", *settings)).out
        self.assertRegex(out, r"learned +vectors of node 3, time of day 24 x 2\n")
        self.assertIn("written to", self.succeed(1, "forecast", "vectors", "--steps", "2").out)
        self.refuse_settings([*settings, "parallel.stages=2"], r"parallel.stages = 2 .* with learned vectors")

    def test_bad_settings_of_graph_wavenet(self):
        for setting, pattern in (
                ("window.inputs=8", r"window.inputs = 8 is too long: model.blocks = 2 and model.block_layers = 2 cover 7 steps"),
                ("train.recompute=step", 'Set train.recompute = "cell" to compute the layers again'),
                ("model.diffusion=legacy", "powers of its supports"),
                ("model.diffusion_steps=0", "is too few for a graph_wavenet"),
                ("model.sampling_decay=5", "all steps at once"),
                ("model.layers=2", "set model.blocks and model.block_layers"),
                ("model.units=16", "set model.channels"),
                ("model.dropout=1", "model.dropout")):
            self.refuse_settings([*GRAPH_WAVENET, setting], pattern)
        self.refuse_settings([*GRAPH_WAVENET, "relation.graph=none", "model.adaptive=false"],
                            "needs a graph or model.adaptive = true")
        self.refuse_settings([*GRAPH_WAVENET, "model.blocks=1", "model.block_layers=1", "window.inputs=2"],
                            "Set one of these keys to 2 or more")

    def test_bad_settings_of_tgcn(self):
        for setting, pattern in (("model.layers=3", "the model has one layer. Leave the key out"), ("model.sampling_decay=5", "all steps at once. Set model.sampling_decay = 0")):
            self.refuse_settings([*TGCN, setting], pattern)

    def test_bad_settings(self):
        self.refuse_settings(["window.inputs=20"], "window.inputs = 20, window.outputs = 2.*longest.* 14 steps")
        self.refuse_settings(["relation.graph=none"], "needs a graph. Set relation.graph")
        self.refuse_settings(["model.layers=20"], "model.layers = 20")
        self.refuse_settings(["window.batch=0"], "window.batch")
        for setting in ("relation.mode=refine", "relation.discover=dense", "relation.self=true", "relation.hops=[1, 2]",
                        "relation.storage=dense", "relation.precision=bf16"):
            self.refuse_settings([setting], f"{setting.partition('=')[0]}.* works only with model.name = .stnn.")
        self.succeed(1, "data", "synth", "--lat", "3", "--lon", "4", "--steps", "30", "-o", "grid.nc")
        self.refuse_settings([*TGCN, "data.file=grid.nc", "data.variables=[]", "relation.graph=grid8",
                             "window.time_of_day=false"],
                            "tgcn. uses one relation, but .*grid8. makes 8")

    def test_bad_data(self):
        self.netcdf("counter.nc", sensors(steps=30).replace("hours since 2001-01-01", "1"))
        self.refuse_settings(["data.file=counter.nc"], "window.time_of_day: the time axis counts steps")
        hours = ", ".join(map(str, range(30)))
        later = ", ".join(str(t + (3 if t > 8 else 0)) for t in range(30))
        self.netcdf("gaps.nc", sensors(steps=30).replace("time = " + hours, "time = " + later))
        result = self.succeed(2, *self.arguments("gaps", "data.file=gaps.nc"))
        self.assertRegex(result.out, r"windows +6 of")
        self.netcdf("late.nc", sensors(steps=30, observed_from=15))
        self.refuse_settings(["data.file=late.nc"], "has no observed value")
        self.netcdf("large.nc", sensors(steps=30, source="0, 1, 5"))
        self.refuse_settings(["data.file=large.nc"], "edge 2.* 5")


if __name__ == "__main__":
    support.main()
