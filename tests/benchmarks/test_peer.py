"""The PyTorch peer of bench_step: its lines, its bad input, and its losses against plain loops. Skipped where there is no PyTorch."""
import importlib.util
import json
import math
import os
import subprocess
import sys
import unittest

SCRIPT = sys.argv.pop(1)


def load():
    spec = importlib.util.spec_from_file_location("peer", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments):
    return subprocess.run([sys.executable, "-B", SCRIPT, "--lat", "3", "--lon", "4", "--steps", "6", "--slab", "2", "--batches", "1",
                           *arguments], capture_output=True, text=True, check=False, timeout=120)


class Peer(unittest.TestCase):
    def test_lines(self):
        for arguments in ([], ["--mode", "given"], ["--mode", "refine", "--latent", "1"], ["--products", "bf16"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = [json.loads(line) for line in result.stdout.splitlines()]
            self.assertEqual([line["pass"] for line in lines], ["decoder", "dynamics"])
            for line in lines:
                self.assertEqual((line["nodes"], line["batch"]), (12, "2 steps"))
                self.assertTrue(0 < line["best_seconds"] <= line["median_seconds"])

    def test_losses(self):
        for mode in ("given", "refine", "discover"):
            options = type("Options", (), {"device": "cpu", "lat": 3, "lon": 4, "latent": 2, "steps": 6, "mode": mode,
                                          "products": "model"})()
            model = peer.Stnn(options)
            weights, z = model.relations().tolist(), model.z.tolist()
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
                                (["--pairs", "0"], "not allowed with argument --slab")):
            result = run(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(what, result.stderr)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    if importlib.util.find_spec("torch") is None:
        print("skipped: PyTorch is not installed")
        sys.exit(77)
    peer = load()
    unittest.main()
