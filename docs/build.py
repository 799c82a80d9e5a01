"""Builds the site: `python docs/build.py` writes the English pages to site/ and the Chinese ones to site/zh/.

A warning of Sphinx is an error, and so is a link within the site that leads nowhere.
"""

import argparse
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.cmd.build import main as sphinx_build

DOCS = Path(__file__).resolve().parent


def main() -> int:
    """Build both languages and check the links; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS.parent / "site", help="the folder (default: site)")
    out: Path = parser.parse_args().out
    strict = ["-W", "--keep-going", "-n", "-q", "-b", "html", "-c", str(DOCS)]
    english = sphinx_build([*strict, str(DOCS), str(out)])
    chinese = sphinx_build([*strict, "-t", "zh", str(DOCS / "zh"), str(out / "zh")])
    if english or chinese:
        return 1
    broken = list(broken_links(out))
    for link in broken:
        print(f"broken link: {link}", file=sys.stderr)
    print(f"{out}/index.html: written")
    return 1 if broken else 0


class _Page(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag links to and the names by which links reach it."""
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            elif value and (name == "src" or (name == "href" and tag in ("a", "link"))):
                self.links.append(value)


def broken_links(site: Path) -> Iterator[str]:
    """Yield each link of a page to a page, a file or an anchor that the site does not have."""
    pages = {path.resolve(): _Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            anchor = unquote(address.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                yield f"{path.relative_to(site.resolve())}: {link}"


if __name__ == "__main__":
    sys.exit(main())
