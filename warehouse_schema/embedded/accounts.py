"""System user of the server. Postgres refuses to run as root, so root runs it as another user."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from warehouse_schema.embedded.errors import BinariesNotFound, FolderNotUsable


@dataclass(frozen=True)
class SystemUser:
    """The user that a root-run launcher hands the server to."""

    name: str
    uid: int
    gid: int

    def give(self, path: Path) -> None:
        """Make a file or folder of ours the account's."""
        os.chown(path, self.uid, self.gid)


def account_for(data: Path) -> SystemUser | None:
    """System user for the server of a folder; None for the current one. Raises FolderNotUsable."""
    owner = data.stat().st_uid if data.exists() else None
    if os.geteuid() == 0:
        return _account_of(owner) if owner else nobody()
    if owner is not None and owner != os.geteuid():
        raise FolderNotUsable(
            f"{data} belongs to user id {owner}, and you are {os.geteuid()}. Run "
            "as that user, or set ISTHMUS_HOME to a folder of your own."
        )
    return None


def check_way_to_data(account: SystemUser, data: Path) -> None:
    """Raise FolderNotUsable where the account may not go."""
    barrier = _barrier(data.parent, account)
    if barrier is not None:
        raise FolderNotUsable(
            f"you are root, so Postgres runs as user {account.name}, who may not enter "
            f"{barrier}. Work in a folder that every user can reach, such as /srv/isthmus, name "
            "one in ISTHMUS_HOME, or run as another user."
        )


def check_way_to_programs(account: SystemUser, programs: Path) -> None:
    """Raise BinariesNotFound where the account may not go."""
    barrier = _barrier(programs, account)
    if barrier is not None:
        raise BinariesNotFound(
            f"you are root, so Postgres runs as user {account.name}, who may not enter "
            f"{barrier} on the way to the programs in {programs}. Put the Python "
            "environment where every user can reach it, or run as another user."
        )


def nobody() -> SystemUser:
    """The user ``nobody``. Raises FolderNotUsable where there is none."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise FolderNotUsable(
            "you are root, Postgres refuses to run as root, and this machine has no user nobody "
            "to run it as. Run as another user."
        ) from error
    return SystemUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _account_of(uid: int) -> SystemUser:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError as error:
        raise FolderNotUsable(
            f"the data folder belongs to user id {uid}, which this machine does not know. Give it "
            "to a user that exists."
        ) from error
    return SystemUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _barrier(path: Path, account: SystemUser) -> Path | None:
    """The first folder on the way to `path`, itself included, that the account may not enter."""
    for folder in [*reversed(path.parents), path]:
        facts = folder.stat()
        if facts.st_uid == account.uid:
            needed = stat.S_IXUSR
        elif facts.st_gid == account.gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not facts.st_mode & needed:
            return folder
    return None
