"""Turns one run folder of Orrery into a self-contained HTML report and print-ready figures.

The flow is one way: `run_folder` reads and checks the files, `digest` reduces the tables to what a plot can show,
`figures` (interactive) and `png` (print) draw the same digests, and `page` puts the HTML together.
"""
