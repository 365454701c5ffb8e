CREATE VIEW effective_rate_daily AS
WITH fills AS (
    SELECT
        DATE '1970-01-01' + (ended_at / 86400)::integer AS day,
        direction,
        rail,
        currency,
        released,
        rate,
        div(2 * fiat_amount * released + amount, 2 * nullif(amount, 0)) AS fiat,
        -- Who buys USDC gets what is left after the fee; who sells gives all that is released.
        CASE direction WHEN 'onramp' THEN released - fee ELSE released END AS taker_usdc
    FROM projections.orders
    WHERE status = 'fulfilled'
),
rates AS (
    SELECT
        day,
        direction,
        rail,
        currency,
        count(*) AS orders,
        sum(released) AS released,
        sum(rate * released) / nullif(sum(released), 0) AS quoted,
        sum(fiat) / nullif(sum(taker_usdc), 0) AS effective
    FROM fills
    GROUP BY 1, 2, 3, 4
)
SELECT
    day,
    direction,
    rail,
    currency,
    orders,
    released * 0.0000001 AS released_usdc,
    round(quoted * 0.0000001, 7) AS quoted_rate,
    round(effective, 7) AS effective_rate,
    round((effective / nullif(quoted * 0.0000001, 0) - 1) * 10000, 2) AS cost_bps,
    CASE WHEN currency = 'USD' THEN round((effective - 1) * 10000, 2) END AS spread_to_par_bps
FROM rates;

COMMENT ON VIEW effective_rate_daily IS
    'What takers really paid or got for a USDC, fees in, over the orders fulfilled on a day, weighted by size';
COMMENT ON COLUMN effective_rate_daily.day IS 'UTC day of fulfilment, by ledger close time';
COMMENT ON COLUMN effective_rate_daily.direction IS 'onramp: takers pay fiat, low is good for them; offramp: takers get fiat, high is good for them';
COMMENT ON COLUMN effective_rate_daily.rail IS 'Payment rail';
COMMENT ON COLUMN effective_rate_daily.currency IS 'ISO 4217 code';
COMMENT ON COLUMN effective_rate_daily.orders IS 'Orders fulfilled';
COMMENT ON COLUMN effective_rate_daily.released_usdc IS 'Released by them, whole USDC';
COMMENT ON COLUMN effective_rate_daily.quoted_rate IS 'Mean of the orders'' rates, weighted by what they released: fiat per 1 USDC';
COMMENT ON COLUMN effective_rate_daily.effective_rate IS 'All fiat moved / USDC the takers got (onramp, after the fee) or gave (offramp): fiat per 1 USDC';
COMMENT ON COLUMN effective_rate_daily.cost_bps IS '(effective / quoted - 1) x 10000: what fees and rounding add to the quoted rate, basis points';
COMMENT ON COLUMN effective_rate_daily.spread_to_par_bps IS '(effective - 1) x 10000 for USD, taking 1 USDC as 1 USD; null for other currencies, whose market rate is no fact of ours';
