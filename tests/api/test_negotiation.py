"""gzip negotiation and the ETags of both encodings."""

import gzip

import orjson
import pytest

from api.responses import accepts_gzip
from tests.factories.projections import PROVIDER, address, insert_offer, insert_provider

PATH = "/api/v1/orderbook"
GZIP = {"Accept-Encoding": "gzip"}


ACCEPT_ENCODINGS = [
    ("", False),
    ("gzip", True),
    ("GZIP", True),
    ("gzip, deflate, br, zstd", True),
    ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
    ("*", True),
    ("identity", False),
    ("deflate", False),
    ("gzip;q=0", False),
    ("gzip;q=0, *", False),
    ("*;q=0", False),
    ("identity;q=0.5, gzip;q=1", True),
    ("identity;q=1, gzip;q=0.5", False),
    ("gzip;q=0.001", True),
    ("gzip;q=x", False),
    (";;;,,,q=", False),
]


def test_gzip_follows_accept_encoding_weights(subtests):
    for said, taken in ACCEPT_ENCODINGS:
        with subtests.test(said=said, taken=taken):
            assert accepts_gzip(said) is taken


@pytest.fixture
def filled(book):
    for number in range(10):
        insert_offer(book, provider=address(number))
    insert_provider(book)
    return book


@pytest.mark.usefixtures("filled")
def test_list_is_compressed_if_accepted(client):
    plain, packed = client.get(PATH), client.get(PATH, headers=GZIP)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.data) == plain.data
    assert len(orjson.loads(plain.data)) == 10
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data) / 4
    assert packed.content_type == plain.content_type == "application/json"


@pytest.mark.usefixtures("filled")
def test_small_record_is_not_compressed(client):
    assert (
        "Content-Encoding" not in client.get(f"/api/v1/providers/{PROVIDER}", headers=GZIP).headers
    )


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("path", [PATH, f"{PATH}/summary", f"/api/v1/providers/{PROVIDER}"])
@pytest.mark.parametrize("headers", [{}, GZIP], ids=["plain", "gzip"])
def test_answer_varies_by_accept_encoding(client, path, headers):
    first = client.get(path, headers=headers)
    again = client.get(path, headers=headers | {"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert first.headers["Vary"] == again.headers["Vary"] == "Accept-Encoding"


@pytest.mark.usefixtures("filled")
def test_gzip_and_plain_etags_differ(client):
    plain, packed = client.get(PATH).headers["ETag"], client.get(PATH, headers=GZIP).headers["ETag"]
    assert plain != packed
    assert not plain.startswith("W/")
    assert client.get(PATH, headers=GZIP | {"If-None-Match": plain}).status_code == 200
    assert client.get(PATH, headers={"If-None-Match": packed}).status_code == 200
    both = {"If-None-Match": f"{plain}, {packed}"}
    assert client.get(PATH, headers=both).headers["ETag"] == plain
    assert client.get(PATH, headers=both | GZIP).headers["ETag"] == packed


IF_NONE_MATCH = [
    ("{tag}", 304),
    ("W/{tag}", 304),
    ('"x", {tag}', 304),
    ("*", 304),
    ('"x"', 200),
    ("", 200),
    ("{tag}x", 200),
]


@pytest.mark.usefixtures("filled")
def test_if_none_match_compares_weakly(client, subtests):
    for form, status in IF_NONE_MATCH:
        for method in ["GET", "HEAD"]:
            with subtests.test(form=form, status=status, method=method):
                tag = client.get(PATH).headers["ETag"]
                answer = client.open(
                    PATH, method=method, headers={"If-None-Match": form.format(tag=tag)}
                )
                assert answer.status_code == status
                if status == 304:
                    assert answer.data == b""
                    assert "Content-Length" not in answer.headers
                    assert "Content-Type" not in answer.headers


@pytest.mark.usefixtures("filled")
def test_head_has_the_headers_of_the_gzip_response(client):
    whole, head = client.get(PATH, headers=GZIP), client.head(PATH, headers=GZIP)
    assert head.data == b""
    for name in ("Content-Length", "Content-Encoding", "ETag", "Vary"):
        assert head.headers[name] == whole.headers[name]


@pytest.mark.usefixtures("filled")
def test_if_match_with_current_etag_returns_200(client):
    tag = client.get(PATH).headers["ETag"]
    assert client.get(PATH, headers={"If-Match": tag}).status_code == 200
    assert client.get(PATH, headers={"If-Match": '"x"'}).status_code == 412
