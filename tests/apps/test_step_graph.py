"""rossby graph: the step of every model, on several ranks, as text, JSON, DOT and SVG."""

import json
import os
import re
import shutil
import unittest
import unittest.mock

import support
from sensors import RingRuns
from test_device import STNN
from test_schemas import faults, schema_of
from test_windows import GRAPH_WAVENET, WINDOWS


class StepGraph(RingRuns):
    config = "windows.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("windows.toml", WINDOWS)
        cls.write("stnn.toml", STNN.replace('"nearest"', '"edges"'))

    def graph(self, config, *settings, ranks=1):
        sets = [word for s in settings for word in ("--set", s)]
        self.succeed(ranks, "graph", config, "-o", "g.json", *sets)
        with open(self.path("g.json"), encoding="utf-8") as file:
            graph = json.load(file, parse_constant=self.fail)
        schema = schema_of("step_graph.schema.json")
        self.assertEqual(faults(graph, schema, schema), [])
        self.assertEqual(graph["ranks"], ranks)
        blocks = {block["name"]: block for block in graph["blocks"]}
        for pass_ in ("forward", "backward"):
            for figure in ("flops", "bytes", "messages", "message_bytes"):
                parts = sum(block[pass_][figure] for block in [*graph["blocks"], graph["rest"]])
                self.assertAlmostEqual(parts, graph[pass_][figure], delta=1e-9 * parts)
        for figure in ("flops", "bytes"):
            ops = sum(op[figure] for op in graph["ops"])
            self.assertAlmostEqual(ops, graph["forward"][figure] + graph["backward"][figure], delta=1e-9 * ops)
        self.assertEqual(sum(block["parameters"] for block in graph["blocks"]), graph["parameters"])
        return graph, blocks, {(edge["from"], edge["to"]) for edge in graph["edges"]}

    def test_forecasters(self):
        graph, blocks, edges = self.graph("windows.toml")
        self.assertEqual({name: block["calls"] for name, block in blocks.items()},
                         {"window": 3 + 1, "encoder0": 3, "encoder1": 3, "decoder0": 2, "decoder1": 2, "projection": 2, "loss": 1})
        for edge in (("window", "encoder0"), ("encoder0", "encoder0"), ("encoder0", "encoder1"), ("encoder0", "decoder0"),
                     ("encoder1", "decoder1"), ("decoder0", "decoder1"), ("decoder1", "projection"), ("projection", "loss")):
            self.assertIn(edge, edges)
        self.assertEqual((blocks["encoder0"]["rows"], blocks["encoder0"]["columns"], blocks["encoder0"]["channels"]), (9, 4, 4))
        out = self.succeed(1, *self.arguments("run", "train.epochs=1")).out
        self.assertIn(f" {graph['parameters'] / 1000:.1f}k parameters", out)
        for recompute in ("cell", "step"):
            again, segments, _ = self.graph("windows.toml", f"train.recompute={recompute}")
            self.assertEqual(segments["encoder1"]["forward"]["flops"], blocks["encoder1"]["forward"]["flops"])
            self.assertGreaterEqual(segments["encoder1"]["backward"]["flops"],
                                    blocks["encoder1"]["forward"]["flops"] + blocks["encoder1"]["backward"]["flops"])
            self.assertLess(again["activation_bytes"], graph["activation_bytes"])

    def test_other_models(self):
        _, blocks, edges = self.graph("windows.toml", *GRAPH_WAVENET)
        self.assertIn(("layer0", "layer0_norm"), edges)
        self.assertIn(("adjacency", "layer1"), edges)
        self.assertIn(("skip", "head"), edges)
        self.assertIn(("window", "start"), edges)
        _, blocks, edges = self.graph("windows.toml", "model.name=gru")
        self.assertIn(("encoder1", "decoder1"), edges)
        _, blocks, edges = self.graph("windows.toml", "model.name=tgcn", "model.layers=1", "model.sampling_decay=0")
        self.assertEqual(edges, {("window", "cell"), ("cell", "cell"), ("cell", "projection"), ("projection", "loss")})
        for settings in ([], ["relation.mode=refine"], ["relation.discover=dense"], ["relation.discover=low_rank", "relation.rank=2"],
                         ["model.layers=2", "model.hidden=3"], ["train.joint=true"], ["train.sampling=pairs"], ["relation.self=true"]):
            with self.subTest(settings):
                graph, blocks, edges = self.graph("stnn.toml", *settings)
                self.assertEqual(graph["steps"], 1 if "train.joint=true" in settings else 2)
                self.assertIn(("latents", "dynamics_loss"), edges)
                self.assertIn("dynamics0", blocks)

    def test_ranks(self):
        whole, _, _ = self.graph("windows.toml")
        parts, _, _ = self.graph("windows.toml", ranks=3)
        rows = next(block["rows"] for block in parts["blocks"] if block["name"] == "encoder0")
        self.assertLess(rows, 9)
        self.assertAlmostEqual(parts["forward"]["flops"] / whole["forward"]["flops"], rows / 9, delta=0.03)
        self.assertGreater(parts["forward"]["messages"], 0)
        self.assertEqual(whole["forward"]["messages"], 0)
        _, blocks, _ = self.graph("stnn.toml", "parallel.time_groups=2", "relation.discover=dense", ranks=4)
        self.assertGreater(blocks["dynamics0"]["forward"]["message_bytes"], 0)

    def test_stages(self):
        whole, blocks, _ = self.graph("windows.toml")
        parts, smaller, _ = self.graph("windows.toml", "window.micro_batches=2")
        self.assertEqual(smaller["encoder1"]["calls"], 2 * blocks["encoder1"]["calls"])
        self.assertEqual(parts["forward"]["flops"], whole["forward"]["flops"])
        schema = schema_of("step_graph.schema.json")
        for ranks, stages, rows in ((2, 2, 1), (3, 3, 1), (4, 2, 2)):
            with self.subTest(ranks=ranks, stages=stages):
                settings = ["--set", f"parallel.stages={stages}", "--set", "window.micro_batches=2"]
                self.succeed(ranks, "graph", "windows.toml", "-o", "s.json", *settings)
                with open(self.path("s.json"), encoding="utf-8") as file:
                    graph = json.load(file, parse_constant=self.fail)
                others = graph["other_stages"]
                all_stages = [graph, *others]
                for number, stage in enumerate(all_stages):
                    self.assertEqual(faults(stage, schema, schema), [])
                    self.assertEqual((stage["stage"], stage["stages"], stage["rank"], stage["ranks"]), (number, stages, number * rows, ranks))
                # Each value that a stage sends comes back as a gradient, once per micro-batch.
                sent = {(number, over["to_stage"], over["backward"]): (over["messages"], over["bytes"])
                        for number, stage in enumerate(all_stages) for over in stage.get("handed_over", [])}
                self.assertEqual({key[:2] for key in sent if not key[2]},
                                 {(a, b) for a in range(stages) for b in range(stages) if (a, b, False) in sent})
                for (a, b, backward), what in sent.items():
                    self.assertEqual(sent[b, a, not backward], what)
                    self.assertEqual(what[0] % 2, 0)
                self.assertTrue({(number, number + 1, False) for number in range(stages - 1)} <= set(sent), sent)
                messages = sum(stage[way]["message_bytes"] for stage in all_stages for way in ("forward", "backward"))
                self.assertLessEqual(sum(what[1] for what in sent.values()), messages)
                if rows == 1:
                    self.assertEqual(sum(what[1] for what in sent.values()), messages)
                held = [{block["name"] for block in stage["blocks"] if block["forward"]["flops"]} for stage in all_stages]
                self.assertEqual(set.union(*held), {name for name, block in blocks.items() if block["forward"]["flops"]})
                self.assertGreater(len({tuple(sorted(names)) for names in held}), 1)
                if rows == 1:
                    flops = sum(stage["forward"]["flops"] for stage in all_stages)
                    self.assertAlmostEqual(flops, whole["forward"]["flops"], delta=0.02 * flops)
        out = self.succeed(2, "graph", "windows.toml", "--set", "parallel.stages=2", "--set", "window.micro_batches=2").out
        self.assertRegex(out, re.compile(r"a step of rank 0 of 2, stage 1 of 2\n.*a step of rank 1 of 2, stage 2 of 2\n", re.DOTALL))
        self.succeed(2, "graph", "windows.toml", "-o", "s.dot", "--set", "parallel.stages=2", "--set", "window.micro_batches=2")
        with open(self.path("s.dot"), encoding="utf-8") as file:
            dot = file.read()
        self.assertRegex(dot, re.compile(r"cluster_stage0.*rank 0, stage 1 of 2.*s0b0.*cluster_stage1.*rank 1, stage 2 of 2.*s1b0", re.DOTALL))
        ends = {name: number for number, name in re.findall(r'  (s[01]b[0-9]+) \[label="((?:hand|take)_over)', dot)}
        self.assertRegex(dot, rf'  {ends["hand_over"]} -> {ends["take_over"]} \[label="[0-9.]+ ([KM]i)?B", penwidth=2\]')
        self.assertRegex(dot, rf'  {ends["take_over"]} -> {ends["hand_over"]} \[label="[0-9.]+ ([KM]i)?B", style=dashed, constraint=false\]')
        self.assertRegex(out, re.compile(r"\nvalues to stage 2: [0-9]+ messages, .*\ngradients back to stage 1: [0-9]+ messages, ", re.DOTALL))

    def test_measured(self):
        for config, ranks, *settings in (("windows.toml", 1), ("windows.toml", 2, "train.recompute=step"), ("stnn.toml", 2),
                                         ("stnn.toml", 1, "relation.discover=dense")):
            words = [word for s in settings for word in ("--set", s)]
            counted, _, _ = self.graph(config, *settings, ranks=ranks)
            self.assertEqual(counted["step_seconds"], 0)
            self.succeed(ranks, "graph", config, "--measure", "-o", "m.json", *words)
            with open(self.path("m.json"), encoding="utf-8") as file:
                graph = json.load(file, parse_constant=self.fail)
            schema = schema_of("step_graph.schema.json")
            self.assertEqual(faults(graph, schema, schema), [])
            parts = [block[f"{way}_seconds"] for block in [*graph["blocks"], graph["rest"]] for way in ("forward", "backward")]
            self.assertGreater(sum(parts), 0.2 * graph["step_seconds"])
            self.assertLessEqual(sum(parts), graph["step_seconds"])
            for here, there in zip(graph["blocks"], counted["blocks"], strict=True):
                self.assertEqual(here["forward"], there["forward"])
                self.assertEqual(here["backward"], there["backward"])
        out = self.succeed(1, "graph", "windows.toml", "--measure").out
        self.assertRegex(out, r"encoder1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+\n")
        self.assertRegex(out, r"optimiser, sums, waiting +[0-9.]+ ")

    def test_text_and_drawings(self):
        out = self.succeed(1, "graph", "windows.toml").out
        self.assertRegex(out, r"dcrnn: a step of rank 0 of 1")
        self.assertRegex(out, r"encoder1 +3 +9 x 4 x 4 ")
        self.succeed(1, "graph", "windows.toml", "-o", "g.txt")
        with open(self.path("g.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), out)
        self.succeed(1, "graph", "windows.toml", "-o", "it's.dot")
        with open(self.path("it's.dot"), encoding="utf-8") as file:
            self.assertRegex(file.read(), re.compile(r"digraph.*encoder1 x 3.*->.*}", re.DOTALL))

    @unittest.skipUnless(shutil.which("dot"), "Graphviz is not installed")
    def test_what_micro_batches_keep(self):
        note = "kept: the sum over all calls of a block; all: the most that is kept at the same time\n"
        self.assertNotIn(note, self.succeed(1, "graph", "windows.toml").out)
        self.assertIn(note, self.succeed(1, "graph", "windows.toml", "--set", "window.micro_batches=4").out)

    def test_svg(self):
        self.succeed(1, "graph", "windows.toml", "-o", "it's a.svg")
        with open(self.path("it's a.svg"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("<svg", text)
        self.assertIn("encoder1 x 3", text)
        self.assertFalse([name for name in os.listdir(self.folder) if name.endswith(".svg.dot")])

    def test_graphviz_that_fails(self):
        self.write("half a dot", "#!/bin/sh\necho half > it.svg.dot.svg\nexit 1\n")
        os.chmod(self.path("half a dot"), 0o755)
        self.write("it.svg", "as it was")
        before = sorted(os.listdir(self.folder))
        # Not by PATH, because mpirun puts its own folder first.
        with unittest.mock.patch.dict(os.environ, GRAPHVIZ_DOT=self.path("half a dot")):
            self.refuse(2, ["graph", "windows.toml", "-o", "it.svg"], "it.svg: Graphviz could not draw this file")
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        with open(self.path("it.svg"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "as it was")

    def test_bad_input(self):
        before = sorted(os.listdir(self.folder))
        self.refuse(2, ["graph", "windows.toml", "-o", "g.png"], "Use a name that ends with .txt, .json, .dot or .svg")
        self.refuse(1, ["graph", "nothing.toml"], "nothing.toml")
        self.refuse(1, ["graph", "windows.toml", "-o", "no/such/g.txt"], "no/such/g.txt")
        self.refuse(2, ["graph", "windows.toml", "--set", "window.inputs=300"], "window")
        self.assertEqual(sorted(os.listdir(self.folder)), before)


if __name__ == "__main__":
    support.main()
