# %% [markdown]
# # Explore a chip
#
# *The question: I may spend 400 mm² of silicon and 200 W on an NPU for BERT-large. How many cores, how large an
# array, how much memory bandwidth, and which of these choices matters?*
#
# The space has 262,500 designs. We will look at a few hundred, chosen by a driver that learns as it goes.

# %%
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import orrery
from orrery_plot import palette, style

plt.rcParams.update(style.STYLE)
FILE = pathlib.Path(orrery.home_folder()) / "experiments/studies/space_npu.json"
BUDGET, REPEATS = 120, 3
study = orrery.Study(FILE, {"search.budget": BUDGET, "search.repeats": REPEATS}).run()
study

# %% [markdown]
# A study is a file: an experiment (BERT-large, 8 sequences of 384 tokens), parameters, two objectives (latency and
# area), two limits. Its driver is NSGA-II, a genetic algorithm for several objectives; three searches from three
# seeds.

# %%
VALUES = {one["name"]: one["values"] for one in study.document["parameters"]}
pd.Series({name: ", ".join(map(str, values)) for name, values in VALUES.items()}).to_frame("values")

# %% [markdown]
# ## What is there to choose from?
#
# No design on the front beats another one in both.

# %%
PARAMETERS = list(VALUES)
front = study.front.sort_values("latency")
print(f"{len(front)} designs on the front, {front.latency.min() * 1e3:.1f} ms in {front.area.max():.0f} mm² to "
      f"{front.latency.max() * 1e3:.0f} ms in {front.area.min():.0f} mm²")
front[[*PARAMETERS, "latency", "area"]].iloc[:: max(1, len(front) // 6)]

# %%
figure = orrery.plot.pareto(study)
style.log_axis(figure.axes[0].xaxis, [0.01, 1])  # a figure is matplotlib's, and ours to change
figure

# %% [markdown]
# ## Is the driver worth anything?
#
# The control is a driver that knows nothing. Same number of designs, same seeds; hypervolume is how much of the plane
# lies behind the front.

# %%
chance = orrery.Study(
    FILE, {"search.driver": {"policy": "random"}, "search.budget": BUDGET, "search.repeats": REPEATS}).run()
orrery.plot.hypervolume(study, chance, labels=["NSGA-II", "random"])

# %% [markdown]
# ## Which choices matter?
#
# Two answers that do not depend on each other. First, a forest fitted to the random designs says how much of the
# variance of latency each parameter explains alone. (Designs of a search would tell more of good ones than of the
# rest.) Second, by experiment: take the fastest design, change one choice at a time, and run each.

# %%
told = chance.analysis["stores"][0]["analysis"]["objectives"][0]["importance"]
share = pd.Series({one["parameter"]: 100 * one["main_effect"] for one in told["parameters"]})



def design(point):
    """A point of the study as its file writes one: points hold quantities in SI, files as texts."""
    known = {name: sorted(study.points[name].unique()) for name in PARAMETERS if name != "dataflow"}
    return {name: VALUES[name][known[name].index(point[name])] if name in known else point[name] for name in PARAMETERS}


best = design(front.iloc[0])
changed = [(name, value) for name in PARAMETERS for value in VALUES[name] if value != best[name]]
designs = [best, *({**best, name: value} for name, value in changed)]
around = orrery.Study(FILE, {"sweep": [{"list": designs}]}).sweep().points
around["changed"] = ["", *(name for name, _ in changed)]
around["factor"] = around.latency / around.latency.iloc[0]
spread = around[around.changed != ""].groupby("changed").factor.agg(["min", "max"])

fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 2.9), sharey=True)
order = spread["max"].sort_values().index
left.barh(order, share[order], color=palette.BLUE)
left.set(xlabel="variance of latency explained alone (%)", title="Anywhere in the space")
low, high = spread["min"][order].clip(upper=1), spread["max"][order].clip(lower=1)
right.barh(order, high - low, left=low, color=palette.ORANGE)
right.axvline(1, color=palette.INK, lw=0.8)
style.log_axis(right.xaxis, [0.5, 20])
right.set(xlim=(0.6, None), xlabel="latency over the fastest design's", title="One change to the fastest design");

# %% [markdown]
# What matters in general is not what matters at the end: most of the space is slow for its small arrays; a chip with
# large ones wants bandwidth and vector units. What would be faster still breaks a limit, of area or of power:

# %%
faster = around[(around.changed != "") & (around.factor < 0.995)]
faster[["changed", *PARAMETERS, "factor", "area"]].round(3)

# %% [markdown]
# ## Is it a chip for one workload?
#
# The front was found for a batch of 8. The same designs for a single sequence:

# %%
designs = [design(point) for _, point in front.iterrows()]
single = orrery.Study(FILE, {"base.workload.bind.batch": 1, "sweep": [{"list": designs}]}).sweep().points
kept = front.latency.reset_index(drop=True).rank().corr(single.latency.reset_index(drop=True).rank())
print(f"rank correlation of latency, batches of 8 against batches of 1, over {len(front)} designs: {kept:.2f}")

# %% [markdown]
# ## What came out

# %%
volumes = {name: np.median(one["joint_volume_percent"]) for name, one in
           zip(("NSGA-II", "random"), orrery.analyse(study, chance)["stores"])}
front_gain = front.latency.max() / front.latency.min(), front.area.max() / front.area.min()
print(f"The front spans a factor of {front_gain[0]:.0f} in latency and of {front_gain[1]:.0f} in area.")
print(f"Of what both drivers found together NSGA-II has {volumes['NSGA-II']:.0f} %, "
      f"random designs {volumes['random']:.0f} % (medians of {REPEATS} searches).")
print(f"Matters most anywhere: {share.idxmax()}; at the fastest design: {', '.join(order[::-1][:3])}.")
assert volumes["NSGA-II"] > volumes["random"] + 3
assert share.idxmax() == "edge" and {"edge", "bandwidth"} <= set(order[::-1][:3])
assert share["vector"] < 2 and spread["max"]["vector"] > 1.5  # what matters at the end is not what matters in general
assert (faster.violation > 0).all() and kept > 0.9

# %% [markdown]
# The designs of the front keep their order for another batch. Whether they would for another network is a line to
# change.
#
# ## What to try next
#
# - Other drivers: `orrery.list("driver")`, or one of yours: `orrery.Search(...)` asks and is told. How they compare:
#   [docs/explain/drivers.md](../../docs/explain/drivers.md).
# - Other spaces: a DRAM controller, a GPU, a network, a KV cache, pragmas of a loop nest:
#   [docs/explain/spaces.md](../../docs/explain/spaces.md).
# - Another limit or model: `{"limits.0.most": 200}`, `{"base.model.builder.bert.layers": 12}`; what is measured:
#   `measures` in the study's file.
# - How sure the areas are: they are estimates, [docs/explain/energy.md](../../docs/explain/energy.md) says from what.
