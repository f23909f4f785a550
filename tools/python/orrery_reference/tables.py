"""Tables of parameters, from what `orrery list --json` and `orrery schema` declare."""

from __future__ import annotations

import json
import re


def cell(text: object) -> str:
    """Text that stands in one cell of a table."""
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|").replace("<", "&lt;").strip()


def table(head: list[str], rows: list[list[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]) + "\n"


def kind_of(field: dict) -> str:
    """Type and unit of a field."""
    if "policies" in field:
        names = field["policies"]
        return "policy block: " + ", ".join(names) if len(names) <= 30 else f"policy block ({len(names)} names)"
    if "choices" in field:
        return "one of " + ", ".join(field["choices"])
    unit = field["unit"]
    numeric = field["type"].split()[-1] in ("number", "integer")
    if numeric and unit in ("s", "B", "B/s", "FLOP/s", "W", "J", "Hz", "1/s"):
        return field["type"].replace("number", "quantity").replace("integer", "quantity") + f" ({unit})"
    return field["type"] + (f" ({unit})" if unit else "")


def default_of(field: dict) -> str:
    if field.get("required"):
        return "required"
    value = field["default"]
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ""  # those of its fields
    if value == []:
        return "empty"
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value)


def rows_of(fields: list[dict], prefix: str = "") -> list[list[object]]:
    """A row a field; fields of objects follow it under dotted names."""
    rows: list[list[object]] = []
    for field in fields:
        name = prefix + field["name"]
        bounds = "" if field["range"] == "any value" else field["range"]
        rows.append([f"`{name}`", kind_of(field), bounds, default_of(field), field["doc"]])
        if field["name"] == "override":
            continue  # the fields of a part: hardware.md
        inner = name + ("[]." if field["type"].startswith("array") else ".")
        rows += rows_of(field.get("fields", []), inner)
    return rows


def fields_table(fields: list[dict]) -> str:
    if not fields:
        return "No parameters.\n"
    return table(["parameter", "type (unit)", "range", "default", "what it is"], rows_of(fields))


def schema_rows(schema: dict, prefix: str = "") -> list[list[object]]:
    """The same of a JSON Schema's properties."""
    rows: list[list[object]] = []
    for name, part in schema.get("properties", {}).items():
        path = prefix + name
        kinds = part.get("type", "")
        kinds = " or ".join(kinds) if isinstance(kinds, list) else kinds
        if "enum" in part:
            kinds = "one of " + ", ".join(map(str, part["enum"]))
        if "const" in part:
            kinds = json.dumps(part["const"])
        low, high = part.get("minimum"), part.get("maximum")
        bounds = f"{low} to {high}" if low is not None and high is not None else f">= {low}" if low is not None else ""
        required = name in schema.get("required", [])
        default = "required" if required else json.dumps(part["default"]) if "default" in part else ""
        doc = part.get("description", "")
        rows.append([f"`{path}`", kinds or "any", bounds, default, doc])
        if name in ("base", "driver"):
            continue  # a config, a policy block: they have pages
        rows += schema_rows(part, path + ".")
        rows += schema_rows(items_of(part), path + "[].")
    return rows


def items_of(part: dict) -> dict:
    items = part.get("items", {})
    return items if isinstance(items, dict) else {}


def schema_table(schema: dict) -> str:
    return table(["key", "type", "range", "default", "what it is"], schema_rows(schema))
