"""Plots of Orrery over plain frames and dicts: one style, one palette, one set of units.

Nothing here needs the compiled core, and nothing that matplotlib shares (its backend, its rcParams) is changed: each
function returns a `Picture`, a matplotlib Figure that draws itself in the style. `orrery.plot` puts results, studies
and paths on top. A frame is pandas; units stand in the names of its columns (`time_s`, `kv_used_bytes`).
"""
