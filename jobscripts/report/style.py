"""How figures look: sizes, colours that colour-blind readers can tell apart, names of units."""

import base64
import io
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402  (after the back end)
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

# Okabe and Ito, "Color universal design" (2008); dark colours for lines on white.
MODEL = "#0072b2"
COLOURS = ["#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"]
GREY = "#8a8a8a"
INK = "#222222"
DASHES = ["--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (7, 3))]
SEQUENTIAL = "viridis"
DIVERGING = "RdBu_r"
WIDTH = 4.6  # inches: the width of a phone's screen, so that text stays readable there

UNITS = {
    "1": "", "degree_Celsius": "°C", "degrees_Celsius": "°C", "degC": "°C", "Celsius": "°C", "celsius": "°C", "kelvin": "K",
    "percent": "%", "m s-1": "m/s", "m.s-1": "m/s", "km h-1": "km/h", "mile hour-1": "mph", "ug m-3": "µg/m³", "microgram m-3": "µg/m³",
}

# Treat text of files as plain text: a dollar sign would start a formula.
pyplot.rcParams.update({
    "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9, "legend.fontsize": 7.5, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "axes.edgecolor": "#666666", "axes.labelcolor": INK, "text.color": INK, "xtick.color": "#444444", "ytick.color": "#444444",
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e4e4", "grid.linewidth": 0.7,
    "axes.axisbelow": True, "legend.frameon": False, "figure.facecolor": "white", "savefig.facecolor": "white",
    "lines.linewidth": 1.4, "svg.hashsalt": "rossby", "figure.constrained_layout.use": True, "text.parse_math": False,
    "axes.formatter.useoffset": False, "figure.max_open_warning": 0,
})


def units_text(units):
    return UNITS.get(units, units or "")


def logarithmic(axis):
    """Sets a logarithmic scale with plain numbers as labels."""
    axis.axes.set_yscale("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def with_units(name, units):
    text = units_text(units)
    return f"{name} ({text})" if text else name


def figure(rows=1, columns=1, height=2.9, width=WIDTH, **more):
    return pyplot.subplots(rows, columns, figsize=(width, height), **more)


class Picture:
    """A figure for the page, and the names of its files."""

    def __init__(self, name, caption, data, kind):
        self.name, self.caption, self.data, self.kind = name, caption, data, kind

    def address(self):
        return f"data:{self.kind};base64," + base64.b64encode(self.data).decode("ascii")


class Pictures:
    """Writes figures as SVG and PNG into a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.files = []

    def add(self, fig, name, caption, raster=False):
        """Writes a figure. `raster`: the page shows the PNG, for maps of many cells."""
        found = {}
        fig.draw_without_rendering()
        # Lay out once, not for each kind. savefig() sets the engine to what it was, and None means that of rcParams.
        with pyplot.rc_context({"figure.constrained_layout.use": False}):
            fig.set_layout_engine(None)
            for kind in ("svg", "png"):
                found[kind] = drawn(fig, kind)
                write_whole(os.path.join(self.folder, f"{name}.{kind}"), found[kind])
                self.files.append(f"{name}.{kind}")
        pyplot.close(fig)
        return Picture(name, caption, found["png"], "image/png") if raster else Picture(name, caption, found["svg"], "image/svg+xml")


def drawn(fig, kind, title="rossby report"):
    """Returns the bytes of a figure; equal figures have equal bytes."""
    out = io.BytesIO()
    fig.savefig(out, format=kind, dpi=180, metadata={"Creator": title, "Date": None} if kind == "svg" else {"Software": title})
    return out.getvalue()


def write_whole(path, data):
    """Writes a file that appears whole or not at all."""
    part = path + ".part"
    try:
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.remove(part)
        raise


def made_here(path):
    """True if the picture's metadata say that a report made it."""
    with open(path, "rb") as file:
        return b"rossby report" in file.read(4096)
