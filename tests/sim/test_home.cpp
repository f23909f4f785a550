// Where this code lies (sim/base/home.hpp).
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "sim/base/home.hpp"
#include "tests/sim/input_support.hpp"

namespace test_home {

using namespace orrery::sim;

TEST_CASE("the build note is the linker's digest of this very file", "[unit][home]") {
  const std::string digits = own_build_note();
  REQUIRE(digits.size() == 40);                                 // SHA-1, 20 bytes
  std::string note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);  // name of 4 bytes, digest of 20, NT_GNU_BUILD_ID = 3
  for (std::size_t i = 0; i < digits.size(); i += 2)
    note += static_cast<char>(std::strtol(digits.substr(i, 2).c_str(), nullptr, 16));
  std::ifstream file(own_file(), std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  CHECK(content.find(note) != std::string::npos);
  CHECK(own_build_note() == digits);
}

TEST_CASE("the shipped data lies where the environment says, or in the source tree", "[unit][home]") {
  const orrery::test::Variable home("ORRERY_HOME");
  const std::filesystem::path shipped = home_folder();
  CHECK(std::filesystem::is_directory(shipped / "hw/catalog"));
  home.set("/some/where");
  CHECK(home_folder() == "/some/where");
  home.set("");
  CHECK(home_folder() == shipped);
}

TEST_CASE("a module lies beside the program, or in the folder that it was built in", "[unit][home]") {
  CHECK(own_file() == "/proc/self/exe");  // a program, no shared object
  const std::filesystem::path program = std::filesystem::canonical(own_file());
  CHECK(module_file(program.filename().string()) == program);
  const std::filesystem::path absent = module_file("no-such-module.so");
  CHECK(absent.filename() == "no-such-module.so");
  CHECK(absent.parent_path() != program.parent_path());
  CHECK(std::filesystem::is_directory(absent.parent_path()));
}

}  // namespace test_home
