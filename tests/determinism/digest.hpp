// Scenarios whose results must be the same bits on every host, compiler setting and processor.
//
// A scenario is a function that feeds whatever it computes to a Digest. To add one: write it in a scenarios_*.cpp,
// declare it here, add a line to the table in digest.cpp, and run `cmake --build build/release --target
// determinism_update`; the new line of expected.txt goes into the commit.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>

namespace orrery::determinism {

/// FNV-1a over what was added, in order.
class Digest {
 public:
  void add(std::string_view text) {
    for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  template <std::integral T>
  void add(T value) {
    word(static_cast<std::uint64_t>(value));
  }
  /// Bits; every NaN alike, since its sign and payload are the processor's choice.
  void add(double value) { word(std::isnan(value) ? 0x7ff8000000000000ULL : std::bit_cast<std::uint64_t>(value)); }
  void add(__int128 value) {
    word(static_cast<std::uint64_t>(value));
    word(static_cast<std::uint64_t>(static_cast<unsigned __int128>(value) >> 64));
  }
  std::uint64_t value() const { return hash_; }

 private:
  void word(std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) hash_ = (hash_ ^ ((value >> (8 * byte)) & 0xff)) * 0x100000001b3ULL;
  }
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

// scenarios_base.cpp
void exponentials(Digest& digest);
void circular(Digest& digest);
void special(Digest& digest);
void powers(Digest& digest);
void streams(Digest& digest);
void continuous_draws(Digest& digest);
void discrete_draws(Digest& digest);
// scenarios_engine.cpp
void hold_with_cancellations(Digest& digest);
void queue_with_statistics(Digest& digest);
void components_in_any_order(Digest& digest);
void sample_statistics(Digest& digest);
void batch_means(Digest& digest);
// scenarios_process.cpp
void processes_on_resources(Digest& digest);
// scenarios_tasks.cpp
void task_graphs(Digest& digest);
void task_graph_that_grows(Digest& digest);
// scenarios_flows.cpp
void max_min_under_changes(Digest& digest);
void flows_under_changes(Digest& digest);
// scenarios_network.cpp
void routes(Digest& digest);
void collectives_that_share_links(Digest& digest);
void network_with_failures(Digest& digest);

}  // namespace orrery::determinism
