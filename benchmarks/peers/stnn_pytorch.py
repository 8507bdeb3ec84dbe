#!/usr/bin/env python3
"""Training steps of an STNN (Ziat et al., ICDM 2017) in PyTorch's eager mode: the peer of bench_step.

    OMP_NUM_THREADS=2 python3 benchmarks/peers/stnn_pytorch.py --mode discover --latent 8 --slab 8
    python3 benchmarks/peers/stnn_pytorch.py --device cuda --mode discover --latent 8 --slab 8
    python3 benchmarks/peers/stnn_pytorch.py --mode refine --pairs 1000
    python3 benchmarks/peers/stnn_pytorch.py --mode refine --latent 1 --relations gathers

Relations are dense tensors (r, n, n), as that paper's model holds them; `discover` has one, `refine` eight on the pattern of a
grid's neighbours, `given` eight that are not trained. `--relations gathers`: weights are (8, n), and the neighbours' latents
are gathered direction by direction. `--slab B`: a batch holds all nodes of B steps, the best that a dense model can do.
`--pairs N`: a batch holds N pairs (step, node), as the paper trains; its products are batched by pair. `--products bf16`:
forward and loss run under PyTorch's autocast.

A line of JSON for each pass: seconds of the median batch and the quickest (forward, backward, Adam with betas (0, 0.999)), and
the most memory that the process, or the device, held. Needs PyTorch alone."""
import argparse
import json
import resource
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("stnn_pytorch.py: PyTorch is not installed. Run pip install torch")

EAST_TO_SOUTH_EAST = [(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--mode", choices=["given", "refine", "discover"], default="discover")
    parser.add_argument("--relations", choices=["dense", "gathers"], default="dense")
    parser.add_argument("--lat", type=int, default=60)
    parser.add_argument("--lon", type=int, default=168)
    parser.add_argument("--latent", type=int, default=8)
    parser.add_argument("--steps", type=int, default=200, help="steps of the series")
    batch = parser.add_mutually_exclusive_group()
    batch.add_argument("--slab", type=int, default=8, help="steps per batch, with all nodes")
    batch.add_argument("--pairs", type=int, help="pairs (step, node) per batch")
    parser.add_argument("--batches", type=int, default=9, help="measured batches of each pass")
    parser.add_argument("--products", choices=["model", "bf16"], default="model", help="bf16: PyTorch's autocast")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    for name in ("lat", "lon", "latent", "slab", "batches"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: must be at least 1")
    if options.pairs is not None and options.pairs < 1:
        parser.error(f"--pairs {options.pairs}: must be at least 1")
    if options.steps < options.slab + 1:
        parser.error(f"--steps {options.steps}: must be larger than --slab {options.slab}")
    if options.relations == "gathers" and options.mode == "discover":
        parser.error("--relations gathers: a discovered relation is dense")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch sees no GPU")
    return options


def neighbours(lat, lon, device):
    """(8, n) nodes in each direction, and whether the grid has them."""
    cell = torch.arange(lat * lon, device=device)
    nodes, there = [], []
    for north, east in EAST_TO_SOUTH_EAST:
        i, j = cell // lon + north, cell % lon + east
        there.append((i >= 0) & (i < lat) & (j >= 0) & (j < lon))
        nodes.append(torch.where(there[-1], i * lon + j, 0))
    return torch.stack(nodes), torch.stack(there)


def dense_pattern(nodes, there):
    """(8, n, n): one where the second node lies in that direction of the first."""
    relations = torch.zeros(*nodes.shape, nodes.shape[1], device=nodes.device)
    k, i = there.nonzero(as_tuple=True)
    relations[k, i, nodes[k, i]] = 1
    return relations


class Stnn:
    def __init__(self, options):
        self.device = torch.device(options.device)
        self.n = options.lat * options.lon
        d, t = options.latent, options.steps
        generator = torch.Generator().manual_seed(1)
        uniform = lambda *shape: ((2 * torch.rand(*shape, generator=generator) - 1) / 10).to(self.device)
        self.series = uniform(t, self.n, 1)
        self.mode = options.mode
        self.bf16 = options.products == "bf16"
        self.pattern = self.neighbours = None
        if options.mode == "discover":
            self.weights = torch.full((1, self.n, self.n), 1 / self.n, device=self.device)
        else:
            nodes, there = neighbours(options.lat, options.lon, self.device)
            if options.relations == "gathers":
                self.neighbours, self.pattern = nodes, there.float()
            else:
                self.pattern = dense_pattern(nodes, there)
            self.weights = self.pattern / 2
        relations = self.weights.shape[0]
        self.z = uniform(t, self.n, d).requires_grad_()
        self.decoder = uniform(1, d).requires_grad_()
        self.dynamics = uniform(d, (relations + 1) * d).requires_grad_()
        self.bias = uniform(d).requires_grad_()
        trained = [self.z, self.decoder, self.dynamics, self.bias]
        groups = [{"params": [self.z], "weight_decay": 1e-7}, {"params": trained[1:], "weight_decay": 1e-6}]
        if options.mode != "given":
            self.weights.requires_grad_()
            groups.append({"params": [self.weights], "weight_decay": 0})
        self.optimiser = torch.optim.Adam(groups, lr=3e-3, betas=(0.0, 0.999), eps=1e-9)

    def relations(self):
        if self.mode == "given":
            return self.weights
        clamped = self.weights.clamp(0, 1)
        return clamped if self.pattern is None else clamped * self.pattern

    def advance(self, own, context):
        return torch.tanh(torch.nn.functional.linear(torch.cat([own, context], -1), self.dynamics, self.bias))

    def decoder_loss(self, at, nodes):
        if nodes is None:
            return torch.mean((self.z[at] @ self.decoder.T - self.series[at]) ** 2)
        return torch.mean((self.z[at, nodes] @ self.decoder.T - self.series[at, nodes]) ** 2)

    def context(self, relations, before, at, nodes):
        """The relations' sums over z at the steps before: (B, n, r d) of a slab, (N, r d) of pairs."""
        if self.neighbours is not None:
            if nodes is None:
                return torch.cat([w[:, None] * before[:, of] for w, of in zip(relations, self.neighbours)], -1)
            near = self.z[(at - 1)[:, None], self.neighbours[:, nodes].T]  # (N, r, d)
            return (relations[:, nodes].T[..., None] * near).flatten(1)
        if nodes is None:
            wide = before.permute(1, 0, 2).reshape(self.n, -1)
            sums = (relations @ wide).reshape(-1, self.n, len(at), before.shape[-1])  # (r, n, B, d)
            return sums.permute(2, 1, 0, 3).flatten(2)
        # (N, n, d): what the reference multiplies, pair by pair
        return (relations[:, nodes].permute(1, 0, 2) @ self.z[at - 1]).flatten(1)

    def dynamics_loss(self, at, nodes):
        relations = self.relations()
        before = self.z[at - 1] if nodes is None else self.z[at - 1, nodes]
        predicted = self.advance(before, self.context(relations, before, at, nodes))
        loss = 0.1 * torch.mean(((self.z[at] if nodes is None else self.z[at, nodes]) - predicted) ** 2)
        if self.mode != "given":
            # A mean over (r, n, n), whose other entries are 0.
            loss = loss + 1e-3 * relations.abs().sum() / (relations.shape[0] * self.n**2)
        return loss

    def step(self, loss, *batch):
        self.optimiser.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            value = loss(*batch)
        value.backward()
        self.optimiser.step()


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def main():
    options = parse()
    model = Stnn(options)
    chance = torch.Generator().manual_seed(2)

    def batch():
        if options.pairs:
            at = torch.randint(1, options.steps, (options.pairs,), generator=chance)
            return at.to(model.device), torch.randint(model.n, (options.pairs,), generator=chance).to(model.device)
        first = int(torch.randint(1, options.steps - options.slab + 1, (1,), generator=chance))
        return torch.arange(first, first + options.slab, device=model.device), None

    for name, loss in (("decoder", model.decoder_loss), ("dynamics", model.dynamics_loss)):
        seconds = []
        for _ in range(2 + options.batches):
            these = batch()
            wait(model.device)
            begin = time.perf_counter()
            model.step(loss, *these)
            wait(model.device)
            seconds.append(time.perf_counter() - begin)
        seconds = sorted(seconds[2:])
        memory = (torch.cuda.max_memory_allocated() if model.device.type == "cuda" else
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        print(json.dumps({"peer": f"PyTorch {torch.__version__}", "device": options.device,
                          "threads": torch.get_num_threads(), "products": options.products, "mode": options.mode,
                          "relations": options.relations, "nodes": model.n, "latent": options.latent,
                          "batch": f"{options.pairs} pairs" if options.pairs else f"{options.slab} steps", "pass": name,
                          "median_seconds": seconds[len(seconds) // 2], "best_seconds": seconds[0], "peak_bytes": memory}),
              flush=True)


if __name__ == "__main__":
    main()
