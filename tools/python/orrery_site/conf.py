# Sphinx reads this (tools/site copies it beside the pages).
import sys
from pathlib import Path

from sphinx.search.en import SearchEnglish

project = "Orrery"
html_title = "Orrery"
sys.path.insert(0, str(Path(__file__).parent))
extensions = ["myst_parser", "navigation"]
html_theme = "furo"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_static_path = ["_site"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
myst_heading_anchors = 4
exclude_patterns = ["files/**"]
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "native"
# Links to headings are checked by tests/docs/run.py, which spells them as web pages of repositories do.
suppress_warnings = ["myst.header", "myst.xref_missing", "misc.highlighting_failure"]

# Words of a question that say nothing of its subject. The search looks for pages that have all others.
SearchEnglish.stopwords |= set(
    """a about after all am an and any anybody anything are as at be been before best between bring but by can come
    could do does each enough every few find for from get give go goes good had has have how i if in into is it its just know
    like look lot make many may me mean might more most much must my need needs no not of on one only or other our out over own
    put run running see shall should show so some something stand take tell than that the their them then there these they
    thing this those through to too try up use used using very want was way we were what when where whether which while who
    whole whose why will with without would you your""".split())
