# %% [markdown]
# # Which GPU for my traffic?
#
# *The question: my chat service runs Llama-3.1-8B. Which GPU costs least for the traffic that I have, at the speed
# that my users expect?*
#
# Two things decide: how many requests a second one GPU serves *within the targets*, and what it costs. The first is
# simulated. The second is yours:

# %%
import math
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import orrery
from orrery_plot import palette, style

plt.rcParams.update(style.STYLE)
STUDY = pathlib.Path(orrery.home_folder()) / "experiments/studies/first_light.json"  # a chat trace
DOLLARS_PER_HOUR = {  # assumptions: put in what you pay
    "l4": 0.7, "a10g": 1.0, "l40s": 0.9, "a100-sxm4-80gb": 1.8,
    "mi300x": 3.4, "h100-sxm5-80gb": 3.0, "h200-sxm-141gb": 3.8, "b200-sxm": 5.5,
}
TARGETS = {  # first token, time between tokens: 99 % of the requests have to keep to both
    "relaxed": {"ttft": "10 s", "tbt": "200 ms"},
    "chat": {"ttft": "2 s", "tbt": "100 ms"},
    "snappy": {"ttft": "500 ms", "tbt": "25 ms"},
}

# %% [markdown]
# ## What one GPU serves
#
# The system `capacity` plays the trace faster and slower until it knows the highest rate at which the targets are
# met. The tokens that an iteration may hold are tuned for each GPU and target, as one would: small ones keep tokens
# coming, large ones waste less.

# %%
def capacity(part, slo, budget):
    """Requests a second; 0 if no rate meets the targets."""
    found = orrery.run(STUDY, {
        "system": "capacity", "model.config": "catalog:llama-3.1-8b", "machine.devices": [{"part": part, "count": 1}],
        "replica.max_context": 8192, "policies.batching.sarathi.token_budget": budget, "slo": slo,
        "capacity": {"attainment": 0.99, "tolerance": 0.04}, "run.timeline.enabled": False}, tables=False)
    return found["capacity_per_s"]


BUDGETS = [128, 512, 2048]
tuned = {}  # GPU and target: the capacity and the budget that gives it
for part in DOLLARS_PER_HOUR:
    for name, slo in TARGETS.items():
        tuned[part, name] = max((capacity(part, slo, budget), budget) for budget in BUDGETS)
table = pd.DataFrame({name: {part: tuned[part, name][0] for part in DOLLARS_PER_HOUR} for name in TARGETS})
table.round(1).rename_axis("requests/s a GPU")

# %% [markdown]
# ## What it costs
#
# Dollars for a thousand requests if all GPUs were full, which is the best that each can do:

# %%
price = pd.Series(DOLLARS_PER_HOUR)
per_thousand = (1000 / 3600) * price.to_numpy()[:, None] / table.where(table > 0)
best = per_thousand.idxmin()
per_thousand.round(4).style.highlight_min(color="#cfe8dc").format("{:.4f}", na_rep="cannot")

# %% [markdown]
# But GPUs come whole. For little traffic the cheapest *one* wins, however full it is; the table above is where the
# lines go to for much traffic.

# %%
traffic = np.geomspace(0.5, 200, 400)  # requests/s
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.2), sharey=True)
for ax, name in zip(axes, ("chat", "snappy")):
    serving = table.index[table[name] > 0.1]
    fleets = {part: np.ceil(traffic / table[name][part]) * price[part] for part in serving}
    cheapest = np.min(list(fleets.values()), axis=0)
    for i, part in enumerate(table.index):
        if part in fleets:
            ax.plot(traffic, fleets[part], color=palette.colour(i), ls=palette.dash(i), lw=1.1, label=part)
    ax.plot(traffic, cheapest, color=palette.INK, lw=3.5, alpha=0.25, label="cheapest")
    style.log_axis(ax.xaxis, traffic)
    style.log_axis(ax.yaxis, [1, 60])
    ax.set(xlabel="traffic (requests/s)", title=f"Targets: {name} ({TARGETS[name]['ttft']}, {TARGETS[name]['tbt']})")
axes[0].set(ylabel="dollars an hour", ylim=(0.6, 90))
axes[1].legend(*axes[0].get_legend_handles_labels(), fontsize=6.5, loc="upper left");

# %% [markdown]
# ## Does a fleet of them really serve it?
#
# Capacity was measured on one GPU; several behind a router are not the same thing. So run the whole fleet, and take
# GPUs away for as long as 99 % of the requests still attain the targets.

# %%
TRAFFIC = 25.0  # requests/s
trace = orrery.run(STUDY).requests
OWN_RATE = len(trace) / trace.arrived_s.max()


def fleet(part, count, name):
    return orrery.run(STUDY, {
        "model.config": "catalog:llama-3.1-8b", "machine.devices": [{"part": part, "count": count}],
        "cluster.replicas": [{"count": count, "tensor_parallel": 1}], "policies.routing.policy": "jsq",
        "policies.batching.sarathi.token_budget": tuned[part, name][1],
        "replica.max_context": 8192, "slo": TARGETS[name],
        "workload.rate_scale": TRAFFIC / OWN_RATE, "run.timeline.enabled": False}, tables=False)


rows = {}
for part in table.index[table["chat"] > TRAFFIC / 40]:  # 40 GPUs at most
    count = first = math.ceil(TRAFFIC / table["chat"][part])
    served = fleet(part, count, "chat")
    while count > 1 and (fewer := fleet(part, count - 1, "chat"))["slo.attainment"] >= 0.99:
        count, served = count - 1, fewer
    rows[part] = {"GPUs by capacity": first, "GPUs needed": count, "dollars an hour": count * price[part],
                  "attained (%)": 100 * served["slo.attainment"], "P99 of TBT (ms)": 1000 * served["tbt_s.p99"],
                  "kW": served["energy_j.total"] / served["simulated_s"] / 1000}
fleets = pd.DataFrame(rows).T.sort_values("dollars an hour")
fleets.round(2)

# %% [markdown]
# A fleet of many needs fewer than one alone suggests: a burst that one cannot take finds another free. Sizing by the
# capacity of one GPU favours large GPUs.
#
# ## What came out

# %%
first, second = fleets.index[:2]
needed, dollars = fleets["GPUs needed"], fleets["dollars an hour"]
by_capacity = (fleets["GPUs by capacity"] * price[fleets.index]).sort_values()  # dollars an hour
print(f"{TRAFFIC:g} requests/s at chat targets: {needed[first]:.0f} x {first} for {dollars[first]:.2f} dollars "
      f"an hour, then {needed[second]:.0f} x {second} for {dollars[second]:.2f}.")
print(f"By the capacity of one GPU it would have been {by_capacity.index[0]}, for {by_capacity.iloc[0]:.2f}.")
for name in TARGETS:
    ranked = per_thousand[name].dropna().sort_values()
    more = 100 * (ranked.iloc[1] / ranked.iloc[0] - 1)
    print(f"{name:8} cheapest when full: {ranked.index[0]}; if it cost {more:.0f} % more, {ranked.index[1]}")
assert (fleets["attained (%)"] >= 99).all() and (needed <= fleets["GPUs by capacity"]).all()
small = [part for part in price.index if price[part] <= 1]
assert (table.loc[small, "snappy"] == 0).all() and (table.loc[small, "relaxed"] > 0).all()  # never snappy
assert price.idxmin() not in (first, best["chat"], best["snappy"])  # the cheapest card is not the cheapest service
assert dollars[first] < by_capacity.iloc[0]  # pooling counts

# %% [markdown]
# The card with the lowest price is not the cheapest service, and what is cheapest depends on how much traffic there
# is and how fast users want it: that is what the two plots show. The ranking rests on the prices at the top; the last
# lines say how firmly.
#
# ## What to try next
#
# - Your prices, your trace, your model: `STUDY` may be any serving config
#   ([docs/explain/traces.md](../../docs/explain/traces.md)).
# - Other numbers of bits: `"model.weight_dtype": "fp8"`; several GPUs a replica: `"replica.tensor_parallel": 2`.
# - `orrery plans` tries all splits of a number of GPUs, mixed fleets too:
#   [docs/explain/questions.md](../../docs/explain/questions.md).
# - How far the simulated GPUs are from real ones: [docs/fidelity.md](../../docs/fidelity.md).
