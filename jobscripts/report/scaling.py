"""Plots of a scaling study from scaling.json: speed-up, efficiency, and what a step's time goes into."""

import json
import os
import re

from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

import style
from problem import Problem

REGIONS = {"forward": style.MODEL, "backward": "#9ecae1", "optimiser": "#009e73", "reduction": "#e69f00", "other": "#c7c7c7"}
PLOTS = ("speed_up", "efficiency", "regions")


class Point:
    """A row scaled by the measured baseline, so that a prediction is as far from its point as it is wrong."""

    def __init__(self, row, band):
        unit = row["speed_up"] * row["step_seconds"]  # speed-up of a step of one second
        self.ranks = row["ranks"]
        self.step = row["step_seconds"]
        self.ratio = row["speed_up"] / row["efficiency"]
        self.value, self.least, self.most = row["speed_up"], unit / row["step_seconds_max"], unit / row["step_seconds_min"]
        predicted = row["predicted_step_seconds"]
        self.predicted = unit / predicted if predicted else None
        if self.predicted:
            # A point on the band's edge has a prediction that is off by the band's half width.
            self.low, self.high = self.predicted * max(0.01, 1 - band), self.predicted * (1 + band)


def draw(folder, band):
    with open(os.path.join(folder, "scaling.json"), encoding="utf-8") as file:
        studies = json.load(file)["studies"]
    remove_earlier(folder)
    out, taken = style.Pictures(folder), set()
    try:
        for study in studies:
            draw_study(out, name_of(study["label"], taken), study, band)
    except BaseException:
        # Plots of some studies next to a table of all would look complete.
        for name in out.files:
            os.remove(os.path.join(folder, name))
        raise


def name_of(label, taken):
    """Returns a unique file name for each study."""
    name = re.sub(r"[^A-Za-z0-9-]", "_", label[:60])
    name = "study" + name if not name or name[0] == "-" else name
    other, count = name, 2
    while other in taken:
        other, count = f"{name}_{count}", count + 1
    taken.add(other)
    return other


def remove_earlier(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if re.search(rf"_({'|'.join(PLOTS)})\.(svg|png)$", name) and os.path.isfile(path) and style.made_here(path):
            os.remove(path)


def draw_study(out, name, study, band):
    if not study["rows"]:
        raise Problem(f"{study['label']}: the study has no rows. Make scaling.json again with rossby report scaling")
    share = (band if band is not None else study["prediction_error_percent"] or 0) / 100
    points = [Point(row, share) for row in study["rows"]]
    title = f"{' '.join(study['label'].split())} ({study['kind']} scaling)"
    first = min(point.ranks for point in points)
    over = f"over {first} rank{'' if first == 1 else 's'}"
    speed = curves(points, lambda value, _: value, share, title)
    axes = speed.axes[0]
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ranks = sorted({point.ranks for point in points})
    axes.plot(ranks, [r / first for r in ranks], color=style.INK, linestyle=":", label="ideal")
    axes.set_ylabel(f"{'scaled ' if study['kind'] == 'weak' else ''}speed-up {over}")
    finish(speed)
    out.add(speed, f"{name}_speed_up", title)
    efficient = curves(points, lambda value, point: value / point.ratio, share, title)
    axes = efficient.axes[0]
    axes.axhline(1, color=style.INK, linestyle=":", label="ideal")
    axes.set_ylim(0, 1.15 * max([1.0, *(point.most / point.ratio for point in points),
                                 *(min(point.high, 1.5 * point.predicted) / point.ratio for point in points if point.predicted)]))
    axes.set_ylabel(f"efficiency {over}")
    finish(efficient)
    out.add(efficient, f"{name}_efficiency", title)
    out.add(regions(study, title), f"{name}_regions", title)


def curves(points, scaled, band, title):
    """Draws measured and predicted values over ranks. Lines join the fastest row of each rank count."""
    fastest = {}
    for point in points:
        if point.ranks not in fastest or point.step < fastest[point.ranks].step:
            fastest[point.ranks] = point
    lines = [fastest[ranks] for ranks in sorted(fastest)]
    others = [point for point in points if point not in lines]
    fig, axes = style.figure(height=3.6, width=6.4)
    predicted = [point for point in lines if point.predicted]
    if predicted:
        ranks = [point.ranks for point in predicted]
        axes.fill_between(ranks, [scaled(p.low, p) for p in predicted], [scaled(p.high, p) for p in predicted], color="#9ecae1", alpha=0.5, linewidth=0,
                          label=f"predicted ± {100 * band:.1f} %")
        axes.plot(ranks, [scaled(p.predicted, p) for p in predicted], "s--", color=style.MODEL, markersize=4, label="predicted")
    for some, look, label in ((others, {"fmt": "o", "color": style.GREY, "markerfacecolor": "none"}, "other grids"),
                              (lines, {"fmt": "o-", "color": style.COLOURS[0], "linewidth": 2}, "measured, min to max")):
        if some:
            values = [scaled(p.value, p) for p in some]
            axes.errorbar([p.ranks for p in some], values, yerr=[[max(0, v - scaled(p.least, p)) for v, p in zip(values, some)],
                                                                 [max(0, scaled(p.most, p) - v) for v, p in zip(values, some)]],
                          capsize=3, markersize=4.5, label=label, **look)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(fastest)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(min(fastest) / 1.2, max(fastest) * 1.2)
    axes.set(xlabel="ranks", title=title)
    return fig


def finish(fig):
    fig.axes[0].legend(loc="center left", bbox_to_anchor=(1, 0.5))


def regions(study, title):
    """Draws bars of milliseconds per step, by region."""
    rows = study["rows"]
    grids, stages, hosts = (any(row[key] > 1 for row in rows) for key in ("time_groups", "stages", "hosts"))
    labels = []
    for row in rows:
        grid = f": {row['row_blocks']}x{row['stages']}x{row['time_groups']}" if stages else f": {row['row_blocks']}x{row['time_groups']}" if grids else ""
        labels.append(f"{row['ranks']}{grid}" + (f" on {row['hosts']}" if hosts else ""))
    meaning = "ranks" + (": row blocks x stages x time groups" if stages else ": row blocks x time groups" if grids else "") + (" on hosts" if hosts else "")
    fig, axes = style.figure(height=3.6, width=6.4)
    bottom = [0.0] * len(rows)
    for region, colour in REGIONS.items():
        values = [1e3 * row["step_seconds"] * row["shares"][region] for row in rows]
        axes.bar(range(len(rows)), values, 0.6, bottom, color=colour, label=region)
        bottom = [below + value for below, value in zip(bottom, values)]
    axes.plot(range(len(rows)), [1e3 * row["step_seconds"] * row["waiting_share"] for row in rows], "o", color=style.INK, markerfacecolor="none",
              label="of which waiting")
    predicted = [(k, 1e3 * row["predicted_step_seconds"]) for k, row in enumerate(rows) if row["predicted_step_seconds"]]
    if predicted:
        axes.plot(*zip(*predicted), "x", color=style.INK, label="predicted")
    axes.set_xticks(range(len(rows)), labels, rotation=0 if sum(map(len, labels)) < 70 else 60)
    axes.set(xlabel=meaning, ylabel="ms a step", title=title)
    axes.grid(axis="x", visible=False)
    finish(fig)
    return fig
