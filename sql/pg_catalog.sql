-- What PostgreSQL's clients ask of its catalog, answered from an analyst's own instance: its tables and views, the stubs
-- of protected tables with their comments, and the dp functions. No row of anybody's, and no number of rows, is in it.
-- The server sends catalog questions here (duckdp/serve/catalog.py); what is always empty has its columns alone.
-- The schema, and pgc.person(), who is spoken for, are there before.

CREATE TABLE pgc.known_types AS SELECT * FROM (VALUES
    (16, 'bool', 1, 'B', 1000, 'boolean'), (17, 'bytea', -1, 'U', 1001, 'bytea'), (18, 'char', 1, 'Z', 1002, '"char"'),
    (19, 'name', 64, 'S', 1003, 'name'), (20, 'int8', 8, 'N', 1016, 'bigint'), (21, 'int2', 2, 'N', 1005, 'smallint'),
    (23, 'int4', 4, 'N', 1007, 'integer'), (24, 'regproc', 4, 'N', 1008, 'regproc'), (25, 'text', -1, 'S', 1009, 'text'),
    (26, 'oid', 4, 'N', 1028, 'oid'), (114, 'json', -1, 'U', 199, 'json'), (700, 'float4', 4, 'N', 1021, 'real'),
    (701, 'float8', 8, 'N', 1022, 'double precision'), (705, 'unknown', -2, 'X', 0, 'unknown'),
    (1042, 'bpchar', -1, 'S', 1014, 'character'), (1043, 'varchar', -1, 'S', 1015, 'character varying'),
    (1082, 'date', 4, 'D', 1182, 'date'), (1083, 'time', 8, 'D', 1183, 'time without time zone'),
    (1114, 'timestamp', 8, 'D', 1115, 'timestamp without time zone'),
    (1184, 'timestamptz', 8, 'D', 1185, 'timestamp with time zone'), (1186, 'interval', 16, 'T', 1187, 'interval'),
    (1700, 'numeric', -1, 'N', 1231, 'numeric'), (2205, 'regclass', 4, 'N', 2210, 'regclass'),
    (2249, 'record', -1, 'P', 2287, 'record'), (2278, 'void', 4, 'P', 0, 'void'), (2950, 'uuid', 16, 'U', 2951, 'uuid'),
    (3802, 'jsonb', -1, 'U', 3807, 'jsonb')
) AS t(oid, typname, typlen, typcategory, typarray, shown);

CREATE TABLE pgc.pg_type AS SELECT
    t.*, 11 AS typnamespace, 10 AS typowner, CASE typcategory WHEN 'P' THEN 'p' ELSE 'b' END AS typtype, 0 AS typrelid,
    0 AS typbasetype, -1 AS typtypmod, false AS typnotnull, NULL::VARCHAR AS typdefault, ',' AS typdelim,
    0 AS typcollation, CASE typcategory WHEN 'A' THEN 750 ELSE 0 END AS typinput, 0 AS typoutput,
    CASE typcategory WHEN 'A' THEN 751 ELSE 752 END AS typreceive, 753 AS typsend,
    0 AS typndims, true AS typisdefined, false AS typispreferred, false AS typbyval
FROM (
    SELECT oid, typname, typlen, typcategory, typarray, shown, 0 AS typelem FROM pgc.known_types
    UNION ALL
    SELECT typarray, '_' || typname, -1, 'A', 0, shown || '[]', oid FROM pgc.known_types WHERE typarray <> 0
) AS t;

-- A DuckDB type's number, as values cross (duckdp/serve/values.py).
CREATE MACRO pgc.plain_oid(kind) AS CASE
    WHEN kind LIKE 'DECIMAL(%' THEN 1700
    WHEN kind LIKE 'STRUCT(%' OR kind LIKE 'MAP(%' OR kind LIKE 'UNION(%' OR kind LIKE '%]' THEN 114
    ELSE coalesce(MAP {
        'BOOLEAN': 16, 'BLOB': 17, 'TINYINT': 21, 'UTINYINT': 21, 'SMALLINT': 21, 'USMALLINT': 23, 'INTEGER': 23,
        'UINTEGER': 20, 'BIGINT': 20, 'UBIGINT': 1700, 'HUGEINT': 1700, 'UHUGEINT': 1700, 'FLOAT': 700, 'DOUBLE': 701,
        'DATE': 1082, 'TIME': 1083, 'TIMESTAMP': 1114, 'TIMESTAMP_S': 1114, 'TIMESTAMP_MS': 1114, 'TIMESTAMP_NS': 1114,
        'TIMESTAMP WITH TIME ZONE': 1184, 'INTERVAL': 1186, 'UUID': 2950,
        'JSON': 114}[kind], 25) END;
CREATE MACRO pgc.array_oid(plain) AS coalesce(MAP {
    16: 1000, 17: 1001, 21: 1005, 23: 1007, 20: 1016, 25: 1009, 700: 1021, 701: 1022, 1082: 1182, 1083: 1183, 1114: 1115,
    1184: 1185, 1186: 1187, 1700: 1231, 2950: 2951}[plain], 114);
CREATE MACRO pgc.type_oid(kind) AS CASE
    WHEN kind = 'JSON[]' THEN 199 WHEN kind LIKE '%[]' THEN pgc.array_oid(pgc.plain_oid(kind[:-3])) ELSE pgc.plain_oid(kind) END;

CREATE VIEW pgc.pg_namespace AS
    SELECT oid, schema_name AS nspname, 10 AS nspowner, NULL::VARCHAR AS nspacl FROM duckdb_schemas()
    WHERE database_name = current_database() AND schema_name IN ('main') OR (
        database_name = current_database() AND NOT internal AND schema_name <> 'pgc')
    UNION ALL SELECT 11, 'pg_catalog', 10, NULL;

CREATE VIEW pgc.relations AS
    SELECT table_oid AS oid, table_name AS name, schema_oid AS place, schema_name, 'r' AS kind, comment, column_count AS width
    FROM duckdb_tables() WHERE NOT internal AND schema_name <> 'pgc' AND database_name IN (current_database(), 'temp')
    UNION ALL
    SELECT view_oid, view_name, schema_oid, schema_name, CASE WHEN comment LIKE 'protected: %' OR comment LIKE 'synthetic: %' THEN 'r' ELSE 'v' END, comment,
        column_count
    FROM duckdb_views() WHERE NOT internal AND schema_name <> 'pgc' AND database_name IN (current_database(), 'temp');

CREATE VIEW pgc.pg_class AS SELECT
    oid, name AS relname, place AS relnamespace, 0 AS reltype, 0 AS reloftype, 10 AS relowner, 2 AS relam,
    0 AS relfilenode, 0 AS reltablespace, 0 AS relpages, -1::FLOAT AS reltuples, 0 AS relallvisible, 0 AS reltoastrelid,
    false AS relhasindex, false AS relisshared, CASE WHEN schema_name = 'temp' THEN 't' ELSE 'p' END AS relpersistence,
    kind AS relkind, width AS relnatts, 0 AS relchecks, false AS relhasoids, false AS relhasrules,
    false AS relhastriggers, false AS relhassubclass, false AS relrowsecurity, false AS relforcerowsecurity,
    true AS relispopulated, 'n' AS relreplident, false AS relispartition, 0 AS relrewrite, NULL::VARCHAR AS relacl,
    NULL::VARCHAR[] AS reloptions, NULL::VARCHAR AS relpartbound
FROM pgc.relations;

CREATE VIEW pgc.columns AS
    SELECT c.table_oid AS oid, c.column_index AS place, c.column_name AS name, c.data_type AS kind,
        c.is_nullable, c.column_default, c.comment
    FROM duckdb_columns() AS c WHERE NOT c.internal AND c.schema_name <> 'pgc';

CREATE VIEW pgc.pg_attribute AS SELECT
    c.oid AS attrelid, c.name AS attname, pgc.type_oid(c.kind) AS atttypid, 0 AS attstattarget,
    coalesce((SELECT t.typlen FROM pgc.pg_type AS t WHERE t.oid = pgc.type_oid(c.kind)), -1) AS attlen,
    c.place AS attnum, 0 AS attndims, -1 AS attcacheoff, -1 AS atttypmod, false AS attbyval, 'p' AS attstorage,
    '' AS attcompression, 'i' AS attalign, NOT c.is_nullable AS attnotnull, c.column_default IS NOT NULL AS atthasdef,
    false AS atthasmissing, '' AS attidentity, '' AS attgenerated, false AS attisdropped, true AS attislocal,
    0 AS attinhcount, 0 AS attcollation, NULL::VARCHAR AS attacl, NULL::VARCHAR[] AS attoptions,
    NULL::VARCHAR[] AS attfdwoptions, NULL::VARCHAR AS attmissingval
FROM pgc.columns AS c;

CREATE VIEW pgc.pg_attrdef AS
    SELECT oid * 10000 + place AS oid, oid AS adrelid, place AS adnum, column_default AS adbin FROM pgc.columns
    WHERE column_default IS NOT NULL;

CREATE VIEW pgc.functions AS
    SELECT min(function_oid) AS oid, function_name AS name, any_value(parameters) AS parameters, any_value(comment) AS prosrc
    FROM duckdb_functions() WHERE schema_name = 'main' AND function_name LIKE 'dp\_%' ESCAPE '\' GROUP BY function_name;

CREATE VIEW pgc.pg_description AS
    SELECT oid AS objoid, 1259 AS classoid, 0 AS objsubid, comment AS description FROM pgc.relations
    WHERE comment IS NOT NULL
    UNION ALL
    SELECT oid, 1259, place, comment FROM pgc.columns WHERE comment IS NOT NULL
    UNION ALL
    SELECT f.oid, 1255, 0, f.prosrc FROM pgc.functions AS f WHERE f.prosrc IS NOT NULL;

CREATE VIEW pgc.pg_proc AS SELECT
    oid, name AS proname, (SELECT n.oid FROM pgc.pg_namespace AS n WHERE n.nspname = 'main') AS pronamespace,
    10 AS proowner, 14 AS prolang, 1::FLOAT AS procost, 0::FLOAT AS prorows, 0 AS provariadic, '-' AS prosupport,
    'f' AS prokind, false AS prosecdef, false AS proleakproof, false AS proisstrict, true AS proretset, 'v' AS provolatile,
    'u' AS proparallel, len(parameters) AS pronargs, 0 AS pronargdefaults, 2249 AS prorettype, '' AS proargtypes,
    NULL::BIGINT[] AS proallargtypes, NULL::VARCHAR[] AS proargmodes, parameters AS proargnames, prosrc,
    NULL::VARCHAR AS probin, NULL::VARCHAR[] AS proconfig, NULL::VARCHAR AS proacl, NULL::VARCHAR AS proargdefaults,
    NULL::VARCHAR AS prosqlbody, NULL::BIGINT[] AS protrftypes
FROM (SELECT oid, name, parameters, prosrc FROM pgc.functions) AS f;

CREATE VIEW pgc.pg_roles AS SELECT
    10 AS oid, pgc.person() AS rolname, false AS rolsuper, true AS rolinherit, false AS rolcreaterole,
    false AS rolcreatedb, true AS rolcanlogin, false AS rolreplication, -1 AS rolconnlimit, '********' AS rolpassword,
    NULL::TIMESTAMP AS rolvaliduntil, false AS rolbypassrls, NULL::VARCHAR[] AS rolconfig;
CREATE VIEW pgc.pg_user AS SELECT
    rolname AS usename, 10 AS usesysid, false AS usecreatedb, false AS usesuper, false AS userepl, false AS usebypassrls,
    '********' AS passwd, NULL::TIMESTAMP AS valuntil, NULL::VARCHAR[] AS useconfig FROM pgc.pg_roles;
CREATE VIEW pgc.pg_database AS SELECT
    1 AS oid, current_database() AS datname, 10 AS datdba, 6 AS encoding, 'c' AS datlocprovider, false AS datistemplate,
    true AS datallowconn, -1 AS datconnlimit, 1663 AS dattablespace, 'C' AS datcollate, 'C' AS datctype,
    NULL::VARCHAR AS daticulocale, NULL::VARCHAR AS datcollversion, NULL::VARCHAR[] AS datacl;
CREATE VIEW pgc.pg_am AS SELECT 2 AS oid, 'heap' AS amname, '-' AS amhandler, 't' AS amtype;
CREATE VIEW pgc.pg_tablespace AS SELECT 1663 AS oid, 'pg_default' AS spcname, 10 AS spcowner, NULL::VARCHAR AS spcacl,
    NULL::VARCHAR[] AS spcoptions;
CREATE VIEW pgc.pg_language AS SELECT 14 AS oid, 'sql' AS lanname;
CREATE VIEW pgc.pg_tables AS SELECT schema_name AS schemaname, name AS tablename, pgc.person() AS tableowner,
    NULL::VARCHAR AS tablespace, false AS hasindexes, false AS hasrules, false AS hastriggers, false AS rowsecurity
    FROM pgc.relations WHERE kind = 'r';
CREATE VIEW pgc.pg_views AS SELECT schema_name AS schemaname, name AS viewname, pgc.person() AS viewowner,
    NULL::VARCHAR AS definition FROM pgc.relations WHERE kind = 'v';
CREATE VIEW pgc.pg_settings AS SELECT 'server_version' AS name, '16.0' AS setting, NULL::VARCHAR AS unit,
    NULL::VARCHAR AS category, NULL::VARCHAR AS short_desc, 'internal' AS context, 'string' AS vartype, 'default' AS source
    UNION ALL SELECT 'max_index_keys', '32', NULL, NULL, NULL, 'internal', 'integer', 'default'
    UNION ALL SELECT 'max_identifier_length', '63', NULL, NULL, NULL, 'internal', 'integer', 'default';

CREATE VIEW pgc.pg_index AS SELECT 0 AS indexrelid, 0 AS indrelid, 0 AS indnatts, 0 AS indnkeyatts, false AS indisunique,
    false AS indnullsnotdistinct, false AS indisprimary, false AS indisexclusion, true AS indimmediate,
    false AS indisclustered, true AS indisvalid, false AS indcheckxmin, true AS indisready, true AS indislive,
    false AS indisreplident, NULL::INTEGER[] AS indkey, NULL::INTEGER[] AS indcollation, NULL::INTEGER[] AS indclass,
    NULL::INTEGER[] AS indoption, NULL::VARCHAR AS indexprs, NULL::VARCHAR AS indpred WHERE false;
CREATE VIEW pgc.pg_constraint AS SELECT 0 AS oid, '' AS conname, 0 AS connamespace, '' AS contype, false AS condeferrable,
    false AS condeferred, true AS convalidated, 0 AS conrelid, 0 AS contypid, 0 AS conindid, 0 AS conparentid,
    0 AS confrelid, '' AS confupdtype, '' AS confdeltype, '' AS confmatchtype, true AS conislocal, 0 AS coninhcount,
    true AS connoinherit, NULL::INTEGER[] AS conkey, NULL::INTEGER[] AS confkey, NULL::VARCHAR AS conbin WHERE false;
CREATE VIEW pgc.pg_inherits AS SELECT 0 AS inhrelid, 0 AS inhparent, 0 AS inhseqno, false AS inhdetachpending WHERE false;
CREATE VIEW pgc.pg_auth_members AS SELECT 0 AS roleid, 0 AS member, 0 AS grantor, false AS admin_option WHERE false;
CREATE VIEW pgc.pg_extension AS SELECT 0 AS oid, '' AS extname, 0 AS extowner, 0 AS extnamespace, false AS extrelocatable,
    '' AS extversion WHERE false;
CREATE VIEW pgc.pg_enum AS SELECT 0 AS oid, 0 AS enumtypid, 0::FLOAT AS enumsortorder, '' AS enumlabel WHERE false;
CREATE VIEW pgc.pg_range AS SELECT 0 AS rngtypid, 0 AS rngsubtype, 0 AS rngmultitypid, 0 AS rngcollation WHERE false;
CREATE VIEW pgc.pg_trigger AS SELECT 0 AS oid, 0 AS tgrelid, 0 AS tgparentid, '' AS tgname, 0 AS tgfoid, 0 AS tgtype,
    '' AS tgenabled, false AS tgisinternal, 0 AS tgconstrrelid, 0 AS tgconstrindid, 0 AS tgconstraint,
    false AS tgdeferrable, false AS tginitdeferred, 0 AS tgnargs WHERE false;
CREATE VIEW pgc.pg_policy AS SELECT 0 AS oid, '' AS polname, 0 AS polrelid, '' AS polcmd, true AS polpermissive,
    NULL::BIGINT[] AS polroles, NULL::VARCHAR AS polqual, NULL::VARCHAR AS polwithcheck WHERE false;
CREATE VIEW pgc.pg_statistic_ext AS SELECT 0 AS oid, 0 AS stxrelid, '' AS stxname, 0 AS stxnamespace, 0 AS stxowner,
    0 AS stxstattarget, NULL::INTEGER[] AS stxkeys, NULL::VARCHAR[] AS stxkind, NULL::VARCHAR AS stxexprs WHERE false;
CREATE VIEW pgc.pg_publication AS SELECT 0 AS oid, '' AS pubname, 0 AS pubowner, false AS puballtables, false AS pubinsert,
    false AS pubupdate, false AS pubdelete, false AS pubtruncate, false AS pubviaroot WHERE false;
CREATE VIEW pgc.pg_publication_rel AS SELECT 0 AS oid, 0 AS prpubid, 0 AS prrelid, NULL::VARCHAR AS prqual,
    NULL::INTEGER[] AS prattrs WHERE false;
CREATE VIEW pgc.pg_publication_namespace AS SELECT 0 AS oid, 0 AS pnpubid, 0 AS pnnspid WHERE false;
CREATE VIEW pgc.pg_collation AS SELECT 0 AS oid, '' AS collname, 0 AS collnamespace, false AS collisdeterministic,
    '' AS collprovider, '' AS collcollate, '' AS collctype WHERE false;
CREATE VIEW pgc.pg_sequence AS SELECT 0 AS seqrelid, 0 AS seqtypid, 0 AS seqstart, 0 AS seqincrement, 0 AS seqmax,
    0 AS seqmin, 0 AS seqcache, false AS seqcycle WHERE false;
CREATE VIEW pgc.pg_foreign_table AS SELECT 0 AS ftrelid, 0 AS ftserver, NULL::VARCHAR[] AS ftoptions WHERE false;
CREATE VIEW pgc.pg_foreign_server AS SELECT 0 AS oid, '' AS srvname, 0 AS srvowner, 0 AS srvfdw, '' AS srvtype,
    '' AS srvversion, NULL::VARCHAR AS srvacl, NULL::VARCHAR[] AS srvoptions WHERE false;
CREATE VIEW pgc.pg_partitioned_table AS SELECT 0 AS partrelid, '' AS partstrat, 0 AS partnatts, 0 AS partdefid WHERE false;
CREATE VIEW pgc.pg_rewrite AS SELECT 0 AS oid, '' AS rulename, 0 AS ev_class, '' AS ev_type, '' AS ev_enabled,
    false AS is_instead, NULL::VARCHAR AS ev_qual, NULL::VARCHAR AS ev_action WHERE false;
CREATE VIEW pgc.pg_depend AS SELECT 0 AS classid, 0 AS objid, 0 AS objsubid, 0 AS refclassid, 0 AS refobjid,
    0 AS refobjsubid, '' AS deptype WHERE false;
CREATE VIEW pgc.pg_shdescription AS SELECT 0 AS objoid, 0 AS classoid, '' AS description WHERE false;
CREATE VIEW pgc.pg_event_trigger AS SELECT 0 AS oid, '' AS evtname, '' AS evtevent, 0 AS evtowner, 0 AS evtfoid,
    '' AS evtenabled, NULL::VARCHAR[] AS evttags WHERE false;
CREATE VIEW pgc.pg_indexes AS SELECT '' AS schemaname, '' AS tablename, '' AS indexname, NULL::VARCHAR AS tablespace,
    '' AS indexdef WHERE false;
CREATE VIEW pgc.pg_sequences AS SELECT '' AS schemaname, '' AS sequencename, '' AS sequenceowner WHERE false;
CREATE VIEW pgc.pg_matviews AS SELECT '' AS schemaname, '' AS matviewname, '' AS matviewowner WHERE false;
CREATE VIEW pgc.pg_stat_activity AS SELECT 0 AS pid, '' AS usename, '' AS datname, '' AS application_name, '' AS state,
    '' AS query WHERE false;
CREATE VIEW pgc.pg_stat_user_tables AS SELECT 0 AS relid, '' AS schemaname, '' AS relname, 0 AS seq_scan, 0 AS seq_tup_read,
    0 AS idx_scan, 0 AS n_live_tup, 0 AS n_dead_tup, NULL::TIMESTAMP AS last_analyze WHERE false;
CREATE VIEW pgc.pg_stat_all_tables AS FROM pgc.pg_stat_user_tables;
CREATE VIEW pgc.pg_stat_database AS SELECT 0 AS datid, '' AS datname, 0 AS numbackends WHERE false;
CREATE VIEW pgc.pg_stats AS SELECT '' AS schemaname, '' AS tablename, '' AS attname, 0::FLOAT AS n_distinct WHERE false;
CREATE VIEW pgc.pg_locks AS SELECT '' AS locktype, 0 AS database, 0 AS relation, 0 AS pid, '' AS mode, false AS granted
    WHERE false;
CREATE VIEW pgc.pg_available_extensions AS SELECT '' AS name, '' AS default_version, '' AS installed_version, '' AS comment
    WHERE false;
CREATE VIEW pgc.pg_rules AS SELECT '' AS schemaname, '' AS tablename, '' AS rulename, '' AS definition WHERE false;
CREATE VIEW pgc.pg_policies AS SELECT '' AS schemaname, '' AS tablename, '' AS policyname WHERE false;
CREATE VIEW pgc.pg_group AS SELECT '' AS groname, 0 AS grosysid, NULL::BIGINT[] AS grolist WHERE false;
CREATE VIEW pgc.pg_opclass AS SELECT 0 AS oid, '' AS opcname, 0 AS opcmethod, 0 AS opcnamespace, false AS opcdefault WHERE false;
CREATE VIEW pgc.pg_operator AS SELECT 0 AS oid, '' AS oprname, 0 AS oprnamespace, 0 AS oprleft, 0 AS oprright WHERE false;
CREATE VIEW pgc.pg_aggregate AS SELECT 0 AS aggfnoid, '' AS aggkind WHERE false;
CREATE VIEW pgc.pg_cast AS SELECT 0 AS oid, 0 AS castsource, 0 AS casttarget WHERE false;

-- What PostgreSQL's information_schema has and DuckDB's has not.
CREATE VIEW pgc.routines AS SELECT current_database() AS specific_catalog, 'main' AS specific_schema, name AS specific_name,
    current_database() AS routine_catalog, 'main' AS routine_schema, name AS routine_name, 'FUNCTION' AS routine_type,
    'record' AS data_type, NULL::VARCHAR AS routine_definition FROM pgc.functions;
CREATE VIEW pgc.parameters AS SELECT '' AS specific_schema, '' AS specific_name, 0 AS ordinal_position, '' AS parameter_mode,
    '' AS parameter_name, '' AS data_type WHERE false;
CREATE VIEW pgc.table_privileges AS SELECT pgc.person() AS grantor, pgc.person() AS grantee,
    current_database() AS table_catalog, schema_name AS table_schema, name AS table_name, 'SELECT' AS privilege_type,
    'NO' AS is_grantable, 'YES' AS with_hierarchy FROM pgc.relations;
CREATE VIEW pgc.role_table_grants AS FROM pgc.table_privileges;
CREATE VIEW pgc.sequences AS SELECT '' AS sequence_catalog, '' AS sequence_schema, '' AS sequence_name, '' AS data_type,
    '' AS start_value, '' AS minimum_value, '' AS maximum_value, '' AS increment, '' AS cycle_option WHERE false;
CREATE VIEW pgc.triggers AS SELECT '' AS trigger_schema, '' AS trigger_name, '' AS event_manipulation,
    '' AS event_object_schema, '' AS event_object_table, '' AS action_statement, '' AS action_timing WHERE false;
CREATE VIEW pgc.domains AS SELECT '' AS domain_schema, '' AS domain_name, '' AS data_type WHERE false;
CREATE VIEW pgc.enabled_roles AS SELECT pgc.person() AS role_name;
CREATE VIEW pgc.applicable_roles AS SELECT pgc.person() AS grantee, pgc.person() AS role_name, 'NO' AS is_grantable;

-- Macros are pasted into the question: no alias of theirs may be one that clients use.
CREATE MACRO pgc.format_type(given, modifier) AS
    coalesce((SELECT its.shown FROM pgc.pg_type AS its WHERE its.oid = given), CASE WHEN given IS NULL THEN NULL ELSE '???' END);
CREATE MACRO pgc.to_regclass(given) AS (
    SELECT its.oid FROM pgc.relations AS its
    WHERE its.name = replace(regexp_replace(CAST(given AS VARCHAR), '^.*\.', ''), '"', '') LIMIT 1);
CREATE MACRO pgc.known_oid(given) AS CASE replace(CAST(given AS VARCHAR), 'pg_catalog.', '')
    WHEN 'pg_class' THEN 1259 WHEN 'pg_proc' THEN 1255 WHEN 'pg_type' THEN 1247 WHEN 'pg_namespace' THEN 2615
    WHEN 'pg_database' THEN 1262 WHEN 'pg_constraint' THEN 2606 WHEN 'pg_extension' THEN 3079 WHEN 'pg_attrdef' THEN 2604
    WHEN 'pg_trigger' THEN 2620 WHEN 'pg_rewrite' THEN 2618 WHEN 'pg_am' THEN 2601 WHEN 'pg_authid' THEN 1260
    ELSE coalesce(try_cast(given AS BIGINT), pgc.to_regclass(given)) END;
CREATE MACRO pgc.regclass_name(number) AS
    coalesce((SELECT its.name FROM pgc.relations AS its WHERE its.oid = number), CAST(number AS VARCHAR));
CREATE MACRO pgc.to_regtype(given) AS (SELECT its.oid FROM pgc.pg_type AS its WHERE its.typname = given OR its.shown = given LIMIT 1);
CREATE MACRO pgc.to_regproc(given) AS CASE replace(given, 'pg_catalog.', '') WHEN 'array_in' THEN 750 WHEN 'array_recv' THEN 751
    ELSE (SELECT its.oid FROM pgc.functions AS its WHERE its.name = given LIMIT 1) END;
-- How a type's values are read, as drivers tell types apart: typreceive of pg_type, as a text.
CREATE MACRO pgc.receiver(number, given) AS CASE
    WHEN number = 751 THEN 'array_recv' WHEN given IN ('date', 'interval', 'json', 'jsonb', 'numeric', 'record', 'time',
        'timestamp', 'timestamptz', 'uuid', 'void') THEN given || '_recv' ELSE given || 'recv' END;
CREATE MACRO pgc.to_regnamespace(given) AS (SELECT its.oid FROM pgc.pg_namespace AS its WHERE its.nspname = given);
CREATE MACRO pgc.pg_get_userbyid(number) AS pgc.person();
CREATE MACRO pgc.version() AS 'PostgreSQL 16.0 (duckdp on DuckDB)';
CREATE MACRO pgc.pg_backend_pid() AS 0;
CREATE MACRO pgc.pg_is_in_recovery() AS false;
CREATE MACRO pgc.pg_encoding_to_char(number) AS 'UTF8';
CREATE MACRO pgc.pg_char_to_encoding(given) AS 6;
CREATE MACRO pgc.pg_get_function_result(number) AS 'table';
CREATE MACRO pgc.pg_get_function_arguments(number) AS
    (SELECT array_to_string(its.parameters, ', ') FROM pgc.functions AS its WHERE its.oid = number);
CREATE MACRO pgc.pg_get_function_identity_arguments(number) AS pgc.pg_get_function_arguments(number);
CREATE MACRO pgc.pg_get_functiondef(number) AS (SELECT its.prosrc FROM pgc.functions AS its WHERE its.oid = number);
CREATE MACRO pgc.pg_get_expr(expression, number) AS expression, (expression, number, pretty) AS expression;
CREATE MACRO pgc.pg_get_indexdef(number) AS NULL::VARCHAR, (number, spot, pretty) AS NULL::VARCHAR;
CREATE MACRO pgc.pg_get_constraintdef(number) AS NULL::VARCHAR, (number, pretty) AS NULL::VARCHAR;
CREATE MACRO pgc.pg_get_viewdef(number) AS NULL::VARCHAR, (number, pretty) AS NULL::VARCHAR;
CREATE MACRO pgc.pg_get_ruledef(number) AS NULL::VARCHAR, (number, pretty) AS NULL::VARCHAR;
CREATE MACRO pgc.pg_get_triggerdef(number) AS NULL::VARCHAR, (number, pretty) AS NULL::VARCHAR;
CREATE MACRO pgc.pg_get_partkeydef(number) AS NULL::VARCHAR;
CREATE MACRO pgc.pg_get_statisticsobjdef_columns(number) AS NULL::VARCHAR;
CREATE MACRO pgc.pg_get_serial_sequence(relation, part) AS NULL::VARCHAR;
CREATE MACRO pgc.pg_relation_is_publishable(number) AS false;
CREATE MACRO pgc.pg_table_is_visible(number) AS true;
CREATE MACRO pgc.pg_function_is_visible(number) AS true;
CREATE MACRO pgc.pg_type_is_visible(number) AS true;
CREATE MACRO pgc.pg_table_size(number) AS 0;
CREATE MACRO pgc.pg_total_relation_size(number) AS 0;
CREATE MACRO pgc.pg_relation_size(number) AS 0;
CREATE MACRO pgc.pg_database_size(number) AS 0;
CREATE MACRO pgc.pg_tablespace_location(number) AS '';
CREATE MACRO pgc.obj_description(number) AS
        (SELECT its.description FROM pgc.pg_description AS its WHERE its.objoid = number AND its.objsubid = 0 LIMIT 1),
    (number, catalog) AS
        (SELECT its.description FROM pgc.pg_description AS its WHERE its.objoid = number AND its.objsubid = 0 LIMIT 1);
CREATE MACRO pgc.col_description(number, spot) AS
    (SELECT its.description FROM pgc.pg_description AS its WHERE its.objoid = number AND its.objsubid = spot LIMIT 1);
CREATE MACRO pgc.shobj_description(number, catalog) AS NULL::VARCHAR;
CREATE MACRO pgc.has_schema_privilege(a, b) AS true, (a, b, c) AS true;
CREATE MACRO pgc.has_table_privilege(a, b) AS true, (a, b, c) AS true;
CREATE MACRO pgc.has_database_privilege(a, b) AS true, (a, b, c) AS true;
CREATE MACRO pgc.has_any_column_privilege(a, b) AS b ILIKE 'select', (a, b, c) AS c ILIKE 'select';
CREATE MACRO pgc.has_column_privilege(a, b, c) AS c ILIKE 'select', (a, b, c, d) AS d ILIKE 'select';
CREATE MACRO pgc.has_sequence_privilege(a, b) AS true, (a, b, c) AS true;
CREATE MACRO pgc.pg_has_role(a, b) AS true, (a, b, c) AS true;
CREATE MACRO pgc.pg_indexes_size(number) AS 0;
CREATE MACRO pgc.pg_stat_get_numscans(number) AS 0;
CREATE MACRO pgc.parse_ident(given) AS string_split(replace(given, '"', ''), '.'), (given, strict) AS
    string_split(replace(given, '"', ''), '.');
CREATE MACRO pgc.has_function_privilege(a, b) AS true, (a, b, c) AS true;
CREATE MACRO pgc.array_to_string(list, mark) AS CASE WHEN list IS NULL THEN NULL ELSE system.main.list_aggregate(
    CAST(list AS VARCHAR[]), 'string_agg', mark) END;
CREATE MACRO pgc.array_upper(list, dimension) AS len(list);
CREATE MACRO pgc.array_lower(list, dimension) AS 1;
CREATE MACRO pgc._pg_expandarray(list) AS {'x': 0, 'n': 0};  -- of indexes' columns: there are none
CREATE MACRO pgc.pg_get_keywords() AS TABLE SELECT keyword_name AS word, keyword_category[1] AS catcode FROM duckdb_keywords();
CREATE MACRO pgc.quote_ident(given) AS CASE WHEN regexp_full_match(given, '[a-z_][a-z0-9_]*') THEN given
    ELSE '"' || replace(given, '"', '""') || '"' END;
CREATE MACRO pgc.quote_literal(given) AS CASE WHEN given IS NULL THEN NULL
    ELSE '''' || replace(CAST(given AS VARCHAR), '''', '''''') || '''' END;
CREATE MACRO pgc.quote_nullable(given) AS coalesce(pgc.quote_literal(given), 'NULL');
CREATE MACRO pgc.pg_advisory_unlock_all() AS NULL::VARCHAR;
CREATE MACRO pgc.pg_notification_queue_usage() AS 0;
CREATE MACRO pgc.current_setting(given) AS coalesce(MAP {
        'default_table_access_method': 'heap', 'server_version_num': '160000', 'server_version': '16.0',
        'search_path': 'main', 'standard_conforming_strings': 'on', 'TimeZone': 'UTC', 'max_index_keys': '32'
    }[given], ''), (given, missing) AS coalesce(MAP {'server_version_num': '160000', 'search_path': 'main'}[given], '');
CREATE MACRO pgc.set_config(given, value, local) AS value;
