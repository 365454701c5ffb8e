-- Each schema has one writer. Run after every migration, as a whole: what is not granted here is
-- taken away. The same is set as default for tables to come, so that a revision cannot leave one
-- open or closed between its commit and this file.
--
--              facts                    projections     intake          relay            access   locks           notifications   analytics
--   indexer    insert, delete           all             read            read             –        insert, update* all but update  read
--              (update: four tables)
--   api        read                     read            insert          read, in part    all      –               insert          –
--   relay      read                     read            read            insert, update*  –        –               insert          –
--   analyst    read                     read, in part   –               –                –        –               –               read
--                                                                       (*delete: four tables of relay, one of locks)

REVOKE ALL ON ALL TABLES IN SCHEMA isthmus, facts, intake, projections, relay, access, locks, notifications,
    analytics FROM PUBLIC, isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;
REVOKE ALL ON SCHEMA isthmus, facts, intake, projections, relay, access, locks, notifications,
    analytics FROM PUBLIC, isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;

-- Nor does a reader fill the disk with tables of its own. The indexer folds the order book into
-- some, and compares them with the stored one.
DO $$
BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO isthmus_indexer', current_database());
END
$$;

-- Anyone may ask which revision the tables are at.
GRANT USAGE ON SCHEMA isthmus
    TO isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;
GRANT SELECT ON ALL TABLES IN SCHEMA isthmus
    TO isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;

-- facts: rows come and, when a chain takes its blocks back, go. They never change, but for a
-- chain's cursor, an alarm's end, the count of a day's changes and whether a proof is wanted.
GRANT USAGE ON SCHEMA facts
    TO isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;
GRANT SELECT ON ALL TABLES IN SCHEMA facts
    TO isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;
GRANT INSERT, DELETE ON ALL TABLES IN SCHEMA facts TO isthmus_indexer;
GRANT UPDATE ON facts.cursors, facts.alarms, facts.changed_days, facts.unproven_blocks
    TO isthmus_indexer;
ALTER DEFAULT PRIVILEGES IN SCHEMA facts
    GRANT SELECT ON TABLES TO isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;
ALTER DEFAULT PRIVILEGES IN SCHEMA facts
    GRANT INSERT, DELETE ON TABLES TO isthmus_indexer;

-- projections: whatever a fold says.
GRANT USAGE ON SCHEMA projections
    TO isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;
GRANT SELECT ON ALL TABLES IN SCHEMA projections
    TO isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;
GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA projections TO isthmus_indexer;
ALTER DEFAULT PRIVILEGES IN SCHEMA projections
    GRANT SELECT ON TABLES TO isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst;
ALTER DEFAULT PRIVILEGES IN SCHEMA projections
    GRANT INSERT, UPDATE, DELETE ON TABLES TO isthmus_indexer;
-- Analysts see no identity of a customer: which account a transfer belongs to stands here alone.
REVOKE SELECT ON projections.transfer_events FROM isthmus_analyst;
GRANT SELECT (number, transfer, stage, status, reason, told_at) ON projections.transfer_events
    TO isthmus_analyst;

-- intake: a request, once made, is neither changed nor lost. A quote that nobody used is forgotten
-- long after it expired, by the indexer, for the public process deletes nothing; one that a transfer
-- was made of cannot be.
GRANT USAGE ON SCHEMA intake TO isthmus_indexer, isthmus_api, isthmus_relay;
GRANT SELECT ON ALL TABLES IN SCHEMA intake TO isthmus_indexer, isthmus_api, isthmus_relay;
GRANT INSERT ON ALL TABLES IN SCHEMA intake TO isthmus_api;
GRANT DELETE ON intake.quotes TO isthmus_indexer;
-- With a webhook's secret its posts can be forged: the sender alone reads it.
REVOKE SELECT ON intake.webhook_secrets FROM isthmus_indexer, isthmus_api;
ALTER DEFAULT PRIVILEGES IN SCHEMA intake
    GRANT SELECT ON TABLES TO isthmus_indexer, isthmus_api, isthmus_relay;
ALTER DEFAULT PRIVILEGES IN SCHEMA intake
    GRANT INSERT ON TABLES TO isthmus_api;

-- relay: signed transactions, closed to the public process and to analysts; none is ever deleted.
-- What was posted to webhooks is forgotten after a while, by the relay as well.
GRANT USAGE ON SCHEMA relay TO isthmus_indexer, isthmus_relay;
GRANT SELECT ON ALL TABLES IN SCHEMA relay TO isthmus_indexer, isthmus_relay;
GRANT INSERT, UPDATE ON ALL TABLES IN SCHEMA relay TO isthmus_relay;
ALTER DEFAULT PRIVILEGES IN SCHEMA relay
    GRANT SELECT ON TABLES TO isthmus_indexer, isthmus_relay;
ALTER DEFAULT PRIVILEGES IN SCHEMA relay
    GRANT INSERT, UPDATE ON TABLES TO isthmus_relay;
-- Whether a route is available the api says by how the relay is. And it folds transfers as the
-- indexer does: of an attempt it sees that it is there, and for whom, never what was signed.
GRANT USAGE ON SCHEMA relay TO isthmus_api;
GRANT SELECT ON relay.health, relay.sponsors, relay.obstacles, relay.failure_resets TO isthmus_api;
-- An owner sees what became of his webhooks.
GRANT SELECT ON relay.webhook_states, relay.webhook_deliveries, relay.webhook_senders
    TO isthmus_api;
GRANT DELETE ON relay.webhook_deliveries TO isthmus_relay;
-- Reports of an account whose key was replaced, and processes that wait for a lease no more.
GRANT DELETE ON relay.health, relay.sponsors, relay.standbys TO isthmus_relay;
GRANT SELECT (chain, account, number, subject, purpose, tx_hash, created_at)
    ON relay.attempts TO isthmus_api;
GRANT SELECT (chain, account, number, subject, purpose, key, outcome, spent, opened_at, closed_at)
    ON relay.slots TO isthmus_api;

-- access: of nobody's concern but the api's; what has expired is deleted.
GRANT USAGE ON SCHEMA access TO isthmus_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA access TO isthmus_api;
ALTER DEFAULT PRIVILEGES IN SCHEMA access
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO isthmus_api;

-- locks: whoever may update a row here may lock it, also FOR KEY SHARE. The public process may read
-- when each lease expires, which tells it whether a chain is followed.
GRANT USAGE ON SCHEMA locks TO isthmus_indexer;
GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA locks TO isthmus_indexer;
GRANT DELETE ON locks.standbys TO isthmus_indexer;
GRANT USAGE ON SCHEMA locks TO isthmus_api;
GRANT SELECT (kind, name, expires_at) ON locks.leases TO isthmus_api;
ALTER DEFAULT PRIVILEGES IN SCHEMA locks
    GRANT SELECT, INSERT, UPDATE ON TABLES TO isthmus_indexer;

-- notifications: each writer announces its commits; the publisher, of the indexer's role, sends them.
-- A stranger to the queue could send what is in it twice, or not at all.
GRANT USAGE ON SCHEMA notifications TO isthmus_indexer, isthmus_api, isthmus_relay;
GRANT INSERT ON ALL TABLES IN SCHEMA notifications
    TO isthmus_indexer, isthmus_api, isthmus_relay;
GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA notifications TO isthmus_indexer;
ALTER DEFAULT PRIVILEGES IN SCHEMA notifications
    GRANT INSERT ON TABLES TO isthmus_indexer, isthmus_api, isthmus_relay;
ALTER DEFAULT PRIVILEGES IN SCHEMA notifications
    GRANT SELECT, DELETE ON TABLES TO isthmus_indexer;

-- analytics: views alone, with their owner's rights. Some sum up intake and relay, without any
-- column that names an owner, an address or a transfer. The indexer compares its daily figures with
-- others.
GRANT USAGE ON SCHEMA analytics TO isthmus_indexer, isthmus_analyst;
GRANT SELECT ON ALL TABLES IN SCHEMA analytics TO isthmus_indexer, isthmus_analyst;
ALTER DEFAULT PRIVILEGES IN SCHEMA analytics
    GRANT SELECT ON TABLES TO isthmus_indexer, isthmus_analyst;
