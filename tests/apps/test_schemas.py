"""Checks the JSON files of a run against apps/schemas."""

import copy
import json
import os
import re

import support

SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps", "schemas")

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}
KEYWORDS = {"$schema", "title", "description", "definitions", "$ref", "type", "enum", "minimum", "required",
            "properties", "patternProperties", "additionalProperties", "items", "minItems", "pattern"}


def faults(value, schema, root, where="$"):
    """Returns the errors of a value under a schema (the draft-07 keywords above)."""
    if unknown := set(schema) - KEYWORDS:
        return [f"{where}: the schema uses {unknown}, which this test does not check"]
    if "$ref" in schema:
        return faults(value, root["definitions"][schema["$ref"].removeprefix("#/definitions/")], root, where)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(TYPES[t](value) for t in types):
        return [f"{where}: {value!r} is not of type {types}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        found.append(f"{where}: {value!r} does not match {schema['pattern']}")
    if "minimum" in schema and TYPES["number"](value) and value < schema["minimum"]:
        found.append(f"{where}: {value} is below {schema['minimum']}")
    if isinstance(value, dict):
        found += [f"{where}: {name} is missing" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            part = schema.get("properties", {}).get(name)
            if part is None:
                matching = [p for pattern, p in schema.get("patternProperties", {}).items() if re.search(pattern, name)]
                part = matching[0] if matching else schema.get("additionalProperties", {})
            if part is False:
                found.append(f"{where}: {name} is not in the schema")
            else:
                found += faults(item, part, root, f"{where}.{name}")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            found.append(f"{where}: has {len(value)} items")
        for i, item in enumerate(value):
            found += faults(item, schema.get("items", {}), root, f"{where}[{i}]")
    return found


def names(value):
    """Returns all keys in a JSON value."""
    if isinstance(value, dict):
        return set(value) | set().union(*map(names, value.values()))
    return set().union(*map(names, value)) if isinstance(value, list) and value else set()


def schema_of(name):
    with open(os.path.join(SCHEMAS, name), encoding="utf-8") as file:
        return json.load(file)


class LoadsJson:
    """For tests that read files of the program."""

    def load(self, name, schema):
        with open(self.path(name), encoding="utf-8") as file:
            value = json.load(file, parse_constant=self.fail)
        schema = schema_of(schema)
        self.assertEqual(faults(value, schema, schema), [])
        return value


class Schemas(support.ProgramTest):

    def hold(self, value, schema):
        self.assertEqual(faults(value, schema, schema), [])
        for name in names(value):
            self.assertRegex(name, r"^[a-z][a-z0-9_]*$")

    def refuse_value(self, value, schema, change, pattern):
        wrong = copy.deepcopy(value)
        change(wrong)
        found = faults(wrong, schema, schema)
        self.assertTrue(found and re.search(pattern, " ".join(found)), f"{pattern}: {found}")

    def test_files_of_a_run(self):
        metrics, evaluation = schema_of("metrics.schema.json"), schema_of("evaluation.schema.json")
        self.succeed(1, "data", "synth", "--lat", "5", "--lon", "6", "--steps", "48", "-o", "p.nc")
        sets = ["data.file=p.nc", "relation.graph=grid", "train.epochs=2", "evaluate.lim_modes=3",
                "evaluate.horizons=2"]
        self.write("empty.toml", "")
        for run, more in {"plain": [], "validated": ["split.validation=0.1", "model.l2_z=0.1", "model.l1_rel=0.1",
                                                     "relation.mode=refine", "schedule.name=plateau"]}.items():
            self.succeed(2, "train", "empty.toml", "--run", run, *[w for s in sets + more for w in ("--set", s)])
            with open(self.path(run + "/metrics.jsonl"), encoding="utf-8") as file:
                lines = [json.loads(line, parse_constant=self.fail) for line in file]
            self.assertEqual(len(lines), 2)
            for line in lines:
                self.hold(line, metrics)
            self.succeed(2, "evaluate", run)
            with open(self.path(run + "/evaluation.json"), encoding="utf-8") as file:
                found = json.load(file, parse_constant=self.fail)
            self.hold(found, evaluation)
        self.refuse_value(lines[0], metrics, lambda v: v.pop("lr"), "lr is missing")
        self.refuse_value(lines[0], metrics, lambda v: v.update(epoch="1"), "epoch: '1' is not of type")
        self.refuse_value(lines[0], metrics, lambda v: v.update(more=1), "more is not in the schema")
        self.refuse_value(found, evaluation, lambda v: v["horizons"][0]["mae"].pop("model"), "model is missing")
        self.refuse_value(found, evaluation, lambda v: v["horizons"][0]["rmse"].update(lim=-1), "-1 is below 0")
        self.refuse_value(found, evaluation, lambda v: v["horizons"].clear(), "has 0 items")
        self.refuse_value(found, evaluation, lambda v: v["skill"].update(baseline="model"), "'model' does not match")


if __name__ == "__main__":
    support.main()
