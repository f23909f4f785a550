// Where this code lies (sim/base/home.hpp).
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "sim/base/home.hpp"

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

}  // namespace test_home
