CREATE VIEW spread_daily AS
WITH sides AS (
    SELECT
        DATE '1970-01-01' + (ended_at / 86400)::integer AS day,
        currency,
        direction,
        sum(released) AS released,
        sum(div(2 * fiat_amount * released + amount, 2 * nullif(amount, 0)))
        / nullif(sum(CASE direction WHEN 'onramp' THEN released - fee ELSE released END), 0)
            AS rate
    FROM projections.orders
    WHERE status = 'fulfilled'
    GROUP BY 1, 2, 3
),
days AS (
    SELECT
        day,
        currency,
        max(rate) FILTER (WHERE direction = 'onramp') AS buying,
        max(rate) FILTER (WHERE direction = 'offramp') AS selling,
        coalesce(max(released) FILTER (WHERE direction = 'onramp'), 0) AS bought,
        coalesce(max(released) FILTER (WHERE direction = 'offramp'), 0) AS sold
    FROM sides
    GROUP BY 1, 2
)
SELECT
    day,
    currency,
    round(buying, 7) AS onramp_rate,
    round(selling, 7) AS offramp_rate,
    round((buying + selling) / 2, 7) AS mid_rate,
    round((buying - selling) * 20000 / nullif(buying + selling, 0), 2) AS spread_bps,
    bought * 0.0000001 AS onramp_usdc,
    sold * 0.0000001 AS offramp_usdc
FROM days;

COMMENT ON VIEW spread_daily IS
    'What a round trip cost on a day: effective rates of buying and of selling USDC in a currency, over all rails';
COMMENT ON COLUMN spread_daily.day IS 'UTC day of fulfilment, by ledger close time';
COMMENT ON COLUMN spread_daily.currency IS 'ISO 4217 code';
COMMENT ON COLUMN spread_daily.onramp_rate IS 'Effective fiat per 1 USDC bought; null if none was bought';
COMMENT ON COLUMN spread_daily.offramp_rate IS 'Effective fiat per 1 USDC sold; null if none was sold';
COMMENT ON COLUMN spread_daily.mid_rate IS 'Half way between the two: our own market''s price, not a foreign exchange''s';
COMMENT ON COLUMN spread_daily.spread_bps IS '(onramp - offramp) / mid x 10000, basis points; null without both';
COMMENT ON COLUMN spread_daily.onramp_usdc IS 'Released by onramp orders, whole USDC';
COMMENT ON COLUMN spread_daily.offramp_usdc IS 'Released by offramp orders, whole USDC';
