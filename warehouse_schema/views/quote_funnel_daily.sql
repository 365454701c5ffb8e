CREATE VIEW quote_funnel_daily WITH (security_barrier) AS
-- Identities stay behind: nothing of a row names an owner, an address or a transfer.
WITH asked AS (
    SELECT
        (quotes.created_at AT TIME ZONE 'UTC')::date AS day,
        quotes.route,
        transfers.id IS NOT NULL AS is_used,
        coalesce(states.stage = 'COMPLETED', FALSE) AS is_completed,
        coalesce(states.movement IS NOT NULL OR states.refund IS NOT NULL, FALSE) AS is_paid,
        quotes.amount_in
        * CASE WHEN quotes.source_chain LIKE 'stellar:%' THEN 0.0000001 ELSE 0.000001 END AS tokens
    FROM intake.quotes
    LEFT JOIN intake.transfers ON transfers.quote = quotes.id
    LEFT JOIN projections.transfer_states AS states ON states.transfer = transfers.id
)
SELECT
    day,
    route,
    count(*) AS asked,
    count(*) FILTER (WHERE is_used) AS used,
    count(*) FILTER (WHERE is_paid OR is_completed) AS paid,
    count(*) FILTER (WHERE is_completed) AS completed,
    sum(tokens) AS asked_tokens,
    coalesce(sum(tokens) FILTER (WHERE is_completed), 0) AS completed_tokens,
    round(count(*) FILTER (WHERE is_completed)::numeric / count(*), 4) AS completed_share
FROM asked
GROUP BY 1, 2;

COMMENT ON VIEW quote_funnel_daily IS
    'Quotes of a day and what became of them, a row a day and route: asked, used for a transfer, paid, completed. Unused quotes are deleted some time after they expire (docs/operations.md): older days then show only used ones';
COMMENT ON COLUMN quote_funnel_daily.day IS 'UTC day on which the quotes were asked for, database clock';
COMMENT ON COLUMN quote_funnel_daily.route IS 'Route id, such as usdc-deposit';
COMMENT ON COLUMN quote_funnel_daily.asked IS 'Quotes';
COMMENT ON COLUMN quote_funnel_daily.used IS 'Of these, the ones that a transfer was made of';
COMMENT ON COLUMN quote_funnel_daily.paid IS 'Of these transfers, the ones whose payment, burn or send was seen on chain';
COMMENT ON COLUMN quote_funnel_daily.completed IS 'Of these, the ones that are COMPLETED now';
COMMENT ON COLUMN quote_funnel_daily.asked_tokens IS 'Amount of the quotes, whole USDC or USDT0';
COMMENT ON COLUMN quote_funnel_daily.completed_tokens IS 'Amount of the completed ones, whole USDC or USDT0';
COMMENT ON COLUMN quote_funnel_daily.completed_share IS 'Completed of asked, 0 to 1, 4 digits';
