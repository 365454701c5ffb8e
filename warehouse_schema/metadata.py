"""The one `MetaData` of the warehouse, and the names of its schemas."""

from sqlalchemy import MetaData

FACTS = "facts"
INTAKE = "intake"
PROJECTIONS = "projections"
RELAY = "relay"
ACCESS = "access"
LOCKS = "locks"
NOTIFICATIONS = "notifications"
ANALYTICS = "analytics"

SCHEMAS = {
    FACTS: "What the chains said. Append-only; written by the indexer alone.",
    INTAKE: "What clients asked for. Append-only; written by the api alone.",
    PROJECTIONS: "What the facts mean. Rebuildable; written by the indexer alone.",
    RELAY: "Transactions the service sends. Written by the relay alone.",
    ACCESS: "Who was let in, and who may not be any more. Read and written by the api alone.",
    LOCKS: "Which process may write what. Written by the indexer alone; the api cannot read it.",
    NOTIFICATIONS: "What commits announce. Queued by each of them, sent by the indexer alone.",
}

ANALYTICS_COMMENT = "Statistics for analysts: views over facts and projections. Nothing is stored."
"""Of a schema that holds views alone, made from files (`views/`) and not by revisions."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
