"""The documentation is true: its snippets run, and what it shows as output is what is printed."""

import re
import subprocess
import sys
from pathlib import Path

import make_pages
import pytest

pytestmark = pytest.mark.tree  # it reads pages and tools

ROOT = Path(__file__).resolve().parent.parent
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_python_snippets_of_a_page_run_in_order(page):
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(snippet, page.name, "exec"), names)  # noqa: S102 - our own pages


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_links_of_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_readme_shows_what_the_demonstration_prints(tmp_path):
    command = [sys.executable, "-m", "bisample", "demo", "--seed", "1", "--out", str(tmp_path / "demo.png")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = printed.partition("\npicture:")[0].rstrip()
    assert text in (ROOT / "README.md").read_text(encoding="utf-8"), "run tools/make_pages.py demo"


def test_the_variances_in_the_page_are_those_that_are_computed():
    page = (ROOT / "docs" / "dithered.md").read_text(encoding="utf-8")
    assert make_pages.variances() in page, "run tools/make_pages.py variances"


def test_the_certificate_in_the_readme_is_what_is_printed():
    command = [sys.executable, "-m", "bisample", "certify", "--epsilon", "1"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_make_target_that_the_pages_name_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    pages = [*PAGES, CONTRIBUTING]
    named = {t for page in pages for t in re.findall(r"`make ([a-z-]+)`", page.read_text(encoding="utf-8"))}
    assert named
    assert named <= targets


def test_contributing_shows_the_tree():
    """Every module and folder of the package stands in the picture of the house, and nothing else does."""
    picture = re.search(r"```\n(src/bisample/\n.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)[
        1
    ]
    named = re.findall(r"([a-z]+\.py|[a-z]+/)", picture.partition("vectors/")[0].partition("\n")[2])
    package = ROOT / "src" / "bisample"
    small = {"simulation", "paper", "cli"}  # named as a whole
    there = {f"{p.name}/" for p in package.iterdir() if p.is_dir() and p.name != "__pycache__"}
    there |= {p.name for p in package.glob("*.py")}
    there |= {p.name for p in package.glob("*/*.py") if p.parent.name not in small}
    assert set(named) == there - {"__init__.py", "__main__.py"}


def test_the_readme_shows_what_its_first_snippet_prints(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {})  # noqa: S102 - our own page
    assert capsys.readouterr().out in text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_no_generated_part_of_a_page_is_empty(page):
    for name, content in re.findall(
        r"<!-- (\w+) -->(.*?)<!-- /\1 -->", page.read_text(encoding="utf-8"), re.DOTALL
    ):
        assert content.strip(), f"run tools/make_pages.py {name}"
