"""The pages for people, their files and headers. Their behaviour is tested in a browser."""

import gzip
import html
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import urljoin

import pytest

from api.pages.assets import STATIC, TYPES, load_bundle
from api.pages.views import HEADERS

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "/": "market",
    "/status": "status",
    "/transfers": "transfers",
    f"/transfers/{'5e' * 16}": "transfers",
}
"""Path → the page that lies there."""
SERVED = sorted(load_bundle().assets)
SHIPPED = {
    "uplot/uPlot.esm.js": "uplot/dist/uPlot.esm.js",
    "uplot/uPlot.min.css": "uplot/dist/uPlot.min.css",
    "uplot/LICENSE": "uplot/LICENSE",
    "inter/inter-latin-wght-normal.woff2": (
        "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2"
    ),
    "inter/LICENSE": "@fontsource-variable/inter/LICENSE",
    "freighter-api/freighter-api.js": "@stellar/freighter-api/build/index.min.js",
    "lean-qr/lean-qr.js": "lean-qr/index.mjs",
    "lean-qr/LICENSE": "lean-qr/LICENSE",
}
"""File below `vendor/` → where its npm package, pinned in package-lock.json, has it."""


def url(name, version=None):
    return f"/assets/{version or load_bundle().version}/{name}"


# None of it needs the database: the page is there to say that the book is not.


@pytest.mark.parametrize("at", PAGES)
def test_page_names_served_files_and_network(cut_off, at):
    response = cut_off.get(at)
    assert response.status_code == 200
    assert response.content_type == "text/html; charset=utf-8"
    assert ">testnet</span>" in response.text
    assert "$" not in response.text
    named = re.findall(r'(?:src|href)="([./]+assets/[^"]+)"', response.text)
    assert len(named) >= 5
    for path in named:
        assert cut_off.get(urljoin(at, path)).status_code == 200, path


@pytest.mark.parametrize("mount", ["", "/bridge"])
@pytest.mark.parametrize("at", PAGES)
def test_navigation_marks_the_page_and_stays_below_the_mount(cut_off, mount, at):
    [links] = re.findall(r"<nav [^>]*>(.+?)</nav>", cut_off.get(at).text, re.DOTALL)
    found = re.findall(r'<a href="([^"]+)"([^>]*)>(\w+)</a>', links)
    assert [(name, urljoin(mount + at, path)) for path, _, name in found] == [
        ("Market", f"{mount}/"),
        ("Transfers", f"{mount}/transfers"),
        ("Status", f"{mount}/status"),
        ("API", f"{mount}/docs"),
    ]
    marked = [name for _, attributes, name in found if 'aria-current="page"' in attributes]
    assert marked == [PAGES[at].capitalize()]


def test_market_page_names_contract_and_explorer(cut_off):
    text = cut_off.get("/").text
    assert 'data-passphrase="Test SDF Network ; September 2015"' in text
    # Not deployed on the testnet: no offer, nothing to take.
    assert 'data-escrow=""' in text
    stellar_expert = "https://stellar.expert/explorer/testnet"
    assert 'data-chain="stellar:testnet"' in text
    assert chains_of(text)["stellar:testnet"] == {
        "name": "Stellar Testnet",
        "explorer_tx": f"{stellar_expert}/tx/{{tx}}",
        "explorer_account": f"{stellar_expert}/account/{{address}}",
        "explorer_contract": f"{stellar_expert}/contract/{{address}}",
    }


def chains_of(page):
    [text] = re.findall(r'data-chains="([^"]+)"', page)
    return json.loads(html.unescape(text))


def modules_of(name):
    """A module and all that it imports, themselves and through others."""
    found, to_read = set(), [STATIC / name]
    while to_read:
        module = to_read.pop()
        found.add(module.relative_to(STATIC).as_posix())
        imported = re.findall(r'^import [^;]*"([^"]+)";', module.read_text(), re.MULTILINE)
        paths = [(module.parent / each).resolve() for each in imported]
        to_read += [path for path in paths if path.relative_to(STATIC).as_posix() not in found]
    return found


@pytest.mark.parametrize("page", PAGES.values())
def test_page_preloads_the_modules_it_imports(page):
    text = (STATIC / f"{page}.html").read_text()
    preloaded = set(re.findall(r'rel="modulepreload" href="\$assets/([^"]+)"', text))
    (main,) = re.findall(r'<script type="module" src="\$assets/([^"]+)">', text)
    assert preloaded | {main} == modules_of(main)


def test_every_module_belongs_to_a_page():
    used = set().union(*(modules_of(f"js/{page}/main.js") for page in PAGES.values()))
    for page in PAGES.values():
        classic = r'<script defer src="\$assets/([^"]+)">'
        used |= set(re.findall(classic, (STATIC / f"{page}.html").read_text()))
    assert used == {name for name in SERVED if name.endswith(".js")}


def test_transfers_page_brings_chain_names_and_explorers(cut_off):
    chains = chains_of(cut_off.get("/transfers").text)
    assert chains["eip155:11155111"]["name"] == "Sepolia"
    assert chains["eip155:11155111"]["explorer_tx"] == "https://sepolia.etherscan.io/tx/{tx}"
    assert all(chain["explorer_tx"].startswith("https://") for chain in chains.values())


def test_page_is_revalidated(cut_off):
    first = cut_off.get("/?provider=x")
    assert first.headers["Cache-Control"] == "no-cache"
    again = cut_off.get("/", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_versioned_file_is_immutable_in_caches(cut_off):
    assert SERVED
    for name in SERVED:
        response = cut_off.get(url(name))
        assert response.status_code == 200, name
        assert response.data == (STATIC / name).read_bytes(), name
        assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable", name
        assert response.content_type == TYPES[Path(name).suffix], name


def test_file_under_another_version_is_not_immutable(cut_off):
    response = cut_off.get(url("js/market/main.js", "0123"))
    assert response.data == (STATIC / "js/market/main.js").read_bytes()
    assert response.headers["Cache-Control"] == "no-cache"
    again = cut_off.get(
        url("js/market/main.js", "0123"), headers={"If-None-Match": response.headers["ETag"]}
    )
    assert again.status_code == 304


@pytest.mark.parametrize("path", ["/", url("js/market/main.js")])
def test_gzip_has_its_own_etag(cut_off, path):
    plain = cut_off.get(path)
    packed = cut_off.get(path, headers={"Accept-Encoding": "br;q=1.0, gzip;q=0.8"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    tags = {response.headers.get("ETag") for response in (plain, packed)}
    assert tags == {None} or len(tags) == 2
    refused = cut_off.get(path, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers


@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "market.html",
        "vendor/uplot/LICENSE",
        "js",
        "../views.py",
        "..%2fviews.py",
        "js/../js/market/main.js",
        "%00",
    ],
)
def test_unknown_file_returns_404(cut_off, name):
    response = cut_off.get(url(name))
    assert (response.status_code, response.json["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/", url("icon.svg"), url("nothing.js")])
def test_page_has_its_security_headers(cut_off, path):
    headers = cut_off.get(path).headers
    for name, value in HEADERS.items():
        assert headers[name] == value


def test_csp_allows_own_host_only():
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    sources = {word for part in policy.split("; ") for word in part.split()[1:]}
    assert sources == {"'none'", "'self'", "'script'"}


@pytest.mark.parametrize("path", sorted(STATIC.rglob("*.html")))
def test_page_has_no_inline_style_or_script(path):
    page = path.read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", page)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))


def test_files_name_no_other_host():
    for path in [*STATIC.rglob("*.html"), *STATIC.glob("css/*"), *STATIC.glob("js/**/*.js")]:
        for address in re.findall(r"\b(?:https?|wss?):?//[^\s\"')]+", path.read_text()):
            pytest.fail(f"{path.name} names {address}")


@pytest.mark.parametrize(("ours", "theirs"), SHIPPED.items())
def test_vendored_files_equal_their_packages(ours, theirs):
    assert (STATIC / "vendor" / ours).read_bytes() == (ROOT / "node_modules" / theirs).read_bytes()


def test_vendored_files_are_listed_and_pinned():
    vendor = STATIC / "vendor"
    found = {path.relative_to(vendor).as_posix() for path in vendor.rglob("*") if path.is_file()}
    assert found == set(SHIPPED)
    required = json.loads((ROOT / "package.json").read_text())["dependencies"]
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    packages = ("uplot", "@fontsource-variable/inter", "@stellar/freighter-api", "lean-qr")
    for package in packages:
        installed = json.loads((ROOT / "node_modules" / package / "package.json").read_text())
        assert locked[f"node_modules/{package}"]["version"] == installed["version"]
        assert required[package] == installed["version"]


def test_every_module_has_ts_check():
    modules = list(STATIC.glob("js/**/*.js"))
    assert modules
    for path in modules:
        assert path.read_text().startswith("// @ts-check\n"), path


def test_javascript_modules_pass_their_tests():
    """Their own tests, which need Node and no browser."""
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", "tests/api/pages"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) > 20
