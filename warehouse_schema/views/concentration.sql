CREATE VIEW concentration AS
WITH amounts AS (
    SELECT 'available' AS measure, provider, free + reclaimable AS amount
    FROM projections.providers
    UNION ALL
    SELECT periods.measure, orders.provider, sum(orders.released)
    FROM projections.book
    CROSS JOIN (
        VALUES ('volume_7d', 7 * 86400), ('volume_30d', 30 * 86400), ('volume_all', NULL)
    ) AS periods (measure, seconds)
    JOIN projections.orders
        ON orders.status = 'fulfilled'
        AND (periods.seconds IS NULL OR orders.ended_at > book.as_of - periods.seconds)
    GROUP BY 1, 2
),
ranked AS (
    SELECT
        measure,
        amount,
        row_number() OVER (PARTITION BY measure ORDER BY amount DESC) AS place,
        sum(amount) OVER (PARTITION BY measure) AS total
    FROM amounts
    WHERE amount > 0
)
SELECT
    measure,
    count(*) AS providers,
    max(total) * 0.0000001 AS total_usdc,
    round(sum(amount) FILTER (WHERE place = 1) / max(total), 4) AS top_1_share,
    round(sum(amount) FILTER (WHERE place <= 5) / max(total), 4) AS top_5_share,
    round(sum((amount / total) ^ 2), 4) AS herfindahl
FROM ranked
GROUP BY measure;

COMMENT ON VIEW concentration IS
    'How much of the market lies with few providers, as of the last ledger';
COMMENT ON COLUMN concentration.measure IS 'available: available escrow now; volume_7d, volume_30d, volume_all: released by fulfilled orders in that time';
COMMENT ON COLUMN concentration.providers IS 'Providers with any of it';
COMMENT ON COLUMN concentration.total_usdc IS 'All of it, whole USDC';
COMMENT ON COLUMN concentration.top_1_share IS 'Share of the largest provider, 0 to 1';
COMMENT ON COLUMN concentration.top_5_share IS 'Share of the five largest providers, 0 to 1';
COMMENT ON COLUMN concentration.herfindahl IS 'Sum of squared shares: 1 is one provider alone, 1/n is n equal ones';
