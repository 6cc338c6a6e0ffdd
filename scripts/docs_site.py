"""Make the site of the documentation: a folder of HTML files that can be searched without a network.

    python scripts/docs_site.py site

Pages of docs/ and those beside the code are brought together in a folder, links to other files of the project lead to
copies of them, and Sphinx makes the site. A page that no part of `docs/site/contents.toml` has, and a link or an anchor
that leads nowhere are errors.
"""

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
OTHER_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
}
"""Pages outside of docs/, and their names on the site."""
FILES = "files"
"""Folder of the site with other files that pages lead to."""
_LINK = re.compile(r"\[(?P<text>(?:[^\]\[]|\[[^\]]*\])*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PICTURES = (".png", ".svg")


class Source:
    """The folder from which Sphinx makes the site."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, str] = {}
        """Path in the project of files that pages lead to, by path on the site."""

    def fill(self) -> None:
        """Write all that Sphinx reads."""
        shutil.copytree(DOCS / "site", self._folder, dirs_exist_ok=True)
        for path in sorted(DOCS.rglob("*.md")):
            self._page(path.relative_to(PROJECT).as_posix())
        for path in OTHER_PAGES:
            self._page(path)
        for path in [path for kind in _PICTURES for path in DOCS.rglob(f"*{kind}")]:
            self._copy(path, path.relative_to(DOCS).as_posix())
        for name, path in self._files.items():
            self._copy(PROJECT / path, posixpath.join("static", name))

    def _page(self, path: str) -> None:
        name = _name_of_page(path)
        text = _changed_links(
            (PROJECT / path).read_text(encoding="utf-8"), lambda link: self._on_site(link, path, name)
        )
        if name == "index.md":
            text += contents()
        elif name == "decisions/README.md":
            text += _tree("", [path.stem for path in sorted((DOCS / "decisions").glob("0*.md"))])
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def _copy(self, path: Path, name: str) -> None:
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)

    def _on_site(self, link: re.Match[str], source: str, page: str) -> str:
        """A link as the site has it; of what the site does not have, only the words."""
        if "://" in link["target"]:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["target"]))
        if path in OTHER_PAGES or (path.startswith("docs/") and path.endswith((".md", *_PICTURES))):
            return f"[{link['text']}]({_relative(_name_of_page(path), page)}{link['anchor'] or ''})"
        if (PROJECT / path).is_dir():
            return link["text"]
        name = f"{FILES}/{path}.txt"
        self._files[name] = path
        depth = page.count("/")
        return f'<a href="{"../" * depth}_static/{name}">{_code_as_html(link["text"])}</a>'


def _name_of_page(path: str) -> str:
    """Where a page of the project is on the site."""
    return OTHER_PAGES.get(path, path.removeprefix("docs/"))


def _relative(name: str, page: str) -> str:
    return posixpath.relpath(name, posixpath.dirname(page) or ".")


def _code_as_html(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text)


def _changed_links(text: str, change: Callable[[re.Match[str]], str]) -> str:
    """The text with every link changed that is not shown as code."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(change, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(change, text[end:])])


def contents() -> str:
    """The table of contents, hidden on the page and shown beside every one."""
    parts = tomllib.loads((DOCS / "site" / "contents.toml").read_text(encoding="utf-8"))["part"]
    return "".join(_tree(part["title"], part["pages"]) for part in parts)


def _tree(title: str, pages: list[str]) -> str:
    caption = f":caption: {title}\n" if title else ""
    return "\n\n```{toctree}\n:hidden:\n" + caption + "\n" + "\n".join(pages) + "\n```\n"


def build(target: Path) -> int:
    """Make the site; the exit code of Sphinx."""
    with tempfile.TemporaryDirectory() as folder:
        Source(Path(folder)).fill()
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-E", "-d"]
        return subprocess.run([*command, f"{folder}/.doctrees", folder, str(target)], check=False).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", type=Path, help="folder of the site")
    sys.exit(build(parser.parse_args().target))
