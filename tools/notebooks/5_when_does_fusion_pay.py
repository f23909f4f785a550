# %% [markdown]
# # When does fusion pay?
#
# *The question: somebody offers me a compiler that fuses kernels. What would it gain on my machine, at my batch
# size?*
#
# Fusing kernels saves two things: launches, which the CPU makes one by one, and trips of intermediate results to
# memory and back. Which of them counts depends on who waits for whom. Small batches wait for the CPU; large ones for
# the GPU.

# %%
import pathlib

import matplotlib.pyplot as plt
import pandas as pd

import orrery
from orrery_plot import palette, style

plt.rcParams.update(style.STYLE)
PLATFORMS = {"platform-a100-epyc7313": "A100 + EPYC", "platform-h100pcie-xeon8468v": "H100 PCIe + Xeon",
             "platform-gh200": "GH200"}
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]

# %% [markdown]
# ## Who waits?
#
# BERT-base, 512 tokens a sequence, run eagerly as PyTorch does: 248 kernels, each launched by one CPU thread. The
# launch constants of the platforms are measured ([docs/explain/coupling.md](../../docs/explain/coupling.md)).

# %%
study = pathlib.Path(orrery.home_folder()) / "experiments/studies/skip_batch_sweep.json"
launch = orrery.run(study, {"workload.batches": BATCHES, "run.timeline.enabled": False})
passes = launch.table("points")
bert = passes[passes.model == "bert-base-uncased"]

fig, axes = plt.subplots(1, 3, figsize=(8.6, 2.7), sharey=True)
for ax, (platform, name) in zip(axes, PLATFORMS.items()):
    rows = bert[bert.platform == platform]
    ax.plot(rows.batch, 1e3 * rows.il_s, color=palette.INK, lw=3, alpha=0.25, label="the pass")
    ax.plot(rows.batch, 1e3 * rows.cpu_busy_s, color=palette.ORANGE, ls="dashed", label="CPU busy")
    ax.plot(rows.batch, 1e3 * rows.gpu_busy_s, color=palette.BLUE, marker="o", ms=3, label="GPU busy")
    busy = launch[f"platforms.{platform}.bert-base-uncased.crossover.balance"]
    ax.axvline(busy, color=palette.MUTED, lw=0.8, ls="dotted")
    ax.annotate(f"GPU-bound\nfrom {busy:g}", (busy, 1.3), xytext=(3, 0), textcoords="offset points", fontsize=6.5)
    style.log_axis(ax.xaxis, [1, 100])
    style.log_axis(ax.yaxis, [1, 1000])
    ax.set(title=name, xlabel="batch (sequences)")
axes[0].set_ylabel("time of a pass (ms)")
axes[0].legend();

# %% [markdown]
# The better the GPU, the longer the CPU is the bound: a GH200 needs a larger batch than an A100 to be busy at all,
# and is not faster below it.
#
# ## What fusion gains
#
# Now the same network as a graph of operators, which a real pass rewrites: `loop_fusion` makes one kernel of
# producers and consumers over the same elements. Beside it the rival, which leaves the kernels as they are and
# captures all launches in one graph.

# %%
REQUESTS = 3  # one after the other; the first one captures
MODES = {"eager": ([], "eager"), "fused": (["loop_fusion"], "eager"),
         "captured": ([], "graph"), "both": (["loop_fusion"], "graph")}


def one_pass(platform, batch, passes, execution):
    """Of a warm pass of BERT, 128 tokens a sequence: time (s), launches, bytes moved, time that the GPU is busy (s)."""
    result = orrery.run({
        "system": "graph", "machine": {"platform": {"part": platform}},
        "model": {"builder": {"policy": "bert", "bert": {"layers": 12}}},
        "workload": {"bind": {"batch": batch, "tokens": 128}, "requests": REQUESTS},
        "policies": {"passes": {"order": passes}, "execution": {"policy": execution}},
        "run": {"timeline": False}}, tables=False)
    return {"time_s": result["latency_s.p50"], "launches": result["launches"], "bytes": result["bytes_moved.total"],
            "busy_s": result["device_busy_s"] / REQUESTS}


rows = [{"platform": platform, "batch": batch, "mode": mode, **one_pass(platform, batch, *how)}
        for platform in PLATFORMS for batch in BATCHES for mode, how in MODES.items()]
runs = pd.DataFrame(rows)
times = runs.pivot(index=["platform", "batch"], columns="mode", values="time_s")
gains = pd.DataFrame({mode: times["eager"] / times[mode] for mode in ("fused", "captured", "both")})
gains.loc["platform-gh200"].round(2).T

# %%
fig, axes = plt.subplots(1, 3, figsize=(8.6, 2.7), sharey=True)
for ax, (platform, name) in zip(axes, PLATFORMS.items()):
    own = runs[(runs.platform == platform) & (runs["mode"] == "eager")]
    waits = own[own.busy_s < 0.9 * own.time_s].batch.max()  # the GPU idles for a tenth of the pass, or more
    ax.axvspan(0.8, waits * 1.41, color=palette.GRID, alpha=0.7, lw=0)
    for i, mode in enumerate(gains):
        mark = {"color": palette.colour(i), "marker": palette.marker(i), "ls": palette.dash(i), "ms": 3.5}
        ax.plot(BATCHES, gains.loc[platform, mode], label=mode, **mark)
    style.log_axis(ax.xaxis, [1, 300])
    ax.set(title=name, xlabel="batch (sequences)", xlim=(0.8, 320), ylim=(0.8, 5.3))
axes[0].set_ylabel("times faster than eager")
axes[0].text(0.9, 0.88, "grey: the GPU waits", fontsize=6.5, color=palette.MUTED)
axes[2].legend();

# %% [markdown]
# Fusion gains about as much for a large batch as for a small one, but for another reason. On the left it saves
# launches, in the ratio of their numbers, and capturing them saves more. On the right capturing saves nothing, and
# fusion the memory traffic of what it merged. The two reasons, each where it is alone:

# %%
def ratio(platform, batch, what):
    own = runs[(runs.platform == platform) & (runs.batch == batch)].set_index("mode")[what]
    return own["eager"] / own["fused"]


why = pd.DataFrame({name: {
    "batch 1: gain of fusion": gains.loc[(platform, 1), "fused"],
    "batch 1: launches, before / after": ratio(platform, 1, "launches"),
    "batch 256: gain of fusion": gains.loc[(platform, 256), "fused"],
    "batch 256: bytes, before / after": ratio(platform, 256, "bytes"),
    "batch 256: gain of capturing": gains.loc[(platform, 256), "captured"]} for platform, name in PLATFORMS.items()})
why.round(2)

# %% [markdown]
# At 256 time falls by less than the bytes do: matrix products take their time whatever is fused around them.
#
# ## And with another CPU?
#
# The knee is the CPU's as much as the GPU's. The GH200 of the first figure, its core from half to twice as fast:

# %%
def knee(speed):
    run = orrery.run(study, {
        "machine.platforms": [{"part": "platform-gh200", "single_thread": speed}],
        "workload.models": ["bert-base-uncased"], "workload.batches": BATCHES,
        "run.timeline.enabled": False}, tables=False)
    return run["platforms.platform-gh200.bert-base-uncased.crossover.balance"]


knees = {speed: knee(speed) for speed in (0.41, 0.82, 1.64)}
pd.DataFrame({"core, in units of an EPYC 7313's": knees.keys(), "GPU-bound from a batch of": knees.values()})

# %% [markdown]
# ## What came out

# %%
il = bert.set_index(["platform", "batch"]).il_s
slow, fast = "platform-a100-epyc7313", "platform-gh200"
print(f"Batch 1: GH200 takes {il[fast, 1] / il[slow, 1]:.2f} times as long as the A100; "
      f"128: {il[slow, 128] / il[fast, 128]:.1f} times less.")
print(f"Fusion gains {gains.loc[(fast, 1), 'fused']:.2f} and {gains.loc[(fast, 256), 'fused']:.2f}, "
      f"capturing {gains.loc[(fast, 1), 'captured']:.1f} and {gains.loc[(fast, 256), 'captured']:.2f}.")
assert il[fast, 1] > il[slow, 1] and il[slow, 128] > 2 * il[fast, 128]
small, large = why.loc["batch 1: gain of fusion"], why.loc["batch 256: gain of fusion"]
assert ((small / why.loc["batch 1: launches, before / after"] - 1).abs() < 0.03).all()  # launches, on the left
assert (large > 1.1).all() and (large < why.loc["batch 256: bytes, before / after"]).all()  # bytes, on the right
assert (why.loc["batch 256: gain of capturing"] < 1.03).all()  # the control: the GPU is busy, launches cost nothing
assert all(gains.loc[(platform, 1), "captured"] > gains.loc[(platform, 1), "fused"] for platform in PLATFORMS)
assert list(knees.values()) == sorted(knees.values(), reverse=True) and knees[0.41] > knees[1.64]

# %% [markdown]
# So: below the knee capture the launches first, it is more and costs no compiler; above it only what saves bytes
# helps; with both, all along.
#
# ## What to try next
#
# - Passes that merge more: `greedy_fusion`, `dp_fusion` in place of `loop_fusion`; `orrery.list("pass")`,
#   [docs/explain/fusion.md](../../docs/explain/fusion.md).
# - Your model: an ONNX file or a trace of PyTorch's profiler as `"model": {"import": {"path": "mine.onnx"}}`;
#   [docs/explain/importers.md](../../docs/explain/importers.md).
# - Sizes that change from request to request, and what compiling then costs:
#   [docs/explain/graph-system.md](../../docs/explain/graph-system.md).
# - Your machine: `"override"` beside `"part"`; what a platform's constants are, and their sources:
#   [docs/explain/coupling.md](../../docs/explain/coupling.md).
