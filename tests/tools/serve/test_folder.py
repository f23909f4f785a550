"""What `orrery serve` shows of a folder: rows, broken runs, stores that are being written, runs started and cancelled."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest
import unittest.mock
from pathlib import Path

import support
from support import COMMAND, SMALL, Served, ServedTest, made_up

from orrery_serve import compare, facts, jobs, starts, stores, watch  # noqa: E402
from orrery_serve.index import Index  # noqa: E402

# 30 points of a function that takes no time.
STUDY = {"kind": "study", "version": 1, "title": "A parabola", "base": {"system": "function", "workload": {"function": "bnh", "point": {"x": 1, "y": 1}}},
         "parameters": [{"name": "x", "path": "workload.point.x", "values": [0, 1, 2, 3, 4, 5]},
                        {"name": "y", "path": "workload.point.y", "values": [0, 1, 2, 3, 1.5]}],
         "measures": {"f1": "f1"}, "objectives": [{"minimise": "f1"}]}


def sweep(folder: Path, name: str = "parabola", **changes: object) -> Path:
    """The store of the study above, with changes."""
    (folder / f"{name}.json").write_text(json.dumps({**STUDY, **changes}))
    done = support.orrery("sweep", folder / f"{name}.json", "--out", folder / f"{name}.sqlite", "--quiet")
    assert done.returncode == 0, done.stderr
    return folder / f"{name}.sqlite"


class Rows(ServedTest):
    @classmethod
    def fill(cls, folder: Path) -> None:
        made_up(folder / "one", ttft=0.25)
        made_up(folder / "deep" / "er" / "two", policy="orca")
        for name, summary, manifest in (("cut", '{"status": "o', "{}"), ("empty", "", "{}"), ("list", "[]", '{"config": {}}'),
                                        ("no_config", '{"status": "ok"}', "{}"), ("no_status", "{}", '{"config": {}}'),
                                        ("nested", "[" * 100_000, "{}"), ("binary", "\x00\x01", '{"config": {}}'),
                                        ("huge", '{"status": "ok", "wall": 1e999, "tbt_s": {"p99": 1' + "0" * 400 + '}}', '{"config": {}}'),
                                        ("odd", '{"status": "ok", "ttft_s": 7, "slo": [], "energy_j": "x", "tbt_s": {"p99": NaN}}',
                                         '{"config": {"model": 3, "machine": {"devices": [1, null, {"part": 5}]}, "policies": [1]}}')):
            place = folder / "broken" / name
            place.mkdir(parents=True)
            (place / "summary.json").write_text(summary)
            (place / "manifest.json").write_text(manifest)
        (folder / "broken" / "half").mkdir()
        (folder / "broken" / "half" / "manifest.json").write_text('{"config": {}}')
        (folder / "broken" / "folder" / "summary.json").mkdir(parents=True)
        (folder / "text.sqlite").write_text("no database")
        with sqlite3.connect(folder / "other.sqlite") as other:
            other.execute("create table facts(name, value)")
        sweep(folder)

    def test_rows_of_nested_folders(self):
        rows = self.rows()
        one = rows["one"]
        self.assertEqual((one["status"], one["model"], one["device"], one["policy"]), ("ok", "llama-2-7b", "2 x l4", "sarathi"))
        self.assertEqual((one["ttft_p99_s"], one["tokens_per_s"], one["slo"], one["energy_j"]), (0.25, 400.0, 0.5, 1000.0))
        self.assertEqual(rows["deep/er/two"]["policy"], "orca")

    def test_broken_runs_are_rows_with_reasons(self):
        rows = self.rows()
        reasons = {"cut": "summary.json: no JSON", "empty": "summary.json: no JSON", "list": "summary.json: expected an object",
                   "no_config": "manifest.json: has no config", "no_status": "summary.json: has no status", "nested": "summary.json: no JSON",
                   "binary": "summary.json: no JSON", "half": "summary.json: not there", "folder": "manifest.json: not there"}
        for name, reason in reasons.items():
            row = rows["broken/" + name]
            self.assertEqual((row["status"], row["reason"][:len(reason)]), ("broken", reason), name)
        for name in ("odd", "huge"):
            self.assertEqual((rows["broken/" + name]["status"], rows["broken/" + name]["tbt_p99_s"]), ("ok", None))
        both = self.server.get("compare?run=broken/huge&run=one")["figures"]
        self.assertIn({"path": "wall", "values": ["inf", None], "unit": ""}, both)
        for name in ("one", *(f"broken/{n}" for n in (*reasons, "odd", "huge"))):  # each has a page, whatever its report says
            self.assertEqual(self.server.ask(f"/run/{name}")[0], 200)
        status, _, body = self.server.ask("/report/broken/cut")
        self.assertEqual(status, 200)
        self.assertIn(b"This cannot be shown", body)

    def test_changes_alone_are_told_again(self):
        version = self.server.until("index?since=0", lambda a: not a["reading"])["version"]
        later = made_up(self.folder / "later")
        answer = self.server.until(f"index?since={version}", lambda a: a["runs"])
        self.assertEqual([row[0] for row in answer["runs"]], ["later"])
        shutil.rmtree(later)
        answer = self.server.until(f"index?since={answer['version']}", lambda a: a["gone"])
        self.assertEqual((answer["gone"], answer["runs"]), (["later"], []))

    def test_studies(self):
        studies = {s["path"]: s for s in self.server.until("index?since=0", lambda a: not a["reading"])["studies"]}
        row = studies["parabola.sqlite"]
        self.assertEqual((row["status"], row["points"], row["total"], row["mode"]), ("complete", 30, 30, "sweep"))
        self.assertEqual((studies["text.sqlite"]["status"], studies["other.sqlite"]["status"]), ("broken", "broken"))
        self.assertIn("not a database", studies["text.sqlite"]["reason"])
        state = self.server.get("study?path=parabola.sqlite")
        # f1 of Binh and Korn is 4 x^2 + 4 y^2: least at 0, 0, the first point.
        self.assertEqual((state["best"][0]["id"], state["counts"], state["status"]), (1, {"ok": 30}, "complete"))
        self.assertEqual(self.server.ask("/api/study?path=text.sqlite")[0], 422)
        self.assertEqual(self.server.ask("/api/study?path=one")[0], 422)

    def test_comparison(self):
        both = self.server.get("compare?run=one&run=deep/er/two")
        self.assertEqual([(row["path"], row["values"]) for row in both["config"]], [("policies.batching.policy", ["sarathi", "orca"])])
        self.assertIn({"path": "ttft_s.p99", "values": [0.25, 0.1], "unit": "s"}, both["figures"])
        self.assertIn({"path": "slo.attainment", "values": [0.5, 0.5], "unit": "%"}, both["figures"])
        self.assertEqual(self.server.ask("/api/compare?run=one")[0], 422)
        self.assertEqual(self.server.ask("/api/compare?run=one&run=broken/cut")[0], 422)
        self.assertEqual(self.server.ask("/api/compare?" + "run=one&" * 13)[0], 422)

    def test_files_of_a_run(self):
        files = self.server.get("files?path=one")["files"]
        self.assertEqual([f["name"] for f in files], ["manifest.json", "summary.json"])

    def test_a_study_that_is_being_written(self):
        """Another process writes; what is committed is seen, whether it goes on, and that the writer is not disturbed."""
        place = self.folder / "growing.sqlite"
        shutil.copy(self.folder / "parabola.sqlite", place)
        writer = sqlite3.connect(place, isolation_level=None)
        self.addCleanup(writer.close)
        writer.execute("pragma journal_mode = wal")
        writer.execute("update facts set value = 'no' where name = 'complete'")
        writer.execute("delete from points where id > 10")
        lock = subprocess.Popen(["flock", str(place), "cat"], stdin=subprocess.PIPE)  # as the store's writer holds it
        self.addCleanup(lock.wait)
        self.addCleanup(lock.stdin.close)
        state = self.server.until("study?path=growing.sqlite", lambda s: s["status"] == "running")
        self.assertEqual((state["points"], state["total"]), (10, 30))
        writer.execute("begin immediate")
        writer.execute("insert into points select 11, repeat, key, fidelity, 'failed', 'broke', violation, x, y, f1, objective_f1, "
                       "checksum from points where id = 10")
        self.assertEqual(self.server.get("study?path=growing.sqlite")["points"], 10)  # not committed: not seen, not waited for
        writer.execute("commit")
        time.sleep(0.6)
        state = self.server.get("study?path=growing.sqlite")
        self.assertEqual((state["points"], state["counts"], state["reason"]), (11, {"ok": 10, "failed": 1}, "broke"))
        self.assertGreater(state["rate"], 0)
        lock.stdin.close()
        lock.wait()
        self.assertEqual(self.server.get("study?path=growing.sqlite")["status"], "stopped")


class WhatIf(ServedTest):
    @classmethod
    def fill(cls, folder: Path) -> None:
        (folder / "small.json").write_text(json.dumps(SMALL))
        done = support.orrery("run", folder / "small.json", "--out", folder / "base", "--quiet")
        assert done.returncode == 0, done.stderr
        sweep(folder)

    def start(self, name: str, **changes: object) -> tuple[int, dict]:
        config = copy.deepcopy(SMALL)
        for path, value in changes.items():
            support.put(config, path.split("__"), value)
        return self.server.post("jobs", {"name": name, "config": config, "base": "base"})

    def wait(self, job: int, *states: str) -> dict:
        return self.server.until(f"jobs?id={job}", lambda j: j["state"] in states)

    def test_starts(self):
        names = [s["from"] for s in self.server.get("starts")["starts"]]
        self.assertLess(names.index("file:parabola.json"), names.index("file:small.json"))
        self.assertLess(names.index("file:small.json"), names.index("shipped:first_light"))
        self.assertIn("shipped:first_light", names)
        resolved = self.server.get("config?from=run:base")["config"]
        self.assertEqual(self.server.get("config?from=file:small.json")["config"], resolved)
        self.assertEqual(self.server.get("config?from=file:parabola.json")["config"]["workload"]["point"]["x"], 0)
        # The 30th point is the last of the grid.
        point = self.server.get("config?from=point:parabola.sqlite%2330")["config"]["workload"]["point"]
        self.assertEqual(point, {"x": 5, "y": 1.5})
        self.assertEqual(self.server.get("config?from=shipped:first_light")["config"]["system"], "serving")
        for wrong in ("shipped:../x", "shipped:nothing", "nothing", "run:nothing", "point:parabola.sqlite%2399", "point:small.json%231"):
            self.assertIn(self.server.ask(f"/api/config?from={wrong}")[0], (404, 422), wrong)
        self.assertIn("batching", self.server.get("schema?system=serving")["properties"]["policies"]["properties"])
        self.assertEqual(self.server.ask("/api/schema?system=nothing")[0], 404)

    def test_a_run_is_made_and_compared(self):
        status, answer = self.start("faster", machine__devices__0__part="h100-sxm5-80gb")
        self.assertEqual((status, answer["faults"]), (200, []))
        job = self.wait(answer["job"]["id"], *jobs.ENDED)
        self.assertEqual((job["state"], job["status"], job["out"]), ("done", "ok", "runs/faster"), job)
        self.server.until("index?since=0", lambda a: any(row[0] == "runs/faster" for row in a["runs"]))
        both = self.server.get("compare?run=base&run=runs/faster")
        self.assertEqual([row["path"] for row in both["config"]], ["machine.devices.0.part"])
        self.assertEqual(self.start("faster")[0], 409)
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith(".")], [])

    def test_faults_carry_pointers(self):
        status, answer = self.server.post("validate", {"config": {**SMALL, "slo": {"ttft": "2 m"}, "run": {"seed": -1, "sed": 2}}})
        faults = {fault["pointer"]: fault["message"] for fault in answer["faults"]}
        self.assertEqual((status, sorted(faults)), (200, ["/run/sed", "/run/seed", "/slo/ttft"]))
        self.assertIn("'seed'", faults["/run/sed"])
        self.assertEqual(self.start("wrong", run__seed=-1)[1]["faults"][0]["pointer"], "/run/seed")
        self.assertFalse((self.folder / "runs" / "wrong").exists())
        self.assertEqual(self.server.post("validate", {"config": {"kind": "study"}})[1]["faults"] == [], False)

    def test_names(self):
        for name in ("", ".", "..", "../x", "/x", "a/b", ".hidden", "-rf", "a" * 81, "a\0b", "a b", "a\nb"):
            status, answer = self.start(name)
            self.assertEqual(status, 422, name)

    def test_infeasible_is_a_result(self):
        job = self.wait(self.start("large", model__config="catalog:llama-2-70b")[1]["job"]["id"], *jobs.ENDED)
        self.assertEqual((job["state"], job["status"]), ("done", "infeasible"))

    def test_queue_cancel_and_progress(self):
        long = {"workload__generator__requests": 3_000_000}
        first, second = (self.start(name, **long)[1]["job"]["id"] for name in ("long-1", "long-2"))
        told = self.server.until(f"jobs?id={first}", lambda j: j["share"] is not None or j["text"])
        self.assertEqual(told["state"], "running")
        self.assertEqual(self.server.get(f"jobs?id={second}")["state"], "queued")  # one at a time
        self.assertEqual(self.start("long-2")[0], 409)
        self.server.post("cancel", {"id": second})
        self.assertEqual(self.server.get(f"jobs?id={second}")["state"], "cancelled")
        self.server.post("cancel", {"id": first})
        self.wait(first, "cancelled")
        self.assertEqual([n for n in os.listdir(self.folder / "runs") if "long" in n], [])
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith(".")], [])
        self.assertEqual(self.server.post("cancel", {"id": 999})[0], 404)

    def test_a_sweep_is_made(self):
        asked = self.server.get("asked?from=file:parabola.json")
        self.assertEqual((asked["title"], asked["parameters"], asked["mode"], asked["name"]),
                         ("A parabola", ["x", "y"], "sweep", "parabola-1"))
        self.assertIn("bayesian", [driver["name"] for driver in asked["drivers"]])
        order = {"from": "file:parabola.json", "mode": "sweep", "set": ["base.workload.function=srn"], "jobs": 2, "name": "swept"}
        self.assertEqual(self.server.post("count", order), (200, {"faults": [], "points": "30 points"}))
        job = self.server.post("studies", order)[1]["job"]
        self.assertEqual((job["kind"], job["out"]), ("sweep", "runs/swept.sqlite"))
        self.assertEqual(self.wait(job["id"], *jobs.ENDED)["state"], "done")
        state = self.server.get("study?path=runs/swept.sqlite")
        self.assertEqual((state["status"], state["points"]), ("complete", 30))
        # (x - 2)^2 + (y - 1)^2 + 2 of srn is 2 at best; of bnh, which the file names, it is 0.
        self.assertEqual(state["best"][0]["cells"][state["columns"].index(next(c for c in state["columns"] if c["name"] == "f1"))], 2)
        self.assertEqual(self.server.post("studies", order)[0], 409)

    def test_a_search_stops_and_goes_on(self):
        (self.folder / "wide.json").write_text(json.dumps({
            **STUDY, "parameters": [{"name": "x", "path": "workload.point.x", "range": [0, 5]}], "search": {"driver": {"policy": "random"}}}))
        asked = self.server.get("asked?from=file:wide.json")
        self.assertEqual((asked["mode"], asked["driver"]), ("search", "random"))
        order = {"from": "file:wide.json", "mode": "search", "set": ["search.budget=2000000"], "name": "wide"}
        self.assertIn("would look at", self.server.post("count", order)[1]["points"])
        job = self.server.post("studies", order)[1]["job"]["id"]
        self.server.until("index?since=0", lambda a: any(s["path"] == "runs/wide.sqlite" for s in a["studies"]))
        self.assertTrue(self.server.get(f"jobs?id={job}")["there"])
        self.server.post("cancel", {"id": job})
        self.wait(job, "cancelled")
        stopped = self.server.until("study?path=runs/wide.sqlite", lambda s: s["status"] == "stopped")
        # It goes on with the budget that it was begun with, which the file does not name.
        again = self.server.post("resume", {"path": "runs/wide.sqlite"})[1]["job"]["id"]
        more = self.server.until("study?path=runs/wide.sqlite", lambda s: s["points"] > stopped["points"])
        self.assertEqual(more["status"], "running")
        self.server.post("cancel", {"id": again})
        self.wait(again, "cancelled")
        # A file that has changed since is another study, and the job says so without colours.
        (self.folder / "wide.json").write_text((self.folder / "wide.json").read_text().replace('"minimise"', '"maximise"'))
        again = self.server.post("resume", {"path": "runs/wide.sqlite"})[1]["job"]["id"]
        ended = self.wait(again, *jobs.ENDED)
        self.assertEqual(ended["state"], "failed")
        self.assertTrue(ended["lines"] and all("\x1b" not in line for line in ended["lines"]), ended)

    def test_a_stopped_sweep_goes_on(self):
        (self.folder / "slow.json").write_text(json.dumps({
            "kind": "study", "version": 1, "base": {**SMALL, "workload": {**SMALL["workload"], "generator": {
                **SMALL["workload"]["generator"], "requests": 1_000}}},
            "parameters": [{"name": "seed", "path": "run.seed", "values": list(range(1200))}],
            "measures": {"ttft": "ttft_s.p99"}, "objectives": [{"minimise": "ttft"}]}))
        order = {"from": "file:slow.json", "mode": "sweep", "name": "slow"}
        job = self.server.post("studies", order)[1]["job"]["id"]
        path = "study?path=runs/slow.sqlite"
        self.server.until("index?since=0", lambda a: any(s["path"] == "runs/slow.sqlite" and s["points"] for s in a["studies"]))
        self.server.post("cancel", {"id": job})
        self.wait(job, "cancelled")
        stopped = self.server.until(path, lambda s: s["status"] == "stopped")
        self.assertLess(stopped["points"], 1200)
        again = self.server.post("resume", {"path": "runs/slow.sqlite"})[1]["job"]
        self.assertEqual((again["kind"], again["out"]), ("sweep", "runs/slow.sqlite"))
        self.assertEqual(self.wait(again["id"], *jobs.ENDED)["state"], "done", self.server.get(f"jobs?id={again['id']}"))
        self.assertEqual(self.server.get(path)["points"], 1200)

    def test_studies_that_are_refused(self):
        good = {"from": "file:parabola.json", "mode": "sweep", "name": "never"}
        for status, changes in ((404, {"from": "file:../parabola.json"}), (404, {"from": "shipped:nothing"}), (422, {"from": "file:small.json"}),
                                (422, {"mode": "evolve"}), (422, {"set": "x=1"}), (422, {"set": ["--out=/tmp/x"]}), (422, {"set": ["a=1\n--force"]}),
                                (422, {"set": ["a=1"] * 51}), (422, {"jobs": 0}), (422, {"jobs": True}), (422, {"name": "../x"})):
            self.assertEqual(self.server.post("studies", {**good, **changes})[0], status, changes)
        faults = self.server.post("studies", {**good, "set": ["base.workload.functoin=bnh"]})[1]["faults"]
        self.assertIn("unknown key 'functoin'", faults[0]["message"])
        self.assertEqual(self.server.post("resume", {"path": "small.json"})[0], 422)
        self.assertNotIn("never", [job["name"] for job in self.server.get("jobs")["jobs"]])
        self.assertFalse((self.folder / "runs" / "never.sqlite").exists())

    def test_ctrl_c_ends_what_runs(self):
        place = self.top / "ending"
        place.mkdir()
        server = Served(place)
        config = copy.deepcopy(SMALL)
        config["workload"]["generator"]["requests"] = 3_000_000
        job = server.post("jobs", {"name": "long", "config": config})[1]["job"]["id"]
        server.until(f"jobs?id={job}", lambda j: j["text"])
        children = Path(f"/proc/{server.process.pid}/task").glob("*/children")
        child = int("".join(c.read_text() for c in children).split()[0])
        self.assertEqual(server.end(signal.SIGINT)[0], 0)
        self.assertFalse(Path(f"/proc/{child}").exists())
        self.assertEqual([p.name for p in place.rglob("*") if p.is_file()], [])


class Parts(unittest.TestCase):
    def test_queue_is_bounded(self):
        import tempfile

        from orrery_serve.errors import Refused
        from orrery_serve.folder import Folder

        with tempfile.TemporaryDirectory() as place:
            runner = jobs.Runner(Path(COMMAND), Folder(Path(place)), 0)
            for i in range(jobs.WAITING):
                runner.start(f"x{i}", {}, "")
            with self.assertRaises(Refused) as caught:
                runner.start("more", {}, "")
            self.assertEqual(caught.exception.status, 503)
            runner.close()
            self.assertEqual({job.state for job in runner.jobs.values()}, {"cancelled"})
            os.symlink("/tmp", Path(place) / "runs")
            self.assertRaises(Refused, runner.start, "y", {}, "")

    def test_runs_without_terminals(self):
        import tempfile

        from orrery_serve.folder import Folder

        with tempfile.TemporaryDirectory() as place, unittest.mock.patch("os.openpty", side_effect=OSError("out of pty devices")):
            runner = jobs.Runner(Path(COMMAND), Folder(Path(place)), 1)
            job = runner.start("piped", SMALL)
            end = time.monotonic() + 30
            while job.state not in jobs.ENDED and time.monotonic() < end:
                time.sleep(0.02)
            runner.close()
            self.assertEqual((job.state, job.status), ("done", "ok"), job.lines)

    def test_progress_lines(self):
        runner = jobs.Runner(Path(COMMAND), None, 0)
        job = jobs.Job(1, "x", "runs/x", "", {})
        runner._take(job, "[=======                       ]  25% 500 requests (1e+04/s), simulated 26.5 s, 0:03 left", "/tmp/c.json")
        self.assertEqual((job.share, job.text, job.left), (0.25, "500 requests (1e+04/s), simulated 26.5 s", "0:03"))
        runner._take(job, "/tmp/c.json:/run/seed: expected >= 0, got -1", "/tmp/c.json")
        self.assertEqual(job.lines, ["config:/run/seed: expected >= 0, got -1"])

    def test_faults_in_parts(self):
        self.assertEqual(starts.fault("/a/f.json:/x/0/y: expected 1, got: 2", "/a/f.json"), {"pointer": "/x/0/y", "message": "expected 1, got: 2"})
        self.assertEqual(starts.fault("/a/f.json:: expected an object", "/a/f.json"), {"pointer": "", "message": "expected an object"})
        self.assertEqual(starts.fault("broken", "/a/f.json"), {"pointer": "", "message": "broken"})

    def test_front(self):
        draw = random.Random(3)
        for objectives in (1, 2, 3):
            points = [tuple(draw.randrange(12) for _ in range(objectives)) for _ in range(150)]
            front = watch.Front(objectives)
            for i, point in enumerate(points):
                front.add(point, i)
            best = {p for p in points if not any(q != p and all(a <= b for a, b in zip(q, p)) for q in points)}
            self.assertEqual([values for values, _ in front.members], sorted(best))
            self.assertTrue(all(points.index(values) == i for values, i in front.members))  # of equals the first
        self.assertEqual([i for _, i in front.some(2)], [front.members[0][1], front.members[-1][1]])

    def test_a_front_that_is_cut_says_so(self):
        for count in (watch.KEPT_OF_MANY, watch.KEPT_OF_MANY + 1):
            front = watch.Front(3)
            for i in range(count):
                front.add((i, -i, 0), i)
            self.assertEqual((len(front.members), front.cut), (watch.KEPT_OF_MANY, count > watch.KEPT_OF_MANY))

    def test_points_of_searches_and_grids(self):
        self.assertEqual(stores.most_points({"search": {"budget": 20, "repeats": 3}}, "search"), 60)
        self.assertEqual(stores.most_points(STUDY, "sweep"), 30)
        self.assertIsNone(stores.most_points({**STUDY, "constraints": ["x > y"]}, "sweep"))
        for parameters in ([7], [None], [{"values": 5}], [{"steps": "many"}]):  # a store may hold anything
            self.assertIsNone(stores.most_points({"parameters": parameters}, "sweep"), parameters)
        self.assertEqual(stores.most_points({"parameters": [{"steps": 4}, {"values": [1, 2]}]}, "sweep"), 8)

    def test_leaves(self):
        self.assertEqual(compare.flat({"a": [{"b": 1}], "c": [1, 2], "d": {}}), {"a.0.b": 1, "c": [1, 2]})

    def test_names_of_parts_and_policies(self):
        self.assertEqual(facts.devices({"machine": {"devices": [{"part": "catalog:l4", "count": 2}, {"part": "x/y.json", "count": 1}]}}), "2 x l4 + y")
        self.assertEqual(facts.devices({"machine": {"device": {"part": "catalog:tpu-v4", "override": {}}}}), "tpu-v4")
        self.assertEqual(facts.policies({"policies": {"batching": {"policy": "orca"}, "routing": {"policy": "round_robin"},
                                                      "kvcache": {"policy": "radix"}}}), "orca, radix")

    def test_a_scan_reads_only_what_changed(self):
        import tempfile

        with tempfile.TemporaryDirectory() as place:
            for i in range(20):
                made_up(Path(place) / f"r{i}")
            index = Index(Path(place), watch.Watch(Path(place)))
            index.look(wait=True)
            first = index.version
            with unittest.mock.patch.object(facts, "run_row", wraps=facts.run_row) as read:
                index.look(wait=True)
                self.assertEqual((read.call_count, index.version), (0, first))
                (Path(place) / "r3" / "summary.json").write_text('{"status": "infeasible"}')
                index.look(wait=True)
                self.assertEqual((read.call_count, index.version), (1, first + 1))
            self.assertEqual(index.row("r3")["status"], "infeasible")


if __name__ == "__main__":
    unittest.main()
