CREATE VIEW quote_quality AS
WITH sizes (size_usdc) AS (
    VALUES (50::bigint), (200), (1000)
),
-- What a taker likes less is larger: buyers want a low rate, sellers a high one.
offers AS (
    SELECT offers.*, CASE direction WHEN 'onramp' THEN rate ELSE -rate END AS badness
    FROM projections.offers
),
whole AS (
    SELECT offers.direction, offers.currency, sizes.size_usdc, min(offers.badness) AS badness
    FROM offers
    JOIN sizes ON sizes.size_usdc * 10000000 BETWEEN offers.min AND offers.max
    GROUP BY 1, 2, 3
),
-- A provider's escrow backs all of its offers at once, so only its best one counts.
best AS (
    SELECT DISTINCT ON (direction, currency, provider) *
    FROM offers
    ORDER BY direction, currency, provider, badness, max DESC, rails
),
ladder AS (
    SELECT
        best.direction,
        best.currency,
        best.rate,
        best.max,
        sum(best.max) OVER (
            PARTITION BY best.direction, best.currency
            ORDER BY best.badness, best.max DESC, best.provider
        ) - best.max AS before
    FROM best
),
taken AS (
    SELECT
        ladder.direction,
        ladder.currency,
        sizes.size_usdc,
        ladder.rate,
        greatest(0, least(ladder.max, sizes.size_usdc * 10000000 - ladder.before)) AS amount
    FROM ladder
    CROSS JOIN sizes
)
SELECT
    taken.direction,
    taken.currency,
    taken.size_usdc,
    round(abs(max(whole.badness)) * 0.0000001, 7) AS best_rate,
    CASE WHEN sum(taken.amount) = taken.size_usdc * 10000000 THEN
        round(sum(taken.rate * taken.amount) / sum(taken.amount) * 0.0000001, 7)
    END AS weighted_rate,
    count(*) FILTER (WHERE taken.amount > 0) AS providers_needed,
    sum(taken.amount) * 0.0000001 AS fillable_usdc
FROM taken
LEFT JOIN whole
    ON whole.direction = taken.direction
    AND whole.currency = taken.currency
    AND whole.size_usdc = taken.size_usdc
GROUP BY 1, 2, 3;

COMMENT ON VIEW quote_quality IS
    'What the listed offers give a taker of 50, 200 or 1000 USDC, as of the last ledger';
COMMENT ON COLUMN quote_quality.direction IS 'onramp: takers pay fiat, low is good for them; offramp: takers get fiat, high is good for them';
COMMENT ON COLUMN quote_quality.currency IS 'ISO 4217 code';
COMMENT ON COLUMN quote_quality.size_usdc IS 'What the taker wants to buy or sell, whole USDC';
COMMENT ON COLUMN quote_quality.best_rate IS 'Best rate of one offer that takes all of it: fiat per 1 USDC; null if none does';
COMMENT ON COLUMN quote_quality.weighted_rate IS 'Mean rate when it is spread over providers, best first, whatever their smallest order: fiat per 1 USDC; null if all of them together cannot';
COMMENT ON COLUMN quote_quality.providers_needed IS 'Over how many providers that is';
COMMENT ON COLUMN quote_quality.fillable_usdc IS 'How much of the size they can take together, whole USDC';
