"""Plugins: policies in shared objects that are built outside the source tree (docs/explain/plugins.md)."""

from __future__ import annotations

import os
import typing

from orrery import _orrery, catalog
from orrery.keywords import answered

_orrery.load_environment_plugins()


class Plugin(typing.NamedTuple):
    """A plugin that this process has loaded."""

    name: str
    doc: str
    path: str
    digest: str  # of its content: it stands in the manifest of a run


@answered
def load_plugin(path) -> Plugin:
    """Loads the policies of a shared object; loading the same one again does nothing. They stay for the life of the
    process, and appear in `list`, `describe`, `schema` and in configs. Raises ConfigError if the file is not a plugin,
    was built for another version, or has a policy whose name is taken."""
    loaded = Plugin(**_orrery.load_plugin(os.fspath(path)))
    catalog.forget()
    return loaded


def plugins() -> list[Plugin]:
    """The loaded plugins, in loading order."""
    return [Plugin(**facts) for facts in _orrery.plugins()]
