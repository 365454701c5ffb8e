-- The login of API sessions that go through a pooler or to a replica. A pooler in transaction mode
-- passes no settings of its clients on, so Postgres gives them to each session of this login.
--
--     psql "$DATABASE_URL" -f deploy/pooled-login.sql       # as a superuser
--     psql "$DATABASE_URL" -c '\password isthmus_api_pooled'
--
-- After `isthmus migrate`, which creates the role isthmus_api. It may be run again.

\set ON_ERROR_STOP on

SELECT 'CREATE ROLE isthmus_api_pooled LOGIN'
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'isthmus_api_pooled') \gexec

GRANT isthmus_api TO isthmus_api_pooled;

ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET role = 'isthmus_api';
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET timezone = 'UTC';
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET lock_timeout = '10s';
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET idle_in_transaction_session_timeout = '5min';
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET statement_timeout = '5s';
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET synchronous_commit = 'on';
-- Of a client that vanished, as in warehouse_schema/engine.py.
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET tcp_keepalives_idle = 10;
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET tcp_keepalives_interval = 5;
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET tcp_keepalives_count = 3;
ALTER ROLE isthmus_api_pooled IN DATABASE :"DBNAME" SET tcp_user_timeout = 20000;
