CREATE VIEW provider_daily AS
WITH balances AS (
    SELECT provider, height, position, block_time, free_after, locked_after, amount AS deposited, 0 AS withdrawn
    FROM facts.escrow_deposits
    UNION ALL
    SELECT provider, height, position, block_time, free_after, locked_after, 0, amount
    FROM facts.escrow_withdrawals
    UNION ALL
    SELECT provider, height, position, block_time, free_after, locked_after, 0, 0
    FROM facts.orders_opened
    UNION ALL
    SELECT provider, height, position, block_time, free_after, locked_after, 0, 0
    FROM facts.orders_fulfilled
    UNION ALL
    SELECT provider, height, position, block_time, free_after, locked_after, 0, 0
    FROM facts.orders_cancelled
    UNION ALL
    SELECT provider, height, position, block_time, free_after, locked_after, 0, 0
    FROM facts.orders_expired
),
-- Everything as a step up or down. `lapsed` is what the chain still counts as locked though its
-- order has expired: it is available again from the first second after expires_at.
steps AS (
    SELECT
        provider,
        block_time AS at,
        free_after - lag(free_after, 1, 0::numeric) OVER own AS free,
        locked_after - lag(locked_after, 1, 0::numeric) OVER own AS locked,
        0::numeric AS lapsed
    FROM balances
    WINDOW own AS (PARTITION BY provider ORDER BY height, position)
    UNION ALL
    SELECT orders.provider, orders.expires_at + 1, 0, 0, orders.lp_lock
    FROM projections.orders CROSS JOIN projections.book
    WHERE orders.expires_at < least(book.as_of, coalesce(orders.ended_at, book.as_of))
    UNION ALL
    SELECT provider, ended_at, 0, 0, -lp_lock
    FROM projections.orders
    WHERE ended_at > expires_at
    UNION ALL
    -- A step of nothing at each midnight, so that no step reaches over one.
    SELECT firsts.provider, days.day * 86400, 0, 0, 0
    FROM (
        SELECT provider, min(block_time) / 86400 + 1 AS first FROM balances GROUP BY provider
    ) AS firsts
    CROSS JOIN projections.book
    CROSS JOIN generate_series(firsts.first, book.as_of / 86400) AS days (day)
),
moments AS (
    SELECT provider, at, sum(free) AS free, sum(locked) AS locked, sum(lapsed) AS lapsed
    FROM steps
    GROUP BY provider, at
),
levels AS (
    SELECT
        provider,
        at,
        coalesce(lead(at) OVER own, greatest(at, (SELECT max(as_of) FROM projections.book))) - at
            AS seconds,
        sum(free + lapsed) OVER own AS available,
        sum(locked - lapsed) OVER own AS locked,
        row_number() OVER (PARTITION BY provider, at / 86400 ORDER BY at DESC) AS from_last
    FROM moments
    WINDOW own AS (PARTITION BY provider ORDER BY at)
),
held AS (
    SELECT
        at / 86400 AS day,
        provider,
        max(available) FILTER (WHERE from_last = 1) AS available,
        max(locked) FILTER (WHERE from_last = 1) AS locked,
        sum(locked * seconds) AS locked_seconds,
        sum((available + locked) * seconds) AS escrow_seconds
    FROM levels
    GROUP BY 1, 2
),
turns AS (
    SELECT provider, created_at AS at, 'opened' AS turn, 0::numeric AS released, 0::numeric AS fee, 0 AS took
    FROM projections.orders
    UNION ALL
    SELECT provider, ended_at, status, coalesce(released, 0), coalesce(fee, 0), ended_at - created_at
    FROM projections.orders
    WHERE status IN ('fulfilled', 'cancelled')
    UNION ALL
    SELECT provider, least(expires_at + 1, ended_at), 'expired', 0, 0, 0
    FROM projections.orders
    WHERE status = 'expired'
),
done AS (
    SELECT
        at / 86400 AS day,
        provider,
        count(*) FILTER (WHERE turn = 'opened') AS opened,
        count(*) FILTER (WHERE turn = 'fulfilled') AS fulfilled,
        count(*) FILTER (WHERE turn = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE turn = 'expired') AS expired,
        coalesce(sum(released) FILTER (WHERE turn = 'fulfilled'), 0) AS released,
        coalesce(sum(fee) FILTER (WHERE turn = 'fulfilled'), 0) AS fee,
        coalesce(sum(took) FILTER (WHERE turn = 'fulfilled'), 0)::bigint AS fulfillment_seconds
    FROM turns
    GROUP BY 1, 2
),
paid AS (
    SELECT block_time / 86400 AS day, provider, sum(deposited) AS deposited, sum(withdrawn) AS withdrawn
    FROM balances
    GROUP BY 1, 2
)
SELECT
    DATE '1970-01-01' + held.day::integer AS day,
    held.provider,
    coalesce(done.opened, 0) AS opened,
    coalesce(done.fulfilled, 0) AS fulfilled,
    coalesce(done.cancelled, 0) AS cancelled,
    coalesce(done.expired, 0) AS expired,
    coalesce(done.released, 0) * 0.0000001 AS released_usdc,
    coalesce(done.fee, 0) * 0.0000001 AS fee_usdc,
    coalesce(done.fulfillment_seconds, 0) AS fulfillment_seconds,
    coalesce(paid.deposited, 0) * 0.0000001 AS deposited_usdc,
    coalesce(paid.withdrawn, 0) * 0.0000001 AS withdrawn_usdc,
    held.available * 0.0000001 AS available_usdc,
    held.locked * 0.0000001 AS locked_usdc,
    held.locked_seconds * 0.0000001 AS locked_usdc_seconds,
    held.escrow_seconds * 0.0000001 AS escrow_usdc_seconds,
    round(held.locked_seconds / nullif(held.escrow_seconds, 0), 4) AS utilisation,
    round(coalesce(done.released, 0) * 86400 / nullif(held.escrow_seconds, 0), 4) AS turnover
FROM held
LEFT JOIN done ON done.day = held.day AND done.provider = held.provider
LEFT JOIN paid ON paid.day = held.day AND paid.provider = held.provider;

COMMENT ON VIEW provider_daily IS
    'Each provider on each day since its first deposit: what its orders did and how much of its escrow was at work. Reads all history; closed days: projections.provider_days';
COMMENT ON COLUMN provider_daily.day IS 'UTC day, by ledger close time; the last one is not over yet';
COMMENT ON COLUMN provider_daily.provider IS 'Liquidity provider''s Stellar address';
COMMENT ON COLUMN provider_daily.opened IS 'Orders opened with it on the day';
COMMENT ON COLUMN provider_daily.fulfilled IS 'Orders fulfilled on the day, whenever they were opened';
COMMENT ON COLUMN provider_daily.cancelled IS 'Orders cancelled on the day';
COMMENT ON COLUMN provider_daily.expired IS 'Orders that the ledger clock passed on the day';
COMMENT ON COLUMN provider_daily.released_usdc IS 'Released by the fulfilled orders, gross of the fee, whole USDC';
COMMENT ON COLUMN provider_daily.fee_usdc IS 'Protocol fees of the fulfilled orders, whole USDC';
COMMENT ON COLUMN provider_daily.fulfillment_seconds IS 'Sum over the fulfilled orders of seconds from opening to fulfilment';
COMMENT ON COLUMN provider_daily.deposited_usdc IS 'Deposited into escrow on the day, whole USDC';
COMMENT ON COLUMN provider_daily.withdrawn_usdc IS 'Withdrawn from escrow on the day, whole USDC';
COMMENT ON COLUMN provider_daily.available_usdc IS 'Available at the end of the day (locks of expired orders included), whole USDC';
COMMENT ON COLUMN provider_daily.locked_usdc IS 'Locked by active orders at the end of the day, whole USDC';
COMMENT ON COLUMN provider_daily.locked_usdc_seconds IS 'Locked over time: whole USDC x seconds. Additive over providers and days';
COMMENT ON COLUMN provider_daily.escrow_usdc_seconds IS 'Available + locked over time: whole USDC x seconds. Additive over providers and days';
COMMENT ON COLUMN provider_daily.utilisation IS 'locked over time / escrow over time, 0 to 1; null without escrow';
COMMENT ON COLUMN provider_daily.turnover IS 'Released / mean escrow over a whole day: how often the escrow was turned over';
