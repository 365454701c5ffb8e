"""`/docs`: the page, its files and its security headers."""

import json
import re
from pathlib import Path

import pytest

from api.document.views import FILES, HEADERS, PAGE, STATIC

ROOT = Path(__file__).resolve().parents[3]
VENDOR = STATIC / "vendor" / "swagger-ui"
PACKAGE = ROOT / "node_modules" / "swagger-ui-dist"


def test_page_names_only_served_files(cut_off):
    page = cut_off.get("/docs")
    assert (page.status_code, page.content_type) == (200, "text/html; charset=utf-8")
    named = re.findall(r'(?:src|href)="(docs/[^"]+)"', page.text)
    assert {name.removeprefix("docs/") for name in named} == FILES.keys() - {PAGE}
    for name in named:
        response = cut_off.get(f"/{name}")
        assert response.content_type == FILES[name.removeprefix("docs/")]
        assert response.data == (STATIC / name.removeprefix("docs/")).read_bytes()


@pytest.mark.parametrize(
    "name", ["index.html", "vendor/swagger-ui/LICENSE", "../views.py", "..%2fviews.py", "x"]
)
def test_unknown_file_returns_404(cut_off, name):
    response = cut_off.get(f"/docs/{name}")
    assert (response.status_code, response.json["code"]) == (404, "NOT_FOUND")


def test_csp_allows_own_host_without_inline_script(cut_off):
    policy = cut_off.get("/docs").headers["Content-Security-Policy"]
    assert policy == HEADERS["Content-Security-Policy"]
    sources = {word for part in policy.split("; ") for word in part.split()[1:]}
    assert sources == {"'none'", "'self'", "data:"}
    page = (STATIC / PAGE).read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))


def test_vendored_files_equal_their_packages():
    shipped = sorted(path.name for path in VENDOR.iterdir())
    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"} <= set(shipped)
    for name in shipped:
        assert (VENDOR / name).read_bytes() == (PACKAGE / name).read_bytes(), name
    required = json.loads((ROOT / "package.json").read_text())["dependencies"]["swagger-ui-dist"]
    assert required == json.loads((PACKAGE / "package.json").read_text())["version"]
