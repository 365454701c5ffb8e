"""Disk, standbys and archive of the warehouse's server: what a lost disk would cost."""

import shutil
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from indexer.doctor.checks import Check, CheckResult
from indexer.doctor.postgres_tables import joined
from warehouse_schema.engine import hosts_of

MIN_FREE_BYTES = 5 * 2**30
MAX_LAG_SECONDS = 60.0
MAX_WAL_BYTES = 2**30
"""Limits: lag of a standby, and WAL that an unused replication slot retains."""
MAX_ARCHIVE_SECONDS = 3_600.0
_LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "::1")

DISK = Check(
    "postgres.disk",
    "At least 5 GiB are free under the server's data folder. Known only where the server runs on "
    "this machine.",
    "Add disk, or remove what is not needed: a full one stops every process.",
)
REPLICATION = Check(
    "postgres.replication",
    "The server is the primary, each standby is at most 60 s and 1 GiB behind, and no slot keeps "
    "more WAL than that for a standby that is gone.",
    "Look at the standby's log and network; drop the slot of one that is gone with "
    "`SELECT pg_drop_replication_slot('…')`, before the disk is full.",
)
ARCHIVE = Check(
    "postgres.archive",
    "WAL is archived, without a failure since, at most an hour ago: point-in-time recovery reaches "
    "up to there. Not needed on the devnet. The age of base backups is the backup tool's to say.",
    "Read the server's log for the error of archive_command.",
)
SYNCHRONOUS = Check(
    "postgres.synchronous",
    "Where DATABASE_URL names a standby, commits wait for it: `synchronous_standby_names` is set, "
    "and a standby that it names is connected. Else what was acknowledged may be on one disk only.",
    "Set it as in docs/operations/failover.md, once the standby streams.",
)
MAY_READ = "As a superuser: `GRANT pg_monitor TO …`, to the user of DATABASE_URL."


def check_disk(
    url: URL, conn: Connection, subject: str, min_free: int = MIN_FREE_BYTES
) -> CheckResult:
    """Free disk under the data folder. `min_free`: bytes."""
    remote = [host for host in hosts_of(url) if host not in _LOCAL_HOSTS]
    if remote:
        return DISK.ok(subject, f"not known: the server is on {' or '.join(remote)}")
    folder = conn.scalar(text("SELECT setting FROM pg_settings WHERE name = 'data_directory'"))
    if folder is None:
        return DISK.failed(subject, "this user may not read data_directory", MAY_READ)
    try:
        usage = shutil.disk_usage(Path(folder))
    except OSError as error:
        # A container's port, or a tunnel.
        return DISK.ok(subject, f"not known: {folder} is not on this machine ({error.strerror})")
    shown = f"{usage.free / 2**30:.0f} of {usage.total / 2**30:.0f} GiB are free under {folder}"
    return DISK.failed(subject, shown) if usage.free < min_free else DISK.ok(subject, shown)


_STANDBYS = text("""
    SELECT application_name AS name, state,
           extract(epoch FROM coalesce(replay_lag, flush_lag))::float8 AS seconds,
           pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(replay_lsn, flush_lsn)) AS bytes
      FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup' ORDER BY name, pid
""")
"""A reader that only keeps WAL, such as pg_receivewal, replays nothing."""
_UNREAD_SLOTS = text("""
    SELECT slot_name AS name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS bytes
      FROM pg_replication_slots
     WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY slot_name
""")


def check_replication(
    conn: Connection, subject: str, max_bytes: int = MAX_WAL_BYTES
) -> CheckResult:
    """Each standby's lag, and slots that keep WAL for a standby that is gone."""
    if conn.scalar(text("SELECT pg_is_in_recovery()")):
        problem = "the server is a standby, which takes no writes"
        return REPLICATION.failed(subject, problem, "Name the primary in DATABASE_URL.")
    standbys = conn.execute(_STANDBYS).all()
    if any(row.state is None for row in standbys):
        return REPLICATION.failed(subject, "the user may not read pg_stat_replication", MAY_READ)
    wrong = [
        f"standby {row.name} is {row.state}, {row.seconds or 0:.0f} s and {row.bytes} bytes behind"
        for row in standbys
        if row.state != "streaming"
        or (row.seconds or 0) > MAX_LAG_SECONDS
        or (row.bytes or 0) > max_bytes
    ]
    wrong += [
        f"slot {row.name} is not read and keeps {row.bytes} bytes of WAL"
        for row in conn.execute(_UNREAD_SLOTS)
        if row.bytes > max_bytes
    ]
    if wrong:
        return REPLICATION.failed(subject, joined(wrong))
    return REPLICATION.ok(subject, f"{len(standbys)} standbys, none behind")


_SYNCHRONOUS = text("""
    SELECT current_setting('synchronous_standby_names') AS names,
           count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) AS connected,
           count(*) FILTER (WHERE state IS NULL) AS hidden
      FROM pg_stat_replication
""")


def check_synchronous(url: URL, conn: Connection, subject: str) -> CheckResult:
    """Whether commits wait for a standby, where one is declared."""
    row = conn.execute(_SYNCHRONOUS).one()
    if row.hidden:
        return SYNCHRONOUS.failed(subject, "the user may not read pg_stat_replication", MAY_READ)
    if row.names and not row.connected:
        problem = f"commits wait for {row.names}, which is not connected"
        fix = "Start the standby, or go on without it: docs/operations/failover.md."
        return SYNCHRONOUS.failed(subject, problem, fix)
    if not row.names and len(hosts_of(url)) > 1:
        return SYNCHRONOUS.failed(
            subject, "DATABASE_URL names a standby, and no commit waits for it"
        )
    return SYNCHRONOUS.ok(subject, row.names or "no standby is declared")


_ARCHIVER = text("""
    SELECT current_setting('archive_mode') AS mode, failed_count, last_failed_wal,
           extract(epoch FROM clock_timestamp() - last_archived_time)::float8 AS age,
           coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) AS fails
      FROM pg_stat_archiver
""")


def check_archive(conn: Connection, subject: str, *, is_needed: bool) -> CheckResult:
    """Age of the newest WAL file in the archive."""
    row = conn.execute(_ARCHIVER).one()
    if row.fails:
        problem = f"archiving WAL fails: {row.last_failed_wal}, {row.failed_count} times in all"
        return ARCHIVE.failed(subject, problem)
    if row.mode == "off":
        if not is_needed:
            return ARCHIVE.ok(subject, "the devnet needs none")
        return ARCHIVE.failed(
            subject,
            "WAL is not archived: a lost disk loses what was written since the last backup",
            "Set archive_mode and archive_command, then restart it (docs/operations/backup.md).",
        )
    if row.age is None or row.age > MAX_ARCHIVE_SECONDS:
        age = "no WAL file" if row.age is None else f"the last WAL file {row.age / 3600:.1f} h ago"
        return ARCHIVE.failed(
            subject,
            f"{age} was archived",
            "`SELECT pg_switch_wal()` archives what is there. Set archive_timeout to 60 s, and "
            "read the server's log.",
        )
    shown = f"WAL was archived {row.age:.0f} s ago, {row.failed_count} failures before"
    return ARCHIVE.ok(subject, shown)
