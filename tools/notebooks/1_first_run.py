# %% [markdown]
# # A first run
#
# *The question: I want to serve Llama-2-7B on one A100. How fast does it answer, where does the time go, and how much
# traffic can it take?*
#
# Orrery replays a trace of requests on a simulated machine. This takes a fraction of a second and no GPU.

# %%
import pathlib

import numpy as np
import pandas as pd

import orrery

STUDY = pathlib.Path(orrery.home_folder()) / "experiments/studies/first_light.json"
result = orrery.run(STUDY)  # 2,000 chat requests in some 18 minutes; a config is a file or a dict
result

# %% [markdown]
# The table is `summary.json`; each figure of it has a path. TTFT is the time to the first token, TBT the time between
# tokens.

# %%
print(f"P99 of TTFT {result['ttft_s.p99']:.3f} s, of TBT {1000 * result['tbt_s.p99']:.0f} ms; "
      f"{100 * result['slo.attainment']:.1f} % of the requests attain the SLO")
print(f"busy {100 * result['utilisation.busy']:.0f} % of the time, but at {100 * result['utilisation.mfu']:.0f} % of "
      f"the GPU's arithmetic and {100 * result['utilisation.mbu']:.0f} % of its bandwidth")
orrery.plot.latency(result)

# %% [markdown]
# ## Request by request
#
# `result.requests` is a pandas frame, a row a request. What makes a first token slow?

# %%
requests = result.requests
parts = pd.DataFrame({
    "prompt (tokens)": requests.prompt_tokens,
    "waiting to be let in (s)": requests.admitted_s - requests.arrived_s,
    "computing the prompt (s)": requests.first_token_s - requests.admitted_s,
    "TTFT (s)": requests.first_token_s - requests.arrived_s,
})
slowest = parts.nlargest(20, "TTFT (s)")
pd.DataFrame({"all": parts.mean(), "the 20 slowest": slowest.mean()}).round(3)

# %% [markdown]
# The slow ones have long prompts *and* had to wait: others were in the GPU when they came. What the GPU was doing all
# along:

# %%
orrery.plot.series(result)

# %% [markdown]
# And by kind of operator. Decoding reads all weights for each step, however few sequences take part: that is what
# matrix products cost here.

# %%
orrery.plot.breakdown(result, what="time")

# %% [markdown]
# ## How much traffic can it take?
#
# The same trace, played faster. Changes to a config are dotted paths.

# %%
loads = np.array([0.5, 1, 2, 3, 3.5, 4, 4.5, 5])
runs = [orrery.run(STUDY, {"workload.rate_scale": load}) for load in loads]
curve = pd.DataFrame({
    "load": loads,
    "requests/s": [run["throughput.requests_per_s"] for run in runs],
    "P99 of TTFT (s)": [run["ttft_s.p99"] for run in runs],
    "P99 of TBT (ms)": [1000 * run["tbt_s.p99"] for run in runs],
    "attain the SLO (%)": [100 * run["slo.attainment"] for run in runs],
    "J per output token": [run["energy_per_output_token_j"] for run in runs],
})
curve.round(2)

# %%
orrery.plot.throughput_latency(runs)

# %% [markdown]
# There is a knee: requests wait for each other, and past it the queue grows for as long as the trace goes on. Up to
# there more traffic is nearly free, in energy too: a batch of many reads the weights once.

# %%
kept = curve[curve["attain the SLO (%)"] >= 99].iloc[-1]
past = curve.iloc[-1]
alone = curve.iloc[0]
joules = "J per output token"
print(f"99 % of the requests attain the SLO up to {kept['requests/s']:.1f} requests/s, "
      f"at {alone[joules] / kept[joules]:.1f} times less energy a token than at {alone['requests/s']:.1f}.")
assert slowest["prompt (tokens)"].mean() > 2 * parts["prompt (tokens)"].mean()
assert slowest["waiting to be let in (s)"].mean() > 5 * parts["waiting to be let in (s)"].mean()
assert 4 < kept["requests/s"] < past["requests/s"] and past["attain the SLO (%)"] < 50  # a knee
assert kept[joules] < alone[joules] / 3

# %% [markdown]
# ## What to try next
#
# - Another GPU or model: `orrery.run(STUDY, {"machine.devices": [{"part": "h100-sxm5-80gb", "count": 1}]})`;
#   `orrery.list("part")` and `orrery.list("model")` name what there is. Which GPU is worth its price: notebook 2.
# - Another scheduler: `{"policies.batching.policy": "vllm_v0"}`; `orrery.describe("vllm_v0")`. One of your own:
#   notebook 3.
# - Your own trace: `workload={"trace": {"path": "mine.csv", "format": "azure_llm"}}`;
#   [docs/explain/traces.md](../../docs/explain/traces.md).
# - `orrery.run(STUDY, out="runs/mine")` keeps tables, summary and a timeline for Perfetto.
