# %% [markdown]
# # What do failures cost my training run?
#
# *The question: a cluster of 16,384 GPUs trains for weeks, and a node fails every three hours. How much of the time is
# left, how often should I write checkpoints, and is it worth going on without a lost node?*
#
# A step says what a cluster does while all goes well. Here is the rest.

# %%
import matplotlib.pyplot as plt
import pandas as pd

import orrery
from orrery import plot
from orrery_plot import palette, style

plt.rcParams.update(style.STYLE)
STUDIES = str(orrery.home_folder()) + "/experiments/studies/"
JOB = STUDIES + "llama3_job.json"


def mark(i):
    return {"color": palette.colour(i), "marker": palette.marker(i), "ls": palette.dash(i), "ms": 3.5}

# %% [markdown]
# ## A job of 54 days
#
# A model of 405 billion parameters on 16,384 H100, failures by component at the rates that Llama 3's paper gives, a
# checkpoint each hour. Its step is priced by the training system; the weeks are played event by event.

# %%
job = orrery.run(JOB)
shares = pd.Series(job.summary["time_share"]) * 100
print(job)
shares.round(2)

# %% [markdown]
# Effective training time (ETTR) is the first row. The largest loss is not the restarts but the steps done again, half
# an hour each time.
#
# ## Which checkpoint interval?
#
# `orrery.goodput` plays the job with other intervals. All meet the same failures, so differences are the interval's.

# %%
asked = orrery.goodput(JOB)
tried = pd.DataFrame(asked.summary["tried"])

fig, ax = plt.subplots(figsize=(4.6, 2.9))
minutes = tried["interval_s"] / 60
ax.semilogx(minutes, 100 * tried["ettr"], label="events", **mark(0))
ax.semilogx(minutes, 100 * tried["closed_form"], label="closed form (Daly)", **mark(1))
ax.semilogx(minutes, 100 * tried["published"], label="1 - (R + I/2)/MTTF", **mark(2))
ax.axvline(asked.summary["checkpoint"]["daly_s"] / 60, color=palette.MUTED, lw=0.8, ls="dotted")
ax.set(xlabel="minutes between checkpoints", ylabel="ETTR (%)", title="A flat optimum")
ax.legend();

# %%
best, good = asked.summary["best"], asked.summary["as_good"]
gain = best["ettr"] - job.summary["ettr"]["mean"]
print(f"best every {best['interval_s'] / 60:.1f} min: {100 * gain:.1f} points over hourly; "
      f"{good['from_s'] / 60:.1f} to {good['to_s'] / 60:.1f} min are within a point")

# %% [markdown]
# The dotted line is Daly's formula. Nobody needs to hit it: any interval near it will do.
#
# ## What if checkpoints take longer?
#
# The storage of that cluster takes 2 TB/s. With a tenth of it:

# %%
slow = orrery.goodput(JOB, {"checkpoint.storage": "200 GB/s"}, points=5)
beside = {"checkpoint.storage": "200 GB/s", "checkpoint.kind": "asynchronous", "checkpoint.host": "100 GB/s"}
asynchronous = orrery.goodput(JOB, beside, intervals=["1 min", "2 min", "5 min", "10 min", "20 min"])
answers = {"2 TB/s": asked, "200 GB/s": slow, "200 GB/s, asynchronous": asynchronous}
table = {name: one.summary["best"] for name, one in answers.items()}
pd.DataFrame({name: {"best interval, min": found["interval_s"] / 60, "ETTR, %": 100 * found["ettr"]}
              for name, found in table.items()}).T.round(2)

# %% [markdown]
# ## Go on without the lost node?
#
# A smaller job, 96 GPUs in three copies of four stages, loses a node every 13 hours for half a day. It may wait for it,
# drop the copy that lacks it (TorchFT), let peers do its work (ReCycle), or share layers and micro-batches anew
# (ElasWave).

# %%
SMALL = STUDIES + "elaswave_jobs.json"
policies = {"restart": "restart", "TorchFT": "drop_replica", "ReCycle": "recycle", "ElasWave": "elastic"}
jobs = {name: orrery.run(SMALL, {"policies.recovery.policy": policy}) for name, policy in policies.items()}
ettr = pd.Series({name: 100 * one.summary["ettr"]["mean"] for name, one in jobs.items()})
ettr.round(1)

# %% [markdown]
# Spares are the other way: a node that stands by saves the wait, as long as failures do not come faster than repairs.
# Three of them are a quarter more hardware here.

# %%
counts = [0, 1, 2, 3]
spares = pd.Series([100 * orrery.run(SMALL, {"job.spares": count}).summary["ettr"]["mean"] for count in counts], counts)
spares.round(1)

# %% [markdown]
# ## Conclusion

# %%
print(f"hourly checkpoints leave {100 * job.summary['ettr']['mean']:.0f} % of the time, the best interval "
      f"{100 * best['ettr']:.0f} %")
print(f"without a node, ElasWave leaves {ettr['ElasWave']:.0f} %, waiting {ettr['restart']:.0f} %; "
      f"three spares {spares[3]:.0f} %")

assert gain > 0.05
assert abs(best["interval_s"] / asked.summary["checkpoint"]["daly_s"] - 1) < 0.5
assert (tried["ettr"] - tried["closed_form"]).abs().max() < 0.01
assert abs(sum(job.summary["time_share"].values()) - 1) < 1e-9
assert slow.summary["best"]["interval_s"] > best["interval_s"]
assert slow.summary["best"]["ettr"] < asynchronous.summary["best"]["ettr"]
assert ettr["restart"] < ettr["TorchFT"] < ettr["ElasWave"]
assert spares.is_monotonic_increasing and spares[3] > ettr["ElasWave"] > spares[1]

plot.goodput(jobs["restart"], jobs["TorchFT"], jobs["ElasWave"], labels=["restart", "TorchFT", "ElasWave"])

# %% [markdown]
# ## What to try next
#
# * Your own run: `orrery.goodput("my_training.json", failures=6.5)`, any config of the system `training`.
# * A trace of your own failures: `failures.trace`, a CSV with `time_s` and `node`.
# * Which batch and schedule then bring the loss down furthest: [progress](../../docs/explain/progress.md).
