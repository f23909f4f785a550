# %% [markdown]
# # Which experts stay on my GPU?
#
# *The question: a mixture-of-experts model does not fit my GPU. Which experts should stay there, what happens to the
# others, and how fast is it?*
#
# A token uses few of a layer's experts, and which it uses only the router knows. What a cache of experts is worth
# depends on how soon tokens come back to the same ones.

# %%
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import orrery
from orrery_plot import palette, style

plt.rcParams.update(style.STYLE)
SAMPLE = pathlib.Path(orrery.home_folder()) / "traces/samples/router-1024.csv"


def mark(i):
    return {"color": palette.colour(i), "marker": palette.marker(i), "ls": palette.dash(i), "ms": 3.5}

# %% [markdown]
# ## Does it fit?
#
# Qwen3-30B-A3B on an RTX 4090 with 24 GB and a Xeon of 56 cores beside it: each format of the weights, and each way to
# treat experts that are not on the GPU.

# %%
fits = orrery.fits("qwen3-30b-a3b", "rtx-4090", host="xeon-8480plus", weights=["bf16", "fp8", "int4"])
fits[["weights", "schedule", "share", "tokens_per_s"]].round(2)

# %% [markdown]
# `share` is the part of the experts that has room on the GPU. In 4 bits all of them have, in 16 bits a third. The rest
# of this notebook takes bf16, where the choice matters.
#
# ## What a cache hits
#
# The router's choices of a trace, here the sample that ships (drawn, 1,024 tokens of four layers; your own come from
# your engine). Each layer has so many slots:

# %%
trace = orrery.RouterTrace(SAMPLE)
caches = ["belady", "lru", "lfu", "ring", "random"]
hits = trace.caches(caches, slots=[8, 16, 24, 32, 48, 64, 96, 128])
curves = hits.pivot(index="slots", columns="cache", values="hit_rate")[caches]

fig, ax = plt.subplots(figsize=(4.6, 2.9))
for i, cache in enumerate(caches):
    ax.plot(100 * curves.index / trace.experts, 100 * curves[cache], label=cache, **mark(i))
ax.plot([0, 100], [0, 100], color=palette.MUTED, lw=0.8, ls="dotted")
ax.set(xlabel="slots (% of the layer's experts)", ylabel="hits (%)", title="Hit rate over capacity", ylim=(0, 102))
ax.legend();

# %% [markdown]
# All caches are far above the dotted line, which experts drawn alike would follow. Belady's rule knows what comes, so
# no cache that only keeps what it loaded can do better; LRU is near it from a third of the experts on.
#
# ## What becomes of the others
#
# Three ways: copy them over PCIe when they are needed, let the host compute them, or split as HybriMoE does. What the
# host computes is not loaded, so the last two keep the experts that are most frequent in the first tokens.

# %%
SHARES = [0.05, 0.1, 0.2, 0.3]
BASE = {"system": "experts",
        "machine": {"part": "rtx-4090", "host": {"part": "xeon-8480plus"}, "link": "pcie4-x16"},
        "model": {"config": "catalog:qwen3-30b-a3b"},
        "workload": {"router": {"trace": str(SAMPLE)}, "context": 1024, "skip": 128}}


def run(share, schedule, cache="lru", **more):
    return orrery.run({**BASE, "policies": {
        "cache": {"policy": cache}, "schedule": {"policy": schedule}, "share": share, **more}}, tables=False)


WAYS = {"copied (LRU)": ("fetch", "lru"), "host, frequent ones on the GPU": ("host", "static"),
        "split, frequent ones on the GPU": ("hybrimoe", "static")}
speeds = pd.DataFrame({way: [run(share, *how)["throughput.tokens_per_s"] for share in SHARES]
                       for way, how in WAYS.items()}, index=SHARES)
speeds.round(1)

# %% [markdown]
# ## Copies under compute
#
# Copying ahead helps as far as a predictor is right and the link has time. A wrong copy costs twice: it takes the link,
# and drives out an expert that was there. What a step consists of, and how long the link is busy in it:

# %%
ACCURACIES = [0, 0.5, 0.9, 1]
ahead = [run(0.3, "fetch", prefetch={"accuracy": a, "layers": 2}) for a in ACCURACIES]
PARTS = {"dense part": "dense", "experts": "gpu_experts", "GPU waits": "waited"}
parts = pd.DataFrame({part: [1e3 * r[f"step_s.{key}"] for r in ahead] for part, key in PARTS.items()}, index=ACCURACIES)
link = np.array([1e3 * r["step_s.link_busy"] for r in ahead])

# %% [markdown]
# ## Several GPUs
#
# With expert parallelism all experts are on some GPU, and the fullest one decides. Rows of each of eight ranks, 64
# tokens after 64: experts in the order of their numbers, and dealt out by how often the first half of the trace chose
# them. The sample has two texts, one a half.

# %%
RANKS, WINDOW, LAYER = 8, 64, trace.layers[-1]
chosen = trace.choices(LAYER)


def loads(owner):
    """Rows of each rank over the mean, a line a window of tokens."""
    rows = np.array([np.bincount(owner[chosen[t:t + WINDOW]].ravel(), minlength=RANKS)
                     for t in range(0, len(chosen), WINDOW)])
    return rows / rows.mean(axis=1, keepdims=True)


contiguous = np.arange(trace.experts) * RANKS // trace.experts
frequency = np.bincount(chosen[:len(chosen) // 2].ravel(), minlength=trace.experts)
even = np.empty(trace.experts, dtype=int)
there_and_back = np.r_[0:RANKS, RANKS - 1:-1:-1]
even[np.argsort(-frequency, kind="stable")] = np.resize(there_and_back, trace.experts)
by_rank = {"contiguous": loads(contiguous), "by load": loads(even)}

# %%
fig, axes = plt.subplots(1, 3, figsize=(9.2, 2.8))
for i, way in enumerate(speeds):
    axes[0].plot(100 * speeds.index, speeds[way], label=way, **mark(i))
axes[0].set(title="What the share is worth", xlabel="experts on the GPU (%)", ylabel="tokens/s", ylim=(0, None))
axes[0].legend(fontsize=6)
below = np.zeros(len(ACCURACIES))
for i, part in enumerate(parts):
    axes[1].bar(range(len(ACCURACIES)), parts[part], bottom=below, color=palette.colour(i), hatch=palette.hatch(i),
                edgecolor="white", width=0.6, label=part)
    below += parts[part].to_numpy()
axes[1].plot(range(len(ACCURACIES)), link, color=palette.INK, marker="_", ms=18, lw=0, label="link busy")
axes[1].set(title="Copies ahead", xlabel="accuracy of the predictor", ylabel="ms a token",
            ylim=(0, 1.35 * max(below.max(), link.max())))
axes[1].set_xticks(range(len(ACCURACIES)), [f"{a:g}" for a in ACCURACIES])
axes[1].legend(fontsize=6, ncols=2)
for i, (name, rows) in enumerate(by_rank.items()):
    axes[2].plot(WINDOW * np.arange(len(rows)), rows.max(axis=1), label=name, **mark(i))
axes[2].set(title="The fullest of eight ranks", xlabel="token", ylabel="rows over the mean", ylim=(0.9, None))
axes[2].legend(fontsize=6)
fig.tight_layout();

# %% [markdown]
# ## What came out

# %%
best = fits.sort_values("tokens_per_s").iloc[-1]
halves = {name: rows.max(axis=1).reshape(2, -1).mean(axis=1) for name, rows in by_rank.items()}
print(f"Fastest: {best.weights}, {best.schedule}, {best.tokens_per_s:.0f} tokens/s.")
print(f"A third of the slots: LRU hits {100 * curves.lru[48]:.0f} %, Belady's rule {100 * curves.belady[48]:.0f} %.")
print(f"30 % of the experts in bf16: {', '.join(f'{v:.0f} tokens/s {k}' for k, v in speeds.loc[0.3].items())}.")
print(f"Fullest rank: {halves['contiguous'][1]:.2f} of the mean; by load {halves['by load'][0]:.2f} on the half that "
      f"it was planned on, {halves['by load'][1]:.2f} on the other.")
assert best.weights == "int4" and best.share == 1
assert (curves.le(curves.belady + 1e-12, axis=0)).all().all() and curves.lru[48] > 0.9 * curves.belady[48]
assert (curves.loc[trace.experts] > 0.9).all()  # the control: room for all, only first uses miss
assert (speeds.diff().dropna() > 0).all().all()  # more on the GPU is faster, whatever becomes of the others
assert (speeds["split, frequent ones on the GPU"] >= 0.8 * speeds.max(axis=1)).all()
total = parts.sum(axis=1)
assert total[1] < total[0] < total[0.5]  # a perfect predictor hides copies, a poor one is worse than none
assert halves["by load"][0] < halves["contiguous"][0]

# %% [markdown]
# So: take the format in which all fit, if its quality will do. Where they do not, a third of the experts serves most
# tokens, and what becomes of the others decides the speed.
#
# ## What to try next
#
# - Your router: write its choices as a CSV and give it in place of the sample;
#   [docs/explain/router-traces.md](../../docs/explain/router-traces.md).
# - Your machine in one line: `orrery fits MODEL PART --host CPU`;
#   [docs/how-to/experts.md](../../docs/how-to/experts.md).
# - A drive behind the host's memory: `machine.storage`;
#   [docs/explain/expert-offload.md](../../docs/explain/expert-offload.md).
# - Several GPUs in tokens a second, with EPLB and MoETuner:
#   [docs/explain/expert-ranks.md](../../docs/explain/expert-ranks.md).
