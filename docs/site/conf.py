"""Settings of Sphinx for the documentation as a site; `scripts/docs_site.py` calls it."""

project = "Rota"
html_title = "Rota"
copyright = "the authors of Rota"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["rota.css"]
html_show_sphinx = False
html_copy_source = False
suppress_warnings = ["misc.highlighting_failure"]  # a block of a language that has no colours
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
