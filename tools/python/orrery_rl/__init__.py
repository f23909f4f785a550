"""Learning curves, from the curve.csv of runs of system rl."""
