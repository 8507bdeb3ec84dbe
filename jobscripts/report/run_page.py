"""The page of a run: DIR/report/index.html and its pictures."""

import datetime
import os

import numpy

import calibration
import errors
import forecasts
import page
import relations as learned
import style
import training
import verification
from page import command, escape, facts, paragraph, pictures, table
from run_files import Run


def duration(seconds):
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def what_was_trained(run):
    config, last = run.config or {}, run.metrics[-1] if run.metrics else {}
    place = last.get("place") or {}
    files = run.setting("data.file", "")
    if isinstance(files, list):
        files = f"{files[0]} … {files[-1]} ({len(files)} files)" if len(files) > 1 else "".join(files)
    split = config.get("split", {})
    cycle = run.setting("data.cycle", "none")
    pairs = [("model", run.setting("model.name")), ("data", files), ("variables", ", ".join(run.setting("data.variables") or []) or None),
             ("parts", f"training {split.get('train')}, validation {split.get('validation')}, test {split.get('test')}" if split else None),
             ("anomalies from", cycle if cycle not in ("none", "") else None)]
    if run.setting("model.name") == "stnn":
        relation = config.get("relation", {})
        pairs.append(("relations", ", ".join(filter(None, [
            f"graph {relation['graph']} ({relation.get('mode')})" if relation.get("graph", "none") != "none" else "",
            "self" if relation.get("self") else "", f"discovered: {relation['discover']}" if relation.get("discover", "none") != "none" else ""]))))
    if last:
        pairs += [("epochs", str(last.get("epoch", -1) + 1)), ("training time", duration(last.get("total_seconds", 0))),
                  ("trained on", f"{place.get('ranks')} rank(s) on {place.get('hosts')} host(s), {place.get('threads')} thread(s) a rank"
                   + (f", {place['device']}" if "device" in place else f", {place['processor']}" if "processor" in place else "") if place else None),
                  ("version", place.get("rossby"))]
    if run.average:
        members = [str(member.get("name", "?")) if isinstance(member, dict) else str(member) for member in run.average.get("members", [])]
        pairs += [("an average of", ", ".join(members)), ("weights", str(run.average.get("weighting", run.average.get("weights_by", ""))))]
    return pairs


def training_part(run, out):
    if not run.metrics:
        return ""
    found = [out.add(training.losses(run.metrics), "loss", "Loss of the training part by epoch. The terms are its weighted parts.")]
    units = (run.evaluation or {}).get("units", "")
    if (fig := training.validation(run.metrics, units)) is not None:
        found.append(out.add(fig, "validation", "Error of the validation part by epoch."))
    found.append(out.add(training.learning_rate(run.metrics), "learning_rate", "Learning rate by epoch."))
    return pictures(found)


def parts_of(evaluation):
    """Returns (title, name for files, part) of each variable or feature, or of the whole."""
    parts = []
    for number, part in enumerate(evaluation.get("variables") or []):
        title = part["variable"] + (f", {part['feature']}" if "feature" in part else "")
        parts.append((title, f"_{number}", part))
    return parts[:4] or [("", "", evaluation)]


def error_table(part, score, units):
    names = errors.names_of(part)
    rows, best = [], set()
    for r, horizon in enumerate([*part["horizons"], {"step": "mean", **part["mean"]}]):
        values = [errors.value(horizon[score].get(name)) for name in names]
        rows.append([horizon.get("lead") or ("mean" if horizon["step"] == "mean" else f"step {horizon['step']}"),
                     *("–" if not numpy.isfinite(v) else f"{v:.4g}" for v in values)])
        if numpy.isfinite(values).any():
            best.add((r, 1 + int(numpy.nanargmin(values))))
    return table([style.with_units(score.upper(), units), *names], rows, best)


def errors_part(run, out):
    evaluation = run.evaluation
    if not evaluation:
        return command("No errors yet:", f"rossby evaluate {run.path}", " scores the run beside the baselines. Then make this page again with rossby report run.")
    data = evaluation.get("data") or {}
    content = paragraph(f"{data.get('origins')} forecasts of the test part, from origins {data.get('first_origin')} to {data.get('last_origin')}."
                        + (" Some of the forecast steps are in the training part." if data.get("seen") else "") if data else "")
    for title, name, part in parts_of(evaluation):
        units = part.get("units", "")
        found = [out.add(errors.by_lead(part, score, units, f"{score.upper()} by lead time"), f"{score}{name}",
                         f"{score.upper()} of the test part by lead time{': ' + title if title else ''}. Forecasters that diverge are cut off."
                         + (" The band is the 95 % interval of the model's error over resampled origins; skill is compared on the same origins." if errors.intervals(part, score) else ""))
                 for score in ("rmse", "mae")]
        if (fig := errors.skill(part, f"Skill over {errors.compared(part)}")) is not None:
            found.append(out.add(fig, f"skill{name}", f"Skill: 1 − RMSE of the model / RMSE of {errors.compared(part)}{': ' + title if title else ''}."))
        content += (f"<h3>{escape(title)}</h3>" if title else "") + paragraph(errors.verdict(part)) + pictures(found) + error_table(part, "rmse", units)
    return content


def forecast_part(run, out, asked, node_errors):
    if run.forecast is None:
        return command("No forecast yet:", f"rossby forecast {run.path} --steps 5", " writes a forecast. Then make this page again with rossby report run.")
    forecast = forecasts.Forecast(run.forecast)
    if not forecast.variables:
        return ""
    variable = forecast.variables[0]
    content = paragraph(f"{getattr(run.forecast, 'title', 'The last forecast')}."
                        + (f" Drawn: {variable.name}." if len(forecast.variables) > 1 or forecast.feature(variable) else ""))
    found = []
    for number, node in enumerate(forecasts.choose_nodes(forecast, asked, node_errors)):
        found.append(out.add(forecasts.at_node(run, forecast, variable, node), f"forecast_node_{number}",
                             f"Forecast at {forecast.places.label(node)}, with the observations before the forecast."))
    if found and forecasts.history(run, forecast, variable, [0], 1) is None:
        content += paragraph("The observations before the forecast are not drawn, because data.file is not a single NetCDF file that can be read from this folder.", "note")
    if forecast.places.mapped and forecast.places.size > 8:
        found.append(out.add(forecasts.on_map(forecast, variable), "forecast_map", f"Forecast of {variable.name} on the map.", raster=True))
    return content + pictures(found)


def relations_part(run, out, remarks):
    content = "".join(paragraph(remark, "note") for remark in remarks)
    if run.relations is None:
        return content
    found = learned.Relations(run.relations)
    shown = []
    for number, name in enumerate(found.names):
        if (fig := learned.arrows(found, number)) is not None:
            shown.append(out.add(fig, f"relation_{number}", f"{name}: arrows go from the acting node to the affected node. If edges lie side by side, only the strongest is drawn."))
    for number, (fig, caption) in enumerate(learned.influence(found)):
        shown.append(out.add(fig, f"influence_{number}", caption, raster=True))
    for fig, name, caption in ((learned.by_distance(found), "relation_distance", "Mean strength of the learned relations over all pairs of nodes, by their distance."),
                               (learned.by_direction(found), "relation_direction", "Mean strength over all pairs by the bearing at which the acting node lies, seen from the other."),
                               (learned.own(found), "self_weight", "The learned weight of each node on itself.")):
        if fig is not None:
            shown.append(out.add(fig, name, caption, raster=name == "self_weight"))
    content += pictures(shown)
    for number, name in enumerate(found.names):
        rows = learned.strongest(found, number)
        if rows:
            content += f"<h3>{escape(name)}: the strongest</h3>" + table(["from", "to", "distance", "weight"], rows)
    return content


def write(arguments):
    """Writes the page and returns its path."""
    run = Run(arguments.run, arguments.relations)
    os.makedirs(arguments.output, exist_ok=True)
    remove_earlier(arguments.output)
    out = style.Pictures(arguments.output)
    result = page.Page(f"Run {run.name}" if not run.average else f"Average {run.name}")
    result.head = paragraph(headline(run), "lead") + "".join(paragraph(note, "note") for note in run.notes)
    found = verification.Scores(run.scores) if run.scores is not None else None
    result.section("run", "What was trained", facts(what_was_trained(run)))
    result.section("training", "Training", training_part(run, out))
    result.section("errors", "Errors by lead time", errors_part(run, out))
    if found is not None:
        result.section("maps", "Maps of scores", pictures(found.maps(out)))
    result.section("forecast", "Last forecast", forecast_part(run, out, arguments.node, None if found is None else found.node_errors()))
    result.section("calibration", "Calibration", calibration.part(run.evaluation, out))
    result.section("relations", "Learned relations", relations_part(run, out, arguments.remark))
    config = os.path.join(run.path, "config.toml")
    if run.config is not None:
        with open(config, encoding="utf-8") as file:
            result.section("settings", "Settings", page.details("config.toml", file.read()))
    made = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    text = result.text(f"Made by rossby report run{' of ' + arguments.version if arguments.version else ''}, {made}. The pictures are beside this page as SVG and PNG.")
    path = os.path.join(arguments.output, "index.html")
    style.write_whole(path, text.encode("utf-8"))
    return path


def headline(run):
    if run.evaluation:
        return errors.verdict(run.evaluation)
    if run.metrics and run.metrics[-1].get("loss") is not None:
        return f"{len(run.metrics)} epochs so far; the last loss is {run.metrics[-1]['loss']:.4g}. The run has not been scored."
    return ""


def remove_earlier(folder):
    """Removes pictures of an earlier report, because this one may not write all of them again."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith((".svg", ".png")) and style.made_here(path):
            os.remove(path)
