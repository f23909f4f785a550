"""Plots of claim studies (`orrery reproduce --png`)."""
