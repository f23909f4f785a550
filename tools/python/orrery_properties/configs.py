"""Random serving configs. Names, parameters and ranges are read from `orrery list`, so that what is new takes part."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any

from .command import Orrery

DENSE = ["llama-2-7b", "llama-3.1-8b", "mistral-7b", "qwen3-8b", "opt-13b"]  # fit one device
WITH_EXPERTS = ["qwen3-30b-a3b", "gpt-oss-20b", "mixtral-8x7b"]
PARTS = ["a100-sxm4-80gb", "h100-sxm5-80gb", "a10g", "l40s", "mi300x", "a100-pcie-40gb"]
PLATFORMS = ["platform-a100-epyc7313", "platform-h100pcie-xeon8468v", "platform-gh200"]
MEMORIES = ["attacc-bank", "attacc-buffer", "neupims"]  # that attend for decodes beside a device
TICKS = ["1 ps", "1 ns", "1 us", "10 us", "1 ms"]
USUAL_POLICIES = {"routing", "scaling", "decode_scaling", "decode_routing", "migration", "power", "speculation",
                  "partition"}  # drawn less often: their defaults are what most configs have
# Parameters that have no default, and what they may be.
NEEDED = {("speculation", "draft_model", "model"): "catalog:llama-2-7b",
          ("lengths", "quantiles", "prompt"): [{"share": share, "tokens": n} for share, n in ((0, 1), (0.5, 300), (1, 900))],
          ("lengths", "quantiles", "output"): [{"share": share, "tokens": n} for share, n in ((0, 1), (0.5, 30), (1, 90))]}
# Draws of a file, which a config made up here has not.
WITH_FILES = {("lengths", "empirical"), ("program", "workflow_trace"),
              *((kind, "learned") for kind in ("admission", "batching", "power", "routing", "scaling"))}
# Parameters that are formulas, and some of them.
FORMULAS = {("batching", "score"): ["order", "prompt_tokens", "-waited_s", "compute_tokens"],
            ("batching", "preempt"): ["order", "generated_tokens"],
            ("routing", "score"): ["requests / weight", "kv_share", "-prefill_rate"],
            ("admission", "reject"): ["0", "prefill_tokens > 800"]}


class Names:
    """What the command knows by name."""

    def __init__(self, orrery: Orrery, folder: pathlib.Path) -> None:
        ended = orrery.run(["list", "--json"], folder)
        if ended.code != 0:
            raise RuntimeError(f"orrery list: {ended.said}")
        entries = json.loads(ended.out)
        self.fields = {(entry["kind"], entry["name"]): entry["fields"] for entry in entries}
        self.of_kind: dict[str, list[str]] = {}
        for entry in entries:
            self.of_kind.setdefault(entry["kind"], []).append(entry["name"])
        section = next(entry for entry in entries
                       if entry["kind"] == "section" and entry["name"] == "policies" and entry["doc"].startswith("serving:"))
        self.policies = {field["name"]: (field["policy_kind"], field["policies"])
                         for field in section["fields"] if "policies" in field and field["policy_kind"] != "pass"}


def within(value: float, text: str) -> bool:
    """Whether a bare number lies in the range that a field declares: "1 to 64", ">= 0", "> 0"."""
    words = text.split()
    try:
        if len(words) == 3 and words[1] == "to":
            return float(words[0]) <= value <= float(words[2])
        if len(words) == 2:
            return value > float(words[1]) if words[0] == ">" else value >= float(words[1])
    except ValueError:
        pass  # of a quantity, or no range at all
    return True


class Drawer:
    """Draws configs from a seeded stream."""

    def __init__(self, names: Names, stream: random.Random) -> None:
        self.names, self.stream = names, stream

    def chance(self, share: float) -> bool:
        return self.stream.random() < share

    def one_of(self, values: list[Any]) -> Any:
        return values[self.stream.randrange(len(values))]

    # -- parameters ---------------------------------------------------------------------------------------------------

    def parameter(self, kind: str, field: dict[str, Any]) -> Any:
        """A value for a parameter, or None to leave it as it is."""
        if field.get("choices"):
            return self.one_of(field["choices"])
        if field["type"] == "boolean":
            return self.chance(0.5)
        if (kind, field["name"]) in FORMULAS:
            return self.one_of(FORMULAS[kind, field["name"]])
        default, unit = field.get("default"), field.get("unit", "")
        if field["type"] == "integer" and not isinstance(default, str):
            values = [1, 2, 3, 7, 16, 64, 256]
            if isinstance(default, int):
                values += [default, 2 * default, default // 2]
        elif field["type"] == "number" and isinstance(default, (int, float)) and unit in ("", "ratio"):
            values = [0, default / 2, default, round(default * self.stream.random(), 3), 2 * default]
        elif field["type"] == "number" and unit == "s" and isinstance(default, str):
            return self.one_of([default, "1 s"])
        else:
            return None
        values = [value for value in values if within(value, field["range"])]
        return self.one_of(values) if values else None

    def block(self, kind: str, name: str, share: float = 0.3) -> dict[str, Any]:
        """The block of a policy, some of its parameters drawn."""
        drawn = {}
        for field in self.names.fields[kind, name]:
            needed = NEEDED.get((kind, name, field["name"]))
            value = needed if needed is not None else self.parameter(kind, field) if self.chance(share) else None
            if value is not None:
                drawn[field["name"]] = value
        return {"policy": name, name: drawn} if drawn else {"policy": name}

    def policy(self, kind: str, allowed: list[str] | None = None, share: float = 0.3) -> dict[str, Any]:
        names = [name for name in allowed or self.names.of_kind[kind] if (kind, name) not in WITH_FILES]
        return self.block(kind, self.one_of(names), share)

    # -- sections -----------------------------------------------------------------------------------------------------

    def rate(self) -> str:
        return f"{self.one_of([0.5, 2, 5, 10, 30, 100])} req/s"

    def arrivals(self) -> dict[str, Any]:
        block = self.policy("arrivals", share=0.2)
        if any(field["name"] == "rate" for field in self.names.fields["arrivals", block["policy"]]):
            block.setdefault(block["policy"], {})["rate"] = self.rate()
        return block

    def lengths(self) -> dict[str, Any]:
        block = self.policy("lengths", share=0)
        sizes = {"prompt": self.one_of([16, 100, 400, 1500]), "output": self.one_of([1, 8, 40, 120])}
        for field in self.names.fields["lengths", block["policy"]]:
            if block["policy"] == "quantiles":
                break  # its means follow from its quantiles
            side, _, rest = field["name"].partition("_")
            if side in sizes and rest in ("", "mean", "max") and field["type"] in ("integer", "number"):
                block.setdefault(block["policy"], {})[field["name"]] = sizes[side]
        return block

    def workload(self) -> dict[str, Any]:
        requests = self.stream.randint(20, 60)
        if self.chance(0.15):
            program = {"instances": self.stream.randint(2, 5), "does": self.policy("program", share=0.1)}
            if self.chance(0.5):
                program["arrivals"] = self.arrivals()
            return {"program": program}
        generator: dict[str, Any] = {"requests": requests, "arrivals": self.arrivals(), "lengths": self.lengths(),
                                     "limits": {"prompt_max": 2000, "output_max": 150}}
        if self.chance(0.25):
            generator["prefixes"] = {"depth": self.stream.randint(1, 3), "fanout": self.stream.randint(1, 4)}
        if self.chance(0.2):
            generator["high_share"] = self.one_of([0.1, 0.5])
        found: dict[str, Any] = {"generator": generator}
        if self.chance(0.15):
            found["clients"] = self.stream.randint(1, 12)
            found["think_time"] = self.one_of(["0 s", "100 ms", "2 s"])
        if self.chance(0.2):
            found["predictor"] = {"sigma": self.one_of([0, 0.5])}
        return found

    def policies(self) -> dict[str, Any]:
        found = {}
        for name, (kind, allowed) in self.names.policies.items():
            if self.chance(0.15 if name in USUAL_POLICIES else 0.9):
                found[name] = self.policy(kind, allowed)
        return found

    def group(self, devices: int, role: str, experts: bool) -> dict[str, Any]:
        """Equal replicas that together take at most so many devices."""
        group: dict[str, Any] = {"count": self.stream.randint(1, devices)}
        left = devices // group["count"]
        if left > 1:
            ways = ["tensor_parallel", "pipeline_parallel", *(["data_parallel"] if experts else [])]
            group[self.one_of(ways)] = self.one_of([1, 2, left])
        if "data_parallel" in group:
            group["lock_step"] = self.chance(0.5)
        if group.get("pipeline_parallel", 1) > 1 and self.chance(0.4):
            group["queue"] = "per_lane"
        if role != "both":
            group["role"] = role
        if self.chance(0.1):
            group["weight"] = self.one_of([0.5, 2])
        return group

    def failures(self, replicas: int) -> dict[str, Any]:
        if self.chance(0.5):
            return {"mtbf": self.one_of(["2 s", "10 s", "60 s"]), "mttr": self.one_of(["0 s", "1 s", "10 s"]),
                    "retries": self.one_of([0, 2, 100])}
        return {"at": [{"replica": self.stream.randrange(replicas), "time": f"{self.one_of([0, 0.5, 1, 3])} s",
                        "duration": f"{self.one_of([0, 1, 5])} s"} for _ in range(self.stream.randint(1, 3))]}

    def cluster(self, devices: int, experts: bool) -> dict[str, Any]:
        if devices > 1 and self.chance(0.3):
            half = devices // 2
            groups = [{"name": "p", **self.group(half, "prefill", experts)},
                      {"name": "d", **self.group(devices - half, "decode", experts)}]
        else:
            groups = [self.group(devices, "both", experts)]
        found: dict[str, Any] = {"replicas": groups}
        if self.chance(0.35):
            found["failures"] = self.failures(sum(group["count"] for group in groups))
        if self.chance(0.2):
            found["scaling"] = {"least": self.one_of([0, 1]), "interval": self.one_of(["100 ms", "1 s"])}
        return found

    def tiers(self) -> dict[str, Any]:
        found: dict[str, Any] = {"tiers": [{"capacity": self.one_of(["0 B", "1 GB", "60 GB"]), "bandwidth": "25 GB/s"}]}
        if self.chance(0.4):
            found["tiers"].append({"name": "nvme", "capacity": "100 GB", "bandwidth": "5 GB/s", "copy": "100 us"})
        for name in ("overlap", "reuse", "turns", "prefixes"):
            if self.chance(0.35):
                found[name] = True
        return found

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = {"seed": self.stream.randint(1, 99), "tick": self.one_of(TICKS)}
        if self.chance(0.2):
            found["until"] = self.one_of(["1 s", "5 s"])
        if self.chance(0.15):
            found["warmup"] = "1 s"
        if self.chance(0.6):
            found["timeline"] = {"enabled": False}
        if self.chance(0.1):
            found["series_interval"] = self.one_of(["10 ms", "7 s"])
        return found

    def network(self, hosts: int) -> dict[str, Any]:
        """Two switches with hosts in turn, or a star."""
        if self.chance(0.4):
            return {"topology": {"policy": "star", "star": {"hosts": hosts, "bandwidth": "25 GB/s", "latency": "2 us"}}}
        cables = [{"from": f"gpu{i}", "to": "right" if i % 2 else "left", "bandwidth": "25 GB/s", "latency": "1 us"}
                  for i in range(hosts)]
        trunk = {"from": "left", "to": "right", "bandwidth": self.one_of(["1 GB/s", "25 GB/s"]), "latency": "1 us"}
        nodes = [{"name": f"gpu{i}", "kind": "host"} for i in range(hosts)]
        nodes += [{"name": name, "kind": "switch"} for name in ("left", "right")]
        return {"topology": {"policy": "graph", "graph": {"network": {"nodes": nodes, "cables": [trunk, *cables]}}},
                "message_overhead": self.one_of(["0 s", "1 us"])}

    def network_workload(self, network: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.chance(0.6):
            found["jobs"] = [{"collective": self.one_of(["all_reduce", "all_gather", "all_to_all"]), "bytes": "10 MB",
                              "repeat": 2_000, "gap": self.one_of(["0 s", "5 ms"])}]
        if self.chance(0.3):
            found["traffic"] = {"pattern": "uniform", "flows": 200, "bytes": "1 MB", "rate": "300 1/s"}
        if network["topology"]["policy"] == "graph" and self.chance(0.6):
            share = self.one_of([0, 0.2, 0.7])
            found["events"] = [{"at": at, "link": "left->right", "share": new, "both_ways": self.chance(0.5)}
                               for at, new in (("500 ms", share), ("1200 ms", 1))]
        return found

    def beside(self, found: dict[str, Any], part: str, devices: int) -> None:
        """What meets the devices: memory that attends for decodes, a host that launches, weights
        that it keeps, a network that others use too."""
        machine = found["machine"]
        if self.chance(0.12):
            machine["devices"][0]["attention"] = {"part": self.one_of(MEMORIES),
                                                  "schedule": self.one_of(["serial", "interleaved", "fastest"])}
        if self.chance(0.12):
            machine["platform"] = {"part": self.one_of(PLATFORMS), "override": {"gpu": part}}
        if self.chance(0.12):
            found["replica"]["host_weights"] = {"share": self.one_of([0.2, 0.6, 1]),
                                                "bandwidth": self.one_of(["25 GB/s", "400 GB/s", "4 TB/s"])}
        if devices > 1 and self.chance(0.3):
            machine["network"] = self.network(devices)
            if self.chance(0.6):
                found["network_workload"] = self.network_workload(machine["network"])

    def few_blocks(self, config: dict[str, Any]) -> int:
        """Blocks of a cache that holds one request and little more, so that sequences are preempted."""
        block = config["policies"].get("kvcache", {"policy": "paged"})
        own = block.get(block["policy"], {})
        sizes = [field["default"] for field in self.names.fields["kvcache", block["policy"]]
                 if field["name"] in ("block_tokens", "page_tokens")]
        tokens = own.get("block_tokens", own.get("page_tokens", sizes[0] if sizes else 1))
        return int(self.one_of([1, 1.2, 1.5, 3]) * -(-config["replica"]["max_context"] // tokens)) + 1

    def config(self) -> dict[str, Any]:
        devices = self.one_of([1, 1, 2, 4, 8])
        part = self.one_of([part for part in PARTS if part in self.names.of_kind["part"]])
        models = WITH_EXPERTS if self.chance(0.25) else DENSE
        model = self.one_of([model for model in models if model in self.names.of_kind["model"]])
        found = {"system": "serving", "machine": {"devices": [{"part": part, "count": devices}]},
                 "model": {"config": f"catalog:{model}"}, "workload": self.workload(), "policies": self.policies()}
        if "power" in found["policies"]:
            found["machine"]["devices"][0]["clocks"] = ["1.2 GHz", "900 MHz"]
        if self.chance(0.5):
            found["cluster"] = self.cluster(devices, models is WITH_EXPERTS)
        if not any(group.get("role") == "decode" for group in found.get("cluster", {}).get("replicas", [])):
            found["policies"].pop("decode_scaling", None)
        found["replica"] = {"max_context": self.one_of([512, 2048, 2048, 2048, 4096, 4096])}
        if self.chance(0.2):
            found["kv_tiers"] = self.tiers()
            if found["kv_tiers"].get("prefixes"):
                found["policies"]["kvcache"] = self.block("kvcache", "block_hash")
        if self.chance(0.4):
            found["replica"]["kv_blocks"] = self.few_blocks(found)
        if self.chance(0.25):
            found["host"] = self.policy("host", share=0.05)
        self.beside(found, part, devices)
        beside = any("attention" in group for group in found["machine"]["devices"])
        if models is WITH_EXPERTS and not beside and self.chance(0.6):
            found["workload"]["router"] = {"generator": {"tokens": self.one_of([40, 700]), "layers": self.one_of([1, 3])}}
            if self.chance(0.2):
                found["policies"]["redundant"] = devices
        else:
            found["policies"].pop("placement", None)
        if self.chance(0.4):
            found["slo"] = {"ttft": "1 s", "tbt": "100 ms"}
        found["run"] = self.run()
        return found


def draw(names: Names, seed: int, number: int) -> dict[str, Any]:
    """Config `number` of a seed: the same whatever else is drawn."""
    return Drawer(names, random.Random(f"{seed}/{number}")).config()
