CREATE VIEW utilisation_daily AS
SELECT
    day,
    count(*) FILTER (WHERE escrow_usdc_seconds > 0) AS providers,
    sum(released_usdc) AS released_usdc,
    sum(available_usdc) AS available_usdc,
    sum(locked_usdc) AS locked_usdc,
    sum(locked_usdc_seconds) AS locked_usdc_seconds,
    sum(escrow_usdc_seconds) AS escrow_usdc_seconds,
    round(sum(locked_usdc_seconds) / nullif(sum(escrow_usdc_seconds), 0), 4) AS utilisation,
    round(sum(released_usdc) * 86400 / nullif(sum(escrow_usdc_seconds), 0), 4) AS turnover
FROM provider_daily
GROUP BY day;

COMMENT ON VIEW utilisation_daily IS
    'How much of all escrow was at work on each day. Reads all history; closed days add up from projections.provider_days';
COMMENT ON COLUMN utilisation_daily.day IS 'UTC day, by ledger close time; the last one is not over yet';
COMMENT ON COLUMN utilisation_daily.providers IS 'Providers that had escrow on the day';
COMMENT ON COLUMN utilisation_daily.released_usdc IS 'Volume: released by orders fulfilled on the day, whole USDC';
COMMENT ON COLUMN utilisation_daily.available_usdc IS 'Available at the end of the day over all providers, whole USDC';
COMMENT ON COLUMN utilisation_daily.locked_usdc IS 'Locked by active orders at the end of the day, whole USDC';
COMMENT ON COLUMN utilisation_daily.locked_usdc_seconds IS 'Locked over time, whole USDC x seconds';
COMMENT ON COLUMN utilisation_daily.escrow_usdc_seconds IS 'Available + locked over time, whole USDC x seconds';
COMMENT ON COLUMN utilisation_daily.utilisation IS 'locked over time / escrow over time, 0 to 1; null without escrow';
COMMENT ON COLUMN utilisation_daily.turnover IS 'Released / mean escrow over a whole day';
