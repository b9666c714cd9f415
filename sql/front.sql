-- The dp functions, as an analyst's DuckDB sees them: written by python -m duckdp.functions.write, from the classes in
-- duckdp/functions. Each asks the curator at bind time what columns come back (__dp_bind: no data, no charge) and
-- fetches the released values when it runs (the charge, once per call). Arguments cross as text: first all of them in
-- order, then those that are lists (what was given in place of a list is among the texts).
-- epsilon is read as a decimal; SET VARIABLE dp_epsilon = 0.1 sets it for a session.

CREATE OR REPLACE MACRO dp_noisy_count(t, epsilon := NULL, predicate := NULL, unit := false, error := NULL,
  fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_noisy_count', [
  t::VARCHAR, coalesce(epsilon::VARCHAR, CASE WHEN error IS NULL THEN getvariable('dp_epsilon')::VARCHAR END),
  predicate::VARCHAR, unit::VARCHAR, error::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_noisy_count(t, epsilon := NULL, predicate := NULL, unit := false, error := NULL,
  fresh := false)
AS (SELECT value FROM query(__dp_bind('dp_noisy_count', [
  t::VARCHAR, coalesce(epsilon::VARCHAR, CASE WHEN error IS NULL THEN getvariable('dp_epsilon')::VARCHAR END),
  predicate::VARCHAR, unit::VARCHAR, error::VARCHAR, fresh::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_explain_noisy_count(t, epsilon := NULL, predicate := NULL, unit := false, error := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_noisy_count', [
  t::VARCHAR, coalesce(epsilon::VARCHAR, CASE WHEN error IS NULL THEN getvariable('dp_epsilon')::VARCHAR END),
  predicate::VARCHAR, unit::VARCHAR, error::VARCHAR], []));

CREATE OR REPLACE MACRO dp_query(statement, epsilon := NULL, delta := 0, error := NULL, mechanism := 'auto',
  fresh := false, intervals := true, tolerance := NULL, min_units := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_query', [
  statement::VARCHAR, coalesce(epsilon::VARCHAR, CASE WHEN error IS NULL THEN getvariable('dp_epsilon')::VARCHAR END),
  delta::VARCHAR, error::VARCHAR, mechanism::VARCHAR, fresh::VARCHAR, intervals::VARCHAR, tolerance::VARCHAR,
  min_units::VARCHAR], []));

CREATE OR REPLACE MACRO dp_explain(statement, epsilon := NULL, delta := 0, error := NULL, mechanism := 'auto',
  tolerance := NULL, min_units := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain', [
  statement::VARCHAR, coalesce(epsilon::VARCHAR, CASE WHEN error IS NULL THEN getvariable('dp_epsilon')::VARCHAR END),
  delta::VARCHAR, error::VARCHAR, mechanism::VARCHAR, tolerance::VARCHAR, min_units::VARCHAR], []));

CREATE OR REPLACE MACRO dp_median_smooth(t, x, epsilon := NULL, delta := 0, predicate := NULL, quantile := 0.5,
  groups := NULL, intervals := false, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_median_smooth', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  predicate::VARCHAR, quantile::VARCHAR, groups::VARCHAR, intervals::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_median_smooth(t, x, epsilon := NULL, delta := 0, predicate := NULL, quantile := 0.5,
  fresh := false)
AS (SELECT value FROM query(__dp_bind('dp_median_smooth', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  predicate::VARCHAR, quantile::VARCHAR, NULL::VARCHAR, false::VARCHAR, fresh::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_explain_median_smooth(t, x, epsilon := NULL, delta := 0, predicate := NULL, quantile := 0.5,
  groups := NULL, intervals := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_median_smooth', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  predicate::VARCHAR, quantile::VARCHAR, groups::VARCHAR, intervals::VARCHAR], []));

CREATE OR REPLACE MACRO dp_smooth_summary(t, x, epsilon := NULL, delta := 0, smoothness := NULL, degree := NULL,
  name := NULL, basis := 'auto', interactions := NULL, weights := 'smooth', noise := 'auto', per := NULL,
  across := false, ranges := false, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_smooth_summary', [
  t::VARCHAR, CASE WHEN TRY_CAST(x AS VARCHAR[]) IS NULL THEN x::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR, smoothness::VARCHAR, degree::VARCHAR,
  name::VARCHAR, basis::VARCHAR, interactions::VARCHAR, weights::VARCHAR, noise::VARCHAR, per::VARCHAR, across::VARCHAR,
  ranges::VARCHAR, fresh::VARCHAR], [TRY_CAST(x AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_summary(t, x, epsilon := NULL, delta := 0, smoothness := NULL, degree := NULL,
  basis := 'auto', interactions := NULL, weights := 'smooth', noise := 'auto', per := NULL, across := false,
  ranges := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_summary', [
  t::VARCHAR, CASE WHEN TRY_CAST(x AS VARCHAR[]) IS NULL THEN x::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR, smoothness::VARCHAR, degree::VARCHAR,
  basis::VARCHAR, interactions::VARCHAR, weights::VARCHAR, noise::VARCHAR, per::VARCHAR, across::VARCHAR,
  ranges::VARCHAR], [TRY_CAST(x AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_smooth_answer(name, f, statistic := 'mean', tolerance := NULL, method := 'interpolation',
  category := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_smooth_answer', [
  name::VARCHAR, f::VARCHAR, statistic::VARCHAR, tolerance::VARCHAR, method::VARCHAR, category::VARCHAR], []));

CREATE OR REPLACE MACRO dp_smooth_answer(name, f, statistic := 'mean', tolerance := NULL, method := 'interpolation',
  category := NULL)
AS (SELECT {'value': value, 'standard_error': standard_error, 'approximation_error': approximation_error, 'low': low,
  'high': high, 'estimated': estimated}
  FROM query(__dp_bind('dp_smooth_answer', [
  name::VARCHAR, f::VARCHAR, statistic::VARCHAR, tolerance::VARCHAR, method::VARCHAR, category::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_smooth_answers(name, f, statistic := 'mean', tolerance := NULL, category := NULL,
  simultaneous := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_smooth_answers', [
  name::VARCHAR, CASE WHEN TRY_CAST(f AS VARCHAR[]) IS NULL THEN f::VARCHAR END, statistic::VARCHAR, tolerance::VARCHAR,
  category::VARCHAR, simultaneous::VARCHAR], [TRY_CAST(f AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_synthesize(source, epsilon := NULL, rows := 'auto', columns := NULL, delta := 0,
  smoothness := NULL, degree := NULL, name := NULL, method := 'auto', target := NULL, purpose := 'tables',
  time_limit := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_synthesize', [
  source::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), rows::VARCHAR,
  CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END, delta::VARCHAR, smoothness::VARCHAR,
  degree::VARCHAR, name::VARCHAR, method::VARCHAR, target::VARCHAR, purpose::VARCHAR, time_limit::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_synthesize(t, epsilon := NULL, rows := 'auto', columns := NULL, delta := 0,
  smoothness := NULL, degree := NULL, method := 'auto', target := NULL, purpose := 'tables')
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_synthesize', [
  t::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), rows::VARCHAR,
  CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END, delta::VARCHAR, smoothness::VARCHAR,
  degree::VARCHAR, method::VARCHAR, target::VARCHAR, purpose::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_bounds(t, x, epsilon := NULL, predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_bounds', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), predicate::VARCHAR,
  fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_explain_bounds(t, x, epsilon := NULL, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_bounds', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_rows_per_unit(t, epsilon := NULL, predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_rows_per_unit', [
  t::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), predicate::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_explain_rows_per_unit(t, epsilon := NULL, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_rows_per_unit', [
  t::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_groups_per_unit(t, keys, epsilon := NULL, predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_groups_per_unit', [
  t::VARCHAR, keys::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), predicate::VARCHAR,
  fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_explain_groups_per_unit(t, keys, epsilon := NULL, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_groups_per_unit', [
  t::VARCHAR, keys::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_budget()
AS TABLE SELECT * FROM query(__dp_bind('dp_budget', [], []));

CREATE OR REPLACE MACRO dp_ledger(most := NULL, before := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_ledger', [
  most::VARCHAR, before::VARCHAR], []));

CREATE OR REPLACE MACRO dp_summaries(most := NULL, after := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_summaries', [
  most::VARCHAR, after::VARCHAR], []));

CREATE OR REPLACE MACRO dp_catalog()
AS TABLE SELECT * FROM query(__dp_bind('dp_catalog', [], []));

CREATE OR REPLACE MACRO dp_accountants(delta := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_accountants', [
  delta::VARCHAR], []));

CREATE OR REPLACE MACRO dp_top_k(t, keys, k, epsilon := NULL, delta := 0, predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_top_k', [
  t::VARCHAR, keys::VARCHAR, k::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  predicate::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_explain_top_k(t, keys, k, epsilon := NULL, delta := 0, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_top_k', [
  t::VARCHAR, keys::VARCHAR, k::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_choose(t, candidates, epsilon := NULL, k := 1, delta := 0, predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_choose', [
  t::VARCHAR, CASE WHEN TRY_CAST(candidates AS VARCHAR[]) IS NULL THEN candidates::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), k::VARCHAR, delta::VARCHAR, predicate::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(candidates AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_choose(t, candidates, epsilon := NULL, k := 1, delta := 0, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_choose', [
  t::VARCHAR, CASE WHEN TRY_CAST(candidates AS VARCHAR[]) IS NULL THEN candidates::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), k::VARCHAR, delta::VARCHAR,
  predicate::VARCHAR], [TRY_CAST(candidates AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_count_variance(t, epsilon := NULL, most := NULL, delta := 0, groups := NULL,
  predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_count_variance', [
  t::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), most::VARCHAR, delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_explain_count_variance(t, epsilon := NULL, most := NULL, delta := 0, groups := NULL,
  predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_count_variance', [
  t::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), most::VARCHAR, delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_histogram(t, x, epsilon := NULL, bins := NULL, delta := 0, groups := NULL, predicate := NULL,
  fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_histogram', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), bins::VARCHAR, delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_explain_histogram(t, x, epsilon := NULL, bins := NULL, delta := 0, groups := NULL,
  predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_histogram', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), bins::VARCHAR, delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_cdf(t, x, epsilon := NULL, bins := NULL, delta := 0, groups := NULL, predicate := NULL,
  fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_cdf', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), bins::VARCHAR, delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_explain_cdf(t, x, epsilon := NULL, bins := NULL, delta := 0, groups := NULL,
  predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_cdf', [
  t::VARCHAR, x::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), bins::VARCHAR, delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_mst_cost(t, u, v, weight, epsilon := NULL, predicate := NULL, method := 'auto',
  intervals := false, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_mst_cost', [
  t::VARCHAR, u::VARCHAR, v::VARCHAR, weight::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR),
  predicate::VARCHAR, method::VARCHAR, intervals::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_mst_cost(t, u, v, weight, epsilon := NULL, predicate := NULL, method := 'auto',
  fresh := false)
AS (SELECT value FROM query(__dp_bind('dp_mst_cost', [
  t::VARCHAR, u::VARCHAR, v::VARCHAR, weight::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR),
  predicate::VARCHAR, method::VARCHAR, false::VARCHAR, fresh::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_explain_mst_cost(t, u, v, weight, epsilon := NULL, predicate := NULL, method := 'auto',
  intervals := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_mst_cost', [
  t::VARCHAR, u::VARCHAR, v::VARCHAR, weight::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR),
  predicate::VARCHAR, method::VARCHAR, intervals::VARCHAR], []));

CREATE OR REPLACE MACRO dp_kmeans(t, columns, k := 8, epsilon := NULL, method := 'auto', moves := NULL, blocks := NULL,
  predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_kmeans', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END, k::VARCHAR,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), method::VARCHAR, moves::VARCHAR, blocks::VARCHAR,
  predicate::VARCHAR, fresh::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_kmeans(t, columns, k := 8, epsilon := NULL, method := 'auto', moves := NULL,
  blocks := NULL, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_kmeans', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END, k::VARCHAR,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), method::VARCHAR, moves::VARCHAR, blocks::VARCHAR,
  predicate::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_logistic_regression(t, target, features, epsilon := NULL, ridge := 0.001, predicate := NULL,
  fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_logistic_regression', [
  t::VARCHAR, target::VARCHAR, CASE WHEN TRY_CAST(features AS VARCHAR[]) IS NULL THEN features::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), ridge::VARCHAR, predicate::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(features AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_logistic_regression(t, target, features, epsilon := NULL, ridge := 0.001,
  predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_logistic_regression', [
  t::VARCHAR, target::VARCHAR, CASE WHEN TRY_CAST(features AS VARCHAR[]) IS NULL THEN features::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), ridge::VARCHAR,
  predicate::VARCHAR], [TRY_CAST(features AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_marginals(t, columns, epsilon := NULL, k := 2, delta := 0, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_marginals', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), k::VARCHAR, delta::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_marginals(t, columns, epsilon := NULL, k := 2, delta := 0)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_marginals', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), k::VARCHAR,
  delta::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_quantiles(t, x, quantiles, epsilon := NULL, groups := NULL, predicate := NULL,
  intervals := true, method := 'auto', step := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_quantiles', [
  t::VARCHAR, x::VARCHAR, CASE WHEN TRY_CAST(quantiles AS VARCHAR[]) IS NULL THEN quantiles::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), groups::VARCHAR, predicate::VARCHAR,
  intervals::VARCHAR, method::VARCHAR, step::VARCHAR, fresh::VARCHAR], [TRY_CAST(quantiles AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_quantiles(t, x, quantiles, epsilon := NULL, groups := NULL, predicate := NULL,
  intervals := true, method := 'auto', step := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_quantiles', [
  t::VARCHAR, x::VARCHAR, CASE WHEN TRY_CAST(quantiles AS VARCHAR[]) IS NULL THEN quantiles::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), groups::VARCHAR, predicate::VARCHAR,
  intervals::VARCHAR, method::VARCHAR, step::VARCHAR], [TRY_CAST(quantiles AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_linear_regression(t, target, features, epsilon := NULL, delta := 0, ridge := 0.0,
  groups := NULL, predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_linear_regression', [
  t::VARCHAR, target::VARCHAR, CASE WHEN TRY_CAST(features AS VARCHAR[]) IS NULL THEN features::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR, ridge::VARCHAR, groups::VARCHAR,
  predicate::VARCHAR, fresh::VARCHAR], [TRY_CAST(features AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_linear_regression(t, target, features, epsilon := NULL, delta := 0, ridge := 0.0,
  groups := NULL, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_linear_regression', [
  t::VARCHAR, target::VARCHAR, CASE WHEN TRY_CAST(features AS VARCHAR[]) IS NULL THEN features::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR, ridge::VARCHAR, groups::VARCHAR,
  predicate::VARCHAR], [TRY_CAST(features AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_covariance(t, x, y, epsilon := NULL, delta := 0, groups := NULL, predicate := NULL,
  fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_covariance', [
  t::VARCHAR, x::VARCHAR, y::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_covariance(t, x, y, epsilon := NULL, delta := 0, groups := NULL, predicate := NULL,
  fresh := false)
AS (SELECT value FROM query(__dp_bind('dp_covariance', [
  t::VARCHAR, x::VARCHAR, y::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_explain_covariance(t, x, y, epsilon := NULL, delta := 0, groups := NULL, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_covariance', [
  t::VARCHAR, x::VARCHAR, y::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_correlation(t, x, y, epsilon := NULL, delta := 0, groups := NULL, predicate := NULL,
  fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_correlation', [
  t::VARCHAR, x::VARCHAR, y::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_correlation(t, x, y, epsilon := NULL, delta := 0, groups := NULL, predicate := NULL,
  fresh := false)
AS (SELECT value FROM query(__dp_bind('dp_correlation', [
  t::VARCHAR, x::VARCHAR, y::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_explain_correlation(t, x, y, epsilon := NULL, delta := 0, groups := NULL, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_correlation', [
  t::VARCHAR, x::VARCHAR, y::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR,
  groups::VARCHAR, predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_correlations(t, columns, epsilon := NULL, delta := 0, groups := NULL, predicate := NULL,
  fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_correlations', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR, groups::VARCHAR, predicate::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_correlations(t, columns, epsilon := NULL, delta := 0, groups := NULL,
  predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_correlations', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), delta::VARCHAR, groups::VARCHAR,
  predicate::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_sample_aggregate(t, aggregate, epsilon := NULL, blocks := NULL, low := NULL, high := NULL,
  method := 'auto', predicate := NULL, more := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_sample_aggregate', [
  t::VARCHAR, aggregate::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), blocks::VARCHAR,
  low::VARCHAR, high::VARCHAR, method::VARCHAR, predicate::VARCHAR,
  CASE WHEN TRY_CAST(more AS VARCHAR[]) IS NULL THEN more::VARCHAR END, fresh::VARCHAR], [TRY_CAST(more AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_sample_aggregate(t, aggregate, epsilon := NULL, blocks := NULL, low := NULL, high := NULL,
  method := 'auto', predicate := NULL, fresh := false)
AS (SELECT value FROM query(__dp_bind('dp_sample_aggregate', [
  t::VARCHAR, aggregate::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), blocks::VARCHAR,
  low::VARCHAR, high::VARCHAR, method::VARCHAR, predicate::VARCHAR, NULL::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(more AS VARCHAR[])])));

CREATE OR REPLACE MACRO dp_explain_sample_aggregate(t, aggregate, epsilon := NULL, blocks := NULL, low := NULL,
  high := NULL, method := 'auto', predicate := NULL, more := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_sample_aggregate', [
  t::VARCHAR, aggregate::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), blocks::VARCHAR,
  low::VARCHAR, high::VARCHAR, method::VARCHAR, predicate::VARCHAR,
  CASE WHEN TRY_CAST(more AS VARCHAR[]) IS NULL THEN more::VARCHAR END], [TRY_CAST(more AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_small_database(t, columns, questions, epsilon := NULL, size := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_small_database', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  CASE WHEN TRY_CAST(questions AS VARCHAR[]) IS NULL THEN questions::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), size::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(columns AS VARCHAR[]), TRY_CAST(questions AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_small_database(t, columns, questions, epsilon := NULL, size := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_small_database', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  CASE WHEN TRY_CAST(questions AS VARCHAR[]) IS NULL THEN questions::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR),
  size::VARCHAR], [TRY_CAST(columns AS VARCHAR[]), TRY_CAST(questions AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_table_report(source)
AS TABLE SELECT * FROM query(__dp_bind('dp_table_report', [
  source::VARCHAR], []));

CREATE OR REPLACE MACRO dp_above_threshold(t, candidates, threshold, epsilon := NULL, hits := 1, values := false,
  predicate := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_above_threshold', [
  t::VARCHAR, CASE WHEN TRY_CAST(candidates AS VARCHAR[]) IS NULL THEN candidates::VARCHAR END, threshold::VARCHAR,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), hits::VARCHAR, values::VARCHAR, predicate::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(candidates AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_above_threshold(t, candidates, threshold, epsilon := NULL, hits := 1,
  values := false, predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_above_threshold', [
  t::VARCHAR, CASE WHEN TRY_CAST(candidates AS VARCHAR[]) IS NULL THEN candidates::VARCHAR END, threshold::VARCHAR,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), hits::VARCHAR, values::VARCHAR,
  predicate::VARCHAR], [TRY_CAST(candidates AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_sparse_open(t, threshold, epsilon := NULL, hits := 1, values := false, predicate := NULL,
  fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_sparse_open', [
  t::VARCHAR, threshold::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), hits::VARCHAR,
  values::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], []));

CREATE OR REPLACE MACRO dp_sparse_open(t, threshold, epsilon := NULL, hits := 1, values := false, predicate := NULL,
  fresh := false)
AS (SELECT handle FROM query(__dp_bind('dp_sparse_open', [
  t::VARCHAR, threshold::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), hits::VARCHAR,
  values::VARCHAR, predicate::VARCHAR, fresh::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_explain_sparse_open(t, threshold, epsilon := NULL, hits := 1, values := false,
  predicate := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_sparse_open', [
  t::VARCHAR, threshold::VARCHAR, coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), hits::VARCHAR,
  values::VARCHAR, predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_sparse_ask(handle, predicate, threshold := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_sparse_ask', [
  handle::VARCHAR, predicate::VARCHAR, threshold::VARCHAR], []));

CREATE OR REPLACE MACRO dp_sparse_ask(handle, predicate, threshold := NULL)
AS (SELECT above FROM query(__dp_bind('dp_sparse_ask', [
  handle::VARCHAR, predicate::VARCHAR, threshold::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_pmw_open(t, columns, epsilon := NULL, hits := 10, threshold := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_pmw_open', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), hits::VARCHAR, threshold::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_pmw_open(t, columns, epsilon := NULL, hits := 10, threshold := NULL, fresh := false)
AS (SELECT handle FROM query(__dp_bind('dp_pmw_open', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), hits::VARCHAR, threshold::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(columns AS VARCHAR[])])));

CREATE OR REPLACE MACRO dp_explain_pmw_open(t, columns, epsilon := NULL, hits := 10, threshold := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_pmw_open', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), hits::VARCHAR,
  threshold::VARCHAR], [TRY_CAST(columns AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_pmw_answer(handle, predicate)
AS TABLE SELECT * FROM query(__dp_bind('dp_pmw_answer', [
  handle::VARCHAR, predicate::VARCHAR], []));

CREATE OR REPLACE MACRO dp_pmw_answer(handle, predicate)
AS (SELECT value FROM query(__dp_bind('dp_pmw_answer', [
  handle::VARCHAR, predicate::VARCHAR], [])));

CREATE OR REPLACE MACRO dp_mwem(t, columns, questions, epsilon := NULL, rounds := NULL, fresh := false)
AS TABLE SELECT * FROM query(__dp_bind('dp_mwem', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  CASE WHEN TRY_CAST(questions AS VARCHAR[]) IS NULL THEN questions::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR), rounds::VARCHAR,
  fresh::VARCHAR], [TRY_CAST(columns AS VARCHAR[]), TRY_CAST(questions AS VARCHAR[])]));

CREATE OR REPLACE MACRO dp_explain_mwem(t, columns, questions, epsilon := NULL, rounds := NULL)
AS TABLE SELECT * FROM query(__dp_bind('dp_explain_mwem', [
  t::VARCHAR, CASE WHEN TRY_CAST(columns AS VARCHAR[]) IS NULL THEN columns::VARCHAR END,
  CASE WHEN TRY_CAST(questions AS VARCHAR[]) IS NULL THEN questions::VARCHAR END,
  coalesce(epsilon::VARCHAR, getvariable('dp_epsilon')::VARCHAR),
  rounds::VARCHAR], [TRY_CAST(columns AS VARCHAR[]), TRY_CAST(questions AS VARCHAR[])]));
