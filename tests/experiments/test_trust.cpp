// Input that was made to hang, to fill the memory, or to be lost: each ends with one line, in time.
#include <sys/stat.h>
#include <zlib.h>
#include <catch2/catch.hpp>

#include <fstream>

#include "sim/base/document.hpp"
#include "sim/base/input_limits.hpp"
#include "tests/experiments/support.hpp"

namespace test_trust {

using namespace orrery;
using namespace orrery::experiments::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// A command that must end within `seconds`, whatever it does with SIGTERM.
CommandResult in_time(const Scratch& scratch, const std::string& arguments, int seconds = 10) {
  const CommandResult result = command(scratch, arguments, "timeout -k 1 " + std::to_string(seconds) + " ");
  CAPTURE(arguments, result.err);
  CHECK(result.exit_code != 124);
  CHECK(result.exit_code != 137);
  return result;
}

void write_gzip(const fs::path& file, std::size_t megabytes, char filling) {
  const std::string piece(1U << 20, filling);
  gzFile out = gzopen(file.string().c_str(), "wb9");
  REQUIRE(out != nullptr);
  for (std::size_t i = 0; i < megabytes; ++i) gzwrite(out, piece.data(), static_cast<unsigned>(piece.size()));
  gzclose(out);
}

}  // namespace

TEST_CASE("sizes that cannot be told apart are as many as the range has", "[cli]") {
  const Scratch scratch;
  scratch.write("distinct.json", R"({"system": "graph", "machine": {"device": {"part": "ascend-910b2"}},
    "model": {"builder": {"policy": "bert", "bert": {"layers": 1}}},
    "workload": {"bind": {"batch": 8}, "requests": 1, "vary": {"tokens": {"distribution": "uniform", "low": 17,
      "high": 512, "distinct": 9007199254740992}}},
    "policies": {"execution": {"policy": "eager"}}})");
  CHECK(in_time(scratch, "run distinct.json --out r --quiet").exit_code == 0);
}

TEST_CASE("bases that name each other twice are read once each", "[cli]") {
  const Scratch scratch;
  constexpr int kFiles = 25;  // 2^25 readings if each name were one
  scratch.write("b0.json", small_config());
  for (int i = 1; i <= kFiles; ++i) {
    const std::string below = "\"b" + std::to_string(i - 1) + ".json\"";
    scratch.write("b" + std::to_string(i) + ".json", "{\"base\": [" + below + ", " + below + "]}");
  }
  scratch.write("trace.csv", small_trace());
  CHECK(in_time(scratch, "validate b25.json").exit_code == 0);
}

TEST_CASE("an object of many keys is read in time in proportion to them", "[cli]") {
  const Scratch scratch;
  std::string many = "{\"system\": \"serving\"";
  for (int i = 0; i < 20'000; ++i) many += ", \"key" + std::to_string(i) + "\": 1";
  scratch.write("many.json", many + "}");
  const CommandResult result = in_time(scratch, "validate many.json");
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("many.json:/key0: unknown key 'key0'") && Contains("more faults"));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 101);  // a hundred, and how many more
}

TEST_CASE("JSON nested too deep, or of too many values, is a fault", "[unit]") {
  const std::string deep(250, '[');
  CHECK_THROWS_WITH(sim::parse_json(deep, "d.json"), Contains("nested less than 200 deep"));
  setenv("ORRERY_INPUT_LIMIT", "12800 B", 1);  // 128 times a hundred values
  CHECK(sim::most_json_values() == 100);
  std::string list = "[0";
  for (int i = 0; i < 98; ++i) list += ",0";  // 99 numbers and the list
  CHECK(sim::parse_json(list + "]", "l.json").items().size() == 99);
  CHECK_THROWS_WITH(sim::parse_json(list + ",0]", "l.json"), Contains("expected at most 100 values"));
  setenv("ORRERY_INPUT_LIMIT", "many", 1);
  CHECK_THROWS_WITH(sim::most_input_bytes(), "ORRERY_INPUT_LIMIT: expected a size such as \"4 GiB\", got \"many\"");
  unsetenv("ORRERY_INPUT_LIMIT");
}

TEST_CASE("a file that never ends, and one that grows without end, are faults", "[cli]") {
  const Scratch scratch;
  const CommandResult zero = in_time(scratch, "trace inspect /dev/zero --format vidur");
  CHECK(zero.exit_code == 2);
  CHECK_THAT(zero.err, Contains("/dev/zero:1: expected lines of at most 64 MiB"));
  CHECK(in_time(scratch, "validate /dev/zero").exit_code == 2);
  write_gzip(scratch / "bomb.csv.gz", 400, '\n');
  const CommandResult bomb = in_time(scratch, "trace inspect bomb.csv.gz --format vidur");
  CHECK(bomb.exit_code == 2);
  CHECK_THAT(bomb.err, Contains("bomb.csv.gz: expected a stream that becomes at most 500 times as long"));
}

TEST_CASE("sizes past 64 bits name the file and the op", "[cli]") {
  const Scratch scratch;
  scratch.write("big.json", R"({"graph": "g", "dims": {"n": [1, null]}, "tensors": [
    {"name": "x", "role": "input", "type": "fp16", "shape": ["n", 3037000500]},
    {"name": "w", "role": "parameter", "type": "fp16", "shape": [3037000500, 3037000500]}],
    "ops": [{"name": "m", "op": "matmul", "in": ["x", "w"], "out": [{"name": "y", "type": "fp16"}]}],
    "outputs": ["y"]})");
  const CommandResult result = in_time(scratch, "graph big.json");
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("big.json: parameter 'w': symbolic expression: a value does not fit 64 bits"));
}

TEST_CASE("what could not be written is no success", "[cli]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  scratch.write("c.json", small_config());
  for (const char* arguments :
       {"run c.json --out r --force --quiet --json", "run c.json --out r --force --quiet", "validate c.json",
        "trace inspect trace.csv", "graph bert", "list", "describe sarathi", "schema", "reproduce skip_fusion"}) {
    const CommandResult result = in_time(scratch, std::string(arguments) + " >/dev/full", 60);
    CAPTURE(arguments, result.err);
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Contains("stdout: could not be written in full"));
  }
}

TEST_CASE("what a killed run left goes with the next run there", "[cli]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  scratch.write("c.json", small_config());
  // No process has this number: it is above the kernel's most.
  fs::create_directory(scratch / ".r.99999999");
  scratch.write(".r.99999999/summary.json", "{");
  fs::create_directory(scratch / ".other.99999999");
  fs::create_directory(scratch / ".r.notes");
  CHECK(in_time(scratch, "run c.json --out r --quiet").exit_code == 0);
  CHECK_FALSE(fs::exists(scratch / ".r.99999999"));
  CHECK(fs::exists(scratch / ".other.99999999"));  // of another folder
  CHECK(fs::exists(scratch / ".r.notes"));         // not ours
  // Killed between the two renames: the old folder is put back.
  fs::rename(scratch / "r", scratch / ".r.99999999.old");
  CHECK(in_time(scratch, "run c.json --out r --quiet").exit_code == 0);
  CHECK_FALSE(fs::exists(scratch / ".r.99999999.old"));
  CHECK(fs::exists(scratch / "r/summary.json"));
}

}  // namespace test_trust
