"""The pages of docs/reference, each a function from what the command declares to Markdown."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from collections.abc import Callable

from outputs import declared_outputs
from split import split_pages
from tables import fields_table, schema_table, table

MADE = "<!-- made by tools/make_reference from the command's own declarations; do not edit -->\n"


class Declared:
    """What the command says of itself."""

    def __init__(self, command: str, root: pathlib.Path) -> None:
        self.command, self.root = command, root
        self.components = json.loads(self.ask("list", "--json"))
        self.schema = json.loads(self.ask("schema"))
        self.outputs = declared_outputs(self.of("system"), root)

    def ask(self, *words: str) -> str:
        done = subprocess.run([self.command, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def of(self, *kinds: str) -> list[dict]:
        return [component for kind in kinds for component in self.components if component["kind"] == kind]

    def study_schema(self, kind: str) -> dict:
        for one in self.schema["anyOf"]:
            if one["properties"]["kind"].get("const") == kind:
                return one
        raise KeyError(kind)


def page(title: str, about: str, *parts: str) -> str:
    return "\n".join([f"# {title}\n", MADE, about.strip() + "\n", *parts])


def component_sections(components: list[dict]) -> list[str]:
    """A heading, a line and a table each."""
    return [f"### `{one['name']}`\n\n{one['doc']}\n\n{fields_table(one['fields'])}" for one in components]


def kinds_page(title: str, about: str, kinds: list[tuple[list[str], str, str]]) -> Callable[[Declared], str]:
    """A page of components: for each group of kinds a heading, where it stands in a config, and its components."""

    def make(declared: Declared) -> str:
        parts = []
        for names, heading, place in kinds:
            components = declared.of(*names)
            told = [component for component in components if component["fields"]]
            names_of = {c["name"]: f"[`{c['name']}`](#{c['name'].lower()})" if c in told else f"`{c['name']}`" for c in components}
            overview = table(["name", "is"], [[names_of[c["name"]], c["doc"]] for c in components])
            parts.append(f"## {heading}\n\n{place}\n\n{overview}")
            parts += component_sections(told)
        return page(title, about, *parts)

    return make


# ---- commands


def commands(declared: Declared) -> str:
    parts = []
    overview = []
    for words in command_paths(declared):
        text = declared.ask(*words, "--help")
        about, usage = text.split("\n")[0], re.search(r"^Usage: (.*)$", text, re.M)
        name = "orrery " + " ".join(words)
        overview.append([f"[`{name}`](#{name.replace(' ', '-')})", about])
        rows = option_rows(text)
        if "SUBCOMMAND" in text:
            continue
        shown = table(["argument", "takes", "what it is"], rows)
        parts.append(f"## `{name}`\n\n{about}.\n\n```text\n{usage[1] if usage else ''}\n```\n\n{shown}")
    about = """
Every command and every flag. Data goes to stdout, progress and notes to stderr. Exit codes: 0 done (also if a design does not
fit), 1 internal fault, 2 faulty input (one line per fault: file, place, what was expected), 3 not ok (with
`--fail-infeasible`), 130 interrupted.
"""
    return page("Commands", about, table(["command", "does"], overview), *parts)


def command_paths(declared: Declared) -> list[list[str]]:
    def subcommands(text: str) -> list[str]:
        # Under headings of their own; what begins with a dash is an option.
        return re.findall(r"^  ([a-z][\w-]*)\s", text, re.M) if "SUBCOMMAND" in text else []

    paths = []
    for name in subcommands(declared.ask("--help")):
        inner = subcommands(declared.ask(name, "--help"))
        paths += [[name, sub] for sub in inner] or [[name]]
    return paths + [["evaluate-points"]]


def option_rows(text: str) -> list[list[object]]:
    rows: list[list[object]] = []
    for line in re.split(r"(?:Positionals|Options|Subcommands):\n", text, maxsplit=1)[-1].split("\n"):
        found = re.match(r"^  (\S.*?)(?:\s{2,}(.*))?$", line)
        follows = re.match(r"^ {20,}(\S.*)$", line)
        if follows and rows:
            rows[-1][2] = f"{rows[-1][2]} {follows[1]}".strip()
        elif found:
            names, _, takes = found[1].partition(" ")
            rows.append([f"`{names.replace(',', ', ')}`", takes.replace("TEXT", "text").replace("REQUIRED", "(required)"),
                         found[2] or ""])
    return rows


# ---- configs and studies


def config(declared: Declared) -> str:
    parts = []
    systems = declared.of("system")
    overview = [[f"[`{s['name']}`](#{s['name']})", s["doc"]] for s in systems]
    seen: dict[str, tuple[str, str]] = {}
    for system in systems:
        lines = [f"## `{system['name']}`\n\n{system['doc']}\n"]
        for section in system["fields"]:
            key = json.dumps(section)
            title = f"`{section['name']}`"
            if key in seen:
                lines.append(f"{title}: the same as in [`{seen[key][0]}`](#{seen[key][1]}).\n")
                continue
            anchor = f"{system['name']}-{section['name']}"
            seen[key] = (system["name"], anchor)
            text = fields_table(section.get("fields", [])) if "policies" not in section else \
                f"A policy block: {', '.join(section['policies'])}.\n"
            lines.append(f"### `{system['name']}`: `{section['name']}`\n\n{section['doc']}\n\n{text}")
        parts.append("\n".join(lines))
    common = table(["key", "type", "what it is"], [
        ["`kind`", '"experiment"', "Optional."],
        ["`version`", "1", "Optional."],
        ["`system`", "a name below", "The system that the experiment simulates, or the question that it answers."],
        ["`title`", "string", "One line of description."],
        ["`base`", "file, or list of files", "Configs that this one builds on. Objects are merged key by key; other values replace those of the base."],
        ["`$schema`", "string", "The schema, for editors. It is not read."],
    ])
    about = """
A config names a `system`, which determines its sections. Quantities are strings with a unit (`"80 GiB"`, `"1 s"`), counts and
ratios are bare numbers. `a.b` is field b of object a, `a[].b` is field b of every object in list a. A policy block is
`{"policy": NAME, NAME: {parameters}}`; the pages on [policies](policies.md), [workloads](workload.md), [graphs](graphs.md),
[networks](network.md) and [learning](learning.md) have the parameters of each name.
"""
    return page("Configs", about, "## Keys of every config\n", common, "## Systems\n", table(["system", "does"], overview), *parts)


def studies(declared: Declared) -> str:
    parts = []
    for kind, heading in (("study", "Studies (`orrery sweep`, `orrery search`)"), ("claim", "Claim studies (`orrery reproduce`)"),
                          ("evolve", "Studies of expressions (`orrery evolve`)")):
        schema = declared.study_schema(kind)
        parts.append(f"## {heading}\n\n{schema.get('description', '')}\n\n{schema_table(schema)}")
    shipped = table(["study", "kind", "about"], [[f"`{s['name']}`", s["kind"], s["doc"]] for s in declared.of("study", "claim")])
    about = """
The keys of study files. [../explain/studies.md](../explain/studies.md), [../papers/index.md](../papers/index.md) and
[../explain/policies-as-data.md](../explain/policies-as-data.md) explain them.
"""
    return page("Studies", about, *parts, f"## Studies that ship\n\n{shipped}")


# ---- parts and models


def hardware(declared: Declared) -> str:
    kinds: dict[str, list[dict]] = {}
    for component in declared.of("part"):
        file = declared.root / "hw/catalog" / f"{component['name']}.json"
        kind = json.loads(file.read_text(encoding="utf-8")).get("kind", "part")
        kinds.setdefault(kind, []).append(component)
    parts = []
    for kind, components in sorted(kinds.items()):
        listed = table(["part", "is"], [[f"`{c['name']}`", c["doc"]] for c in components])
        parts.append(f"## Parts of kind `{kind}`\n\n{listed}\n{fields_table(components[0]['fields'])}")
    costs = ["## Cost models\n\n`machine.cost` of a config.\n", *component_sections(declared.of("cost_model"))]
    interference = ["## Interference models\n\n`machine.interference` of a training config: [what it does](../explain/interference.md).\n",
                    *component_sections(declared.of("interference"))]
    about = """
The parts of the catalog by kind, and the fields of a part's file. `orrery describe PART` prints the values of a part, with the
source of each. A part is named `catalog:NAME` (or `NAME`) in a config, or by the path of a file of the same form.
"""
    return page("Hardware parts and cost models", about, *parts, *costs, *interference)


def models(declared: Declared) -> str:
    about = """
Models of the catalog. A config names them `catalog:NAME` under `model.config`. Any Hugging Face `config.json` of these architectures
works too ([../explain/models.md](../explain/models.md)). `orrery describe NAME` prints a model's operators.
"""
    return page("Models", about, table(["model", "is"], [[f"`{m['name']}`", m["doc"]] for m in declared.of("model")]))


# ---- outputs


def outputs(declared: Declared) -> str:
    parts = []
    for system, files in declared.outputs.items():
        lines = [f"## `{system}`\n"]
        for name, columns in files.items():
            if isinstance(columns, str):
                lines.append(f"`{name}`: {columns}\n")
                continue
            rows = [[f"`{column}`", unit, doc] for column, (unit, doc) in columns.items()]
            lines.append(f"### `{name}` of `{system}`\n\n" + table(["figure" if name.endswith(".json") else "column", "unit",
                                                                    "what it is"], rows))
        parts.append("\n".join(lines))
    about = """
What a run writes: the figures of `summary.json` by their dotted paths, and the columns of its tables. `*` is a name from the
run (a class of operators, a tier, a reason) or an index in a list. Units are SI; times are simulated times. Every run also
writes `manifest.json` and, if it has one, `timeline.pftrace` ([../explain/formats.md](../explain/formats.md)). A test runs
every system and checks that this page lists exactly what is written.
"""
    return page("Outputs", about, *parts)


POLICY_KINDS = [
    (["batching"], "Batching", "`policies.batching`: which sequences run in the next iteration. [../explain/batching.md](../explain/batching.md)"),
    (["kvcache"], "KV cache", "`policies.kvcache`: where keys and values are kept. [../explain/kv-cache.md](../explain/kv-cache.md)"),
    (["admission"], "Admission", "`policies.admission`: whether a request is admitted or rejected. [../explain/cluster.md](../explain/cluster.md)"),
    (["scaling"], "Scaling", "`policies.scaling`: how many replicas are up. [../explain/cluster.md](../explain/cluster.md)"),
    (["power"], "Power", "`policies.power`: the clock frequency of an iteration. [../explain/energy.md](../explain/energy.md)"),
    (["migration"], "Migration", "`policies.migration`: which requests move to another replica. [../explain/llumnix.md](../explain/llumnix.md)"),
    (["partition"], "Partition", "`policies.partition`: which layers a pipeline stage has. [../explain/cluster.md](../explain/cluster.md)"),
    (["speculation"], "Speculation", "`policies.speculation`: draft tokens. [../explain/speculation.md](../explain/speculation.md)"),
    (["host"], "Host", "`host`: CPU work for an iteration. [../explain/serving-fidelity.md](../explain/serving-fidelity.md)"),
]

PAGES: dict[str, tuple[str, Callable[[Declared], str]]] = {
    "commands.md": ("every command and flag", commands),
    "config.md": ("every system and every section of a config", config),
    "policies.md": ("policies of serving", kinds_page(
        "Policies of serving", "Each is a name in a policy block, with its parameters. Routers are on the page of [networks](network.md).",
        POLICY_KINDS)),
    "experts.md": ("expert caches, schedules, placements", kinds_page(
        "Experts", "[../explain/experts.md](../explain/experts.md), [../explain/expert-offload.md](../explain/expert-offload.md)",
        [(["expert_cache"], "Caches", "`policies.cache` of system `experts`; `orrery experts cache`"),
         (["expert_schedule"], "Schedules", "`policies.schedule` of system `experts`"),
         (["expert_order"], "Orders of loads", "`policies.order` of system `experts`"),
         (["token_groups"], "Groups of tokens", "`policies.groups` of system `experts`"),
         (["expert_placement"], "Placements", "`orrery experts place`")])),
    "expressions.md": ("names that expressions may use", kinds_page(
        "Names in expressions", "Names that a formula of policy `expression` may use, by decision. "
        "[../explain/policies-as-data.md](../explain/policies-as-data.md)",
        [(["batching expression"], "Batching", "`policies.batching.expression`"),
         (["routing expression"], "Routing", "`policies.routing.expression`"),
         (["admission expression"], "Admission", "`policies.admission.expression`"),
         (["transaction_order expression"], "Transactions", "`policies.transaction_order.expression`"),
         (["cache expression"], "Expert caches", "`policies.cache.expression` of system `experts`"),
         (["placement expression"], "Expert placement", "`policies.placement.expression` of system `experts`")])),
    "workload.md": ("trace formats, arrivals, lengths, programs", kinds_page(
        "Workloads", "[../explain/traces.md](../explain/traces.md), [../explain/workloads.md](../explain/workloads.md)",
        [(["trace_format"], "Trace formats", "`workload.trace.format`"), (["arrivals"], "Arrivals", "`workload.generator.arrivals`"),
         (["lengths"], "Lengths", "`workload.generator.lengths`"), (["program"], "Programs", "`workload.program.does`")])),
    "graphs.md": ("builders, passes, executions, memory planners", kinds_page(
        "Operator graphs", "[../explain/graphs.md](../explain/graphs.md), [../explain/graph-system.md](../explain/graph-system.md), [../explain/fusion.md](../explain/fusion.md)",
        [(["builder"], "Builders", "`model.builder`"), (["pass"], "Passes", "`policies.passes`"),
         (["execution"], "Execution", "`policies.execution`"), (["memory_planner"], "Memory planners", "`policies.memory`")])),
    "network.md": ("topologies, routers, collectives", kinds_page(
        "Networks and routing", "[../explain/network.md](../explain/network.md), [../explain/collectives.md](../explain/collectives.md)",
        [(["topology"], "Topologies", "`machine.network.topology`"),
         (["routing"], "Routing", "`machine.network.routing` (links of a message) and `policies.routing` (replica of a request)"),
         (["collective"], "Collectives", "`workload.jobs[].algorithm`")])),
    "learning.md": ("environments, learners, search drivers", kinds_page(
        "Learning and search", "[../explain/rl.md](../explain/rl.md), [../explain/drivers.md](../explain/drivers.md)",
        [(["env"], "Environments", "`env` of system `rl`; `orrery.make_env`"), (["learner"], "Learners", "`learner` of system `rl`"),
         (["driver"], "Drivers", "`search.driver` of a study")])),
    "studies.md": ("keys of study files, and the studies that ship", studies),
    "hardware.md": ("parts of the catalog and their fields, cost models", hardware),
    "models.md": ("models of the catalog", models),
    "outputs.md": ("every figure and column that runs write", outputs),
}


def index() -> str:
    rows = [[f"[{name}]({name})", about] for name, (about, _) in PAGES.items()]
    return page("Reference", "Generated from the declarations that parsing uses, so it is complete and up to date. "
                "`orrery describe NAME` prints the same for one name.", table(["page", "has"], rows))


def make(command: str, root: pathlib.Path) -> dict[str, str]:
    """Every page by its name."""
    declared = Declared(command, root)
    made = {name: function(declared) for name, (_, function) in PAGES.items()}
    made["index.md"] = index()
    return {name: tidy(text) for name, text in split_pages(made).items()}


def tidy(text: str) -> str:
    """One blank line between parts, none at the ends, no blanks at the ends of lines."""
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
