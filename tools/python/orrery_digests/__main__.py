"""Digests of every file that the shipped experiments and studies write (tools/digests).

An experiment is run with all its files; of a claim study the figures of every point, the verdicts, and the files of each
variant at the first point of its grid; a study is swept or searched, and its rows are exported; a study of expressions
is bred. What a run says of itself (manifest.json) and of the clock on the wall is left out.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLE = ROOT / "tests/determinism/studies.txt"
SHARED = ROOT.parent / "shared"

# Over 20 s of CPU each on the machine that the table was made on: with --all only.
LONG = {"burstgpt_10m", "dram_marl", "learned_batching", "learned_cache", "learned_routing", "space_network"}
# Serving studies whose single runs take half a second each: with --quick, which the tests run.
QUICK = ("adopter", "apex", "appl", "batchllm", "burstgpt", "disaggregation", "ets", "fastswitch", "fastswitch_turns",
         "first_light", "hexgen", "hexgen_alpha", "layered_prefill", "llumnix", "llumnix_priorities", "llumnix_scaling", "opus",
         "plan_and_budget", "sarathi", "seesaw", "serverless", "sglang", "skip_batch_sweep", "speculation", "speculation_load",
         "toolllm", "vllm_knees", "vllm_paged")
NOT_OF_RUNS = ("claims", "points", "search", "sweep")  # what the table has beside files of runs
# Columns of exported points that say how long a run took or what the store is called.
CLOCKS = ("wall", "host", "started", "finished", "cpu", "study")


class Failed(Exception):
    """A command that did not end as it should."""


def call(command: list[str], folder: pathlib.Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def folder_digests(name: str, folder: pathlib.Path) -> dict[str, str]:
    """Of every file but those that name the folder they were made in: the manifest, and a policy, which names the config
    that it was trained on (its checkpoint, which has the same weights, stands for it)."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json" and path.suffix != ".policy")
    return {f"{name}/{path.relative_to(folder)}": digest(path.read_bytes()) for path in files}


def rows_digest(text: str) -> str:
    """Of exported points, without the columns that are no result."""
    rows = list(csv.reader(text.splitlines()))
    kept = [i for i, column in enumerate(rows[0]) if column not in CLOCKS]
    return digest("\n".join(",".join(row[i] for i in kept) for row in rows).encode())


class Bench:
    """A copy of the tree's shape in a scratch folder, so that configs made there find traces and parts."""

    def __init__(self, orrery: pathlib.Path, root: pathlib.Path, scratch: pathlib.Path, runs: bool) -> None:
        self.orrery, self.scratch, self.runs = str(orrery), scratch, runs
        tree = scratch / "tree"
        self.studies = tree / "experiments" / "studies"
        self.studies.mkdir(parents=True)
        for path in root.iterdir():
            if path.name not in ("experiments", ".git", "build", "runs"):
                (tree / path.name).symlink_to(path)
        for path in (root / "experiments" / "studies").iterdir():
            (self.studies / path.name).symlink_to(path)
        if SHARED.exists():
            (scratch / "shared").symlink_to(SHARED)

    def run(self, name: str, config: pathlib.Path, assignments: list[str]) -> dict[str, str]:
        out = self.scratch / "out" / name
        call([self.orrery, "run", str(config), "--out", str(out), "--quiet",
              *(word for text in assignments for word in ("--set", text))], self.studies)  # where paths in a study start from
        found = folder_digests(name, out)
        subprocess.run(["rm", "-rf", str(out)], check=True)
        return found

    def claim(self, name: str, study: dict) -> dict[str, str]:
        found = {} if self.runs else self.verdicts(name)
        base = study["base"] if isinstance(study["base"], dict) else {"base": study["base"]}
        for number, (variant, values) in enumerate(study["variants"].items()):
            config = self.studies / f"digest-{name}-{number}.json"
            config.write_text(json.dumps(base))
            assignments = {}
            for axis in study.get("x", []):
                first = axis["values"][0]
                if isinstance(first, dict):
                    assignments.update(first.get("set", {}))
                    first = first["is"]
                paths = axis.get("path") or []
                for path in [paths] if isinstance(paths, str) else paths:
                    assignments[path] = first
            assignments.update(values)
            texts = [f"{path}={json.dumps(value)}" for path, value in assignments.items()]
            found |= self.run(f"{name}/{variant}", config, texts)
        return found

    def verdicts(self, name: str) -> dict[str, str]:
        points = self.scratch / f"{name}.csv"
        said = call([self.orrery, "reproduce", name, "--json", "--quiet", "--jobs", "1", "--points", str(points)],
                    self.scratch)
        verdicts = [[claim["expected"], claim["simulated"], claim["holds"]] for claim in json.loads(said)["claims"]]
        return {f"{name}/claims": digest(json.dumps(verdicts).encode()), f"{name}/points": digest(points.read_bytes())}

    def study(self, name: str, file: pathlib.Path) -> dict[str, str]:
        found = {}
        for verb in ("search", "sweep") if name.startswith("sweep_") else ("search",):
            store = self.scratch / f"{name}-{verb}.sqlite"
            call([self.orrery, verb, str(file), "--out", str(store), "--quiet", "--jobs", "1"], self.scratch)
            found[f"{name}/{verb}"] = rows_digest(call([self.orrery, "export", str(store)], self.scratch))
        return found

    def digests(self, name: str) -> dict[str, str]:
        file = self.studies / f"{name}.json"
        study = json.loads(file.read_text())
        kind = study.get("kind", "experiment")
        if kind == "claim":
            return self.claim(name, study)
        if kind == "study":
            return self.study(name, file)
        if kind == "evolve":
            out = self.scratch / "out" / name
            call([self.orrery, "evolve", str(file), "--out", str(out), "--quiet", "--jobs", "1"], self.scratch)
            return folder_digests(name, out)
        return self.run(name, file, [])


def read_table(path: pathlib.Path) -> dict[str, str]:
    if not path.exists():
        return {}
    return {line[18:]: line[:16] for line in path.read_text().splitlines() if line and not line.startswith("#")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/digests", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="studies by name (default: the short ones)")
    parser.add_argument("--all", action="store_true", help="the long ones too")
    parser.add_argument("--runs", action="store_true",
                        help="only what single runs write: of a claim study the first point of each variant")
    parser.add_argument("--quick", action="store_true", help="the single runs of some thirty studies, in seconds")
    parser.add_argument("--update", action="store_true", help="write what came out into the table")
    parser.add_argument("--orrery", type=pathlib.Path, default=ROOT / "build/release/orrery", help="the command")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the tree whose studies are run")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE, help="where digests are kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="studies at a time")
    options = parser.parse_args()
    options.runs = options.runs or options.quick

    every = sorted(path.stem for path in (options.root / "experiments/studies").glob("*.json"))
    unknown = [name for name in options.names if name not in every]
    if unknown:
        print(f"tools/digests: no study '{unknown[0]}' in experiments/studies", file=sys.stderr)
        return 2
    names = options.names or (list(QUICK) if options.quick else []) or [name for name in every if options.all or name not in LONG]
    kept = read_table(options.table)
    found: dict[str, str] = {}
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options.orrery.resolve(), options.root.resolve(), pathlib.Path(scratch), options.runs)

        def one(name: str) -> tuple[str, dict[str, str], float, str]:
            start = time.monotonic()
            try:
                return name, bench.digests(name), time.monotonic() - start, ""
            except Failed as fault:
                return name, {}, time.monotonic() - start, str(fault)

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for name, digests, seconds, fault in pool.map(one, names):
                failed += bool(fault)
                print(f"{name}: {len(digests)} digests in {seconds:.1f} s{' FAILED: ' + fault if fault else ''}",
                      file=sys.stderr, flush=True)
                found |= digests

    differ = [name for name, value in found.items() if kept.get(name, value) != value]
    gone = [name for name in kept if name.split("/")[0] in names and name not in found
            and not (options.runs and name.split("/")[1] in NOT_OF_RUNS)]
    new = [name for name in found if name not in kept]
    if options.update:
        merged = {name: value for name, value in kept.items() if name not in gone and name.split("/")[0] in every} | found
        lines = ["# Digests of what the shipped studies write: tools/digests compares, tools/digests --update writes."]
        lines += [f"{merged[name]}  {name}" for name in sorted(merged)]
        options.table.write_text("\n".join(lines) + "\n")
    for word, list_of in (("differs", differ), ("is gone", gone), ("is new", new)):
        for name in list_of:
            print(f"{word}: {name}")
    print(f"{len(found)} files of {len(names)} studies: {len(differ)} differ, {len(gone)} are gone, {len(new)} are new")
    return 1 if failed or ((differ or gone or new) and not options.update) else 0


if __name__ == "__main__":
    sys.exit(main())
