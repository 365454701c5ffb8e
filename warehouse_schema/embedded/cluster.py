"""The files of a database cluster: created by initdb, and checked before each start."""

import logging
import secrets
import shlex
import shutil

from warehouse_schema.embedded.accounts import account_for
from warehouse_schema.embedded.errors import FolderNotUsable, StartFailed
from warehouse_schema.embedded.places import Places, write_private
from warehouse_schema.embedded.programs import Binaries, leading_int
from warehouse_schema.embedded.server import SUPERUSER

logger = logging.getLogger(__name__)


def ensure_cluster(places: Places, binaries: Binaries, *, durable: bool) -> None:
    """Create the cluster if the folder is new, else check that these programs can open it.

    Raises FolderNotUsable, StartFailed.
    """
    version_file = places.data / "PG_VERSION"
    if version_file.exists():
        _check_cluster(places, binaries, leading_int(version_file.read_text()))
    elif places.data.exists() and any(places.data.iterdir()):
        raise FolderNotUsable(
            f"{places.data} has files in it that are not a Postgres cluster. Name another "
            "folder, or empty this one."
        )
    else:
        _create_cluster(places, binaries, durable=durable)


def _check_cluster(places: Places, binaries: Binaries, major: int) -> None:
    if major != binaries.major:
        raise FolderNotUsable(
            f"{places.data} was made by Postgres {major}, and the programs in "
            f"{binaries.folder} are {binaries.major}. Point at a Postgres {major}, "
            "or dump the data with it and load it into a new folder."
        )
    if places.data.stat().st_uid == 0:
        raise FolderNotUsable(
            f"{places.data} belongs to root, and Postgres refuses to run as root. Give it to "
            f"another user: chown -R nobody {shlex.quote(str(places.data))}"
        )
    places.password()


def _create_cluster(places: Places, binaries: Binaries, *, durable: bool) -> None:
    """Created in a staging folder and renamed, so that a crash leaves no partial cluster."""
    account = account_for(places.data)
    # A killed first start may have left a partial one.
    places.password_file.unlink(missing_ok=True)
    write_private(places.password_file, secrets.token_urlsafe(32))
    staging = places.sibling("new")
    if staging.exists():
        shutil.rmtree(staging)  # A first start that was killed left it.
    staging.mkdir(mode=0o700)
    password_copy = staging / "password"
    write_private(password_copy, places.password())
    if account is not None:
        account.give(password_copy)
        account.give(staging)
    # Order by code point from Postgres itself where it can: an index that trusts the C
    # library's order breaks when the system is upgraded.
    locale = (
        ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        if binaries.major >= 17
        else ["--locale=C"]
    )
    result = binaries.run(
        account,
        "initdb", "-D", str(staging / "data"), "-U", SUPERUSER, f"--pwfile={password_copy}",
        "--auth-local=scram-sha-256", "--auth-host=scram-sha-256", "--encoding=UTF8",
        "--data-checksums", "--no-instructions", *locale,
        *([] if durable else ["--no-sync"]),
    )  # fmt: skip
    if result.returncode != 0:
        raise StartFailed(f"initdb failed: {result.stdout.strip()}")
    (staging / "data").rename(places.data)
    shutil.rmtree(staging)
    logger.info("created postgres data=%s major=%d", places.data, binaries.major)
