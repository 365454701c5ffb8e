-- One role a room, without a login: each process connects as the user of its URL and takes its
-- room's role (`-c role=…`, warehouse_schema/engine.py). Roles belong to the whole server, so
-- another database's migration may be creating them at this moment.

DO $$
DECLARE
    room text;
    -- Postgres 16 tells apart being a member of a role and being allowed to take it.
    may_take text := CASE
        WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER'
    END;
BEGIN
    FOREACH room IN ARRAY ARRAY[
        'isthmus_indexer', 'isthmus_api', 'isthmus_relay', 'isthmus_analyst'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = room) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', room);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;
            END;
        END IF;
        IF NOT pg_has_role(current_user, room, may_take) THEN
            EXECUTE format('GRANT %I TO %I', room, current_user);
        END IF;
    END LOOP;
END
$$;
