"""Figures of a training: losses, the validation error and the learning rate."""

import numpy

import style

VALIDATION = {"validation_rmse": "RMSE", "validation_mae": "MAE", "validation_loss": "loss"}


def column(lines, pick):
    """Returns values by epoch; NaN if a line has none."""
    return numpy.array([numpy.nan if (value := pick(line)) is None else float(value) for line in lines])


def wide(values):
    """True if a logarithmic axis shows the values better."""
    values = values[numpy.isfinite(values)]
    return values.size > 1 and values.min() > 0 and values.max() > 20 * values.min()


def best_epoch(lines):
    best = [line["epoch"] for line in lines if line.get("best")]
    return best[-1] if best else None


def mark(lines):
    """Marks the points of a line with few epochs."""
    return "o" if len(lines) <= 12 else None


def losses(lines):
    fig, axes = style.figure()
    epochs = column(lines, lambda line: line.get("epoch"))
    total = column(lines, lambda line: line.get("loss"))
    axes.plot(epochs, total, color=style.MODEL, linewidth=2, marker=mark(lines), markersize=3.5, label="training loss")
    terms = list((lines[-1].get("losses") or {}))
    shown = total
    if len(terms) > 1:
        for number, term in enumerate(terms):
            values = column(lines, lambda line, term=term: (line.get("losses") or {}).get(term))
            if not (values > 0).any():
                continue
            axes.plot(epochs, values, color=style.COLOURS[number % len(style.COLOURS)], linestyle=style.DASHES[number % len(style.DASHES)],
                      label=f"of which {term}")
            shown = numpy.concatenate([shown, values[values > 0]])
        axes.legend()
    if wide(shown):
        style.logarithmic(axes.yaxis)
    axes.set(xlabel="epoch", ylabel="loss", title="Training loss")
    return fig


def validation(lines, units):
    """Returns None without a validated epoch."""
    for key, name in VALIDATION.items():
        values = column(lines, lambda line, key=key: line.get(key))
        seen = numpy.isfinite(values)
        if not seen.any():
            continue
        fig, axes = style.figure()
        epochs = column(lines, lambda line: line.get("epoch"))
        axes.plot(epochs[seen], values[seen], color=style.MODEL, linewidth=2, marker="o" if seen.sum() <= 12 else None, markersize=3.5)
        best = best_epoch(lines)
        at = epochs == best
        if best is not None and numpy.isfinite(values[at]).any():
            axes.plot(epochs[at], values[at], "o", color=style.COLOURS[0], markersize=7, markerfacecolor="none", markeredgewidth=1.6,
                      label=f"the state that is kept: epoch {best}")
            axes.legend()
        if wide(values):
            style.logarithmic(axes.yaxis)
        label = name if key == "validation_loss" else style.with_units(name, units)
        axes.set(xlabel="epoch", ylabel=label, title="Error of the validation part")
        return fig
    return None


def learning_rate(lines):
    fig, axes = style.figure()
    rates = column(lines, lambda line: line.get("lr"))
    axes.step(column(lines, lambda line: line.get("epoch")), rates, where="mid", color=style.MODEL, linewidth=2)
    if wide(rates):
        style.logarithmic(axes.yaxis)
    else:
        axes.set_ylim(0, 1.1 * numpy.nanmax(rates) if numpy.nanmax(rates) > 0 else 1)
    axes.set(xlabel="epoch", ylabel="learning rate", title="Learning rate")
    return fig
