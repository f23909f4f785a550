"""Draws serving configs and tells what does not hold of them, with the smallest config of each kind of fault."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    __package__ = "orrery_properties"  # run as a folder

from orrery_properties.checks import CHECKS, Bench, Finding  # noqa: E402
from orrery_properties.command import Orrery, cpu_seconds  # noqa: E402
from orrery_properties.configs import Names, draw  # noqa: E402
from orrery_properties.shrink import shrink  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
JOBS_EVERY = 20  # configs between two that are swept, planned and searched too, which takes as long as twenty runs


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/properties",
        description="Draws valid serving configs over all policies, caches, devices, roles, failures, ticks and tiers that the "
        "command knows, runs them and checks: requests, tokens and energy are conserved, times are in order, caches fit, "
        "leaping gives what stepping gives, and neither threads nor folder, locale or time zone change a byte. Shrinks what it "
        "finds and prints the smallest config. Exit code 1 if there is any.")
    parser.add_argument("count", nargs="?", type=int, default=300, metavar="COUNT", help="configs (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="of the configs (default: 1)")
    parser.add_argument("--only", type=int, action="append", metavar="K", help="config K of the seed alone (may be repeated)")
    parser.add_argument("--config", type=pathlib.Path, nargs="+", metavar="FILE", help="these configs, in place of drawn ones")
    parser.add_argument("--check", action="append", choices=CHECKS, help="this property alone (may be repeated)")
    parser.add_argument("--orrery", type=pathlib.Path, default=os.environ.get("ORRERY_COMMAND", ROOT / "build/release/orrery"),
                        help="the command (default: build/release/orrery)")
    parser.add_argument("--tries", type=int, default=150,
                        help="runs that shrink a config, of each property (default: 150; 0: none)")
    parser.add_argument("--seconds", type=float, default=60, help="time that shrinks a config, of each property (default: 60)")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the configs that were found, as they were and shrunk")
    parser.add_argument("--show", action="store_true", help="only print the configs, a line each")
    return parser.parse_args()


def other_locale(scratch: pathlib.Path) -> dict[str, str]:
    """An environment with German numbers, if the system has its locale or can make it, and a far time zone."""
    env = {"TZ": "Pacific/Chatham"}
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.split()
    if not {"de_DE.utf8", "de_DE.UTF-8"} & set(known):
        made = scratch / "locales"
        made.mkdir()
        define = shutil.which("localedef")
        if not define or subprocess.run([define, "-i", "de_DE", "-f", "UTF-8", str(made / "de_DE.UTF-8")], capture_output=True,
                                        check=False).returncode != 0:
            return {**env, "LC_ALL": "C"}
        env["LOCPATH"] = str(made)
    return {**env, "LC_ALL": "de_DE.UTF-8"}


def config_of(names: Names, options: argparse.Namespace, number: int) -> dict[str, Any]:
    """Config `number`: of the files given, else drawn."""
    return json.loads(options.config[number].read_text()) if options.config else draw(names, options.seed, number)


def name_of(options: argparse.Namespace, number: int) -> str:
    return options.config[number].name if options.config else f"config {number}"


def checks_of(number: int, options: argparse.Namespace) -> list[str]:
    if options.check:
        return options.check
    return [check for check in CHECKS if check != "jobs" or options.config or number % JOBS_EVERY == 0]


def main() -> int:
    options = parse()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="orrery-properties-") as folder:
        scratch = pathlib.Path(folder)
        orrery = Orrery(options.orrery, ROOT)
        names = Names(orrery, scratch)
        numbers = options.only or range(len(options.config) if options.config else options.count)
        if options.show:
            for number in numbers:
                print(json.dumps(config_of(names, options, number)))
            return 0
        locale = other_locale(scratch)
        bench = Bench(orrery, scratch / "runs", locale)
        found: dict[str, list[tuple[int, Finding]]] = {}
        for number in numbers:
            for finding in bench.findings(config_of(names, options, number), checks_of(number, options)):
                found.setdefault(finding.check, []).append((number, finding))
                print(f"{name_of(options, number)}: {finding.check}: {finding.message}", flush=True)
        statuses = ", ".join(f"{count} {status}" for status, count in sorted(bench.statuses.items()))
        print(f"{len(numbers)} configs{'' if options.config else f' of seed {options.seed}'}: {statuses}, {sum(bench.refused.values())} refused; "
              f"{orrery.count} commands, {cpu_seconds():.0f} s of processor time, {time.monotonic() - begin:.0f} s; "
              f"locale {locale['LC_ALL']}", flush=True)
        for said, count in bench.refused.most_common():
            print(f"  refused {count}: {said}")
        for check, findings in found.items():
            tell(bench, names, options, check, findings)
    print("nothing found" if not found else f"{sum(map(len, found.values()))} findings of {len(found)} properties")
    return 1 if found else 0


def tell(bench: Bench, names: Names, options: argparse.Namespace, check: str, findings: list[tuple[int, Finding]]) -> None:
    """The smallest config that shows a fault, from the smallest that was drawn."""
    configs = {number: config_of(names, options, number) for number, _ in findings}
    number = min(configs, key=lambda n: len(json.dumps(configs[n])))
    smallest = shrink(configs[number], lambda config: bool(bench.findings(config, [check])), options.tries, options.seconds)
    message = next((finding.message for finding in bench.findings(smallest, [check])), "gone")
    print(f"\n{check}: {len(findings)} configs ({', '.join(str(n) for n, _ in findings[:20])}); {name_of(options, number)} is shrunk to\n"
          f"{json.dumps(smallest)}\n  {message}", flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{check}.json").write_text(json.dumps(smallest, indent=1) + "\n")
        for n, config in configs.items():
            (options.out / f"{check}-{n}.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
