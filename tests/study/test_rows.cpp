// Damaged stores: a changed byte is told, or changes nothing; a format that is not ours says how to go on.
#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <sstream>

#include "study_support.hpp"

namespace orrery::experiments::study::test_rows {
namespace {

using namespace test;
using Catch::Contains;

StoreFacts facts() {
  return {
      .study = "s",
      .mode = "sweep",
      .hash = "12",
      .version = "1",
      .build = "b",
      .document = "{}",
      .columns = {
          {"rate", "parameter", ""}, {"ttft", "measure", "ttft_s.p99"}, {"objective_ttft", "objective", "minimise"}}};
}

constexpr std::int64_t kPoints = 40;

fs::path whole_store(const Scratch& scratch) {
  const fs::path file = scratch / "s.sqlite";
  Store store(file, facts());
  store.add_input("trace.csv", "0123456789abcdef");
  for (std::int64_t id = 1; id <= kPoints; ++id) {
    const double value = 1.0 / double(id);
    store.add_run(id, "k" + std::to_string(id), {.figures = {value}});
    store.add_point({.id = id, .key = "k" + std::to_string(id), .cells = {id, value, value}, .runs = {id}});
  }
  store.finish();
  return file;
}

std::string exported(const fs::path& file) {
  std::ostringstream out;
  export_csv(std::span(&file, 1), out);
  return out.str();
}

/// Every fault that reading or going on with the store tells, a line each.
std::string faults_of_store(const fs::path& file) {
  try {
    (void)exported(file);
  } catch (const sim::ConfigError& error) {
    std::string text;
    for (const sim::Fault& fault : error.faults()) text += fault.text() + "\n";
    return text;
  }
  return {};
}

TEST_CASE("the checksum of a row, by hand", "[store]") {
  // python3 -c "import struct, zlib; print(zlib.crc32(b'runs\0' + b'd' + struct.pack('<d', 1) + b't' +
  // struct.pack('<I', 2)
  //   + b'k1' + b'n' + b'i' + struct.pack('<q', 2**53 + 1)))"
  const std::vector<Cell> cells{std::int64_t{1}, std::string("k1"), {}, (std::int64_t{1} << 53) + 1};
  CHECK(row_checksum("runs", cells) == 1269941017);
  // A column of type REAL gives 1 back as 1.0, and a row of another table is another.
  CHECK(row_checksum("runs", std::vector<Cell>{1.0}) == row_checksum("runs", std::vector<Cell>{std::int64_t{1}}));
  CHECK(row_checksum("points", cells) != row_checksum("runs", cells));
  CHECK(row_checksum("runs", std::vector<Cell>{std::string("ab"), std::string("c")}) !=
        row_checksum("runs", std::vector<Cell>{std::string("a"), std::string("bc")}));
}

TEST_CASE("any byte of a store that changes is told, or what is exported is the same", "[store]") {
  Scratch scratch;
  const fs::path file = whole_store(scratch);
  const std::string bytes = slurp(file), wanted = exported(file);
  REQUIRE(faults_of_store(file).empty());
  std::mt19937 stream(7);
  int told = 0;
  for (int change = 0; change < 600; ++change) {
    std::string damaged = bytes;
    const std::size_t place = stream() % bytes.size();
    damaged[place] = static_cast<char>(static_cast<unsigned char>(damaged[place]) ^ (1 + stream() % 255));
    const fs::path copy = scratch.write("copy.sqlite", damaged);
    try {
      const std::string got = exported(copy);
      INFO("byte " << place);
      REQUIRE(got == wanted);
    } catch (const sim::ConfigError&) {
      ++told;
    } catch (const StoreError&) {
      ++told;  // SQLite finds its own structure broken
    }
  }
  CHECK(told > 60);  // most of the file is free space and indexes; the rows are some tenth of it
}

TEST_CASE("damage by name: a value, a point that is gone, an input", "[store]") {
  Scratch scratch;
  const fs::path file = whole_store(scratch);
  const auto changed = [&](const std::string& sql) {
    const fs::path copy = scratch / "copy.sqlite";
    fs::copy_file(file, copy, fs::copy_options::overwrite_existing);
    Database(copy, true).execute(sql);
    return faults_of_store(copy);
  };
  CHECK_THAT(changed("UPDATE points SET ttft = 7 WHERE id = 12"),
             Contains("copy.sqlite: row 12 of points, '12', is not what was written: its checksum differs") &&
                 Contains("put a copy back, or --force to begin anew"));
  CHECK_THAT(changed("DELETE FROM points WHERE id = 12"), Contains("point 12 is missing"));
  CHECK_THAT(changed("DELETE FROM points WHERE id = 40"),
             Contains("expected 40 points, 40 runs, 1 inputs, found 39 points"));
  CHECK_THAT(changed("DELETE FROM inputs"),
             Contains("expected 40 points, 40 runs, 1 inputs, found 40 points, 40 runs, 0 inputs"));
  CHECK_THAT(changed("UPDATE facts SET value = '13' WHERE name = 'hash'"), Contains("of facts, 'hash'"));
  CHECK_THAT(changed("UPDATE columns SET detail = 'maximise' WHERE kind = 'objective'"), Contains("row 3 of columns"));
  CHECK_THAT(changed("UPDATE points SET checksum = NULL"), Contains("row 1 of points") && !Contains("row 6 of points"));
}

TEST_CASE("a damaged store is not gone on with, and --force begins anew", "[store]") {
  Scratch scratch;
  const fs::path file = whole_store(scratch);
  Database(file, true).execute("UPDATE runs SET ttft = 7 WHERE id = 3");
  const std::string before = slurp(file);
  CHECK_THROWS_WITH(Store(file, facts()), Contains("row 3 of runs, '3', is not what was written"));
  CHECK(slurp(file) == before);
  Store::remove(file);
  CHECK(Store(file, facts()).fresh());
}

TEST_CASE("formats of stores: the one before is read, not written; a later one says how to go on", "[store]") {
  Scratch scratch;
  const fs::path file = whole_store(scratch);
  const std::string wanted = exported(file);
  const auto format = [&](const std::string& name) {
    Database(file, true).execute("UPDATE facts SET value = '" + name + "' WHERE name = 'format'");
  };
  format("orrery study 1");
  Database(file, true).execute("ALTER TABLE points DROP COLUMN checksum");
  CHECK(exported(file) == wanted);
  CHECK_THROWS_WITH(Store(file, facts()),
                    Contains("the store has format 1, of an earlier orrery; this one writes format 2") &&
                        Contains("`orrery export` reads it"));
  format("orrery study 3");
  CHECK_THAT(faults_of_store(file), Contains("expected a store of format 1 to 2, found 'orrery study 3'") &&
                                        Contains("a later orrery wrote it: read it with that one"));
  format("another");
  CHECK_THAT(faults_of_store(file), Contains("expected a store of orrery, found something else"));
}

}  // namespace
}  // namespace orrery::experiments::study::test_rows
