CREATE VIEW volume_daily AS
WITH turns AS (
    SELECT 'opened' AS turn, created_at AS at, orders.* FROM projections.orders
    UNION ALL
    SELECT status, ended_at, orders.* FROM projections.orders
    WHERE status IN ('fulfilled', 'cancelled')
    UNION ALL
    -- The first second in which it is expired: at expires_at itself an order is still active.
    SELECT 'expired', least(expires_at + 1, ended_at), orders.* FROM projections.orders
    WHERE status = 'expired'
)
SELECT
    DATE '1970-01-01' + (at / 86400)::integer AS day,
    direction,
    rail,
    currency,
    count(*) FILTER (WHERE turn = 'opened') AS opened,
    coalesce(sum(amount) FILTER (WHERE turn = 'opened'), 0) * 0.0000001 AS opened_usdc,
    count(*) FILTER (WHERE turn = 'fulfilled') AS fulfilled,
    count(*) FILTER (WHERE turn = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE turn = 'expired') AS expired,
    coalesce(sum(released) FILTER (WHERE turn = 'fulfilled'), 0) * 0.0000001 AS released_usdc,
    coalesce(sum(fee) FILTER (WHERE turn = 'fulfilled'), 0) * 0.0000001 AS fee_usdc,
    coalesce(
        sum(div(2 * fiat_amount * released + amount, 2 * nullif(amount, 0)))
            FILTER (WHERE turn = 'fulfilled'),
        0
    ) * 0.0000001 AS fiat,
    coalesce(sum(ended_at - created_at) FILTER (WHERE turn = 'fulfilled'), 0)::bigint
        AS fulfillment_seconds,
    count(*) FILTER (WHERE turn = 'fulfilled' AND released < amount) AS partial,
    count(*) FILTER (WHERE turn = 'fulfilled' AND claim = 'manual') AS manual,
    round(
        count(*) FILTER (WHERE turn = 'fulfilled' AND released < amount)::numeric
        / nullif(count(*) FILTER (WHERE turn = 'fulfilled'), 0),
        4
    ) AS partial_rate,
    round(
        count(*) FILTER (WHERE turn = 'fulfilled' AND claim = 'manual')::numeric
        / nullif(count(*) FILTER (WHERE turn = 'fulfilled'), 0),
        4
    ) AS manual_rate
FROM turns
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW volume_daily IS
    'What happened on a day: each order counts once on the day it was opened and once on the day it ended. Closed days: projections.market_days';
COMMENT ON COLUMN volume_daily.day IS 'UTC day of the event, by ledger close time';
COMMENT ON COLUMN volume_daily.direction IS 'onramp or offramp';
COMMENT ON COLUMN volume_daily.rail IS 'Payment rail';
COMMENT ON COLUMN volume_daily.currency IS 'ISO 4217 code';
COMMENT ON COLUMN volume_daily.opened IS 'Orders opened on the day';
COMMENT ON COLUMN volume_daily.opened_usdc IS 'Asked for by them, whole USDC';
COMMENT ON COLUMN volume_daily.fulfilled IS 'Orders fulfilled on the day, whenever they were opened';
COMMENT ON COLUMN volume_daily.cancelled IS 'Orders cancelled on the day';
COMMENT ON COLUMN volume_daily.expired IS 'Orders that the ledger clock passed on the day';
COMMENT ON COLUMN volume_daily.released_usdc IS 'Volume: released by the fulfilled orders, gross of the protocol fee, whole USDC';
COMMENT ON COLUMN volume_daily.fee_usdc IS 'Protocol fees of the fulfilled orders, whole USDC';
COMMENT ON COLUMN volume_daily.fiat IS 'Fiat that the released part stands for (fiat x released / amount, each order rounded to 7 decimals), whole units of the currency';
COMMENT ON COLUMN volume_daily.fulfillment_seconds IS 'Sum over the fulfilled orders of seconds from opening to fulfilment';
COMMENT ON COLUMN volume_daily.partial IS 'Of the fulfilled, those that released less than was asked for';
COMMENT ON COLUMN volume_daily.manual IS 'Of the fulfilled, those released by hand, without a proof';
COMMENT ON COLUMN volume_daily.partial_rate IS 'partial / fulfilled, 0 to 1; null when nothing was fulfilled';
COMMENT ON COLUMN volume_daily.manual_rate IS 'manual / fulfilled, 0 to 1; null when nothing was fulfilled';
