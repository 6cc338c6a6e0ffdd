"""The documentation as a site: no link leads nowhere, it can be searched, and nothing comes from a network."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, made once."""
    for name in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, str(PROJECT / "scripts/docs_site.py"), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there_and_none_asks_for_anything_from_a_network(site):
    pages = {path.relative_to(PROJECT / "docs").with_suffix(".html").as_posix() for path in docs()}
    there = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}

    assert pages <= there
    asked = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=["'](?:https?:)?//[^"']*""")
    assert [found for path in site.rglob("*.html") for found in asked.findall(path.read_text(encoding="utf-8"))] == []


def docs():
    return (PROJECT / "docs").rglob("*.md")


def test_files_that_pages_lead_to_come_along(site):
    link = re.compile(r'href="([^"]*_static/files/[^"]+)"')
    links = {page.parent / target for page in site.rglob("*.html") for target in link.findall(page.read_text("utf-8"))}

    assert len(links) > 5
    assert [path for path in links if not path.is_file()] == []


def test_the_search_finds_a_page_in_a_browser_without_a_network(site):
    driver = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install '.[dev]' in a checkout of Rota"
    )
    if BROWSER is None:
        pytest.skip("no Chromium is installed: scripts/system-packages.sh")
    asked = []
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "search.html").as_uri() + "?q=preemption")
        page.wait_for_selector("#search-results li a", timeout=20_000)
        found = page.locator("#search-results li a").all_inner_texts()
        browser.close()

    assert found
    assert [url for url in asked if not url.startswith("file:")] == []
