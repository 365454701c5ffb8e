CREATE VIEW completeness AS
WITH figures (dataset, figure) AS (
    VALUES ('provider_days', 'book'), ('market_days', 'book'), ('route_days', 'routes')
),
stored AS (
    SELECT
        cursors.chain,
        (
            SELECT blocks.height FROM facts.blocks
            WHERE blocks.chain = cursors.chain ORDER BY blocks.height LIMIT 1
        ) AS first_height
    FROM facts.cursors
),
-- The facts and what is folded with them in the same transaction.
followed AS (
    SELECT
        dataset,
        cursors.chain,
        NULL::date AS last_day,
        NULL::bigint AS days,
        NULL::bigint AS days_missing,
        stored.first_height,
        cursors.height,
        cursors.block_hash,
        cursors.block_time,
        least(cursors.final_height, cursors.height) AS final_height
    FROM facts.cursors
    INNER JOIN stored ON stored.chain = cursors.chain
    CROSS JOIN (VALUES ('facts'), ('projections')) AS followed (dataset)
),
computed AS (
    SELECT
        figure,
        min(day) AS first_day,
        max(day) AS last_day,
        count(*) AS days
    FROM projections.days_done
    GROUP BY figure
),
daily AS (
    SELECT
        figures.dataset,
        last.chain,
        computed.last_day,
        computed.days,
        computed.last_day - computed.first_day + 1 - computed.days AS days_missing,
        stored.first_height,
        last.height,
        last.block_hash,
        last.block_time,
        last.height AS final_height
    FROM figures
    INNER JOIN computed ON computed.figure = figures.figure
    INNER JOIN projections.day_blocks AS last
        ON last.figure = figures.figure AND last.day = computed.last_day
    INNER JOIN stored ON stored.chain = last.chain
)
SELECT * FROM followed
UNION ALL
SELECT * FROM daily;

COMMENT ON VIEW completeness IS
    'Up to which block of which chain each table is complete, a row a dataset and chain. Exported files carry the same (docs/analytics.md)';
COMMENT ON COLUMN completeness.dataset IS 'facts (every table of that schema that holds events), projections (movements, order book, transfers), or the name of a daily table';
COMMENT ON COLUMN completeness.chain IS 'CAIP-2 chain id';
COMMENT ON COLUMN completeness.last_day IS 'Last day of a daily table; null for what has no days';
COMMENT ON COLUMN completeness.days IS 'Days that are computed; null for what has no days';
COMMENT ON COLUMN completeness.days_missing IS 'Days between the first and the last that are not computed; null for what has no days. 0 is complete';
COMMENT ON COLUMN completeness.first_height IS 'First stored block of the chain: nothing before it was read';
COMMENT ON COLUMN completeness.height IS 'Last block that is in: every event of ours up to it is there';
COMMENT ON COLUMN completeness.block_hash IS 'Its hash';
COMMENT ON COLUMN completeness.block_time IS 'Its time, unix seconds';
COMMENT ON COLUMN completeness.final_height IS 'Up to here no reorg can change it; null when no block is final. A day is computed once it is final';
