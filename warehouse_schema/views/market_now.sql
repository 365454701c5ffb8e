CREATE VIEW market_now AS
SELECT
    to_timestamp(book.as_of) AT TIME ZONE 'UTC' AS as_of,
    book.as_of_ledger,
    book.offer_count AS offers,
    (SELECT count(*) FROM projections.providers) AS providers,
    (SELECT count(DISTINCT provider) FROM projections.offers) AS providers_listed,
    filled.providers_7d,
    filled.providers_30d,
    held.active_orders,
    held.available * 0.0000001 AS available_usdc,
    held.locked * 0.0000001 AS locked_usdc,
    round(held.locked / nullif(held.available + held.locked, 0), 4) AS utilisation
FROM projections.book
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT provider) FILTER (WHERE ended_at > book.as_of - 7 * 86400) AS providers_7d,
        count(DISTINCT provider) AS providers_30d
    FROM projections.orders
    WHERE
        status = 'fulfilled'
        AND DATE '1970-01-01' + (ended_at / 86400)::integer
            >= DATE '1970-01-01' + (book.as_of / 86400)::integer - 30
        AND ended_at > book.as_of - 30 * 86400
) AS filled
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(active_orders), 0)::bigint AS active_orders,
        coalesce(sum(free + reclaimable), 0) AS available,
        coalesce(sum(locked - reclaimable), 0) AS locked
    FROM projections.providers
) AS held;

COMMENT ON VIEW market_now IS
    'The market as of the last ledger, in one row';
COMMENT ON COLUMN market_now.as_of IS 'Close time of the last ledger folded, UTC';
COMMENT ON COLUMN market_now.as_of_ledger IS 'Its sequence';
COMMENT ON COLUMN market_now.offers IS 'Offers listed';
COMMENT ON COLUMN market_now.providers IS 'Providers ever seen';
COMMENT ON COLUMN market_now.providers_listed IS 'Active now: providers with at least one listed offer';
COMMENT ON COLUMN market_now.providers_7d IS 'Active lately: providers with a fulfilled order in the last 7 x 24 hours';
COMMENT ON COLUMN market_now.providers_30d IS 'The same of the last 30 x 24 hours';
COMMENT ON COLUMN market_now.active_orders IS 'Orders active by the ledger clock';
COMMENT ON COLUMN market_now.available_usdc IS 'Available over all providers, listed or not, whole USDC';
COMMENT ON COLUMN market_now.locked_usdc IS 'Locked by active orders over all providers, whole USDC';
COMMENT ON COLUMN market_now.utilisation IS 'locked / (available + locked) at this moment, 0 to 1';
