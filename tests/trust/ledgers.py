"""What must hold of a day of a cluster, beside what holds of every run.

Each thing that moves is counted where it leaves and where it arrives. The first four read a
run's own files, the last one its timeline.
"""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/python"))  # last: the package `orrery` is complete in a build folder alone

from orrery_properties.checks import OF_ONE_RUN, Broken, Run, close, must  # noqa: E402

IDLE_W = 35  # of a device: soak.py sets it, so that idle energy tells how long devices were on
KV_BLOCKS = 1200  # of a replica, likewise
TICK_S = 2e-9  # a timeline has whole nanoseconds


def moves(run: Run) -> None:
    """Whatever a replica was sent is an arrival, a request routed again, a migration or a transfer of KV.

    Two are counted on one side alone, and both are routed again: a transfer that a failure cancels was sent, but did
    not arrive; a migration whose destination has closed meanwhile arrived, but was not sent there. Transfers that are
    under way at the end were sent too.
    """
    told, cluster = run.summary["requests"], run.summary["cluster"]
    must(set(told["rejected_by_reason"]) <= {"queue_full"}, "a request was rejected, but not at the door")
    sent = sum(row["requests"] for row in run.summary["replicas"])
    came = {"arrived": told["arrived"] - told["rejected"], "rerouted": cluster["rerouted"],
            "migrated": cluster["migrations"]["completed"], "transferred": cluster["kv_transfers"]["count"]}
    again = cluster["rerouted"]
    least, most = min(again, came["migrated"]), (again if came["transferred"] else 0) + told["unfinished"]
    must(-least <= sent - sum(came.values()) <= most, f"replicas were sent {sent} requests, but {came}")
    aborted = cluster["migrations"]["aborted_by_reason"]
    must(sum(aborted.values()) == cluster["migrations"]["aborted"], "aborted migrations by reason are not all of them")


def blocks(run: Run) -> None:
    """A block that the device gives up is copied to a tier, or its copy is there still.

    Tiers never give more than they got. Blocks of a sequence that is swapped out again, of which a copy is there still,
    are reused too; all of them were copied once.
    """
    tiers, evicted = run.summary["kv_tiers"], run.summary["kv"]["evicted_blocks"]
    block = run.summary["memory_bytes"]["kv_capacity"] // KV_BLOCKS
    must(tiers["reused_bytes"] % block == 0, f"reused bytes are not whole blocks of {block}")
    kept, reused = tiers["prefixes"]["kept_blocks"], tiers["reused_bytes"] // block
    swapped = tiers["out_bytes"] // block - kept
    must(swapped >= 0, "fewer bytes went out than blocks of prefixes")
    must(evicted <= kept + reused + tiers["refused"] <= evicted + swapped,
         f"{evicted} blocks evicted, {kept} copied, {reused} copied before, {tiers['refused']} refused")
    must(tiers["in_bytes"] >= tiers["prefixes"]["loaded_blocks"] * block, "fewer bytes came in than blocks of prefixes")
    must(tiers["swapped_in"] <= tiers["swapped_out"], "more sequences came back than were swapped out")


def scaled(run: Run) -> None:
    """Devices draw idle power while their replica is up, and none while it is off: energy tells the replica-seconds."""
    cluster, idle = run.summary["cluster"], run.summary["energy_j"]["idle"]
    up, most = cluster["up_s"], len(run.summary["replicas"]) * run.summary["simulated_s"]
    must(close(idle, IDLE_W * up),
         f"{idle} J of idle energy are {idle / IDLE_W} replica-seconds, the summary tells {up}")
    must(0 <= cluster["idle_s"] <= up <= most * (1 + 1e-12),
         f"of {most} replica-seconds {up} up, {cluster['idle_s']} idle")


def happens(run: Run) -> None:
    """A day on which nothing fails or moves would test nothing."""
    cluster, tiers = run.summary["cluster"], run.summary["kv_tiers"]
    apart = any(row["role"] == "decode" for row in run.summary["replicas"])
    counts = {"failures": cluster["failures"], "rerouted": cluster["rerouted"],
              "cold starts": cluster["cold_starts"]["count"], "migrations": cluster["migrations"]["completed"],
              "aborted migrations": cluster["migrations"]["aborted"],
              "swaps": tiers["swapped_in"], "loads from tiers": tiers["prefixes"]["loaded_blocks"],
              "rejections": run.summary["requests"]["rejected"], "priorities": len(run.summary["priorities"]) - 1,
              "transfers": cluster["kv_transfers"]["count"] if apart else 1}
    missing = [name for name, count in counts.items() if count <= 0]
    must(not missing, f"has no {', '.join(missing)}")


OF_A_DAY = {"moves": moves, "blocks": blocks, "scaled": scaled, "happens": happens}


def broken(run: Run) -> list[str]:
    """What does not hold of a day: of what every run has to hold, and of its ledgers."""
    found = []
    for name, check in {**OF_ONE_RUN, **OF_A_DAY}.items():
        try:
            check(run)
        except Broken as told:
            found.append(f"{name}: {told}")
    return found


# -- the timeline, which is written from events one by one, against the counts ----------------------------------------


class States:
    """Of one replica, from its timeline: how often it failed and started, and how long it was off."""

    def __init__(self, slices: list[tuple[str, float, float]]) -> None:
        self.failures = self.starts = 0
        self.off_s = 0.0
        before, ended = "", -1.0
        for name, start, length in sorted(slices, key=lambda one: one[1]):
            if start - ended > TICK_S:
                before = ""  # it was on in between
            # One that fails while it is off stays off; one that fails while it drains has nobody left, and goes.
            off = name == "off" or name == "failed" and before in ("off", "draining", "failed, off")
            self.failures += name == "failed" and before != "off"
            self.starts += name == "starting"
            self.off_s += length if off else 0
            before, ended = f"{name}, off" if off and name == "failed" else name, start + length


def timeline(run: Run, slices) -> None:
    """What the timeline (a frame of its slices) shows is what the summary counts: failures, starts, replica-seconds,
    migrations, transfers, iterations and ways of requests."""
    told, cluster, span = run.summary, run.summary["cluster"], run.summary["simulated_s"]
    tracks = slices["track"].astype(str)
    names = slices["name"].astype(str)
    shown = slices[tracks == "state"]
    states = []
    for i, row in enumerate(told["replicas"]):
        process = slices["process"] == f"replica {i}"
        own = shown[shown["process"] == f"replica {i}"]
        states.append(States(list(zip(own["name"].astype(str), own["start_s"], own["duration_s"]))))
        count = int((process & (tracks == "iterations")).sum())
        cut = states[-1].failures + (told["requests"]["unfinished"] > 0)  # shown as far as they came, and not counted
        must(0 <= count - row["iterations"] <= cut,
             f"replica {i} shows {count} iterations and counts {row['iterations']}; at most {cut} were cut short")
    failures, starts = sum(one.failures for one in states), sum(one.starts for one in states)
    must(failures == cluster["failures"], f"{failures} failures are shown, {cluster['failures']} counted")
    must(starts == cluster["cold_starts"]["count"],
         f"{starts} starts are shown, {cluster['cold_starts']['count']} counted")
    up = sum(span - one.off_s for one in states)
    must(abs(up - cluster["up_s"]) < TICK_S * (len(shown) + 1),
         f"{up} replica-seconds are shown, {cluster['up_s']} counted")
    for name, count in (("migration", cluster["migrations"]["completed"]),
                        ("KV transfer", cluster["kv_transfers"]["count"])):
        found = int((names == name).sum())
        must(found == count, f"{found} slices of {name}, {count} counted")
    rejected, routed = int((tracks == "rejected").sum()), int((tracks == "router").sum())
    must(rejected == told["requests"]["rejected"],
         f"{rejected} rejections are shown, {told['requests']['rejected']} counted")
    sent = told["requests"]["arrived"] - rejected + cluster["rerouted"]
    must(routed == sent, f"the router shows {routed} choices, {sent} requests were to be routed")
