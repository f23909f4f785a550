"""Plots of studies, for `orrery analyse --png`."""
