#!/usr/bin/env python3
"""Training steps of a DCRNN (Li et al., ICLR 2018) in PyTorch: the peer of bench_windows.

    OMP_NUM_THREADS=2 python3 benchmarks/peers/dcrnn_pytorch.py
    OMP_NUM_THREADS=2 python3 benchmarks/peers/dcrnn_pytorch.py --products bf16 --supports dense
    python3 benchmarks/peers/dcrnn_pytorch.py --compile

Model, sizes and graph are those of bench_windows: a ring of nodes with eight neighbours each, random walks in both directions,
powers up to --diffusion, value and time of day as inputs, a decoder that reads its own forecasts. The defaults have METR-LA's
size, 372,353 parameters. `--supports sparse`: products with CSR matrices of PyTorch; `dense`: with dense ones, which is often
faster for a few hundred nodes. `--products bf16`: forward and loss run under PyTorch's autocast. `--compile`: cells are compiled.

A line of JSON: seconds of the median step and the quickest (forward, backward, clipping, Adam), and the most memory that the
process held. Needs PyTorch alone."""
import argparse
import contextlib
import json
import resource
import sys
import time
import warnings

try:
    import torch
except ImportError:
    sys.exit("dcrnn_pytorch.py: PyTorch is not installed. Run pip install torch")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, value in (("nodes", 207), ("windows", 64), ("inputs", 12), ("outputs", 12), ("layers", 2), ("units", 64),
                        ("diffusion", 2), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--supports", choices=["sparse", "dense"], default="sparse")
    parser.add_argument("--products", choices=["model", "bf16"], default="model", help="bf16: PyTorch's autocast")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    for name in ("nodes", "windows", "inputs", "outputs", "layers", "units", "diffusion", "repeats"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: must be at least 1")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch sees no GPU")
    return options


def random_walks(nodes):
    """Dense (n, n): D⁻¹A of the ring of bench_windows, and the same of its transpose."""
    graph = torch.zeros(nodes, nodes)
    for i in range(nodes):
        for k in range(1, 5):
            for j in ((i + k) % nodes, (i - k) % nodes):
                graph[i, j] = 1 / (1 + (i + j) % 7)
    return [a / a.sum(1, keepdim=True) for a in (graph, graph.T.contiguous())]


class DiffusionConvolution(torch.nn.Module):
    """[x, S x, S² x, … for both walks] W + b over (n, B, channels)."""

    def __init__(self, supports, hops, channels, outputs):
        super().__init__()
        self.supports, self.hops = supports, hops
        self.linear = torch.nn.Linear((1 + len(supports) * hops) * channels, outputs)

    def forward(self, x):
        n, batch, channels = x.shape
        wide = x.reshape(n, batch * channels)
        terms = [x]
        for support in self.supports:
            reached = wide
            for _ in range(self.hops):
                if support.layout == torch.sparse_csr:  # PyTorch has no bf16 product with these
                    with torch.autocast(x.device.type, enabled=False):
                        reached = support @ reached.float()
                else:
                    reached = support @ reached
                terms.append(reached.reshape(n, batch, channels).to(x.dtype))
        return self.linear(torch.cat(terms, -1))


class Cell(torch.nn.Module):
    def __init__(self, supports, hops, inputs, units):
        super().__init__()
        self.gates = DiffusionConvolution(supports, hops, inputs + units, 2 * units)
        self.candidate = DiffusionConvolution(supports, hops, inputs + units, units)

    def forward(self, x, h):
        r, u = torch.sigmoid(self.gates(torch.cat([x, h], -1))).chunk(2, -1)
        c = torch.tanh(self.candidate(torch.cat([x, r * h], -1)))
        return u * h + (1 - u) * c


class Dcrnn(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.outputs, self.units = options.outputs, options.units
        supports = [s.to(options.device) for s in random_walks(options.nodes)]
        if options.supports == "sparse":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "in beta state"
                supports = [s.to_sparse_csr() for s in supports]
        widths = lambda first: [first] + [options.units] * (options.layers - 1)
        make = lambda first: torch.nn.ModuleList(Cell(supports, options.diffusion, width, options.units) for width in widths(first))
        self.encoder, self.decoder = make(2), make(1)
        self.projection = torch.nn.Linear(options.units, 1)
        if options.compile:
            for cell in [*self.encoder, *self.decoder]:
                cell.compile()

    def forward(self, x):
        """x: (inputs, n, B, 2); returns (outputs, n, B, 1)."""
        state = [x.new_zeros(*x.shape[1:3], self.units) for _ in self.encoder]

        def advance(cells, at):
            for layer, cell in enumerate(cells):
                at = state[layer] = cell(at, state[layer])
            return at

        for step in x:
            advance(self.encoder, step)
        out = [x.new_zeros(*x.shape[1:3], 1)]
        for _ in range(self.outputs):
            out.append(self.projection(advance(self.decoder, out[-1].to(x.dtype))))
        return torch.stack(out[1:])


def masked_error(forecast, truth):
    seen = ~torch.isnan(truth)
    return torch.where(seen, (forecast - torch.nan_to_num(truth)).abs(), 0).sum() / seen.sum()


def main():
    options = parse()
    torch.manual_seed(1)
    model = Dcrnn(options).to(options.device)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
    shape = (options.nodes, options.windows)
    x = torch.rand(options.inputs, *shape, 2, device=options.device)
    truth = torch.rand(options.outputs, *shape, 1, device=options.device)
    wait = torch.cuda.synchronize if options.device == "cuda" else contextlib.nullcontext
    seconds, cold = [], 2
    for _ in range(cold + options.repeats):
        wait()
        begin = time.perf_counter()
        optimiser.zero_grad()
        with torch.autocast(options.device, torch.bfloat16, enabled=options.products == "bf16"):
            loss = masked_error(model(x), truth)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimiser.step()
        wait()
        seconds.append(time.perf_counter() - begin)
    seconds = sorted(seconds[cold:])
    memory = (torch.cuda.max_memory_allocated() if options.device == "cuda" else
              resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "device": options.device, "threads": torch.get_num_threads(),
                      "products": options.products, "supports": options.supports, "compiled": options.compile,
                      "nodes": options.nodes, "windows": options.windows, "units": options.units, "layers": options.layers,
                      "parameters": sum(p.numel() for p in model.parameters()), "median_seconds": seconds[len(seconds) // 2],
                      "best_seconds": seconds[0], "peak_bytes": memory}))


if __name__ == "__main__":
    main()
