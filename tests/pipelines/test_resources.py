"""Dagster's resources."""

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from indexer.config import warehouse as warehouse_module
from pipelines.defs.resources import WarehouseResource
from pipelines.relay import RelayWarehouse


@pytest.mark.parametrize(
    ("warehouse", "role"),
    [(WarehouseResource(), "isthmus_indexer"), (RelayWarehouse(), "isthmus_relay")],
    ids=["indexer", "relay"],
)
def test_kept_engine_has_the_role_and_stays_until_the_server_is_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, warehouse: WarehouseResource, role: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", engine.url.render_as_string(hide_password=False))
    warehouse_module._kept_engine.cache_clear()
    with warehouse.kept_engine() as first, first.connect() as conn:
        assert conn.scalar(text("SELECT current_user")) == role
    with warehouse.kept_engine() as second:
        assert second is first
    with pytest.raises(OperationalError), warehouse.kept_engine():
        raise OperationalError("SELECT 1", None, Exception("server closed the connection"))
    with warehouse.kept_engine() as third:
        assert third is not first
    third.dispose()
    warehouse_module._kept_engine.cache_clear()
