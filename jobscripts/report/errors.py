"""Figures of errors by lead time, beside the baselines."""

import numpy
from matplotlib.ticker import MaxNLocator

import style

KNOWN = ["persistence", "climatology"]


def value(x):
    return numpy.nan if x is None else float(x)


def names_of(part):
    return list(part["horizons"][0]["rmse"])


def leads_of(part):
    """Returns numbers for the axis, and its label."""
    horizons = part["horizons"]
    texts = [h.get("lead") for h in horizons]
    if all(texts):
        units = {text.split(" ")[-1].rstrip("s") for text in texts}
        if len(units) == 1:
            unit = units.pop()
            plural = unit if unit in ("min", "h") else unit + "s"
            return numpy.array([float(text.split(" ")[0]) for text in texts]), f"lead time ({plural})"
        if all("lead_seconds" in h for h in horizons):
            hours = numpy.array([h["lead_seconds"] for h in horizons]) / 3600
            return (hours / 24, "lead time (days)") if hours[-1] >= 96 else (hours, "lead time (h)")
    return numpy.array([h["step"] for h in horizons], dtype=float), "lead time (steps)"


def mark_leads(axes, leads):
    """Sets marks only at whole leads if all leads are whole."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=bool((leads == leads.round()).all())))


def compared(part):
    """Returns the baseline that the model is compared with: the one chosen by validation, or the best of the test part."""
    skill = part.get("skill") or {}
    return (skill.get("validated") or skill).get("baseline")


def looks(part):
    """Returns (name, keywords of a line) of each forecaster, the model last so that it lies on top."""
    names = names_of(part)
    strong = [name for name in dict.fromkeys([compared(part), *KNOWN]) if name in names]
    coloured = dict(zip(strong, style.COLOURS))
    lines, grey = [], 0
    for name in names:
        if name == "model":
            continue
        if name in coloured:
            lines.append((name, {"color": coloured[name], "linewidth": 1.6, "marker": "sd^"[strong.index(name)], "markersize": 3.5}))
        else:
            lines.append((name, {"color": style.GREY, "linewidth": 0.9, "linestyle": style.DASHES[grey % len(style.DASHES)]}))
            grey += 1
    return lines + [("model", {"color": style.MODEL, "linewidth": 2.4, "marker": "o", "markersize": 4.5})]


def by_lead(part, score, units, title):
    fig, axes = style.figure(height=3.5)
    leads, label = leads_of(part)
    drawn, most = {}, []
    for name, look in looks(part):
        values = numpy.array([value(h[score].get(name)) for h in part["horizons"]])
        if not numpy.isfinite(values).any():
            continue
        drawn[name] = values
        axes.plot(leads, values, label=name, **look)
        most.append(numpy.nanmax(values))
    bars = intervals(part, score)
    if bars is not None and "model" in drawn:
        axes.fill_between(leads, bars[0], bars[1], color=style.MODEL, alpha=0.18, linewidth=0, label="model, 95 % interval")
    if most:
        # The scale ignores a diverged forecaster, which would squeeze the others.
        axes.set_ylim(0, 1.06 * min(max(most), 3 * float(numpy.median(most))))
    mark_leads(axes, leads)
    axes.set(xlabel=label, ylabel=style.with_units(score.upper(), units), title=title)
    legend_below(axes, len(drawn))
    return fig


def legend_below(axes, lines):
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.17), ncol=3 if lines > 2 else lines, columnspacing=1.2, handlelength=2.2)


def intervals(part, score):
    """Returns bounds of the model's own error at each lead if the evaluation has them, else None."""
    found = [((h.get("interval") or {}).get(score) or {}) for h in part["horizons"]]
    if not all("low" in bound and "high" in bound for bound in found):
        return None
    return [numpy.array([value(bound[side]) for bound in found]) for side in ("low", "high")]


def skill(part, title):
    """Returns the skill at each lead over the baseline of `compared`; None without baselines."""
    against = compared(part)
    if against is None:
        return None
    leads, label = leads_of(part)
    ours = numpy.array([value(h["rmse"]["model"]) for h in part["horizons"]])
    theirs = numpy.array([value(h["rmse"].get(against)) for h in part["horizons"]])
    with numpy.errstate(divide="ignore", invalid="ignore"):
        percent = 100 * (1 - ours / theirs)
    if not numpy.isfinite(percent).any():
        return None
    fig, axes = style.figure(height=3.5)
    axes.axhline(0, color=style.INK, linewidth=0.9)
    axes.plot(leads, percent, color=style.MODEL, linewidth=2.2, marker="o", markersize=4.5, label="each lead")
    mean = (part.get("skill") or {}).get("validated") or {}
    bars = [h["interval"] for h in mean.get("horizons", [])]
    if len(bars) == len(leads):
        axes.fill_between(leads, *(100 * numpy.array([value(bar[side]) for bar in bars]) for side in ("low", "high")), color=style.MODEL, alpha=0.18,
                          linewidth=0, label="its 95 % interval")
    bounds = mean.get("interval") or {}
    if mean.get("rmse") is not None:
        axes.axhline(100 * mean["rmse"], color=style.COLOURS[0], linestyle="--", linewidth=1.3, label="all leads together")
        if bounds.get("low") is not None and not bars:
            axes.axhspan(100 * bounds["low"], 100 * bounds["high"], color=style.COLOURS[0], alpha=0.15, linewidth=0,
                         label="its 95 % interval")
    mark_leads(axes, leads)
    axes.set(xlabel=label, ylabel="skill (%)", title=title)
    legend_below(axes, 3)
    return fig


def verdict(part):
    """Returns a sentence that compares the model with the baseline chosen by validation, or an empty text."""
    against = (part.get("skill") or {}).get("validated")
    if not against or against.get("rmse") is None:
        return ""
    bounds = against.get("interval") or {}
    low, high = bounds.get("low"), bounds.get("high")
    text = f"The mean RMSE is {abs(100 * against['rmse']):.1f} % {'below' if against['rmse'] >= 0 else 'above'} that of {against['baseline']}, " \
           "the baseline that the validation part picks."
    if low is None or high is None:
        return text + " There are too few origins for an interval."
    outcome = "The two are a tie." if low <= 0 <= high else "The model is better." if low > 0 else "The model is worse."
    return text + f" The 95 % interval of the skill is {100 * low:+.1f} to {100 * high:+.1f} %. {outcome}"
