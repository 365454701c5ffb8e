"""Object names of data lakes (SEP-54), and object stores of all kinds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.chains.stellar.lake_store import LakeBatch, LakeStore, Layout, batch_named
from indexer.errors import ConfigurationError, NodeUnavailable, PermanentChainError
from tests.factories.object_stores import ObjectServer, serving_objects
from warehouse_schema.identifiers import Height


def batch(first: int, last: int) -> LakeBatch:
    return LakeBatch(Height(first), Height(last))


@pytest.mark.parametrize(
    ("layout", "height", "name"),
    [
        # The usual lake, and SEP-54's own examples.
        (Layout(1, 64000), 53312000, "FCD285FF--53312000-53375999/FCD285FF--53312000.xdr.zst"),
        (Layout(1, 64000), 53312001, "FCD285FF--53312000-53375999/FCD285FE--53312001.xdr.zst"),
        (Layout(2, 8), 18, "FFFFFFEF--16-31/FFFFFFED--18-19.xdr.zst"),
        (Layout(2, 8), 15, "FFFFFFFF--0-15/FFFFFFF1--14-15.xdr.zst"),
        (Layout(2, 8), 2, "FFFFFFFF--0-15/FFFFFFFD--2-3.xdr.zst"),
        # A partition of one has no folder.
        (Layout(1, 1), 2, "FFFFFFFD--2.xdr.zst"),
        (Layout(64, 1), 100, "FFFFFFBF--64-127.xdr.zst"),
    ],
)
def test_ledger_is_in_the_object_of_that_name(layout: Layout, height: int, name: str) -> None:
    found = layout.batch_of(Height(height))
    assert layout.names(found)[0] == name
    assert layout.names(found)[-1] == name + "d"
    assert batch_named(name) == found
    assert found.first <= height <= found.last


def test_first_batch_may_be_named_for_ledger_2() -> None:
    names = Layout(64, 2).names(batch(0, 63))
    assert names == (
        "FFFFFFFF--0-127/FFFFFFFF--0-63.xdr.zst",
        "FFFFFFFF--0-127/FFFFFFFD--2-63.xdr.zst",
        "FFFFFFFF--0-127/FFFFFFFF--0-63.xdr.zstd",
        "FFFFFFFF--0-127/FFFFFFFD--2-63.xdr.zstd",
    )


def test_ranges_are_cut_into_batches() -> None:
    layout = Layout(4, 10)
    assert list(layout.batches(Height(6), Height(12))) == [batch(4, 7), batch(8, 11), batch(12, 15)]
    assert list(layout.batches(Height(6), Height(5))) == [batch(4, 7)]
    assert list(layout.batches(Height(8), Height(7))) == []


@pytest.mark.parametrize(
    "name", [".config.json", "FCD285FF--53312000-53375999", "a.xdr.zst", "--1.xdr.zst", "x/y"]
)
def test_other_objects_are_no_batches(name: str) -> None:
    assert batch_named(name) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        ".config.json",
        "README.md",
        "FFFFFFEF--16-31/FFFFFFED--18-19.xdr.zst",
        "FFFFFFEF--16-31/FFFFFFEF--16-17.xdr.zst",
        "FFFFFFFF--0-15/FFFFFFF1--14-15.xdr.zst",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[ObjectServer]:
    with serving_objects(folder) as running:
        yield running


@pytest.mark.parametrize("kind", ["file", "http", "s3"])
def test_objects_are_read_from_any_store(kind: str, folder: Path, server: ObjectServer) -> None:
    store = LakeStore({"file": folder.as_uri(), "http": server.http, "s3": server.s3}[kind])
    name = "FFFFFFEF--16-31/FFFFFFED--18-19.xdr.zst"
    assert store.read(name) == name.encode()
    assert store.read("FFFFFFEF--16-31/FFFFFFEB--20-21.xdr.zst") is None
    assert store.has(name)
    assert not store.has("FFFFFFEF--16-31/FFFFFFEB--20-21.xdr.zst")
    assert store.read(".config.json") == b".config.json"


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_newest_batch_sorts_first(kind: str, folder: Path, server: ObjectServer) -> None:
    store = LakeStore({"file": folder.as_uri(), "s3": server.s3}[kind])
    assert store.can_list
    assert store.newest() == batch(18, 19)
    # A folder that was made for the next partition holds nothing yet.
    (folder / "FFFFFFDF--32-47").mkdir()
    assert store.newest() == batch(18, 19)


def test_newest_batch_of_bucket_takes_one_request(server: ObjectServer) -> None:
    for number in range(3000):
        path = server.folder / f"FFFFFFFF--0-15/FFFFFF00--{number}.xdr.zst"
        path.write_text("")
    assert LakeStore(server.s3).newest() == batch(18, 19)
    assert len(server.requests) == 1


def test_folder_may_be_a_path_or_a_url(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "a lake"
    place.mkdir()
    (place / "FFFFFFFD--2.xdr.zst").write_text("")
    for url in (str(place), place.as_uri(), str(place) + "?region=x"):
        assert LakeStore(url).newest() == batch(2, 2)


def test_empty_lake_has_no_newest_batch(tmp_path: Path) -> None:
    assert LakeStore(tmp_path.as_uri()).newest() is None


@pytest.mark.parametrize("kind", ["http", "s3"])
@pytest.mark.parametrize(
    ("status", "error"),
    [(403, PermanentChainError), (401, PermanentChainError), (400, NodeUnavailable)],
)
def test_refusal_and_outage_are_distinct_errors(
    kind: str, status: int, error: type[Exception], server: ObjectServer
) -> None:
    server.status = status
    store = LakeStore({"http": server.http, "s3": server.s3}[kind])
    with pytest.raises(error, match="lake"):
        store.read(".config.json")
    with pytest.raises(error):
        store.has(".config.json")


def test_unresponsive_store_is_unavailable(folder: Path) -> None:
    with serving_objects(folder) as server:
        store = LakeStore(server.http, timeout=20)
    with pytest.raises(NodeUnavailable, match=r"\.config\.json of http://127"):
        store.read(".config.json")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/lake",
        "file:///nowhere/at/all",
        "data/lake",
        "s3://bucket/path?regoin=us-east-2",
        "file:///tmp?ledgers_per_batch=1",
        "file:///tmp?ledgers_per_batch=0&batches_per_partition=1",
    ],
)
def test_url_of_no_lake_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        LakeStore(url)


def test_url_may_state_the_layout(tmp_path: Path) -> None:
    plain = LakeStore(tmp_path.as_uri())
    configured = LakeStore(tmp_path.as_uri() + "?ledgers_per_batch=1&batches_per_partition=64000")
    assert (plain.layout, configured.layout) == (None, Layout(1, 64000))


def test_name_of_a_lake_has_no_password(server: ObjectServer) -> None:
    store = LakeStore(server.http.replace("//", "//user:secret@"))
    assert "secret" not in store.name
