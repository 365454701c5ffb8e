CREATE VIEW fill_rate_daily AS
SELECT
    DATE '1970-01-01' + (created_at / 86400)::integer AS day,
    direction,
    rail,
    currency,
    count(*) AS orders,
    count(*) FILTER (WHERE status = 'active') AS active,
    count(*) FILTER (WHERE status = 'fulfilled') AS fulfilled,
    count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE status = 'cancelled' AND ended_at - created_at <= 900)
        AS cancelled_early,
    count(*) FILTER (WHERE status = 'expired') AS expired,
    round(
        count(*) FILTER (WHERE status = 'fulfilled')::numeric
        / nullif(count(*) FILTER (WHERE status <> 'active'), 0),
        4
    ) AS fill_rate,
    round(
        count(*) FILTER (WHERE status = 'cancelled')::numeric
        / nullif(count(*) FILTER (WHERE status <> 'active'), 0),
        4
    ) AS cancel_rate,
    round(
        count(*) FILTER (WHERE status = 'expired')::numeric
        / nullif(count(*) FILTER (WHERE status <> 'active'), 0),
        4
    ) AS expire_rate,
    sum(amount) * 0.0000001 AS amount_usdc,
    round(
        coalesce(sum(amount) FILTER (WHERE status = 'fulfilled'), 0)
        / nullif(sum(amount) FILTER (WHERE status <> 'active'), 0),
        4
    ) AS fill_rate_usdc
FROM projections.orders
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW fill_rate_daily IS
    'What became of the orders that were opened on a day. A day''s rates move until its last order has ended';
COMMENT ON COLUMN fill_rate_daily.day IS 'UTC day on which the orders were opened, by ledger close time';
COMMENT ON COLUMN fill_rate_daily.direction IS 'onramp or offramp';
COMMENT ON COLUMN fill_rate_daily.rail IS 'Payment rail';
COMMENT ON COLUMN fill_rate_daily.currency IS 'ISO 4217 code';
COMMENT ON COLUMN fill_rate_daily.orders IS 'Orders opened';
COMMENT ON COLUMN fill_rate_daily.active IS 'Of these, still active; they are in no rate';
COMMENT ON COLUMN fill_rate_daily.fulfilled IS 'Of these, fulfilled, in full or in part';
COMMENT ON COLUMN fill_rate_daily.cancelled IS 'Of these, cancelled';
COMMENT ON COLUMN fill_rate_daily.cancelled_early IS 'Of the cancelled, those within 15 minutes of opening: a changed mind rather than an abandoned payment';
COMMENT ON COLUMN fill_rate_daily.expired IS 'Of these, expired by the ledger clock, whether or not the chain caught up';
COMMENT ON COLUMN fill_rate_daily.fill_rate IS 'fulfilled / (fulfilled + cancelled + expired), 0 to 1; null while none has ended';
COMMENT ON COLUMN fill_rate_daily.cancel_rate IS 'cancelled / (fulfilled + cancelled + expired), 0 to 1';
COMMENT ON COLUMN fill_rate_daily.expire_rate IS 'expired / (fulfilled + cancelled + expired), 0 to 1';
COMMENT ON COLUMN fill_rate_daily.amount_usdc IS 'Asked for by all these orders, whole USDC';
COMMENT ON COLUMN fill_rate_daily.fill_rate_usdc IS 'Share of fulfilled orders in the USDC asked for by those that ended, 0 to 1';
