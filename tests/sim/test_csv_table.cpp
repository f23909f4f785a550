// Tables whose columns are found by name.
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "sim/csv_table.hpp"
#include "tests/sim/input_support.hpp"

namespace test_csv_table {

using namespace orrery::sim;
using orrery::test::fault_of;

namespace {

/// The fault of asking a table for something.
template <class Ask>
std::string fault_in(const std::string& text, Ask ask) {
  return fault_of([&] { ask(CsvTable::parse(text, "t.csv")); });
}

}  // namespace

TEST_CASE("csv table: quotes keep commas, blanks around cells and comments go", "[unit]") {
  const CsvTable table = CsvTable::parse(
      "# a comment\n"
      "\n"
      " name ,\tsize \r\n"
      "\r\n"
      "\"a,b\" , 1\r\n"
      "x#\"y,\"z,\t2.5\t\n"
      " \t ,\"3\"",
      "t.csv");
  REQUIRE(table.rows() == 3);
  CHECK(table.left_out() == 0);
  CHECK(table.has("name"));
  CHECK(table.has("size"));
  CHECK_FALSE(table.has("size "));
  CHECK(table.text(0, "name") == "a,b");
  CHECK(table.text(1, "name") == "x#y,z");  // a comment begins a line only, a quote may stand anywhere
  CHECK(table.text(2, "name").empty());
  CHECK(table.number(0, "size") == 1);
  CHECK(table.number(1, "size") == 2.5);
  CHECK(table.number(2, "size") == 3);
  CHECK(table.numbers("size") == std::vector<double>{1, 2.5, 3});
  CHECK_THROWS_AS(table.text(3, "name"), std::out_of_range);
  CHECK_THROWS_AS(table.number(3, "size"), std::out_of_range);
}

TEST_CASE("csv table: a blank within a cell stays, a quoted line end does not join lines", "[unit]") {
  const CsvTable table = CsvTable::parse("a,b\n one two ,\"three\nfour,five\"", "t.csv", Ragged::leave_out);
  REQUIRE(table.rows() == 2);
  CHECK(table.text(0, "a") == "one two");
  CHECK(table.text(0, "b") == "three");  // quotes open and close in a line
  CHECK(table.text(1, "b") == "five");
}

TEST_CASE("csv table: its name tells folder and stem", "[unit]") {
  const auto named = [](const std::string& name) { return CsvTable::parse("a\n", name); };
  CHECK(named("gemm/h100_sxm.v2.csv").name() == "gemm/h100_sxm.v2.csv");
  CHECK(named("gemm/h100_sxm.v2.csv").folder() == "gemm");
  CHECK(named("gemm/h100_sxm.v2.csv").stem() == "h100_sxm");
  CHECK(named("a/b/c").folder() == "a/b");
  CHECK(named("a/b/c").stem() == "c");
  CHECK(named("plain.csv").folder().empty());
  CHECK(named("plain.csv").stem() == "plain");
  CHECK(named("plain.csv").root().empty());
  CHECK(named("plain.csv").rows() == 0);  // a header alone is a table
}

TEST_CASE("csv table: a header that is missing or repeats itself is a fault", "[unit]") {
  const auto nothing = [](const CsvTable&) {};
  CHECK(fault_in("", nothing) == "t.csv: expected a header line with column names, found none");
  CHECK(fault_in("\n# only\n\r\n", nothing) == "t.csv: expected a header line with column names, found none");
  CHECK(fault_in("#\na,b,a\n", nothing) == "t.csv: line 2: column 'a' stands twice");
}

TEST_CASE("csv table: rows of another length are faults, or left out and counted", "[unit]") {
  const std::string text = "a,b\n1,2\n3\n\n4,5,6\n7,8\n";
  CHECK(fault_in(text, [](const CsvTable&) {}) ==
        "t.csv: line 3: expected 2 cells as in the header, got 1\n"
        "t.csv: line 5: expected 2 cells as in the header, got 3");
  const CsvTable table = CsvTable::parse(text, "t.csv", Ragged::leave_out);
  CHECK(table.rows() == 2);
  CHECK(table.left_out() == 2);
  CHECK(table.numbers("b") == std::vector<double>{2, 8});
}

TEST_CASE("csv table: a cell that is no number is a fault in its own row only", "[unit]") {
  const std::string text = "# measured\nx,y\n1,2\ninf,3\n1x,4\n,5\nnan,6\n1e3,7\n-2,8\n";
  const CsvTable table = CsvTable::parse(text, "t.csv");
  CHECK(table.number(0, "x") == 1);
  CHECK(table.number(5, "x") == 1000);
  CHECK(table.number(6, "x") == -2);
  CHECK(fault_of([&] { table.number(1, "x"); }) == "t.csv: line 4: expected a number in column 'x', got 'inf'");
  CHECK(fault_of([&] { table.number(2, "x"); }) == "t.csv: line 5: expected a number in column 'x', got '1x'");
  CHECK(fault_of([&] { table.number(3, "x"); }) == "t.csv: line 6: expected a number in column 'x', got ''");
  CHECK(fault_of([&] { table.number(4, "x"); }) == "t.csv: line 7: expected a number in column 'x', got 'nan'");
  CHECK(fault_of([&] { table.numbers("x"); }) == "t.csv: line 4: expected a number in column 'x', got 'inf'");
  CHECK(table.numbers("y").size() == 7);
  CHECK(&table.numbers("y") == &table.numbers("y"));  // parsed once
}

TEST_CASE("csv table: whole numbers and counts have their bounds", "[unit]") {
  const CsvTable table = CsvTable::parse("n\n9e15\n-9e15\n9.1e15\n-9.1e15\n1.5\n0\n1\n", "t.csv");
  CHECK(table.integer(0, "n") == 9'000'000'000'000'000);
  CHECK(table.integer(1, "n") == -9'000'000'000'000'000);
  CHECK(fault_of([&] { table.integer(2, "n"); }) ==
        "t.csv: line 4: expected a whole number in column 'n', got '9.1e15'");
  CHECK(fault_of([&] { table.integer(3, "n"); }) ==
        "t.csv: line 5: expected a whole number in column 'n', got '-9.1e15'");
  CHECK(fault_of([&] { table.integer(4, "n"); }) == "t.csv: line 6: expected a whole number in column 'n', got '1.5'");
  CHECK(table.integer(5, "n") == 0);
  CHECK(fault_of([&] { table.count(5, "n"); }) == "t.csv: line 7: expected at least 1 in column 'n', got '0'");
  CHECK(table.count(5, "n", 0) == 0);
  CHECK(table.count(6, "n") == 1);
  CHECK(fault_of([&] { table.count(6, "n", 2); }) == "t.csv: line 8: expected at least 2 in column 'n', got '1'");
  CHECK_THAT(fault_of([&] { table.count(4, "n"); }), Catch::Contains("expected a whole number"));
}

TEST_CASE("csv table: a column that is not there is told with the nearest", "[unit]") {
  CHECK(fault_in("seconds,bytes\n1,2\n", [](const CsvTable& table) { table.text(0, "secnds"); }) ==
        "t.csv: expected a column 'secnds' (did you mean 'seconds'?)");
  CHECK(fault_in("seconds,bytes\n1,2\n", [](const CsvTable& table) { table.numbers("joules"); }) ==
        "t.csv: expected a column 'joules' (known: bytes, seconds)");
}

TEST_CASE("csv table: a subset keeps its rows, their lines and the name", "[unit]") {
  const orrery::test::Scratch scratch;
  scratch.write("gemm/a.csv", "n,s\n1,one\nx,two\n3,three\n4\n");
  const CsvTable whole = CsvTable::read(scratch.path(), "gemm/a.csv", Ragged::leave_out);
  CHECK(whole.root() == scratch.path());
  CHECK(whole.left_out() == 1);
  CHECK(whole.number(0, "n") == 1);  // parsed already
  const CsvTable part = whole.subset({0, 1, 1});
  CHECK(part.rows() == 2);
  CHECK(part.left_out() == 0);
  CHECK(part.name() == "gemm/a.csv");
  CHECK(part.root() == scratch.path());
  CHECK(part.text(0, "s") == "two");
  CHECK(part.text(1, "s") == "three");
  CHECK(part.number(1, "n") == 3);
  CHECK(fault_of([&] { part.number(0, "n"); }) == "gemm/a.csv: line 3: expected a number in column 'n', got 'x'");
  CHECK(whole.subset({0, 0, 0}).rows() == 0);
}

TEST_CASE("csv table: a file that is not there is a fault", "[unit]") {
  CHECK(fault_of([] { CsvTable::read("/no/such", "t.csv"); }) ==
        "/no/such/t.csv: expected a readable table, found none");
  CHECK(fault_of([] { CsvTable::read("/", ""); }) == "/: expected a table, got a folder");
}

}  // namespace test_csv_table
