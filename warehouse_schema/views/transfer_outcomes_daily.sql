CREATE VIEW transfer_outcomes_daily WITH (security_barrier) AS
-- Identities stay behind: nothing of a row names an owner, an address or a transfer.
WITH started AS (
    SELECT
        (transfers.started_at AT TIME ZONE 'UTC')::date AS day,
        quotes.route,
        CASE
            WHEN states.stage IN ('COMPLETED', 'CANCELLED', 'EXPIRED', 'REFUNDED', 'ON_HOLD')
                THEN lower(states.stage)
            ELSE 'under_way'
        END AS outcome,
        quotes.amount_in
        * CASE WHEN quotes.source_chain LIKE 'stellar:%' THEN 0.0000001 ELSE 0.000001 END AS tokens,
        states.completed_at - extract(epoch FROM transfers.started_at)::bigint AS seconds
    FROM intake.transfers
    INNER JOIN intake.quotes ON quotes.id = transfers.quote
    LEFT JOIN projections.transfer_states AS states ON states.transfer = transfers.id
)
SELECT
    day,
    route,
    CASE
        WHEN tokens < 5 THEN 'under 5'
        WHEN tokens < 10 THEN '5 to 10'
        WHEN tokens < 20 THEN '10 to 20'
        ELSE '20 and more'
    END AS amount_band,
    outcome,
    count(*) AS transfers,
    sum(tokens) AS tokens,
    count(seconds) AS timed,
    percentile_disc(0.50) WITHIN GROUP (ORDER BY seconds) AS p50_seconds,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY seconds) AS p95_seconds
FROM started
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW transfer_outcomes_daily IS
    'Customers'' transfers that were started on a day, a row a day, route, amount band and outcome. An outcome changes until the transfer has ended';
COMMENT ON COLUMN transfer_outcomes_daily.day IS 'UTC day on which the transfers were started, database clock';
COMMENT ON COLUMN transfer_outcomes_daily.route IS 'Route id, such as usdc-deposit';
COMMENT ON COLUMN transfer_outcomes_daily.amount_band IS 'Agreed amount, whole USDC or USDT0: under 5, 5 to 10, 10 to 20, 20 and more; the lower bound is included';
COMMENT ON COLUMN transfer_outcomes_daily.outcome IS 'completed, cancelled, expired, refunded, on_hold, or under_way';
COMMENT ON COLUMN transfer_outcomes_daily.transfers IS 'Transfers';
COMMENT ON COLUMN transfer_outcomes_daily.tokens IS 'Agreed amounts of these, whole USDC or USDT0';
COMMENT ON COLUMN transfer_outcomes_daily.timed IS 'Of these, the completed ones, which the percentiles are of';
COMMENT ON COLUMN transfer_outcomes_daily.p50_seconds IS 'Half of these took at most this from the request to the delivery, seconds: the database''s clock to the destination chain''s';
COMMENT ON COLUMN transfer_outcomes_daily.p95_seconds IS '95 % of these took at most this, seconds';
