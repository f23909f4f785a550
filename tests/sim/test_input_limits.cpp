// How much one input may ask for.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "sim/base/document.hpp"
#include "sim/base/input_limits.hpp"
#include "tests/sim/input_support.hpp"

namespace test_input_limits {

using namespace orrery::sim;
using orrery::test::fault_of;

TEST_CASE("input: the limit is 512 MiB, or the size that the environment says", "[unit]") {
  const orrery::test::Variable limit("ORRERY_INPUT_LIMIT");
  CHECK(most_input_bytes() == 536'870'912);
  CHECK(most_json_values() == 4'194'304);  // 512 MiB / 128
  limit.set("");
  CHECK(most_input_bytes() == 536'870'912);
  limit.set("4 GiB");
  CHECK(most_input_bytes() == 4'294'967'296);
  limit.set("1 B");
  CHECK(most_input_bytes() == 1);
  CHECK(most_json_values() == 0);
  limit.set("255 B");
  CHECK(most_json_values() == 1);
  limit.set("1e18 B");
  CHECK(most_input_bytes() == 1'000'000'000'000'000'000);
  for (const char* text : {"0 B", "0.9 B", "1.1e18 B", "many", "4"}) {
    limit.set(text);
    CHECK(fault_of([] { (void)most_input_bytes(); }) ==
          "ORRERY_INPUT_LIMIT: expected a size such as \"4 GiB\", got \"" + std::string(text) + "\"");
  }
}

TEST_CASE("input: a stream is read to its end, one byte too many is a fault", "[unit]") {
  const orrery::test::Variable limit("ORRERY_INPUT_LIMIT", "10 B");
  const auto read = [](const std::string& text) {
    std::istringstream in(text);
    return read_all(in, "s");
  };
  CHECK(read("0123456789") == "0123456789");
  CHECK(read("").empty());
  CHECK(fault_of([&] { (void)read("0123456789a"); }) ==
        "s: expected at most 10 B of input (ORRERY_INPUT_LIMIT raises that)");
  limit.set("1 MB");
  std::string long_text;  // longer than what is read at a time
  for (int i = 0; i < 20'000; ++i) long_text += std::to_string(i);
  CHECK(read(long_text) == long_text);
}

TEST_CASE("input: a file is read whole, or said not to be one", "[unit]") {
  const orrery::test::Scratch scratch;
  CHECK(read_whole(scratch.write("a.txt", std::string("a\0\r\nb", 5)), "note") == std::string("a\0\r\nb", 5));
  const std::string at = scratch.path().string();
  CHECK(fault_of([&] { (void)read_whole(scratch.path(), "note"); }) == at + ": expected a note, got a folder");
  CHECK(fault_of([&] { (void)read_whole(scratch.path() / "none", "note"); }) ==
        at + "/none: expected a readable note, found none");
  // A socket is there, and cannot be opened as a file.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "socket");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());  // a socket's name is short
  const int bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  std::filesystem::current_path(before);
  REQUIRE(bound == 0);
  CHECK(fault_of([&] { (void)read_whole(scratch.path() / "socket", "note"); }) ==
        at + "/socket: expected a note that can be read, got no permission");
  ::close(socket);
}

TEST_CASE("input: values of a JSON document are counted", "[unit]") {
  const orrery::test::Variable limit("ORRERY_INPUT_LIMIT", "512 B");  // four values
  CHECK(parse_json(R"({"a": [1, 2]})", "f.json").find("a")->items().size() == 2);
  CHECK(fault_of([] { parse_json(R"({"a": [1, 2, null]})", "f.json"); }) ==
        "f.json: expected at most 4 values in a JSON document (ORRERY_INPUT_LIMIT raises that)");
}

}  // namespace test_input_limits
