"""Pictures of what Rossby does: each function draws one."""

import math

from svg import Drawing


def series(step: float) -> float:
    """A made-up series with a cycle, to draw windows and anomalies on."""
    return math.sin(step / 3.2) + 0.35 * math.sin(step / 1.1 + 1) + 0.25 * math.sin(step / 7)


def overview() -> Drawing:
    d = Drawing(860, 250, "Files of a series and relations between its nodes go into Rossby, forecasts and scores come out")
    d.labelled(20, 30, 190, 54, "a series", "a", second="NetCDF, Zarr: grid or sensors")
    d.labelled(20, 98, 190, 54, "relations", "b", second="neighbours, a graph, learned")
    d.labelled(20, 166, 190, 54, "a configuration", "e", second="TOML, or none")
    for y in (57, 125, 193):
        d.arrow((212, y), (292, 125 + (y - 125) * 0.35))
    d.box(294, 22, 272, 206, "frame", 10)
    d.text(430, 46, "mpirun -n 4 rossby train", 14, weight="bold")
    for rank in range(4):
        x = 308 + rank * 65
        d.labelled(x, 66, 50, 92, f"rank {rank}", "c", 12, second="nodes")
        if rank:
            d.arrow((x - 15, 84), (x, 84), width=1)
            d.arrow((x, 140), (x - 15, 140), width=1)
    d.text(430, 182, "neighbours exchange ghost rows,", 12, kind="soft")
    d.text(430, 200, "one sum of gradients ends the step", 12, kind="soft")
    d.arrow((568, 125), (640, 57))
    d.arrow((568, 125), (640, 125))
    d.arrow((568, 125), (640, 193))
    d.labelled(644, 30, 196, 54, "rossby evaluate", "d", second="errors beside baselines")
    d.labelled(644, 98, 196, 54, "rossby forecast", "d", second="CF NetCDF, opens in xarray")
    d.labelled(644, 166, 196, 54, "rossby report scaling", "d", second="speed-up and efficiency")
    return d


def row_blocks() -> Drawing:
    d = Drawing(820, 320, "A grid of nodes cut into four row blocks; a rank receives ghost rows from its neighbours")
    size, left, top = 24, 30, 54
    d.text(left + 5 * size, 32, "nodes, cut into 4 row blocks", 14, weight="bold")
    owner = [["a", "b"], ["c", "d"]]
    for row in range(8):
        for column in range(10):
            d.box(left + column * size, top + row * size, size - 2, size - 2, owner[row // 4][column // 5], 3)
    for rank, (x, y) in enumerate([(2.5, 2), (7.5, 2), (2.5, 6), (7.5, 6)]):
        d.text(left + x * size, top + y * size + 4, f"rank {rank}", 13, weight="bold")
    d.arrow((left + 10 * size + 14, top + 96), (400, top + 96))
    left = 410
    d.text(left + 5 * size, 32, "what rank 0 holds", 14, weight="bold")
    for row in range(5):
        for column in range(6):
            inside = row < 4 and column < 5
            kind = "a" if inside else owner[row // 4][column // 5]
            d.box(left + column * size, top + row * size, size - 2, size - 2, kind, 3, "" if inside else "3 2")
    d.text(left, top + 5 * size + 26, "solid: owned rows (20)", 12, "start")
    d.text(left, top + 5 * size + 44, "dashed: ghost rows (10), received before each product", 12, "start", "soft")
    d.text(left, top + 5 * size + 62, "interior rows are computed while ghosts travel", 12, "start", "soft")
    x = left + 7 * size + 20
    d.text(x, top + 20, "forward", 13, "start", weight="bold")
    d.text(x, top + 38, "gather: ghosts come in", 12, "start", "soft")
    d.text(x, top + 68, "backward", 13, "start", weight="bold")
    d.text(x, top + 86, "scatter-add: their", 12, "start", "soft")
    d.text(x, top + 102, "gradients go back", 12, "start", "soft")
    return d


def process_grid() -> Drawing:
    d = Drawing(820, 330, "Eight ranks as two row blocks, two stages and two time groups")
    d.text(30, 32, "8 ranks = 2 row blocks × 2 stages × 2 time groups", 14, "start", weight="bold")
    for group in range(2):
        x = 30 + group * 395
        d.box(x, 52, 370, 216, "frame", 8)
        d.text(x + 185, 74, f"time group {group}: its own windows", 13)
        for stage in range(2):
            d.text(x + 98 + stage * 180, 98, f"stage {stage}: {'first' if stage == 0 else 'last'} layers", 12, kind="soft")
            for block in range(2):
                d.labelled(x + 26 + stage * 180, 110 + block * 76, 140, 56, f"row block {block}", "ab"[block], second="one rank")
            if stage == 0:
                for block in range(2):
                    d.arrow((x + 168, 138 + block * 76), (x + 204, 138 + block * 76))
            d.arrow((x + 96 + stage * 180, 168), (x + 96 + stage * 180, 184), width=1.2)
            d.arrow((x + 96 + stage * 180, 184), (x + 96 + stage * 180, 168), width=1.2)
    d.line([(215, 268), (215, 286), (610, 286), (610, 268)], "sc", 2)
    d.text(412, 306, "one sum of gradients over all ranks ends each step", 13)
    d.text(600, 32, "↕ ghost rows   → activations", 12, "start", "soft")
    return d


def training_step() -> Drawing:
    d = Drawing(860, 250, "A training step over time on two ranks: forward, backward, one sum, update")
    d.text(30, 30, "one training step, two ranks", 14, "start", weight="bold")
    parts = [("read", 60, "e"), ("interior", 110, "a"), ("boundary", 70, "a"), ("loss", 50, "e"), ("boundary", 80, "b"),
             ("interior", 120, "b"), ("sum", 70, "c"), ("update", 80, "d")]
    for rank in range(2):
        y = 62 + rank * 88
        d.text(30, y + 26, f"rank {rank}", 13, "start")
        x = 100
        for words, width, kind in parts:
            d.labelled(x, y, width - 4, 40, words, kind, 12)
            x += width
    d.line([(160, 126), (270, 126)], "sa", 3)
    d.text(215, 142, "ghosts travel", 11, kind="soft")
    d.line([(470, 126), (590, 126)], "sb", 3)
    d.text(530, 142, "ghost gradients travel", 11, kind="soft")
    d.text(215, 226, "forward", 13)
    d.text(490, 226, "backward", 13)
    d.line([(160, 208), (390, 208)], "sa", 2)
    d.line([(394, 208), (586, 208)], "sb", 2)
    d.text(625, 226, "gradients, losses, votes", 12, kind="soft")
    d.line([(594, 208), (656, 208)], "sc", 2)
    d.arrow((100, 240), (830, 240), width=1)
    d.text(838, 244, "t", 12, "start", "soft")
    return d


def windows() -> Drawing:
    d = Drawing(860, 290, "Windows of input and output steps on one series")
    d.text(30, 30, "one series, read in place; a window is the number of its first step", 14, "start", weight="bold")
    points = [(40 + 13 * t, 100 - 26 * series(t)) for t in range(61)]
    d.line(points, "line", 1.6)
    for x, y in points:
        d.dot(x, y, 2.2, "e")
    for k, start in enumerate((4, 9, 20, 31)):
        y = 160 + k * 24
        d.box(40 + 13 * start - 5, y, 13 * 12, 17, "a", 3)
        d.box(40 + 13 * (start + 12) - 5, y, 13 * 12, 17, "c", 3)
        if start > 8:
            d.text(40 + 13 * start - 12, y + 13, f"window {start}", 11, "end", "soft")
        d.text(40 + 13 * start + 70, y + 13, "12 inputs", 11)
        d.text(40 + 13 * start + 226, y + 13, "12 outputs", 11)
    d.text(30, 276, "Windows overlap and share the series: memory does not grow with their number.", 12, "start", "soft")
    return d


def split() -> Drawing:
    d = Drawing(860, 270, "Training, validation and test parts; folds inside the training part with a gap")
    left, width = 150, 680

    def part(y, begin, end, words, kind, dash=""):
        d.box(left + begin * width, y, (end - begin) * width - 3, 34, kind, 4, dash)
        if words:
            d.text(left + (begin + end) / 2 * width, y + 22, words, 12)

    d.text(20, 44, "default", 13, "start", weight="bold")
    part(22, 0, 0.7, "train 70 %", "a")
    part(22, 0.7, 0.8, "valid.", "c")
    part(22, 0.8, 1, "test 20 %", "d")
    d.text(20, 96, "split.folds = 4", 13, "start", weight="bold")
    d.text(20, 114, "split.fold = 1", 12, "start", "soft")
    part(82, 0, 0.175, "train", "a")
    part(82, 0.175, 0.2, "", "e", "3 2")
    part(82, 0.2, 0.4, "fold 1", "c")
    part(82, 0.4, 0.425, "", "e", "3 2")
    part(82, 0.425, 0.8, "train", "a")
    part(82, 0.8, 1, "test", "d")
    d.text(left + 0.19 * width, 134, "gap", 11, kind="soft")
    d.text(left + 0.41 * width, 134, "gap", 11, kind="soft")
    d.text(20, 172, "fold_order", 13, "start", weight="bold")
    d.text(20, 190, "= \"forward\"", 12, "start", "soft")
    part(158, 0, 0.32, "train: blocks 0 and 1", "a")
    part(158, 0.32, 0.48, "fold 1", "c")
    part(158, 0.48, 0.8, "unused", "e", "3 2")
    part(158, 0.8, 1, "test", "d")
    d.arrow((left, 216), (left + width, 216), width=1)
    d.text(left + width / 2, 236, "time", 12, kind="soft")
    d.text(left, 258, "Training windows lie inside the training part. The test part is looked at once, at the end.", 12, "start", "soft")
    return d


def anomalies() -> Drawing:
    d = Drawing(860, 300, "A series is its cycle plus an anomaly; models see the anomaly")
    rows = [("x(t)", lambda t: 1.3 * math.sin(t * 0.78) + 0.5 * math.sin(t / 6), "line", ["what the file holds"]),
            ("cycle(phase of t)", lambda t: 1.3 * math.sin(t * 0.78), "sc", ["mean of the same time", "of day, week or year"]),
            ("anomaly(t)", lambda t: 0.5 * math.sin(t / 6), "sa", ["what the model sees and forecasts"])]
    for k, (name, curve, kind, lines) in enumerate(rows):
        y = 56 + k * 92
        d.text(30, y - 4, name, 14, "start", weight="bold")
        for n, words in enumerate(lines):
            d.text(30, y + 15 + 15 * n, words, 11, "start", "soft")
        d.line([(240, y), (830, y)], "se", 0.8, "3 3")
        d.line([(240 + 5 * t, y - 20 * curve(t)) for t in range(119)], kind, 1.8)
    d.text(222, 106, "=", 18)
    d.text(222, 198, "+", 18)
    return d


def averages() -> Drawing:
    d = Drawing(820, 250, "Members of an average and their weights at each lead time")
    d.text(30, 30, "rossby average gru wavenet direct_ridge --weights stacking", 14, "start", weight="bold")
    for k, (name, kind) in enumerate([("run gru", "a"), ("run wavenet", "b"), ("baseline direct_ridge", "c")]):
        y = 52 + k * 60
        d.labelled(30, y, 170, 44, name, kind, 13)
        d.arrow((202, y + 22), (286, y + 22))
    d.text(400, 46, "weights of each lead, found on validation errors", 12, kind="soft")
    shares = [(0.15, 0.2, 0.65), (0.25, 0.3, 0.45), (0.3, 0.4, 0.3), (0.3, 0.5, 0.2)]
    for lead, weights in enumerate(shares):
        x, y = 292 + lead * 58, 60
        for weight, kind in zip(weights, "abc"):
            d.box(x, y, 46, 140 * weight - 2, kind, 3)
            y += 140 * weight
        d.text(x + 23, 218, f"lead {lead + 1}", 11, kind="soft")
    d.arrow((526, 130), (590, 130))
    d.labelled(594, 106, 200, 50, "one forecast", "d", second="evaluate and forecast take it")
    d.text(292, 240, "No weight is negative; at each lead they sum to 1. (Shares in this picture are made up.)", 11, "start", "soft")
    return d


def run_directory() -> Drawing:
    d = Drawing(860, 220, "A run is cut off and goes on from its newest checkpoint, on another number of ranks")
    d.text(30, 30, "the same command again goes on", 14, "start", weight="bold")
    d.labelled(30, 56, 250, 46, "start 1: 4 ranks", "a", second="mpirun -n 4 rossby train c.toml --run r")
    d.labelled(330, 56, 230, 46, "start 2: 2 ranks", "b", second="mpirun -n 2, the same words")
    d.labelled(610, 56, 220, 46, "start 3: 8 ranks", "c", second="srun, the same words")
    d.arrow((282, 79), (328, 79))
    d.arrow((562, 79), (608, 79))
    d.text(305, 48, "time limit, exit 75", 11, kind="soft")
    d.text(585, 48, "kill -9", 11, kind="soft")
    for k, x in enumerate((110, 200, 280, 400, 500, 690, 790)):
        d.line([(x, 102), (x, 136)], "se", 1, "2 2")
        d.box(x - 22, 138, 44, 26, "e", 3)
        d.text(x, 155, f"step-{k + 1}", 10)
    d.line([(30, 178), (830, 178)], "line", 1)
    d.text(430, 200, "r/checkpoints: written every ten minutes, before a time limit and on a signal; any number of ranks reads them", 12, kind="soft")
    return d


PICTURES = {"overview": overview, "row_blocks": row_blocks, "process_grid": process_grid, "training_step": training_step,
            "windows": windows, "split": split, "anomalies": anomalies, "averages": averages, "checkpoints": run_directory}
