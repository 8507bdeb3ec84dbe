"""Whether intervals hold what they promise, from `intervals` of evaluation.json: coverage by lead and the PIT histogram."""

import re

import numpy

import errors
import style
from page import paragraph, pictures


def shares(found):
    """Returns (nominal share, name in the file) of intervals: "50", "p50" and "0.5" all mean half."""
    known = []
    for name in found:
        numbers = re.findall(r"\d+(?:\.\d+)?", name)
        if len(numbers) == 1:
            share = float(numbers[0])
            known.append((share if share <= 1 else share / 100, name))
    return sorted(known)


def coverage(evaluation):
    fig, axes = style.figure()
    leads, label = errors.leads_of(evaluation)
    horizons = evaluation["intervals"]["horizons"]
    for number, (share, name) in enumerate(shares(horizons[0]["coverage"])):
        colour = [style.MODEL, *style.COLOURS][number % 6]
        axes.axhline(100 * share, color=colour, linestyle="--", linewidth=1)
        axes.plot(leads[:len(horizons)], [100 * errors.value(h["coverage"].get(name)) for h in horizons], color=colour, marker="os^Dvp"[number % 6],
                  markersize=4, linewidth=1.8, label=f"interval of {100 * share:.4g} %")
    errors.mark_leads(axes, leads)
    axes.set(xlabel=label, ylabel="observations inside (%)", title="Coverage", ylim=(0, 101))
    axes.legend(loc="lower right")
    return fig


def pit(evaluation):
    values = numpy.array([errors.value(share) for share in evaluation["intervals"]["mean"]["pit"]])
    fig, axes = style.figure()
    edges = numpy.linspace(0, 1, values.size + 1)
    axes.bar(edges[:-1], values * values.size, width=1 / values.size, align="edge", color=style.MODEL, edgecolor="white")
    axes.axhline(1, color=style.INK, linestyle="--", linewidth=1, label="if quantiles are right")
    axes.set(xlabel="quantile of the observation", ylabel="density", title="PIT histogram", xlim=(0, 1))
    axes.grid(axis="x", visible=False)
    axes.set_ylim(0, 1.25 * max(1.0, float(numpy.nanmax(values)) * values.size))
    axes.legend(loc="upper center")
    return fig


def part(evaluation, out):
    """Returns an empty text without intervals."""
    found = (evaluation or {}).get("intervals")
    if not found or not found.get("horizons"):
        return ""
    text = f"Intervals are made of the residuals of {found['validation_origins']} forecasts of the validation part, and scored on the test part."
    return paragraph(text) + pictures([
        out.add(coverage(evaluation), "coverage", "Share of the observations inside the intervals, by lead time. Dashed: the nominal share."),
        out.add(pit(evaluation), "pit", "Where observations lie among the forecast quantiles: flat if quantiles are right, ∪ if intervals are too narrow, ∩ if intervals are too wide.")])
