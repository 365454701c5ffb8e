CREATE VIEW transfer_funnel AS
WITH moves AS (
    SELECT
        mechanism,
        coalesce(source_chain, 'elsewhere') AS source_chain,
        coalesce(dest_chain, 'elsewhere') AS dest_chain,
        stage,
        sent_at,
        delivered_at,
        CASE mechanism
            WHEN 'cctp' THEN (
                SELECT extract(epoch FROM min(judged_at))::bigint
                FROM facts.cctp_attestations
                WHERE
                    cctp_attestations.verified
                    AND cctp_attestations.burn_key = movements.group_key
                    AND cctp_attestations.nonce = movements.message_id
            )
            ELSE (
                SELECT min(block_time)
                FROM facts.lz_packets_verified
                WHERE lz_packets_verified.guid = movements.message_id
            )
        END AS ready_at,
        amount_in
        * CASE WHEN source_chain LIKE 'stellar:%' THEN 0.0000001 ELSE 0.000001 END AS tokens
    FROM projections.movements
),
-- A movement passes the stages in this order; each row is one movement in, or past, one stage.
passed AS (
    SELECT
        1 AS step,
        CASE mechanism WHEN 'cctp' THEN 'ATTESTING' ELSE 'IN_FLIGHT' END AS at_stage,
        CASE WHEN ready_at BETWEEN sent_at AND coalesce(delivered_at, ready_at)
            THEN ready_at - sent_at END AS seconds,
        moves.*
    FROM moves
    UNION ALL
    SELECT
        2,
        'DELIVERING',
        CASE WHEN ready_at BETWEEN coalesce(sent_at, ready_at) AND delivered_at
            THEN delivered_at - ready_at END,
        moves.*
    FROM moves
    WHERE stage IN ('DELIVERING', 'COMPLETED') OR delivered_at IS NOT NULL
    UNION ALL
    SELECT 3, 'ON_HOLD', NULL, moves.*
    FROM moves
    WHERE stage = 'ON_HOLD'
    UNION ALL
    -- Two chains' clocks: where the delivery's is behind the source's, nobody knows how long it took.
    SELECT 4, 'COMPLETED', CASE WHEN delivered_at >= sent_at THEN delivered_at - sent_at END, moves.*
    FROM moves
    WHERE stage = 'COMPLETED'
)
SELECT
    mechanism,
    source_chain,
    dest_chain,
    step,
    at_stage AS stage,
    count(*) AS reached,
    count(*) FILTER (WHERE stage = at_stage) AS now_here,
    coalesce(sum(tokens) FILTER (WHERE stage = at_stage), 0) AS now_here_tokens,
    count(seconds) AS timed,
    percentile_disc(0.50) WITHIN GROUP (ORDER BY seconds) AS p50_seconds,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY seconds) AS p95_seconds,
    max(seconds) AS max_seconds
FROM passed
GROUP BY 1, 2, 3, 4, 5;

COMMENT ON VIEW transfer_funnel IS
    'How far movements between chains came, a row a route and stage, and how long each stage took';
COMMENT ON COLUMN transfer_funnel.mechanism IS 'cctp (USDC) or oft (USDT0)';
COMMENT ON COLUMN transfer_funnel.source_chain IS 'CAIP-2 id; elsewhere when it is no chain of ours';
COMMENT ON COLUMN transfer_funnel.dest_chain IS 'CAIP-2 id; elsewhere when it is no chain of ours';
COMMENT ON COLUMN transfer_funnel.step IS 'Order of the stages';
COMMENT ON COLUMN transfer_funnel.stage IS 'ATTESTING or IN_FLIGHT (sent), DELIVERING (attested or verified), ON_HOLD (beside the way), COMPLETED';
COMMENT ON COLUMN transfer_funnel.reached IS 'Movements that are in the stage or have passed it';
COMMENT ON COLUMN transfer_funnel.now_here IS 'Movements that are in the stage now';
COMMENT ON COLUMN transfer_funnel.now_here_tokens IS 'Sent by those, whole USDC or USDT0; a movement whose sending was not seen counts nothing';
COMMENT ON COLUMN transfer_funnel.timed IS 'Movements of which both ends of the stage are known, and the later one has the later time by its own clock; in COMPLETED, both ends of the whole way';
COMMENT ON COLUMN transfer_funnel.p50_seconds IS 'Half of these took at most this for the stage (COMPLETED: for the whole way), seconds of block time, each end by the clock of its own chain. When an attestation came is our own clock''s word; one that came after the mint, as in a backfill, is not timed';
COMMENT ON COLUMN transfer_funnel.p95_seconds IS '95 % of these took at most this, seconds';
COMMENT ON COLUMN transfer_funnel.max_seconds IS 'The slowest of these, seconds';
