"""Plots of predicted against measured times."""
