"""Which shared libraries a program asks for: the NEEDED entries of an ELF file."""

from __future__ import annotations

import pathlib
import struct

MAGIC = b"\x7fELF\x02\x01"  # 64 bits, least significant byte first
DYNAMIC, LOAD = 2, 1  # kinds of program headers
END, NEEDED, STRINGS = 0, 1, 5  # tags of the dynamic section


def needed(path: pathlib.Path) -> list[str]:
    """Names of the libraries, sorted. Raises ValueError for a file that is no 64-bit little-endian ELF."""
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
    start, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    loads, dynamic = [], None
    for i in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, start + i * size)
        if kind == LOAD:
            loads.append((address, length, offset))
        elif kind == DYNAMIC:
            dynamic = offset
    if dynamic is None:
        return []  # linked statically
    names, strings = [], 0
    for place in range(dynamic, len(data), 16):
        tag, value = struct.unpack_from("<QQ", data, place)
        if tag == END:
            break
        if tag == NEEDED:
            names.append(value)
        elif tag == STRINGS:
            strings = value
    table = next(offset + strings - address for address, length, offset in loads
                 if address <= strings < address + length)
    return sorted(data[table + name:data.index(b"\0", table + name)].decode() for name in names)
