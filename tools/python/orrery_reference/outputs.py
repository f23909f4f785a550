"""What runs write: what experiments/outputs.json declares, with the figures that the command itself lists."""

from __future__ import annotations

import json
import pathlib


def declared_outputs(systems: list[dict], root: pathlib.Path) -> dict[str, dict]:
    """By system and file, [unit, meaning] by path or column. `systems`: what `orrery list system --json` prints."""
    outputs = json.loads((root / "experiments/outputs.json").read_text(encoding="utf-8"))
    del outputs["about"]
    for system in systems:
        if figures := system.get("figures"):
            files = outputs.get(system["name"], {})
            if "summary.json" in files:
                raise ValueError(f"experiments/outputs.json declares figures of {system['name']} a second time")
            told = {figure["path"]: [figure["unit"], figure["meaning"]] for figure in figures}
            outputs[system["name"]] = {"summary.json": told, **files}
    return outputs
