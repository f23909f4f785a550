"""Runs that together write everything that each system can write: configs that build on small bases."""

import copy
import pathlib

STUDIES = pathlib.Path(__file__).resolve().parents[2] / "experiments" / "studies"

GENERATOR = {
    "requests": 60,
    "high_share": 0.2,
    "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
    "lengths": {"policy": "log_normal",
                "log_normal": {"prompt_mean": 300, "prompt_cv": 1, "output_mean": 60, "output_cv": 0.8}},
}
SERVING = {
    "system": "serving",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
    "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": GENERATOR},
    "slo": {"ttft": "2 s", "tbt": "100 ms"},
}
GRAPH = {
    "system": "graph",
    "machine": {"platform": {"part": "platform-a100-epyc7313"}},
    "model": {"builder": {"policy": "bert", "bert": {"layers": 2}}},
    "workload": {"bind": {"batch": 8}, "vary": {"tokens": {"low": 16, "high": 64, "distinct": 3}}, "requests": 6},
}
FAT_TREE = {"network": {"topology": {"policy": "fat_tree",
                                     "fat_tree": {"k": 4, "bandwidth": "50 GB/s", "latency": "500 ns"}}}}


def merged(base: dict, **paths: object) -> dict:
    """The base with values at dotted paths ('__' for the dots)."""
    config = copy.deepcopy(base)
    for path, value in paths.items():
        *parents, last = path.split("__")
        place = config
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = value
    return config


def program(name: str, **parameters: object) -> dict:
    return {"program": {"instances": 6, "clients": 3, "does": {"policy": name, name: parameters}}}


def serving_runs() -> list[dict]:
    """One replica, tiers, speculation, experts, clusters with all their parts, programs, replications, what does not fit."""
    fleet = merged(SERVING, machine__devices=[{"part": "a100-sxm4-80gb", "count": 4}])
    tiers = {"tiers": [{"name": "host", "capacity": "60 GB", "bandwidth": "25 GB/s", "copy": "5 us"}]}
    return [
        SERVING,
        merged(SERVING, run__replications=3, host={"policy": "vllm_v1"}),
        merged(SERVING, run__warmup="1 s", run__measure_until="9 s"),
        merged(SERVING, model={"config": "catalog:qwen3-30b-a3b", "weight_dtype": "int4"},
               workload__router={"generator": {"tokens": 256, "layers": 2}},
               replica__expert_memory={"share": 0.3, "schedule": {"policy": "fetch"}}),
        merged(fleet, machine__network=FAT_TREE["network"], cluster={"replicas": [{"tensor_parallel": 2}]},
               network_workload={"jobs": [{"name": "dp", "collective": "all_reduce", "bytes": "10 MB", "repeat": 1000000}]}),
        merged(SERVING, kv_tiers=tiers, replica__memory_margin=0.75,
               policies={"batching": {"policy": "vllm_v0", "vllm_v0": {"preemption": "swap"}}}),
        merged(SERVING, kv_tiers=tiers, policies={"batching": {"policy": "vllm_v1"}, "kvcache": {"policy": "block_hash"}}),
        merged(SERVING, kv_tiers={**tiers, "turns": True}, policies={"batching": {"policy": "vllm_v1"}}),
        merged(SERVING, kv_tiers={**tiers, "prefixes": True},
               policies={"batching": {"policy": "vllm_v1"}, "kvcache": {"policy": "block_hash"}}),
        merged(SERVING, policies={"batching": {"policy": "vllm_v0", "vllm_v0": {"priorities": True}},
                                  "kvcache": {"policy": "radix"}}),
        merged(SERVING, policies={"kvcache": {"policy": "buddy"}}),
        merged(SERVING, policies={"passes": {"order": ["loop_fusion"]}}),
        merged(SERVING, policies={"speculation": {"policy": "mtp", "mtp": {"acceptance": 0.7}}}),
        merged(SERVING, policies={"power": {"policy": "prefill_high"}},
               machine__devices=[{"part": "a100-sxm4-80gb", "clocks": ["1.41 GHz", "0.81 GHz"]}]),
        merged(SERVING, model__config="catalog:mixtral-8x7b", machine__devices=[{"part": "h100-sxm5-80gb", "count": 4}],
               replica__tensor_parallel=4, replica__max_context=8192,
               workload={"generator": GENERATOR, "router": {"generator": {"tokens": 2000}}}),
        merged(SERVING, model__config="catalog:mixtral-8x7b", machine__devices=[{"part": "h100-sxm5-80gb", "count": 4}],
               cluster={"replicas": [{"data_parallel": 4}]}, replica__max_context=8192),
        merged(SERVING, policies={"batching": {"policy": "seesaw"}}, machine__devices=[{"part": "a10g", "count": 8}],
               layouts={"modes": [{"pipeline_parallel": 8}, {"tensor_parallel": 4, "pipeline_parallel": 2}]}),
        merged(fleet, policies={"routing": {"policy": "llumnix"}, "scaling": {"policy": "llumnix"},
                                "migration": {"policy": "llumnix"}, "admission": {"policy": "slo"}},
               cluster={"replicas": [{"count": 4}], "scaling": {"least": 1, "initial": 2, "interval": "1 s"}}),
        merged(fleet, cluster={"replicas": [{"name": "p", "count": 2, "role": "prefill"},
                                            {"name": "d", "count": 2, "role": "decode"}]}),
        merged(fleet, cluster={"replicas": [{"name": "all", "count": 2, "pipeline_parallel": 2}]},
               policies={"admission": {"policy": "queue_limit", "queue_limit": {"requests": 1}}}),
        merged(SERVING, workload=program("appl", branches=3), policies={"kvcache": {"policy": "block_hash"}}),
        merged(SERVING, workload=program("conversation")),
        merged(SERVING, workload=program("opus")),
        merged(SERVING, workload=program("plan_and_budget")),
        merged(SERVING, workload=program("tool_agent")),
        merged(SERVING, workload=program("tree_search", width=4)),
        merged(SERVING, workload=program("workflow_trace", slo="60 s")),
        merged(SERVING, model__config="catalog:llama-3.1-405b"),
    ]


def question_runs() -> list[dict]:
    return [
        merged(SERVING, system="capacity", capacity={"requests": 60, "replications": 2, "tolerance": 0.2}),
        merged(SERVING, system="capacity", capacity={"limits": [{"metric": "ttft", "at": "p50", "most": "1 us"}],
                                                     "requests": 20, "replications": 1}),
        merged(SERVING, system="plans", model__config="catalog:llama-3.1-405b", plans={"devices": [1]}),
        merged(SERVING, system="slo_sweep", slo_sweep={"rates": ["2 1/s", "8 1/s"], "scales": [0.5, 1], "replications": 2}, slo__tbt="12 ms"),
        merged(SERVING, system="plans", machine__devices=[{"part": "a100-sxm4-80gb", "count": 2}],
               plans={"tensor_parallel": [1, 2], "prices": [{"per_hour": 2}], "currency": "USD", "devices": [2]}),
        merged(SERVING, system="plans", machine__devices=[{"part": "a100-sxm4-80gb", "count": 2}],
               capacity={"requests": 60, "replications": 1, "tolerance": 0.5}, plans={"capacity": True, "devices": [1]}),
    ]


def graph_runs() -> list[dict]:
    every = ["amp", "autodiff", "recompute", "pattern_fusion", "loop_fusion"]
    return [
        merged(GRAPH, policies={"passes": {"order": ["loop_fusion"]}, "execution": {"policy": "jit"}}),
        merged(GRAPH, policies={"passes": {"order": every}, "execution": {"policy": "vm"}}),
        merged(GRAPH, machine={"device": {"part": "a100-sxm4-80gb"}}, policies={"execution": {"policy": "aot"}}),
        merged(GRAPH, policies={"execution": {"policy": "graph"}, "passes": {"order": ["graph_capture"]}}),
    ]


def network_runs() -> list[dict]:
    job = {"name": "dp", "collective": "all_reduce", "algorithm": {"policy": "ring"}, "bytes": "4 MiB"}
    return [
        {"system": "network", "machine": FAT_TREE, "workload": {"jobs": [job]}},
        {"system": "network", "machine": FAT_TREE, "run": {"replications": 2},
         "workload": {"jobs": [merged(job, mode="chunks", repeat=3)],
                      "flows": [{"from": "h0", "to": "h5", "bytes": "1 MiB"}],
                      "traffic": {"pattern": "uniform", "flows": 20, "bytes": "64 KiB", "window": 2},
                      "events": [{"at": "10 us", "link": "edge0.0->agg0.1", "share": 0, "both_ways": True}]}},
    ]


def other_runs() -> list[dict]:
    learner = {"system": "rl", "env": {"policy": "contextual_bandit"}, "run": {"seeds": 2},
               "train": {"steps": 512, "eval_every": 256, "eval_episodes": 2}}
    return [
        {"base": "skip_batch_sweep.json"},
        merged(learner, learner={"policy": "ppo", "ppo": {"horizon": 16}}),
        merged(learner, learner={"policy": "lin_ucb"}),
        merged(learner, learner={"policy": "dqn"}),
        merged(learner, env={"policy": "serving_routing", "serving_routing": {"config": str(STUDIES / "mixed_cluster.json"),
                                                                             "requests": 30, "relative": True}},
               learner={"policy": "evolution"}, train__held_out=[{"name": "jsq", "env": {
                   "override": {"policies": {"routing": {"policy": "jsq"}}}}}]),
        {"system": "dram", "machine": {"memory": "ddr4-3200"}, "workload": {"accesses": 500, "threads": 2}},
        {"system": "hls", "machine": {"fpga": "alveo-u280"}, "workload": {"kernel": "gemm"}},
        {"system": "aggregate", "workload": {"nodes": 10000, "edges": 200000, "degree_cv": 1}},
        {"system": "pim", "machine": {"device": {"part": "a100-sxm4-80gb"}, "pim": {"part": "attacc-bank"}},
         "model": {"config": "catalog:llama-2-7b"}, "workload": {"batch": 64, "context": 2048}},
        {"system": "experts", "machine": {"part": "rtx-4090", "host": {"part": "xeon-6454s"}},
         "model": {"config": "catalog:qwen3-30b-a3b", "weight_format": "int4"},
         "workload": {"router": {"generator": {"tokens": 40, "layers": 2}}},
         "policies": {"share": 0.25, "schedule": {"policy": "fetch"}, "prefetch": {"accuracy": 0.5}}},
        {"system": "experts", "machine": {"part": "rtx-4090"}, "model": {"config": "catalog:qwen3-30b-a3b"},
         "workload": {"router": {"generator": {"tokens": 4, "layers": 1}}}, "policies": {"share": 1}},
        {"system": "experts", "machine": {"part": "rtx-4090", "host": {"part": "xeon-6454s"}, "storage": "nvme-gen4"},
         "model": {"config": "catalog:qwen3-30b-a3b", "weight_format": "int4"},
         "workload": {"router": {"generator": {"tokens": 4, "layers": 1}}}, "policies": {"share": 0, "host_share": 0.5}},
        {"system": "experts", "machine": {"part": "h100-sxm5-80gb", "ranks": 4},
         "model": {"config": "catalog:qwen3-30b-a3b"},
         "workload": {"router": {"generator": {"tokens": 32, "layers": 2}}, "batch": 8, "skip": 1}},
        {"base": "training_step.json"},
        {"system": "function", "workload": {"function": "bnh", "point": {"x": 1, "y": 1}}},
        {"system": "search", "study": {"file": "search_toy.json", "set": ["search.budget=20"]}, "run": {"repeats": 2}},
        {"system": "tune", "workload": {"table": "tune.csv", "value": "speed", "axes": [{"column": "batch"}]},
         "policies": {"search": "driver", "driver": "random"}, "run": {"replications": 2}},
        {"system": "tune", "workload": {"table": "tune.csv", "value": "speed", "axes": [{"column": "batch"}]}},
    ]


TUNE_TABLE = "batch,speed\n" + "".join(f"{batch},{batch * (9 - batch)}\n" for batch in range(1, 9))


def training_runs() -> list[dict]:
    """A pipeline with everything that is asked of it, and a plan that does not fit."""
    config = {
        "system": "training",
        "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 4}]},
        "model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 4, "hidden": 256, "heads": 4, "intermediate": 1024,
                                                         "loss": True}}},
        "workload": {"sequence": 256, "global_batch": 8, "tokens": 1e9, "price": 2},
        "plan": {"pipeline_parallel": 2},
    }
    held = merged(config, machine__allocator="caching", machine__host_memory="1 TiB")
    plans = merged(config, system="training_plans", machine__devices=[{"part": "a100-sxm4-80gb", "count": 4}],
                   plans={"show": 2, "explain": "1 1 2 1 no none none"})
    nothing_fits = merged(plans, plans={"tensor_parallel": [1], "pipeline_parallel": [1], "zero": ["none"]},
                          machine__devices=[{"part": "t4", "count": 1}], workload__global_batch=64,
                          model__builder__gpt2__hidden=8192)
    too_many = merged(plans, plans={"explain": "8 1 1 1 no none none"})
    job = merged(config, system="training_job", failures={"per_1000_node_days": 5000, "per_job_day": 1},
                 job={"duration": "20 d", "steps": 1000000}, checkpoint={"storage": "1 GB/s"})
    stated = {"system": "training_job", "job": {"nodes": 8, "step": "10 s", "copies": 8, "duration": "20 d"},
              "failures": {"per_1000_node_days": 200, "repair": "3 h"},
              "policies": {"recovery": {"policy": "drop_replica"}}}
    goodput = merged(job, system="goodput", goodput={"points": 3})
    no_plan = merged(job, plan__pipeline_parallel=3)
    uneven = {"system": "uneven_batches",
              "costs": {"devices": 4, "memory": "10 GB", "exchange": ["10 GB/s", "5 GB/s"], "parameters": 1e9, "layers": 2, "hidden": 100, "token_bytes": "1 MB", "square": "1 us",
                        "linear": "1 ms", "fixed": "100 ms"},
              "workload": {"longest": 6000, "batch": 20, "batches": 2}}
    rlhf = {"system": "rlhf", "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 4}], "node": {"devices": 4}},
            "models": [{"name": "actor", "config": "catalog:llama-3.2-1b"}],
            "calls": [{"name": "write", "model": "actor", "kind": "generate"},
                      {"name": "learn", "model": "actor", "kind": "train", "after": ["write"]}],
            "workload": {"sequences": 32}, "plans": {"budget": 50}}
    linear = {"start": "1 ms", "each": "1 ns"}
    layers = {"system": "moe_layers", "schedules": [{"name": "plain", "separate_links": False}, {"name": "fsmoe"}],
              "costs": {name: linear for name in ("exchange", "gather", "scatter", "product", "all_reduce")},
              "layer": {"width": [64], "inner_ratio": [2]}}
    unlike = merged(rlhf, workload={"sequences": 32, "answers": {"policy": "geometric"}})
    experts = merged(config, workload__router={"generator": {"tokens": 64, "layers": 1}}, plan={"expert_parallel": 4},
                     model={"builder": {"policy": "decoder", "decoder": {
                         "layers": 2, "hidden": 256, "heads": 4, "kv_heads": 4, "loss": True, "experts": 8}}})
    mixture = {"system": "mixture", "training": {"rounds": 3}}
    transactions = {"system": "transactions", "workload": {"generator": {"transactions": 8}}}
    priced = {key: config[key] for key in ("machine", "model")}
    uneven_priced = {"system": "uneven_batches", **priced, "workload": {"longest": 2000, "batch": 20, "batches": 2}}
    layers_priced = {**{key: layers[key] for key in ("system", "schedules", "layer")}, "machine": priced["machine"]}
    layers_priced = merged(layers_priced, layer__shared_by=1, layer__tensor=1)
    return [held, transactions, unlike, experts, uneven_priced, layers_priced, rlhf, merged(rlhf, workload__generated=1000000), layers, mixture,
            config, merged(config, plan__pipeline_parallel=3), plans, too_many, nothing_fits, job, stated,
            merged(stated, policies={"recovery": {"policy": "restart"}}), goodput, no_plan,
            merged(no_plan, system="goodput"),
            merged(job, system="progress", progress={"steps": 50, "modes": 5}),
            merged(job, system="progress", progress={"cost": 1e-9, "modes": 5}),
            merged(job, system="progress", progress={"steps": 50, "law": {"batch": 1e15}}),
            uneven, merged(uneven, workload__longest=2000, costs__memory="4.1 GB")]


def all_runs() -> list[dict]:
    return serving_runs() + question_runs() + graph_runs() + network_runs() + training_runs() + other_runs()
