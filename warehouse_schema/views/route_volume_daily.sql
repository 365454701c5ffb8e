CREATE VIEW route_volume_daily AS
WITH moves AS NOT MATERIALIZED (
    SELECT
        mechanism,
        coalesce(source_chain, 'elsewhere') AS source_chain,
        coalesce(dest_chain, 'elsewhere') AS dest_chain,
        -- USDC and USDT0 have 6 decimals on every EVM chain and 7 on Stellar.
        CASE WHEN source_chain LIKE 'stellar:%' THEN 0.0000001 ELSE 0.000001 END AS source_unit,
        CASE WHEN dest_chain LIKE 'stellar:%' THEN 0.0000001 ELSE 0.000001 END AS dest_unit,
        amount_in,
        amount_out,
        fee,
        sent_at,
        delivered_at
    FROM projections.movements
),
ends AS (
    SELECT
        DATE '1970-01-01' + (sent_at / 86400)::integer AS day,
        mechanism,
        source_chain,
        dest_chain,
        1 AS sent,
        amount_in * source_unit AS sent_tokens,
        0 AS delivered,
        0 AS delivered_tokens,
        CASE mechanism WHEN 'oft' THEN coalesce(fee, 0) * source_unit ELSE 0 END AS fee_tokens
    FROM moves
    WHERE sent_at IS NOT NULL
    UNION ALL
    SELECT
        DATE '1970-01-01' + (delivered_at / 86400)::integer,
        mechanism,
        source_chain,
        dest_chain,
        0,
        0,
        1,
        amount_out * dest_unit,
        CASE mechanism WHEN 'cctp' THEN coalesce(fee, 0) * source_unit ELSE 0 END
    FROM moves
    WHERE delivered_at IS NOT NULL
)
SELECT
    day,
    mechanism,
    source_chain,
    dest_chain,
    sum(sent) AS sent,
    sum(sent_tokens) AS sent_tokens,
    sum(delivered) AS delivered,
    sum(delivered_tokens) AS delivered_tokens,
    sum(fee_tokens) AS fee_tokens
FROM ends
GROUP BY 1, 2, 3, 4;

COMMENT ON VIEW route_volume_daily IS
    'Money moved between chains, a row a day and route. Each movement counts once where it was sent and once where it was delivered. Closed days: projections.route_days';
COMMENT ON COLUMN route_volume_daily.day IS 'UTC day, by block time: of the source block for what was sent, of the destination block for what was delivered';
COMMENT ON COLUMN route_volume_daily.mechanism IS 'cctp (USDC) or oft (USDT0)';
COMMENT ON COLUMN route_volume_daily.source_chain IS 'CAIP-2 id; elsewhere when it is no chain of ours';
COMMENT ON COLUMN route_volume_daily.dest_chain IS 'CAIP-2 id; elsewhere when it is no chain of ours';
COMMENT ON COLUMN route_volume_daily.sent IS 'Movements sent on the day';
COMMENT ON COLUMN route_volume_daily.sent_tokens IS 'Sent, gross of fees, whole USDC or USDT0';
COMMENT ON COLUMN route_volume_daily.delivered IS 'Movements delivered on the day';
COMMENT ON COLUMN route_volume_daily.delivered_tokens IS 'Delivered, whole USDC or USDT0';
COMMENT ON COLUMN route_volume_daily.fee_tokens IS 'Taken on the way, whole USDC or USDT0: from what was delivered on the day (cctp, which takes it from the mint), or from what was sent (oft, which takes it from the send)';
