#include <catch2/catch.hpp>

#include "hw/network/all_reduce.hpp"
#include "tests/hw/parts.hpp"

using namespace orrery::hw;
using orrery::hw::test::part;

TEST_CASE("all-reduce by hand", "[unit]") {
  // 4 ranks, 1 MB, 100 GB/s at 0.5: 3 us fixed + 1 us skew + 3 * 2 us + 2*3/4 * 1e6 / 50e9 = 30 us
  // + 2 sqrt(1e-5 * 1e6 / 1e11) = 2 * 1e-5 = 20 us: 60 us in all. Each rank sends 1.5 MB.
  const LinkParams link{.bandwidth = 100e9,
                        .efficiency = 0.5,
                        .fixed_s = 3e-6,
                        .per_rank_s = 2e-6,
                        .chunk_s = 1e-5,
                        .start_skew_s = 1e-6,
                        .byte_j = 10e-12};
  const CollectiveCost cost = all_reduce(link, 4, 1'000'000);
  CHECK(cost.time_s == Approx(60e-6));
  CHECK(cost.link_bytes == Approx(1.5e6));
  CHECK(cost.link_energy_j == Approx(15e-6));
}

TEST_CASE("one rank or no bytes are free", "[unit]") {
  const LinkParams link = part("a100-sxm4-80gb").link;
  CHECK(all_reduce(link, 1, 1 << 20).time_s == 0);
  CHECK(all_reduce(link, 1, 1 << 20).link_bytes == 0);
  CHECK(all_reduce(link, 8, 0).time_s == 0);
}

TEST_CASE("all-reduce limits", "[prop]") {
  for (const char* name : {"a100-sxm4-80gb", "h100-sxm5-80gb"}) {
    LinkParams link = part(name).link;
    // Never faster than the bytes at the link's peak; small messages cost the fixed part.
    for (const std::int64_t ranks : {2, 4, 8}) {
      double before = 0;
      for (std::int64_t bytes = 1024; bytes <= (std::int64_t{1} << 32); bytes *= 2) {
        const CollectiveCost cost = all_reduce(link, ranks, bytes);
        CHECK(cost.time_s > cost.link_bytes / link.bandwidth);
        CHECK(cost.time_s > before);
        before = cost.time_s;
      }
      CHECK(all_reduce(link, ranks, 1).time_s ==
            Approx(link.fixed_s + link.per_rank_s * static_cast<double>(ranks - 1)).epsilon(0.01));
      // 16 GB: within a few per cent of the achieved bandwidth.
      const CollectiveCost large = all_reduce(link, ranks, 16'000'000'000);
      CHECK(large.time_s == Approx(large.link_bytes / (link.bandwidth * link.efficiency)).epsilon(0.03));
    }
    // More ranks and slower links cost more.
    CHECK(all_reduce(link, 8, 1 << 20).time_s > all_reduce(link, 4, 1 << 20).time_s);
    const double fast = all_reduce(link, 8, 1 << 24).time_s;
    link.bandwidth /= 2;
    CHECK(all_reduce(link, 8, 1 << 24).time_s > fast);
  }
}
