# %% [markdown]
# # Write a scheduler in Python
#
# *The question: prompts of very different length share one GPU, which is nearly full. Would my users be happier if
# short prompts went first?*
#
# A batching policy is a class with one method, `decide(view, out)`, which is asked before every iteration of the
# engine. Here is one, what it is worth, who pays for it, and how much of that a second line gives back.

# %%
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import orrery
from orrery_plot import palette, style

plt.rcParams.update(style.STYLE)
STUDY = pathlib.Path(orrery.home_folder()) / "experiments/studies/first_light.json"
LOAD = 4.5  # times the trace's own rate: some 8.5 requests/s, more than this GPU can take at times
BUDGET = 512  # tokens of an iteration

# %% [markdown]
# ## First come, first served
#
# `BudgetStep` does the bookkeeping: who runs goes on (decodes and chunks of prompts), then we say who is let in, in
# which order.

# %%
class InOrder(orrery.Batching):
    """A token budget an iteration; of those that wait, the one with the least `rank` goes first."""

    def rank(self, sequence, now_s):
        return sequence.order  # number of its arrival

    def decide(self, view, out):
        step = orrery.BudgetStep(view, out, tokens=BUDGET)
        step.run_running()
        if not out.preempted:  # nobody comes in while somebody has to go
            for sequence in sorted(view.waiting, key=lambda one: self.rank(one, view.now_s)):
                if not step.admit(sequence):  # no budget, no slot or no blocks left
                    break
        step.settle()  # for how long this answer holds: the simulator leaps over the rest


def run(policy=None, load=LOAD, **more):
    return orrery.run(STUDY, {"workload.rate_scale": load, **more}, batching=policy)


in_order = run(InOrder)
in_order

# %% [markdown]
# Is that right? A policy that does the same as one that ships must give the same run. vLLM's V1 scheduler is this
# rule, in C++:

# %%
native = run(None, **{"policies.batching": {"policy": "vllm_v1", "vllm_v1": {"max_num_batched_tokens": BUDGET}}})
same = in_order.requests.drop(columns="status").equals(native.requests.drop(columns="status"))
print(f"every time of every one of {len(native.requests)} requests the same: {same}")
assert same

# %% [markdown]
# ## Short prompts first
#
# One line.

# %%
class ShortFirst(InOrder):
    def rank(self, sequence, now_s):
        return sequence.to_compute  # tokens of its prompt that are not in the cache


def figures(result):
    """What users feel of a run."""
    requests = result.requests
    ttft = requests.first_token_s - requests.arrived_s
    longest = requests.prompt_tokens >= requests.prompt_tokens.quantile(0.9)
    return {
        "TTFT, mean (s)": ttft.mean(),
        "TTFT, median (s)": ttft.median(),
        "longest tenth of prompts, P99 (s)": ttft[longest].quantile(0.99),
        "longest gap between tokens (s)": result["tbt_s.max"],
        "attain the SLO (%)": 100 * result["slo.attainment"],
    }


short_first = run(ShortFirst)
table = pd.DataFrame({"in order": figures(in_order), "short first": figures(short_first)})
table.round(2)

# %% [markdown]
# The mean time to the first token is less than half of what it was, and nearly every request attains the SLO (first
# token within 2 s, tokens 100 ms apart). No answer stutters either: who runs is served in the order of admission, and
# whoever comes in takes what the others leave. One line of the table got worse. Whose is that?

# %%
waits = short_first.requests.assign(wait_s=lambda all: all.admitted_s - all.arrived_s)
worst = waits.loc[waits.wait_s.idxmax()]
overtook = ((waits.arrived_s > worst.arrived_s) & (waits.admitted_s < worst.admitted_s)).sum()
print(f"request {worst.id:.0f}, a prompt of {worst.prompt_tokens:.0f} tokens, waited {worst.wait_s:.0f} s; "
      f"{overtook} requests that came later went first")

# %% [markdown]
# It starved: on a GPU that is nearly full a shorter prompt comes by all the time. The repair is as old as schedulers:
# waiting counts.

# %%
class Aging(ShortFirst):
    """As above, but who waits a second is as good as one whose prompt is 200 tokens shorter."""

    def rank(self, sequence, now_s):
        return sequence.to_compute - 200 * (now_s - sequence.arrived_s)


aging = run(Aging)
table["and aging"] = figures(aging)
table.round(2)

# %% [markdown]
# ## Who pays?
#
# Nothing is free on a full GPU: somebody's turn comes later. Time to first token by length of prompt:

# %%
policies = {"in order": InOrder, "short first": ShortFirst, "and aging": Aging}
fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0))
loads = np.arange(2, 5.1, 0.5)
for i, (name, policy) in enumerate(policies.items()):
    mark = {"color": palette.colour(i), "marker": palette.marker(i), "ms": 3.5, "label": name}
    requests = run(policy).requests
    ttft = requests.first_token_s - requests.arrived_s
    tenth = pd.qcut(requests.prompt_tokens, 10, labels=False)
    left.plot(requests.prompt_tokens.groupby(tenth).median(), ttft.groupby(tenth).quantile(0.95), **mark)
    right.plot(loads, [100 * run(policy, load)["slo.attainment"] for load in loads], **mark)
style.log_axis(left.xaxis, [100, 3000])
style.log_axis(left.yaxis, [0.3, 40])
left.set(xlabel="prompt (tokens; a tenth of the requests a point)", ylabel="P95 of TTFT (s)",
         title=f"At {LOAD} times the trace's rate")
right.set(xlabel="load (times the trace's rate)", ylabel="requests that attain the SLO (%)", title="By load")
right.legend();

# %% [markdown]
# ## What came out
#
# The numbers behind the words, held to account each time this notebook runs:

# %%
mean, long = table.loc["TTFT, mean (s)"], table.loc["longest tenth of prompts, P99 (s)"]
slo, gap = table.loc["attain the SLO (%)"], table.loc["longest gap between tokens (s)"]
print(f"Short prompts first: mean TTFT {mean['in order'] / mean['short first']:.1f} times shorter, "
      f"{slo['short first']:.0f} % instead of {slo['in order']:.0f} % attain the SLO,")
print(f"but the unlucky hundredth of long prompts waits {long['short first'] / long['in order']:.1f} times as long; "
      f"aging brings that to {long['and aging'] / long['in order']:.1f}, and {slo['and aging']:.0f} %.")
assert mean["short first"] < mean["in order"] / 2 and slo["short first"] > 95 > slo["in order"] + 10
assert (gap < 0.1).all()  # no answer stutters
assert worst.prompt_tokens > waits.prompt_tokens.quantile(0.9) and overtook > 100  # who starves
assert long["short first"] > 3 * long["in order"]  # who pays
assert long["in order"] < long["and aging"] < long["short first"]  # what aging gives back …
assert slo["in order"] < slo["and aging"] < slo["short first"]  # … and what it costs

# %% [markdown]
# ## What to try next
#
# - Another rank: `sequence.priority`, the deadline, `sequence.prompt_tokens + sequence.predicted_tokens`; another
#   weight of waiting than 200.
# - Rank and repair as a policy of C++: `orrery.describe("sjf")`, or as data, without code:
#   `orrery.describe("expression")`.
# - Another trace or model: the first argument of `orrery.run`. What a policy in Python costs:
#   [docs/explain/python.md](../../docs/explain/python.md).
# - A router is as short: `class Mine(orrery.Router)`; notebook 6 learns one.
