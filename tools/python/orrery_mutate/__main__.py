"""Changes operators and constants, one at a time, and tells which changes no test finds (tools/mutate)."""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import random
import subprocess
import sys
import threading
import time

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    __package__ = "orrery_mutate"  # run as a folder

from orrery_mutate.build import Build  # noqa: E402
from orrery_digests.__main__ import QUICK  # noqa: E402
from orrery_mutate.running import RUNS, Runner  # noqa: E402
from orrery_mutate.sites import Site  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDERS = ["policies", "experiments/systems/serving", "sim"]
TESTS = ["sim", "policies", "programs", "serving", "experiments", "timeline", "runs"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/mutate",
        description="Draws changes of operators, constants, conditions and statements from the sources of folders, compiles all "
        "of them at once, each behind a switch, and runs for each the tests in which it makes a difference, the quickest "
        "first, until one fails. Prints the changes that no test finds. Needs clang-query (clang-tools) and a built "
        "build/release.")
    parser.add_argument("--folder", action="append", help=f"a folder of sources (may be repeated; default: {', '.join(FOLDERS)})")
    parser.add_argument("--seed", action="append", type=int, help="of the sample (may be repeated: several samples in one build)")
    parser.add_argument("--count", type=int, default=200, help="changes in a sample (default: 200)")
    parser.add_argument("--only", action="append", metavar="FILE:LINE",
                        help="every change of a line, or of a file, in place of a sample")
    parser.add_argument("--tests", default=",".join(TESTS), help="test programs, and the digests of runs (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="programs that run at once (default: 2)")
    parser.add_argument("--list", action="store_true", help="only print the changes")
    parser.add_argument("--out", type=pathlib.Path, help="write what became of every change there, as JSON")
    parser.add_argument("--again", type=pathlib.Path, metavar="FILE",
                        help="try only what a run with --out FILE did not kill (after tests were added)")
    parser.add_argument("--no-build", action="store_true", help="take build/release as it is")
    return parser.parse_args()


def wanted(site: Site, only: list[str]) -> bool:
    return any(spec in (site.path, f"{site.path}:{site.line}") for spec in only)


def orders(sites: list[Site], options: argparse.Namespace) -> dict[str, list[int]]:
    """The numbers of all sites in the order in which each sample takes them. Every change is as likely as any other."""
    if options.only:
        return {"only": [number for number, site in enumerate(sites) if wanted(site, options.only)]}
    found = {}
    for seed in options.seed or [1]:
        order = list(range(len(sites)))
        random.Random(seed).shuffle(order)
        found[f"seed {seed}"] = order
    return found


def samples(sites: list[Site], order: dict[str, list[int]], count: int, dropped: set[int]) -> dict[str, list[int]]:
    """The first of each order that compile. Of changes of one range only one can be compiled in."""
    taken: dict[tuple[str, int, int], int] = {}
    found = {}
    for name, numbers in order.items():
        mine: list[int] = []
        for number in numbers:
            site = sites[number]
            if len(mine) == count:
                break
            if number not in dropped and taken.setdefault((site.path, site.begin, site.end), number) == number:
                mine.append(number)
        found[name] = mine
    return found


def judge(runner: Runner, sites: list[Site], numbers: list[int], jobs: int) -> dict[int, str]:
    """What became of each change: "killed by PROGRAM", "not reached", "no difference" or "survived"."""
    cover = runner.coverage()
    for name in cover.failing:
        print(f"  fails with no change on, and is left out: {name}")
    seconds = sum(case.seconds for case in cover.cases)
    print(f"{len(cover.cases)} test cases take {seconds:.0f} s of processor time", flush=True)
    lock = threading.Lock()
    done = 0

    def one(number: int) -> str:
        nonlocal done
        if number not in cover.reached:
            verdict = "not reached"
        elif number not in cover.differs:
            verdict = "no difference"
        else:
            program = runner.killed_by(number, [cover.cases[i] for i in cover.differs[number]])
            verdict = f"killed by {program}" if program else "survived"
        with lock:
            done += 1
            if not verdict.startswith("killed"):
                print(f"  {done}/{len(numbers)} {verdict}: {sites[number].shown()}", flush=True)
        return verdict

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(zip(numbers, pool.map(one, numbers)))


def tell(sites: list[Site], drawn: dict[str, list[int]], verdicts: dict[int, str], folders: list[str]) -> None:
    for name, numbers in drawn.items():
        killed = [number for number in numbers if verdicts[number].startswith("killed")]
        share = 100 * len(killed) / max(1, len(numbers))
        print(f"\n{name}: {len(killed)} of {len(numbers)} killed ({share:.1f} %)")
        for folder in folders:
            inside = [number for number in numbers if sites[number].path.startswith(folder + "/")]
            found = sum(verdicts[number].startswith("killed") for number in inside)
            if inside:
                print(f"  {folder}: {found} of {len(inside)} killed ({100 * found / len(inside):.1f} %)")
        for number in sorted(numbers):
            if not verdicts[number].startswith("killed"):
                print(f"  {verdicts[number]}: {sites[number].shown()}")


def compiled(build: Build, sites: list[Site], order: dict[str, list[int]], count: int,
             dropped: set[int]) -> tuple[dict[str, list[int]], dict[str, pathlib.Path]]:
    """Samples that compile, and their objects; changes that do not are added to `dropped`, and others take their place."""
    while True:
        drawn = samples(sites, order, count, dropped)
        chosen = {number for numbers in drawn.values() for number in numbers}
        objects, bad = build.compile_all({number: sites[number] for number in sorted(chosen)})
        if not bad:
            print(f"{len(chosen)} changes in {len(objects)} units compiled, {len(dropped)} left out that do not compile", flush=True)
            return drawn, objects
        dropped |= bad


def tried(build: Build, sites: list[Site], options: argparse.Namespace, tests: list[str],
          before: dict[int, str]) -> tuple[dict[str, list[int]], dict[int, str]]:
    """The samples, and what became of each change; those killed `before` are taken as they were."""
    left = orders(sites, options)
    all_drawn: dict[str, list[int]] = {name: [] for name in left}
    verdicts: dict[int, str] = {}
    dropped: set[int] = set()
    while True:
        drawn, objects = compiled(build, sites, left, len(sites) if options.only else options.count, dropped)
        numbers = {number for mine in drawn.values() for number in mine}
        if numbers:
            studies = list(QUICK) if RUNS in options.tests.split(",") else []
            runner = Runner(build.scratch, build.link([*tests, "orrery"], objects), build.build / "orrery", ROOT, len(sites), studies)
            known = {number: before[number] for number in numbers if before.get(number, "").startswith("killed")}
            verdicts |= known | judge(runner, sites, sorted(numbers - set(known)), options.jobs)
            for name, mine in drawn.items():
                all_drawn[name] += mine
        left = {name: [n for n in order if n not in verdicts and n not in dropped] for name, order in left.items()}
        if not options.only or not any(left.values()):
            return all_drawn, verdicts  # with --only, several changes of one expression take as many rounds


def main() -> int:
    options = parse()
    folders = [folder.strip("/") for folder in options.folder or FOLDERS]
    tests = [f"test_{name}" for name in options.tests.split(",") if name != RUNS]
    release = ROOT / "build/release"
    started = time.monotonic()
    targets = [*tests, "orrery_command"]
    if not options.no_build:
        subprocess.run(["nice", "cmake", "--build", str(release), "--target", *targets, f"-j{options.jobs}"], check=True,
                       stdout=subprocess.DEVNULL)
    build = Build(ROOT, release, folders, options.jobs)
    build.read_commands(targets)
    sites = build.all_sites()
    inside = {folder: sum(site.path.startswith(folder + "/") for site in sites) for folder in folders}
    print(f"{len(sites)} changes: " + ", ".join(f"{folder} {number}" for folder, number in inside.items()), flush=True)
    if options.list:
        for name, numbers in orders(sites, options).items():
            print(f"{name}:")
            shown = numbers if options.only else samples(sites, {name: numbers}, options.count, set())[name]
            for number in sorted(shown):
                print(f"  {sites[number].shown()}")
        return 0
    before = {row["number"]: row["verdict"] for row in json.loads(options.again.read_text())} if options.again else {}
    drawn, verdicts = tried(build, sites, options, tests, before)
    tell(sites, drawn, verdicts, folders)
    if options.out:
        rows = [{"number": number, "change": sites[number].shown(), "kind": sites[number].kind, "verdict": verdicts[number],
                 "samples": [name for name, numbers in drawn.items() if number in numbers]} for number in sorted(verdicts)]
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
