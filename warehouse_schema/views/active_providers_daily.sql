CREATE VIEW active_providers_daily AS
WITH filled AS (
    SELECT DISTINCT DATE '1970-01-01' + (ended_at / 86400)::integer AS day, provider
    FROM projections.orders
    WHERE status = 'fulfilled'
),
days AS (
    SELECT generate_series(first.day, DATE '1970-01-01' + (book.as_of / 86400)::integer, '1 day')::date
        AS day
    FROM (SELECT min(day) AS day FROM filled) AS first
    CROSS JOIN projections.book
)
SELECT
    days.day,
    count(DISTINCT filled.provider) FILTER (WHERE filled.day = days.day) AS providers_1d,
    count(DISTINCT filled.provider) FILTER (WHERE filled.day > days.day - 7) AS providers_7d,
    count(DISTINCT filled.provider) AS providers_30d
FROM days
LEFT JOIN filled ON filled.day BETWEEN days.day - 29 AND days.day
GROUP BY days.day;

COMMENT ON VIEW active_providers_daily IS
    'How many providers had an order fulfilled on each day, and in the days up to it';
COMMENT ON COLUMN active_providers_daily.day IS 'UTC day, by ledger close time; the last one is not over yet';
COMMENT ON COLUMN active_providers_daily.providers_1d IS 'Providers with an order fulfilled on the day';
COMMENT ON COLUMN active_providers_daily.providers_7d IS 'The same of the day and the 6 before it';
COMMENT ON COLUMN active_providers_daily.providers_30d IS 'The same of the day and the 29 before it';
