"""Orrery: a discrete-event simulator and design-space explorer for AI systems.

    import orrery
    result = orrery.run("experiments/studies/first_light.json", {"workload.rate_scale": 2})
    result.summary["ttft_s"]["p99"], result.requests.head()
"""

from orrery import plot
from orrery._orrery import home_folder, schema, version
from orrery.catalog import Component, components, describe
from orrery.catalog import list_names as list  # noqa: A004 - the command's name
from orrery.env import make_env
from orrery.errors import ConfigError, Fault, PolicyError
from orrery.policies import STABLE, Batching, BudgetStep, NativeBatching, Router
from orrery.result import Result
from orrery.running import Progress, load, read, run, validate
from orrery.timeline import Timeline
from orrery.vector import make_vec_env

__version__ = version()
__all__ = [
    "STABLE",
    "Batching",
    "BudgetStep",
    "Component",
    "ConfigError",
    "Fault",
    "NativeBatching",
    "PolicyError",
    "Progress",
    "Result",
    "Router",
    "Timeline",
    "components",
    "describe",
    "home_folder",
    "list",
    "load",
    "make_env",
    "make_vec_env",
    "plot",
    "read",
    "run",
    "schema",
    "validate",
    "version",
]
