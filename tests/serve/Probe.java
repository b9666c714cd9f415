import java.sql.*;
import java.util.*;

public class Probe {
    static void show(String name, ResultSet rows) throws SQLException {
        ResultSetMetaData meta = rows.getMetaData();
        int count = 0;
        StringBuilder first = new StringBuilder();
        while (rows.next()) {
            count++;
            if (count <= 3) {
                for (int i = 1; i <= Math.min(6, meta.getColumnCount()); i++) first.append(rows.getString(i)).append(",");
                first.append(";");
            }
        }
        System.out.println(name + " " + count + " " + first);
    }

    interface Ask { ResultSet get() throws SQLException; }

    static void ask(String name, Ask what) {
        try (ResultSet rows = what.get()) { show(name, rows); }
        catch (SQLException e) { System.out.println(name + " FAILED " + e.getSQLState() + " " + e.getMessage().replace("\n", " ")); }
    }

    public static void main(String[] args) throws Exception {
        Properties given = new Properties();
        given.setProperty("user", "ana");
        given.setProperty("password", args[1]);
        given.setProperty("options", "-c dp.epsilon=1");
        try (Connection con = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + args[0] + "/clinic", given)) {
            DatabaseMetaData meta = con.getMetaData();
            System.out.println("product " + meta.getDatabaseProductName() + " " + meta.getDatabaseProductVersion());
            ask("catalogs", () -> meta.getCatalogs());
            ask("schemas", () -> meta.getSchemas());
            ask("tables", () -> meta.getTables(null, null, "visits", new String[] {"TABLE", "VIEW"}));
            ask("all tables", () -> meta.getTables(null, null, "%", null));
            ask("columns", () -> meta.getColumns(null, null, "visits", "%"));
            ask("keys", () -> meta.getPrimaryKeys(null, null, "visits"));
            ask("imported", () -> meta.getImportedKeys(null, null, "visits"));
            ask("exported", () -> meta.getExportedKeys(null, null, "visits"));
            ask("indexes", () -> meta.getIndexInfo(null, null, "visits", false, false));
            ask("types", () -> meta.getTypeInfo());
            ask("table types", () -> meta.getTableTypes());
            ask("procedures", () -> meta.getProcedures(null, null, "dp_noisy%"));
            ask("functions", () -> meta.getFunctions(null, null, "dp_noisy%"));
            ask("function columns", () -> meta.getFunctionColumns(null, null, "dp_noisy%", "%"));
            ask("privileges", () -> meta.getTablePrivileges(null, null, "visits"));
            ask("column privileges", () -> meta.getColumnPrivileges(null, null, "visits", "age"));
            ask("best row", () -> meta.getBestRowIdentifier(null, null, "visits", 1, true));
            ask("versions", () -> meta.getVersionColumns(null, null, "visits"));
            ask("udts", () -> meta.getUDTs(null, null, "%", null));
            try { System.out.println("keywords " + meta.getSQLKeywords().length()); }
            catch (SQLException e) { System.out.println("keywords FAILED " + e.getMessage()); }
            try (PreparedStatement ask = con.prepareStatement("SELECT sex, count(*) AS n FROM visits WHERE age > ? GROUP BY sex")) {
                for (int i = 0; i < 7; i++) {  // by the server's own statement from the fifth on
                    ask.setInt(1, 30);
                    ResultSet rows = ask.executeQuery();
                    if (i == 6) show("private", rows); else rows.close();
                }
            }
            try (PreparedStatement ask = con.prepareStatement(
                "SELECT ?::BIGINT, ?::DOUBLE, ?::VARCHAR, ?::DATE, ?::TIMESTAMP, ?::BOOLEAN, ?::DECIMAL(9,2)")) {
                ask.setLong(1, 7); ask.setDouble(2, 0.5); ask.setString(3, "it's"); ask.setDate(4, java.sql.Date.valueOf("2024-02-29"));
                ask.setTimestamp(5, Timestamp.valueOf("2024-02-29 01:02:03")); ask.setBoolean(6, true);
                ask.setBigDecimal(7, new java.math.BigDecimal("1.25"));
                for (int i = 0; i < 7; i++) { ResultSet rows = ask.executeQuery(); if (i % 6 == 0) show("typed", rows); else rows.close(); }
            }
            con.setAutoCommit(false);
            try (Statement ask = con.createStatement()) {
                ask.setFetchSize(50);
                show("fetched", ask.executeQuery("SELECT range AS i FROM range(170)"));
                ask.execute("CREATE TABLE jdbc (i INTEGER, t VARCHAR)");
            }
            try (PreparedStatement put = con.prepareStatement("INSERT INTO jdbc VALUES (?, ?)")) {
                for (int i = 0; i < 3; i++) { put.setInt(1, i); put.setString(2, "x" + i); put.addBatch(); }
                System.out.println("batch " + Arrays.toString(put.executeBatch()));
            }
            con.commit();
            con.setAutoCommit(true);
            try (Statement ask = con.createStatement()) { show("kept", ask.executeQuery("SELECT count(*), max(t) FROM jdbc")); }
            try (Statement ask = con.createStatement()) { ask.executeQuery("SELECT age FROM visits"); }
            catch (SQLException e) { System.out.println("refused " + e.getSQLState() + " " + e.getMessage().replace("\n", " ")); }
            try (Statement ask = con.createStatement()) {
                ask.setQueryTimeout(1);
                ask.executeQuery("SELECT count(*) FROM range(1000000000) a, range(100000) b WHERE a.range * b.range % 7 = 3");
            } catch (SQLException e) { System.out.println("timeout " + e.getSQLState()); }
            System.out.println("valid " + con.isValid(5));
        }
    }
}
