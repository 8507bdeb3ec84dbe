"""Pictures of measurements: drawn from data files beside this script."""

import json
import math
import pathlib

from svg import Drawing

HERE = pathlib.Path(__file__).resolve().parent


def axis(highest: float) -> tuple[float, int]:
    """Distance and number of ticks up to a value, about five of them."""
    power = 10 ** math.floor(math.log10(highest / 5))
    step = next(factor * power for factor in (1, 2, 5, 10) if highest <= 5 * factor * power)
    return step, math.ceil(highest / step)


def errors_by_lead() -> Drawing:
    """RMSE over lead time of the tutorial's forecasters, from levels_errors.json."""
    data = json.loads((HERE / "levels_errors.json").read_text(encoding="utf-8"))
    d = Drawing(860, 340, "Root mean squared error by lead time of the tutorial's forecasters")
    left, top, width, height = 70, 50, 540, 230
    step, ticks = axis(max(max(values) for values in data["rmse"].values()))
    highest = step * ticks
    d.text(30, 28, f"RMSE by lead time ({data['unit']}), {data['series']}", 14, "start", weight="bold")
    for tick in range(ticks + 1):
        y = top + height * (1 - tick / ticks)
        d.line([(left, y), (left + width, y)], "se", 0.6, "3 3")
        d.text(left - 8, y + 4, f"{step * tick:.2f}", 11, "end", "soft")
    leads = len(data["lead"])
    for k, lead in enumerate(data["lead"]):
        d.text(left + width * (k + 0.5) / leads, top + height + 18, lead, 11, kind="soft")
    ends = []
    for (name, values), kind in zip(data["rmse"].items(), ("sd", "sa", "sb", "sc", "se")):
        points = [(left + width * (k + 0.5) / leads, top + height * (1 - value / highest)) for k, value in enumerate(values)]
        d.line(points, kind, 2)
        for x, y in points:
            d.dot(x, y, 2.6, kind[1:])
        ends.append([points[-1][1], name, kind])
    ends.sort(key=lambda end: end[0])
    for k in range(1, len(ends)):  # labels do not overlap
        ends[k][0] = max(ends[k][0], ends[k - 1][0] + 17)
    for y, name, kind in ends:
        d.dot(left + width + 12, y, 4, kind[1:])
        d.text(left + width + 22, y + 4, name, 12, "start")
    d.text(left + width / 2, 320, data["version"], 11, kind="soft")
    return d


PICTURES = {"errors_by_lead": errors_by_lead}
