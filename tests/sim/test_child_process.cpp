// Programs of others. None of these waits for a time that matters: what is to end ends at once, what is not never does.
#include "sim/child_process.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/sim/input_support.hpp"

namespace test_child_process {

using namespace orrery::sim;
namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

namespace {

constexpr double kEver = 60;  // seconds in which anything that is to happen has happened

Arguments shell(const std::string& text) {
  return {"/bin/sh", "-c", text};
}

fs::path executable(const orrery::test::Scratch& scratch, const std::string& name) {
  const fs::path path = scratch.write(name, "#!/bin/sh\n");
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

}  // namespace

TEST_CASE("a program is found on PATH, the first folder first", "[unit]") {
  const orrery::test::Scratch scratch;
  const fs::path first = executable(scratch, "one/tool"), second = executable(scratch, "two/tool");
  const fs::path plain = scratch.write("one/text", "no program");
  executable(scratch, "two/text");
  fs::create_directories(scratch.path() / "one/folder");
  executable(scratch, "two/folder");
  const std::string one = scratch.path() / "one", two = scratch.path() / "two";
  const orrery::test::Variable path("PATH", one + ":" + two);
  CHECK(find_program("tool") == first);
  CHECK(find_program("text") == scratch.path() / "two/text");  // what cannot be run is passed over
  CHECK(find_program("folder") == scratch.path() / "two/folder");
  CHECK_FALSE(find_program("none"));
  path.set(two + ":" + one);
  CHECK(find_program("tool") == second);
  path.set("");
  CHECK_FALSE(find_program("tool"));
  // With a slash it is the file itself.
  CHECK(find_program(first) == first);
  CHECK_FALSE(find_program(plain));
  CHECK_FALSE(find_program(scratch.path() / "none"));
}

TEST_CASE("an empty folder of PATH is the one at hand, no PATH is no program", "[unit]") {
  const orrery::test::Scratch scratch;
  executable(scratch, "here");
  const fs::path before = fs::current_path();
  fs::current_path(scratch.path());
  const orrery::test::Variable path("PATH", ":/none");
  const auto found = find_program("here");
  ::unsetenv("PATH");
  const auto unset = find_program("here");
  fs::current_path(before);
  CHECK(found == fs::path("./here"));
  CHECK_FALSE(unset);
}

TEST_CASE("a program's exit code, and nothing if it did not end by itself", "[unit]") {
  CHECK(run_program(shell("exit 0"), kEver) == 0);
  CHECK(run_program(shell("exit 3"), kEver) == 3);
  CHECK(run_program({"/no/such/program"}, kEver) == 127);
  CHECK_FALSE(run_program(shell("kill -9 $$"), kEver));
  CHECK_FALSE(run_program(shell("exec sleep 1000"), 0.01));
  CHECK(run_program({"/bin/sh", "-c", "test \"$0 $1\" = 'a b'", "a", "b"}, kEver) == 0);
  CHECK(run_program(shell("read x"), kEver) == 1);  // its input is empty
}

TEST_CASE("a temporary folder goes with everything in it", "[unit]") {
  fs::path at;
  {
    const TemporaryFolder one, two;
    at = one.path();
    CHECK(at != two.path());
    CHECK(fs::is_directory(at));
    CHECK(at.parent_path() == fs::temp_directory_path());
    std::ofstream(at / "file") << "x";
  }
  CHECK_FALSE(fs::exists(at));
  const orrery::test::Variable folder("TMPDIR", "/proc/self");  // where nothing can be made
  CHECK_THROWS_WITH(TemporaryFolder(), Catch::StartsWith("cannot make a temporary folder: /proc/self/orrery-"));
}

TEST_CASE("lines go to a program and come back", "[unit]") {
  LineProcess echo({"/bin/cat"});
  CHECK(echo.write("one", kEver));
  CHECK(echo.write("", kEver));
  CHECK(echo.write("three four", kEver));
  CHECK(echo.read(kEver) == "one");
  CHECK(echo.read(kEver) == "");
  CHECK(echo.read(kEver) == "three four");
  CHECK_FALSE(echo.read(0.01));  // says nothing, and is there still
  CHECK_FALSE(echo.ended());
  CHECK_FALSE(echo.read(0));
  CHECK(echo.write("five", kEver));
  CHECK(echo.read(kEver) == "five");
  CHECK(echo.write("", kEver));
  CHECK(echo.read(kEver) == "");  // one byte alone is no end
  CHECK_FALSE(echo.ended());
  CHECK(echo.overlong() == 0);
}

TEST_CASE("a program that ends: what it said is read, then nothing", "[unit]") {
  LineProcess brief(shell("echo a; echo b; printf c"));
  CHECK(brief.read(kEver) == "a");
  CHECK_FALSE(brief.ended());
  CHECK(brief.read(kEver) == "b");
  CHECK_FALSE(brief.read(kEver));  // a line without its end is none
  CHECK(brief.ended());
  CHECK_FALSE(brief.read(kEver));
  while (brief.write("x", kEver)) {  // its end of the stream goes soon after
  }
  CHECK_FALSE(brief.write("x", kEver));
  LineProcess none({"/no/such/program"});
  CHECK_FALSE(none.read(kEver));
  CHECK(none.ended());
}

TEST_CASE("a program that does not read takes no more than its stream holds", "[unit]") {
  LineProcess deaf(shell("echo ready; exec sleep 0.2"));
  REQUIRE(deaf.read(kEver) == "ready");
  CHECK_FALSE(deaf.write(std::string(1 << 23, 'x'), 0.01));
}

TEST_CASE("lines of a megabyte come whole, longer ones are dropped and counted", "[unit]") {
  const std::size_t most = LineProcess::kMostLine;
  const auto line = [](std::size_t length) { return "head -c " + std::to_string(length) + " /dev/zero; echo; "; };
  LineProcess loud(shell("echo first; " + line(most) + line(3 * most) + "echo next; " + line(2 * most) + "echo last"));
  CHECK(loud.read(kEver) == "first");
  const auto whole = loud.read(kEver);
  REQUIRE(whole);
  CHECK(*whole == std::string(most, '\0'));
  CHECK(loud.overlong() == 0);
  CHECK(loud.read(kEver) == "next");
  CHECK(loud.overlong() == 1);
  CHECK(loud.read(kEver) == "last");
  CHECK(loud.overlong() == 2);
}

namespace {

/// Streams that this program has open.
std::ptrdiff_t open_streams() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

}  // namespace

TEST_CASE("a program that is talked to leaves no stream open, and hears the end of its input", "[unit]") {
  const std::ptrdiff_t before = open_streams();
  const orrery::test::Scratch scratch;
  const fs::path note = scratch.path() / "note";
  {
    LineProcess reader(shell("echo ready; while read line; do last=$line; done; echo $last > '" + note.string() + "'"));
    CHECK(open_streams() == before + 2);
    REQUIRE(reader.read(kEver) == "ready");
    REQUIRE(reader.write("one", kEver));
    REQUIRE(reader.write("two", kEver));
  }
  CHECK(open_streams() == before);
  std::string last;
  std::ifstream(note) >> last;  // waited for until it had ended
  CHECK(last == "two");
}

}  // namespace test_child_process
