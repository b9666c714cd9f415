-- Randomized response, for whoever collects: made by duckdp.local.register(con). No curator, no ledger: what is reported is
-- noised before it is stored, each report with the epsilon that is given. Store what dp_randomize gives, once: to
-- draw again is to report again, and costs epsilon again (a view would draw whenever it is read).

-- One of the domain's values: the one that is given, or, with noise, another. Of what is outside of the domain (NULL too) any.
CREATE OR REPLACE TEMP MACRO dp_randomize(value, domain, epsilon) AS
  __dp_randomize(value::VARCHAR, domain::VARCHAR[], epsilon::VARCHAR);

-- For domains of many values: a list of some of them, in which the one that is given is or, with noise, is not.
CREATE OR REPLACE TEMP MACRO dp_randomize_unary(value, domain, epsilon) AS
  __dp_randomize_unary(value::VARCHAR, domain::VARCHAR[], epsilon::VARCHAR);

-- How many of those who reported have each value, unbiased, with a 95% interval: of a table of such reports.
CREATE OR REPLACE TEMP MACRO dp_randomized_counts(t, x, domain, epsilon) AS TABLE
  SELECT * FROM query(__dp_randomized_sql('direct', t::VARCHAR, x::VARCHAR, domain::VARCHAR[], epsilon::VARCHAR));
CREATE OR REPLACE TEMP MACRO dp_randomized_unary_counts(t, x, domain, epsilon) AS TABLE
  SELECT * FROM query(__dp_randomized_sql('unary', t::VARCHAR, x::VARCHAR, domain::VARCHAR[], epsilon::VARCHAR));
