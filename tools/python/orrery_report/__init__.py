"""Turns run folders and stores of studies into self-contained HTML reports (docs/explain/report.md).

The flow is one way. A run: `run_folder` reads and checks the files, orrery_plot.digest reduces its tables to what a plot can
show, `figures` draws them, `run_page` puts the page together; `tables` shows any table that nothing here knows. A study:
`study_store` reads the store, `study_digest` decides what is shown of its points, `study_figures` and `study_page` show it.
Several of them: `compare_page`, `studies_page`. `markup` has the pieces of HTML and the document around them; the scripts of the
page are page.js (tabs), grid.js (tables), explorer.js (plots of any columns), parallel.js and study.js (a chosen point).
`page` is what others call: load and render.
"""
