CREATE VIEW completion_times AS
WITH periods (period, seconds) AS (
    VALUES ('7d', 7 * 86400), ('30d', 30 * 86400), ('all', NULL)
)
SELECT
    periods.period,
    orders.direction,
    orders.rail,
    orders.currency,
    count(*) AS orders,
    count(*) FILTER (WHERE orders.claim = 'manual') AS manual,
    CASE WHEN count(*) >= 5 THEN
        percentile_disc(0.50) WITHIN GROUP (ORDER BY orders.ended_at - orders.created_at)
    END AS p50_seconds,
    CASE WHEN count(*) >= 5 THEN
        percentile_disc(0.90) WITHIN GROUP (ORDER BY orders.ended_at - orders.created_at)
    END AS p90_seconds,
    CASE WHEN count(*) >= 5 THEN
        percentile_disc(0.95) WITHIN GROUP (ORDER BY orders.ended_at - orders.created_at)
    END AS p95_seconds,
    CASE WHEN count(*) >= 5 THEN
        percentile_disc(0.99) WITHIN GROUP (ORDER BY orders.ended_at - orders.created_at)
    END AS p99_seconds
FROM projections.book
CROSS JOIN periods
JOIN projections.orders
    ON orders.status = 'fulfilled'
    AND (periods.seconds IS NULL OR orders.ended_at > book.as_of - periods.seconds)
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW completion_times IS
    'How long fulfilled orders took, from opening to fulfilment by ledger close times. Percentiles are nearest rank, and null for fewer than 5 orders';
COMMENT ON COLUMN completion_times.period IS 'Fulfilled in the last 7d or 30d before the last ledger, or ever (all)';
COMMENT ON COLUMN completion_times.direction IS 'onramp or offramp';
COMMENT ON COLUMN completion_times.rail IS 'Payment rail';
COMMENT ON COLUMN completion_times.currency IS 'ISO 4217 code';
COMMENT ON COLUMN completion_times.orders IS 'Orders fulfilled: how much the percentiles rest on';
COMMENT ON COLUMN completion_times.manual IS 'Of these, released by hand: they may be slow for reasons that are not the rail''s';
COMMENT ON COLUMN completion_times.p50_seconds IS 'Half of them took at most this, seconds';
COMMENT ON COLUMN completion_times.p90_seconds IS '90 % of them took at most this, seconds';
COMMENT ON COLUMN completion_times.p95_seconds IS '95 % of them took at most this, seconds';
COMMENT ON COLUMN completion_times.p99_seconds IS '99 % of them took at most this, seconds';
