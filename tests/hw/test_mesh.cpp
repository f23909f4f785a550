#include "hw/network/mesh.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>

using namespace orrery::hw;

namespace test_mesh {

DeviceMesh mesh(const std::string& text) {
  std::string fault;
  const std::optional<DeviceMesh> out = DeviceMesh::parse(text, fault);
  INFO(fault);
  REQUIRE(out);
  return *out;
}

std::string fault_of(const std::string& text) {
  std::string fault;
  CHECK_FALSE(DeviceMesh::parse(text, fault));
  return fault;
}

TEST_CASE("the cube mesh of eight V100", "[unit]") {
  // Six links a device (NVIDIA's white paper of the DGX-1).
  const DeviceMesh cube = mesh("01122000 10210200 12020010 21200001 20000112 02001021 00101202 00012120");
  CHECK(cube.devices() == 8);
  CHECK(cube.rates(2).peer == 1);  // one link between the first two
  // 0-1-2: links 1, 2 and 1: one ring. 0 to 3: four links a device, two rings. Five: 4 has two links, both to 0, and is
  // entered and left through it. Six: 4 and 5 have three and four links. All: six links, three rings.
  CHECK(cube.rates(3).rings == 1);
  CHECK(cube.rates(4).rings == 2);
  CHECK(cube.rates(5).rings == 1);
  CHECK(cube.rates(6).rings == 1);
  CHECK(cube.rates(7).rings == 2);
  CHECK(cube.rates(8).rings == 3);
  // All to all among eight: 0 goes to 5 through 1 (links 1 and 2), to 6 through 2, to 7 through 3; the link 0-1, a
  // single one, carries 0 to 1, 0 to 5 and what 4 sends to 1 through 0: a third each.
  CHECK(cube.rates(8).peer == Approx(1.0 / 3));
  CHECK(cube.rates(4).peer == 1);
  CHECK(cube.rates(9).rings == 3);  // there are no more
}

TEST_CASE("meshes of other shapes", "[unit]") {
  // All joined: K4 has one ring and a matching beside it, K5 two rings.
  CHECK(mesh("0111 1011 1101 1110").rates(4).rings == 1);
  CHECK(mesh("01111 10111 11011 11101 11110").rates(5).rings == 2);
  CHECK(mesh("01111 10111 11011 11101 11110").rates(5).peer == 1);
  // A ring of four: neighbours have a link, the others go through one; three of them do not close a ring with one link.
  const DeviceMesh square = mesh("0101 1010 0101 1010");
  CHECK(square.rates(4).rings == 1);
  CHECK(square.rates(3).rings == 0);
  CHECK(mesh("0202 2020 0202 2020").rates(3).rings == 1);  // with two it does: there and back
  // 0 to 2 and 2 to 0 go through 1, as do 1 to 3 and 3 to 1 through 0: link 0-1 carries 0 to 1, 0 to 2, 3 to 1.
  CHECK(square.rates(4).peer == Approx(1.0 / 3));
}

TEST_CASE("texts that are no mesh", "[unit]") {
  CHECK(fault_of("") == "expected rows of 2 to 8 devices, got 0");
  CHECK(fault_of("0") == "expected rows of 2 to 8 devices, got 1");
  CHECK(fault_of("01 1") == "expected 2 digits a row, the links to each device, got '1'");
  CHECK(fault_of("0x 10") == "expected 2 digits a row, the links to each device, got '0x'");
  CHECK(fault_of("01 20") == "expected as many links from 1 to 0 as back, got 2 and 1");
  CHECK(fault_of("11 10") == "expected no links of device 0 to itself, got 1");
  CHECK(fault_of("0100 1000 0001 0010") == "expected every device to reach every other over a link, or over two");
}

TEST_CASE("rings need two links of every device, and more links never make fewer", "[prop]") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int n = 3 + round % 4;
    std::vector<std::vector<int>> links(n, std::vector<int>(n, 0));
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < a; ++b) links[a][b] = links[b][a] = 1 + static_cast<int>(random() % 2);
    const auto text = [&] {
      std::string all;
      for (const std::vector<int>& row : links) {
        for (const int count : row) all += static_cast<char>('0' + count);
        all += ' ';
      }
      return all;
    };
    const MeshRates before = mesh(text()).rates(n);
    int least = 1000;
    for (const std::vector<int>& row : links) {
      int sum = 0;
      for (const int count : row) sum += count;
      least = std::min(least, sum);
    }
    CHECK(before.rings >= 1);
    CHECK(2 * before.rings <= least);
    const int a = static_cast<int>(random() % n), b = (a + 1) % n;
    links[a][b] = ++links[b][a];
    const MeshRates after = mesh(text()).rates(n);
    CHECK(after.rings >= before.rings);
    CHECK(after.peer >= before.peer);
  }
}

}  // namespace test_mesh
