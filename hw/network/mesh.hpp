// Devices of a board that are joined to each other directly, each pair by as many links as the board has for it: none
// for some. What a group of the first n devices gets follows from that table alone:
//
//   rings   the most rings through all n that use no link twice. A ring takes a link of each pair it passes, both ways:
//           a rank sends 2 rings times what a link has. Where no ring closes, pairs without a link are joined through
//           one device of the group between them (NCCL's path type NVB), which takes links of both.
//   peers   what a rank sends to each peer at once: a pair without a link goes through the device of the group with
//   most
//           links to both (the first of several); the busiest link decides.
//
// Source of the rules: NCCL 2.28, src/graph (search.cc, paths.cc: a channel is a ring of its own, an intermediate
// device is a rank of the group). Left out: rings whose channels have unlike bandwidth, groups of other than the first
// devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::hw {

/// Of a group, in links.
struct MeshRates {
  std::int64_t rings = 0;
  double peer = 0;  ///< to each peer, while all send to all
};

class DeviceMesh {
 public:
  static constexpr std::size_t kMost = 8;  ///< devices: rings are searched for one by one

  /// `text`: a row of digits a device, separated by blanks: its links to each device. `fault` says what is wrong with
  /// one that is none: rows, digits, unlike halves, devices that are not reached.
  static std::optional<DeviceMesh> parse(std::string_view text, std::string& fault);

  std::int64_t devices() const { return static_cast<std::int64_t>(rates_.size()) - 1; }
  /// Of the first `ranks` devices; those of all where there are fewer.
  const MeshRates& rates(std::int64_t ranks) const;

 private:
  std::vector<MeshRates> rates_;  ///< by number of ranks
};

/// The mesh of a text that parses, kept from the last call of this thread.
const DeviceMesh& mesh_of(const std::string& text);

}  // namespace orrery::hw
