CREATE VIEW provider_statistics AS
WITH done AS (
    SELECT
        orders.provider,
        count(*) AS orders,
        count(*) FILTER (WHERE status = 'fulfilled') AS fulfilled,
        count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE status = 'expired') AS expired,
        count(*) FILTER (WHERE status = 'fulfilled' AND released < amount) AS partial,
        count(*) FILTER (WHERE status = 'fulfilled' AND claim = 'manual') AS manual,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY ended_at - created_at)
            FILTER (WHERE status = 'fulfilled') AS p50_seconds,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY ended_at - created_at)
            FILTER (WHERE status = 'fulfilled') AS p95_seconds,
        sum(released) FILTER (WHERE status = 'fulfilled') AS volume,
        sum(released) FILTER (WHERE status = 'fulfilled' AND ended_at > as_of - 30 * 86400)
            AS volume_30d,
        sum(released) FILTER (WHERE status = 'fulfilled' AND ended_at > as_of - 7 * 86400)
            AS volume_7d,
        sum(fee) FILTER (WHERE status = 'fulfilled') AS fee
    FROM projections.orders CROSS JOIN projections.book
    GROUP BY orders.provider
),
listed AS (
    SELECT provider, count(*) AS offers FROM projections.offers GROUP BY provider
)
SELECT
    providers.provider,
    (providers.free + providers.reclaimable) * 0.0000001 AS available_usdc,
    (providers.locked - providers.reclaimable) * 0.0000001 AS locked_usdc,
    round(
        (providers.locked - providers.reclaimable) / nullif(providers.free + providers.locked, 0), 4
    ) AS utilisation,
    coalesce(listed.offers, 0) AS offers,
    providers.active_orders,
    coalesce(done.orders, 0) AS orders,
    coalesce(done.fulfilled, 0) AS fulfilled,
    coalesce(done.cancelled, 0) AS cancelled,
    coalesce(done.expired, 0) AS expired,
    round(
        done.fulfilled::numeric / nullif(done.fulfilled + done.cancelled + done.expired, 0), 4
    ) AS fill_rate,
    coalesce(done.partial, 0) AS partial,
    coalesce(done.manual, 0) AS manual,
    CASE WHEN done.fulfilled >= 5 THEN done.p50_seconds END AS p50_seconds,
    CASE WHEN done.fulfilled >= 5 THEN done.p95_seconds END AS p95_seconds,
    coalesce(done.volume, 0) * 0.0000001 AS volume_usdc,
    coalesce(done.volume_30d, 0) * 0.0000001 AS volume_30d_usdc,
    coalesce(done.volume_7d, 0) * 0.0000001 AS volume_7d_usdc,
    coalesce(done.fee, 0) * 0.0000001 AS fee_usdc,
    to_timestamp(providers.last_active_at) AT TIME ZONE 'UTC' AS last_active_at,
    providers.stale
FROM projections.providers
LEFT JOIN done ON done.provider = providers.provider
LEFT JOIN listed ON listed.provider = providers.provider;

COMMENT ON VIEW provider_statistics IS
    'Each liquidity provider as of the last ledger: escrow, orders of all time, speed, volume';
COMMENT ON COLUMN provider_statistics.provider IS 'Liquidity provider''s Stellar address';
COMMENT ON COLUMN provider_statistics.available_usdc IS 'Available escrow, locks of expired orders included, whole USDC';
COMMENT ON COLUMN provider_statistics.locked_usdc IS 'Locked by active orders, whole USDC';
COMMENT ON COLUMN provider_statistics.utilisation IS 'locked / (available + locked) at this moment, 0 to 1; null without escrow';
COMMENT ON COLUMN provider_statistics.offers IS 'Offers listed';
COMMENT ON COLUMN provider_statistics.active_orders IS 'Orders active by the ledger clock';
COMMENT ON COLUMN provider_statistics.orders IS 'Orders ever opened with it';
COMMENT ON COLUMN provider_statistics.fulfilled IS 'Of these, fulfilled';
COMMENT ON COLUMN provider_statistics.cancelled IS 'Of these, cancelled';
COMMENT ON COLUMN provider_statistics.expired IS 'Of these, expired by the ledger clock';
COMMENT ON COLUMN provider_statistics.fill_rate IS 'fulfilled / (fulfilled + cancelled + expired), 0 to 1; null while none has ended';
COMMENT ON COLUMN provider_statistics.partial IS 'Of the fulfilled, those that released less than was asked for';
COMMENT ON COLUMN provider_statistics.manual IS 'Of the fulfilled, those released by hand, without a proof';
COMMENT ON COLUMN provider_statistics.p50_seconds IS 'Half of the fulfilled took at most this from opening, seconds; null for fewer than 5';
COMMENT ON COLUMN provider_statistics.p95_seconds IS '95 % of them took at most this, seconds; null for fewer than 5';
COMMENT ON COLUMN provider_statistics.volume_usdc IS 'Released by fulfilled orders of all time, gross of the fee, whole USDC';
COMMENT ON COLUMN provider_statistics.volume_30d_usdc IS 'The same of the last 30 x 24 hours';
COMMENT ON COLUMN provider_statistics.volume_7d_usdc IS 'The same of the last 7 x 24 hours';
COMMENT ON COLUMN provider_statistics.fee_usdc IS 'Protocol fees of all time, whole USDC';
COMMENT ON COLUMN provider_statistics.last_active_at IS 'Last own act or settlement, UTC; null if none';
COMMENT ON COLUMN provider_statistics.stale IS 'Why its figures cannot be trusted (a gap in its events); null when they can';
