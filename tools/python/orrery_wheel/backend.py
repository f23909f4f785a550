"""Builds wheels: what `pip install .` and `pip wheel .` call (PEP 517), for the interpreter that they run in.

Needs nothing of an index, so build isolation is no hindrance. The build is CMake's, in build/wheel-TAG, or in the folder
that `--config-settings build=FOLDER` names if it was made for this interpreter. A wheel holds what `cmake --install` puts
into a prefix: the package, its compiled core, the command and the shipped data. The same tree gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DATE = (2020, 1, 1, 0, 0, 0)  # of every file in a wheel
NEEDED = ("numpy", "pandas")
REPORT = ("matplotlib", "plotly")


def version(root: Path = ROOT) -> str:
    """The project's version, from its CMakeLists.txt."""
    return re.search(r"^project\(orrery VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"), re.M)[1]


def tag() -> str:
    """Interpreter, ABI and platform of the running Python, as a wheel's name has them."""
    number = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return f"{number}-{number}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def metadata() -> str:
    lines = ["Metadata-Version: 2.1", "Name: orrery", f"Version: {version()}",
             "Summary: Discrete-event simulator and design-space explorer for AI systems", "License: Apache-2.0",
             f"Requires-Python: =={sys.version_info[0]}.{sys.version_info[1]}.*", "Provides-Extra: report"]
    lines += [f"Requires-Dist: {name}" for name in NEEDED]
    lines += [f'Requires-Dist: {name}; extra == "report"' for name in REPORT]
    return "\n".join(lines) + "\n\n" + (ROOT / "README.md").read_text(encoding="utf-8")


def run(*words: object) -> None:
    """Runs a step of the build; what it prints is shown where it fails."""
    done = subprocess.run([str(word) for word in words], cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        print(done.stdout[-8000:], file=sys.stderr)
        raise SystemExit(f"{' '.join(map(str, words))}: exit code {done.returncode}")


def built(settings: dict | None) -> Path:
    """A build folder whose module is for this interpreter."""
    given = (settings or {}).get("build")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if given:
        folder = Path(given) if Path(given).is_absolute() else ROOT / given
        if not (folder / f"python/orrery/_orrery{suffix}").is_file():
            raise SystemExit(f"{folder}: expected a build for this interpreter, found no python/orrery/_orrery{suffix}")
        return folder
    folder = ROOT / "build" / f"wheel-{tag().split('-')[0]}"
    run("cmake", "--preset", "release", "-B", folder, f"-DORRERY_PYTHON={sys.executable}", f"-DPython_EXECUTABLE={sys.executable}")
    run("cmake", "--build", folder, "--target", "orrery_command", "orrery_texts", "orrery_stubs")
    return folder


def files_of(prefix: Path) -> dict[str, Path]:
    """What of an installed prefix stands where in a wheel."""
    data = f"orrery-{version()}.data"
    packages = prefix / "lib/python3/dist-packages"
    found = {str(path.relative_to(packages)): path for path in packages.rglob("*") if path.is_file()}
    # The command and the package find these where the data is; a wheel has no links.
    found |= {f"{data}/data/share/orrery/tools/python/{path.relative_to(packages)}": path
              for path in packages.glob("orrery_*/**/*") if path.is_file()}
    found[f"{data}/scripts/orrery"] = prefix / "bin/orrery"
    for folder in ("share/orrery", "share/man", "share/bash-completion", "lib/orrery"):
        found |= {f"{data}/data/{path.relative_to(prefix)}": path for path in (prefix / folder).rglob("*")
                  if path.is_file() and not path.is_symlink() and "tools/python" not in str(path.relative_to(prefix))}
    return found


def entry(name: str, executable: bool) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, DATE)
    info.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write_wheel(files: dict[str, Path], wheel: Path) -> None:
    """A wheel of these files, in the order of their names."""
    about = f"orrery-{version()}.dist-info"
    texts = {f"{about}/METADATA": metadata(),
             f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: orrery\nRoot-Is-Purelib: false\nTag: {tag()}\n"}
    record = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in sorted(files):
            content = files[name].read_bytes()
            archive.writestr(entry(name, os.access(files[name], os.X_OK)), content)
            record.append(f"{name},{digest(content)},{len(content)}")
        for name, text in texts.items():
            archive.writestr(entry(name, False), text)
            record.append(f"{name},{digest(text.encode())},{len(text.encode())}")
        record.append(f"{about}/RECORD,,")
        archive.writestr(entry(f"{about}/RECORD", False), "\n".join(record) + "\n")


def build_wheel(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None) -> str:
    """Makes the wheel; returns its name."""
    name = f"orrery-{version()}-{tag()}.whl"
    folder = built(config_settings)
    with tempfile.TemporaryDirectory(prefix="orrery-wheel-") as scratch:
        run("cmake", "--install", folder, "--prefix", f"{scratch}/prefix", "--component", "runtime", "--strip")
        write_wheel(files_of(Path(scratch) / "prefix"), Path(wheel_directory) / name)
    return name


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """Nothing from an index: compilers and libraries are Debian's (tools/setup build python)."""
    return []


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    """The tree as git has it."""
    name = f"orrery-{version()}"
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        raise SystemExit("a source package is made from a clone, with git")
    run("git", "archive", "--format=tar.gz", f"--prefix={name}/", "-o", Path(sdist_directory).resolve() / f"{name}.tar.gz", "HEAD")
    return f"{name}.tar.gz"
