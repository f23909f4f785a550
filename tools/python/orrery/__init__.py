"""Orrery: a discrete-event simulator and design-space explorer for AI systems.

    import orrery
    result = orrery.run("experiments/studies/first_light.json", {"workload.rate_scale": 2})
    result.summary["ttft_s"]["p99"], result.requests.head()
"""

from orrery import plot
from orrery._orrery import home_folder, schema, version
from orrery.catalog import Component, components, describe
from orrery.catalog import list_names as list  # noqa: A004 - the command's name
from orrery.claims import Claims, reproduce
from orrery.commands import (
    ImportedConfig,
    Plan,
    calibrate,
    compare,
    evolve,
    fidelity,
    fits,
    import_config,
    looks,
    plan,
    play,
    progress_fit,
    progress_score,
    report,
)
from orrery.errors import ConfigError, Fault, PolicyError
from orrery.graphs import Graph, Kernel, graph
from orrery.machines import Machine
from orrery.models import Model
from orrery.named import NativeBatching, make_env, make_vec_env
from orrery.optuna_studies import first_from_optuna, to_optuna
from orrery.plugins import Plugin, load_plugin, plugins
from orrery.policies import STABLE, Batching, BudgetStep, Router
from orrery.programs import Explorer, serve
from orrery.questions import capacity, goodput, plans, slo, train
from orrery.result import Result
from orrery.router import RouterTrace
from orrery.running import Progress, load, read, run, validate
from orrery.searching import Infeasible, Search, Trial, search
from orrery.studies import Study, analyse, best
from orrery.timeline import Timeline
from orrery.traces import Trace

__version__ = version()


def __dir__():
    return [*__all__, "__version__"]  # what is there for users, without the modules that it stands in


__all__ = [
    "STABLE",
    "Batching",
    "BudgetStep",
    "Claims",
    "Component",
    "ConfigError",
    "Explorer",
    "Fault",
    "Graph",
    "ImportedConfig",
    "Infeasible",
    "Kernel",
    "Machine",
    "Model",
    "NativeBatching",
    "Plan",
    "Plugin",
    "PolicyError",
    "Progress",
    "Result",
    "Router",
    "RouterTrace",
    "Search",
    "Study",
    "Timeline",
    "Trace",
    "Trial",
    "analyse",
    "best",
    "calibrate",
    "capacity",
    "compare",
    "components",
    "describe",
    "evolve",
    "fidelity",
    "first_from_optuna",
    "fits",
    "goodput",
    "graph",
    "home_folder",
    "import_config",
    "list",
    "load",
    "load_plugin",
    "looks",
    "make_env",
    "make_vec_env",
    "plan",
    "plans",
    "play",
    "plot",
    "plugins",
    "progress_fit",
    "progress_score",
    "read",
    "report",
    "reproduce",
    "run",
    "schema",
    "search",
    "serve",
    "slo",
    "to_optuna",
    "train",
    "validate",
    "version",
]
