"""The PyTorch peers of bench_step and bench_windows: their lines, bad input, and results against plain loops. Skipped where
there is no PyTorch: test_peer.py PEERS."""
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import unittest

PEERS = pathlib.Path(sys.argv.pop(1))


def load(name):
    spec = importlib.util.spec_from_file_location(name, PEERS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, *arguments):
    return subprocess.run([sys.executable, "-B", PEERS / f"{name}.py", *arguments], capture_output=True, text=True, check=False,
                          timeout=240)


class Stnn(unittest.TestCase):
    @staticmethod
    def run_small(*arguments):
        return run("stnn_pytorch", "--lat", "3", "--lon", "4", "--steps", "6", "--slab", "2", "--batches", "1", *arguments)

    def test_lines(self):
        gathers = ["--mode", "given", "--relations", "gathers"]
        for arguments in ([], ["--mode", "given"], ["--mode", "refine", "--latent", "1"], ["--products", "bf16"], gathers):
            result = self.run_small(*arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = [json.loads(line) for line in result.stdout.splitlines()]
            self.assertEqual([line["pass"] for line in lines], ["decoder", "dynamics"])
            for line in lines:
                self.assertEqual((line["nodes"], line["batch"]), (12, "2 steps"))
                self.assertTrue(0 < line["best_seconds"] <= line["median_seconds"])

    def test_losses(self):
        peer = load("stnn_pytorch")
        for mode, relations in (("given", "dense"), ("refine", "dense"), ("discover", "dense"), ("given", "gathers"), ("refine", "gathers")):
            options = type("Options", (), {"device": "cpu", "lat": 3, "lon": 4, "latent": 2, "steps": 6, "mode": mode,
                                          "relations": relations, "products": "model"})()
            model = peer.Stnn(options)
            if mode == "refine":
                with peer.torch.no_grad():
                    model.weights.mul_(1 + 0.5 * peer.torch.rand(model.weights.shape))
            weights = model.relations()
            if relations == "gathers":
                weights = weights[..., None] * peer.dense_pattern(*peer.neighbours(3, 4, "cpu"))
            weights, z = weights.tolist(), model.z.tolist()
            dynamics, bias, decoder = model.dynamics.tolist(), model.bias.tolist(), model.decoder.tolist()
            pairs = [(t, i) for t in (2, 3) for i in range(12)]
            decoded = moved = 0
            for t, i in pairs:
                decoded += (sum(a * b for a, b in zip(decoder[0], z[t][i])) - model.series[t, i, 0].item()) ** 2 / len(pairs)
                context = list(z[t - 1][i])
                for relation in weights:
                    context += [sum(relation[i][j] * z[t - 1][j][c] for j in range(12)) for c in range(2)]
                for c in range(2):
                    sum_of = bias[c] + sum(a * b for a, b in zip(dynamics[c], context))
                    moved += 0.1 * (z[t][i][c] - math.tanh(sum_of)) ** 2 / (2 * len(pairs))
            if mode != "given":
                entries = [abs(w) for relation in weights for row in relation for w in row]
                moved += 1e-3 * sum(entries) / len(entries)
            at, nodes = (peer.torch.tensor(index) for index in zip(*pairs))
            for batch in ((peer.torch.tensor([2, 3]), None), (at, nodes)):
                self.assertAlmostEqual(model.decoder_loss(*batch).item(), decoded, places=6)
                self.assertAlmostEqual(model.dynamics_loss(*batch).item(), moved, places=6)

    def test_bad_input(self):
        for arguments, what in ((["--slab", "0"], "--slab 0: must be at least 1"), (["--steps", "1"], "--steps 1: must be larger than --slab 2"),
                                (["--pairs", "0"], "not allowed with argument --slab"),
                                (["--relations", "gathers"], "--relations gathers: a discovered relation is dense")):
            result = self.run_small(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(what, result.stderr)


class Dcrnn(unittest.TestCase):
    def test_lines(self):
        small = ["--nodes", "11", "--windows", "2", "--repeats", "1"]
        for arguments in (small, [*small, "--supports", "dense"], [*small, "--products", "bf16"]):
            result = run("dcrnn_pytorch", *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            line = json.loads(result.stdout)
            self.assertEqual((line["nodes"], line["parameters"]), (11, 372353))
            self.assertTrue(0 < line["best_seconds"] <= line["median_seconds"])

    def test_forecasts(self):
        """Against loops over nodes and channels."""
        peer = load("dcrnn_pytorch")
        n, units, hops = 10, 2, 2
        for supports in ("sparse", "dense"):
            model = peer.Dcrnn(type("Options", (), {"device": "cpu", "nodes": n, "outputs": 2, "layers": 2, "units": units, "diffusion": hops,
                                                    "supports": supports, "compile": False})())
            ring = [[0.0] * n for _ in range(n)]
            for i in range(n):
                for k in (1, 2, 3, 4):
                    ring[i][(i + k) % n] = 1 / (1 + (i + (i + k) % n) % 7)
                    ring[i][(i - k) % n] = 1 / (1 + (i + (i - k) % n) % 7)
            walks = [[[w / sum(row) for w in row] for row in graph] for graph in (ring, list(zip(*ring)))]

            def convolve(convolution, x):
                columns = [list(row) for row in x]
                for walk in walks:
                    reached = x
                    for _ in range(hops):
                        reached = [[sum(w * row[c] for w, row in zip(walk[i], reached)) for c in range(len(x[0]))] for i in range(n)]
                        columns = [a + b for a, b in zip(columns, reached)]
                weight, bias = convolution.linear.weight.tolist(), convolution.linear.bias.tolist()
                return [[b + sum(w * v for w, v in zip(row, values)) for row, b in zip(weight, bias)] for values in columns]

            def advance(cells, state, x):
                for layer, cell in enumerate(cells):
                    h = state[layer]
                    gates = [[1 / (1 + math.exp(-g)) for g in row] for row in convolve(cell.gates, [a + b for a, b in zip(x, h)])]
                    kept = [[r * v for r, v in zip(g[:units], row)] for g, row in zip(gates, h)]
                    c = convolve(cell.candidate, [a + b for a, b in zip(x, kept)])
                    x = state[layer] = [[u * v + (1 - u) * math.tanh(w) for u, v, w in zip(g[units:], row, new)]
                                        for g, row, new in zip(gates, h, c)]
                return x

            inputs = peer.torch.rand(3, n, 2, 2)
            forecast = model(inputs)
            self.assertEqual(forecast.shape, (2, n, 2, 1))
            (decode,), (bias,) = model.projection.weight.tolist(), model.projection.bias.tolist()
            for window in range(2):
                state = [[[0.0] * units for _ in range(n)] for _ in range(2)]
                for step in inputs[:, :, window].tolist():
                    advance(model.encoder, state, step)
                out = [[0.0]] * n
                for h in range(2):
                    out = [[bias + sum(w * v for w, v in zip(decode, row))] for row in advance(model.decoder, state, out)]
                    for i in range(n):
                        self.assertAlmostEqual(forecast[h, i, window, 0].item(), out[i][0], places=5)

    def test_bad_input(self):
        result = run("dcrnn_pytorch", "--nodes", "0")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--nodes 0: must be at least 1", result.stderr)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    if importlib.util.find_spec("torch") is None:
        print("skipped: PyTorch is not installed")
        sys.exit(77)
    unittest.main()
