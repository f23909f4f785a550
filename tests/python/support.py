"""What the tests of the Python package share."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = os.environ["ORRERY_COMMAND"]
FIRST_LIGHT = ROOT / "experiments/studies/first_light.json"


def command(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)


def config(requests: int = 200, rate: str = "4 1/s", **sections) -> dict:
    """A chat workload on one device."""
    return {
        "system": "serving",
        "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
        "model": {"config": "catalog:llama-2-7b", "dtype": "fp16"},
        "workload": {
            "generator": {
                "requests": requests,
                "limits": {"total_max": 4096},
                "arrivals": {"policy": "poisson", "poisson": {"rate": rate}},
                "lengths": {
                    "policy": "log_normal",
                    "log_normal": {"prompt_mean": 630, "prompt_cv": 1.1, "output_mean": 100, "output_cv": 0.9},
                },
            }
        },
        "run": {"timeline": {"enabled": False}},
        **sections,
    }


def fleet(replicas: int = 4, requests: int = 400, rate: str = "20 1/s", **sections) -> dict:
    """The same on several replicas of one device each."""
    base = config(requests, rate, **sections)
    base["machine"]["devices"][0]["count"] = replicas
    base["cluster"] = {"replicas": [{"count": replicas, "tensor_parallel": 1}]}
    return base


def lines_of(axes, at_least: int = 2) -> list:
    """Lines of a figure's panel that have so many points: targets and grids have two."""
    return [line for line in axes.lines if len(line.get_xdata()) >= at_least]


def texts_of(legend) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]
