-- One role per process, without a login: each connects as the user of its URL and takes its
-- role (`-c role=…`, warehouse_schema/engine.py). Roles belong to the whole server, so
-- another database's migration may be creating them at this moment.

DO $$
DECLARE
    role_name text;
    -- Postgres 16 tells apart being a member of a role and being allowed to take it.
    may_take text := CASE
        WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER'
    END;
BEGIN
    FOREACH role_name IN ARRAY ARRAY[
        'isthmus_indexer', 'isthmus_api', 'isthmus_relay', 'isthmus_analyst'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;
            END;
        END IF;
        IF NOT pg_has_role(current_user, role_name, may_take) THEN
            EXECUTE format('GRANT %I TO %I', role_name, current_user);
        END IF;
    END LOOP;
END
$$;
