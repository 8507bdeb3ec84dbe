#!/usr/bin/env python3
"""Writes chebyshev.txt and first_order.txt: losses and gradients of a tiny STGCN, for tests/lib/model/test_stgcn.cpp.

An implementation of its own, written from the paper (Yu, Yin, Zhu, IJCAI 2018) and its published code in plain Python:
dense matrices, one scalar after the other. Gradients are complex steps, Im f(x + ih) / h with h = 1e-30, which have no
error of differences. Input values have three decimals. Run it in this folder; the files are part of the repository.

A file holds lines of a name and its values, row-major:
  edges (source, destination, weight); x (window, step, node, channel); target (window, output step, node), nan is missing;
  p/<parameter> as lib/rossby/model/stgcn/stgcn.hpp names and shapes it; output (window, output step, node);
  loss: mean |output - target| over observed values; g/<parameter>: its gradient.
"""

import cmath
import math

NODES, WINDOWS, INPUTS, OUTPUTS, CHANNELS = 7, 2, 12, 3, 2
FIRST, MIDDLE, LAST = 3, 2, 4  # channels of a block
TAPS, TERMS, BLOCKS = 3, 3, 2
LEFT = INPUTS - 2 * BLOCKS * (TAPS - 1)
EPSILON = 1e-6


class Numbers:
    """Numbers in [-1, 1) with three decimals, by a linear congruential generator."""

    def __init__(self, seed):
        self.state = seed

    def take(self, count, scale=1.0, offset=0.0):
        values = []
        for _ in range(count):
            self.state = (self.state * 1103515245 + 12345) % 2**31
            values.append(round(offset + scale * (2 * self.state / 2**31 - 1), 3))
        return values


def make_edges(numbers):
    """A ring with chords, in one direction but for 1 and 0; node 2 points to itself, node 6 has no edges."""
    edges = [(2, 2, 0.5), (1, 0, 0.25)]
    for source in range(NODES - 1):
        for destination in range(NODES - 1):
            if (destination - source) % 4 == 1:
                edges.append((source, destination, numbers.take(1, 0.4, 0.6)[0]))
    return edges


def undirected(edges):
    w = [[0.0] * NODES for _ in range(NODES)]
    for source, destination, weight in edges:
        w[destination][source] = max(w[destination][source], weight)
        w[source][destination] = max(w[source][destination], weight)
    return w


def laplacian(w):
    """2 L / 2 - I, L = I - D^-1/2 W D^-1/2, rows of nodes without edges 0."""
    degree = [sum(row) for row in w]
    matrix = []
    for i in range(NODES):
        row = []
        for j in range(NODES):
            of_l = 1.0 if i == j and degree[i] > 0 else 0.0
            if degree[i] > 0 and degree[j] > 0:
                of_l -= w[i][j] / math.sqrt(degree[i] * degree[j])
            row.append(2 * of_l / 2 - (1.0 if i == j else 0.0))
        matrix.append(row)
    return matrix


def first_order(w):
    """D^-1/2 (W + I) D^-1/2; the diagonal is 1 whether or not there was an entry."""
    loops = [[1.0 if i == j else w[i][j] for j in range(NODES)] for i in range(NODES)]
    degree = [sum(row) for row in loops]
    return [[loops[i][j] / math.sqrt(degree[i] * degree[j]) for j in range(NODES)] for i in range(NODES)]


def sigmoid(z):
    return 1 / (1 + cmath.exp(-z))


def dense(weight, bias, inputs):
    """weight (out, in) row-major."""
    size = len(inputs)
    return [bias[o] + sum(weight[o * size + k] * inputs[k] for k in range(size)) for o in range(len(bias))]


def gate(x, weight, bias, taps):
    """x[step][node][channel] -> the same with taps - 1 steps less."""
    out, channels = len(bias) // 2, len(x[0][0])
    result = []
    for t in range(len(x) - taps + 1):
        step = []
        for i in range(NODES):
            seen = [value for j in range(taps) for value in x[t + j][i]]
            a = dense(weight, bias, seen)
            if channels <= out:
                for c in range(channels):
                    a[c] += x[t + taps - 1][i][c]
            step.append([a[c] * sigmoid(a[out + c]) for c in range(out)])
        result.append(step)
    return result


def product(matrix, z):
    return [[sum(matrix[i][j] * z[j][c] for j in range(NODES) if matrix[i][j] != 0) for c in range(len(z[0]))]
            for i in range(NODES)]


def graph_convolution(x, weight, bias, matrix, chebyshev):
    result = []
    for step in x:
        if chebyshev:
            terms = [step, product(matrix, step)]
            while len(terms) < TERMS:
                twice = product(matrix, terms[-1])
                terms.append([[2 * twice[i][c] - terms[-2][i][c] for c in range(len(step[0]))] for i in range(NODES)])
        else:
            terms = [product(matrix, step)]
        nodes = []
        for i in range(NODES):
            y = dense(weight, bias, [value for term in terms for value in term[i]])
            nodes.append([value if complex(value).real > 0 else 0 * value for value in y])
        result.append(nodes)
    return result


def layer_norm(x, gain, bias):
    result = []
    channels = len(x[0][0])
    for step in x:
        size = NODES * channels
        mean = sum(value for node in step for value in node) / size
        variance = sum((value - mean) ** 2 for node in step for value in node) / size
        deviation = cmath.sqrt(variance + EPSILON)
        result.append([[(step[i][c] - mean) / deviation * gain[i * channels + c] + bias[i * channels + c]
                        for c in range(channels)] for i in range(NODES)])
    return result


def forecast(p, window, matrix, chebyshev):
    x = window
    for b in range(BLOCKS):
        place = f"block{b}_"
        x = gate(x, p[place + "first_weight"], p[place + "first_bias"], TAPS)
        x = graph_convolution(x, p[place + "graph_weight"], p[place + "graph_bias"], matrix, chebyshev)
        x = gate(x, p[place + "second_weight"], p[place + "second_bias"], TAPS)
        x = layer_norm(x, p[place + "norm_gain"], p[place + "norm_bias"])
    x = layer_norm(gate(x, p["output_weight"], p["output_bias"], LEFT), p["output_norm_gain"], p["output_norm_bias"])
    outputs = []
    for i in range(NODES):
        hidden = [sigmoid(value) for value in dense(p["hidden_weight"], p["hidden_bias"], x[0][i])]
        outputs.append(dense(p["projection_weight"], p["projection_bias"], hidden))
    return [[outputs[i][h] for i in range(NODES)] for h in range(OUTPUTS)]


def parameters(numbers, chebyshev):
    terms = TERMS if chebyshev else 1
    p = {}
    for b in range(BLOCKS):
        channels = CHANNELS if b == 0 else LAST
        shapes = [("first", 2 * FIRST, TAPS * channels), ("graph", MIDDLE, terms * FIRST),
                  ("second", 2 * LAST, TAPS * MIDDLE)]
        for name, out, width in shapes:
            p[f"block{b}_{name}_weight"] = numbers.take(out * width, 0.6)
            p[f"block{b}_{name}_bias"] = numbers.take(out, 0.2)
        p[f"block{b}_norm_gain"] = numbers.take(NODES * LAST, 0.4, 1)
        p[f"block{b}_norm_bias"] = numbers.take(NODES * LAST, 0.3)
    p["output_weight"] = numbers.take(2 * LAST * LEFT * LAST, 0.5)
    p["output_bias"] = numbers.take(2 * LAST, 0.2)
    p["output_norm_gain"] = numbers.take(NODES * LAST, 0.4, 1)
    p["output_norm_bias"] = numbers.take(NODES * LAST, 0.3)
    p["hidden_weight"] = numbers.take(LAST * LAST)
    p["hidden_bias"] = numbers.take(LAST, 0.2)
    p["projection_weight"] = numbers.take(OUTPUTS * LAST)
    p["projection_bias"] = numbers.take(OUTPUTS, 0.2)
    return p


def mean_error(p, windows, targets, matrix, chebyshev):
    total, count = 0, 0
    for window, target in zip(windows, targets):
        for got, wanted in zip(forecast(p, window, matrix, chebyshev), target):
            for a, b in zip(got, wanted):
                if math.isnan(b):
                    continue
                count += 1
                total += (a - b) if complex(a - b).real > 0 else (b - a)
    return total / count


def flat(nested):
    if not isinstance(nested, (list, tuple)):
        return [nested]
    return [value for part in nested for value in flat(part)]


def write(path, chebyshev):
    numbers = Numbers(2018)
    edges = make_edges(numbers)
    matrix = laplacian(undirected(edges)) if chebyshev else first_order(undirected(edges))
    windows = [[[numbers.take(CHANNELS) for _ in range(NODES)] for _ in range(INPUTS)] for _ in range(WINDOWS)]
    targets = [[[round(64 * value) / 64 for value in numbers.take(NODES)] for _ in range(OUTPUTS)]
               for _ in range(WINDOWS)]  # exact in single precision
    targets[0][1][3] = targets[1][0][5] = math.nan
    p = parameters(numbers, chebyshev)

    def loss():
        return complex(mean_error(p, windows, targets, matrix, chebyshev))

    lines = {"edges": edges, "x": windows, "target": targets}
    for name, values in p.items():
        lines["p/" + name] = list(values)
    lines["output"] = [[[complex(v).real for v in step] for step in forecast(p, window, matrix, chebyshev)]
                       for window in windows]
    lines["loss"] = loss().real
    h = 1e-30
    for name, values in p.items():
        gradient = []
        for k, value in enumerate(list(values)):
            values[k] = value + 1j * h
            gradient.append(loss().imag / h)
            values[k] = value
        lines["g/" + name] = gradient
    with open(path, "w", encoding="ascii") as file:
        for name, values in lines.items():
            file.write(name + " " + " ".join(repr(value) for value in flat(values)) + "\n")


if __name__ == "__main__":
    write("chebyshev.txt", True)
    write("first_order.txt", False)
