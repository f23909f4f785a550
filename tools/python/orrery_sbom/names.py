"""Debian's short names of licences as SPDX's."""

from __future__ import annotations

import re

# Lower case, as copyright files of Debian 12 spell them.
SPDX = {
    "apache-2-llvm-exceptions": "Apache-2.0 WITH LLVM-exception", "apache": "Apache-2.0", "apache-2": "Apache-2.0",
    "apache-2.0": "Apache-2.0", "apache-2-licence": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl", "boost-1.0": "BSL-1.0", "bsl-1.0": "BSL-1.0", "bsd-2-clause": "BSD-2-Clause",
    "bsd-3": "BSD-3-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-3-clause~google": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "cc0": "CC0-1.0", "cc0-1.0": "CC0-1.0", "cc-by-3.0": "CC-BY-3.0", "cc-by-4.0": "CC-BY-4.0",
    "cc-by-sa-3.0": "CC-BY-SA-3.0",
    "cc-by-sa-4.0": "CC-BY-SA-4.0", "epl-1": "EPL-1.0", "epl-1.0": "EPL-1.0", "epl-2.0": "EPL-2.0",
    "expat": "MIT", "isc": "ISC", "mit": "MIT",
    "mpl-1.1": "MPL-1.1", "mpl-2": "MPL-2.0", "mpl-2.0": "MPL-2.0", "ncsa": "NCSA", "psf-2": "PSF-2.0",
    "psf-2.0": "PSF-2.0",
    "python-2.0": "Python-2.0", "zlib": "Zlib", "zpl-2.1": "ZPL-2.1", "ofl-1.1": "OFL-1.1", "unlicense": "Unlicense"}
GNU = re.compile(r"(a?gpl|lgpl|gfdl)-([0-9](?:\.[0-9])?)(\+?)(?:-only|-or-later)?$")


class Names:
    """Makes licence expressions, and keeps the names that SPDX does not have."""

    def __init__(self) -> None:
        self.own: dict[str, str] = {}  # LicenseRef by Debian's name

    def one(self, name: str) -> str:
        """The identifier of one licence."""
        key = name.strip().lower()
        if key in SPDX:
            return SPDX[key]
        gnu = GNU.match(key)
        if gnu:
            family, version, later = gnu.groups()
            number = version if "." in version else f"{version}.0"
            return f"{family.upper()}-{number}-{'or-later' if later or key.endswith('or-later') else 'only'}"
        ref = "LicenseRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", name.strip()).strip("-")
        self.own[name.strip()] = ref
        return ref

    def expression(self, name: str) -> str:
        """That of a name which may join several, as "Expat or CC0-1.0". "Or" binds looser than "and", as in DEP-5."""
        alternatives = re.split(r",?\s+or\s+", name.strip(), flags=re.IGNORECASE)
        parts = [" AND ".join(self.one(part) for part in re.split(r",?\s+and\s+", one, flags=re.IGNORECASE))
                 for one in alternatives]
        return " OR ".join(f"({part})" if " AND " in part and len(parts) > 1 else part for part in parts)
