CREATE VIEW relay_costs_daily WITH (security_barrier) AS
-- Identities stay behind: nothing of a row names an account, a transaction or a transfer.
WITH closed AS (
    SELECT
        (slots.closed_at AT TIME ZONE 'UTC')::date AS day,
        -- The relay delivers other movements too, which no transfer of ours asked for.
        coalesce(quotes.route, 'none') AS route,
        slots.chain,
        slots.purpose,
        slots.outcome,
        slots.spent
        * CASE WHEN slots.chain LIKE 'stellar:%' THEN 0.0000001 ELSE 0.000000000000000001 END
            AS spent
    FROM relay.slots
    LEFT JOIN intake.transfers ON transfers.id = slots.subject
    LEFT JOIN intake.quotes ON quotes.id = transfers.quote
    WHERE slots.closed_at IS NOT NULL
)
SELECT
    day,
    route,
    chain,
    purpose,
    count(*) AS transactions,
    count(*) FILTER (WHERE outcome = 'confirmed') AS confirmed,
    sum(spent) AS spent_native,
    coalesce(sum(spent) FILTER (WHERE outcome <> 'confirmed'), 0) AS wasted_native,
    sum(spent) / count(*) AS mean_native
FROM closed
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW relay_costs_daily IS
    'What the service''s own transactions cost, a row a day, route, chain and purpose';
COMMENT ON COLUMN relay_costs_daily.day IS 'UTC day on which the outcomes were final, database clock';
COMMENT ON COLUMN relay_costs_daily.route IS 'Route id of the transfer that was served, such as usdc-withdraw; none without one';
COMMENT ON COLUMN relay_costs_daily.chain IS 'CAIP-2 id of the chain that the transactions were sent to';
COMMENT ON COLUMN relay_costs_daily.purpose IS 'deliver, sweep, refund, submit or onboard';
COMMENT ON COLUMN relay_costs_daily.transactions IS 'Reserved nonces or sequence numbers whose outcome is final; replaced and expired ones count';
COMMENT ON COLUMN relay_costs_daily.confirmed IS 'Of these, the ones that had their effect';
COMMENT ON COLUMN relay_costs_daily.spent_native IS 'Fees paid, whole native tokens of the chain: 18 decimals on EVM, 7 on Stellar';
COMMENT ON COLUMN relay_costs_daily.wasted_native IS 'Of this, paid for transactions without the intended effect';
COMMENT ON COLUMN relay_costs_daily.mean_native IS 'Fees paid per transaction, whole native tokens of the chain';
