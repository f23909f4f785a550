// Measured factors: of each set of work, how many times as long each of it takes (Mist, Zhu et al., EuroSys 2025).
//
// 28 factors: four for all work at once, three for each of the four sets of three, two for each of the six pairs. They
// do not ask where a collective's ranks are. Mist publishes those of three platforms
// (../shared/data/systems/mist_hw_params.csv, the authors' configs).
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "hw/interference/interference.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {
namespace {

constexpr std::size_t kFactors = 28;
using Factors = std::array<double, kFactors>;

/// Sets in Mist's order: four kinds of work; three, the last left out first; pairs in order.
constexpr std::array<ActivitySet, 11> kSets{0b1111, 0b0111, 0b1011, 0b1101, 0b1110, 0b0011,
                                            0b0101, 0b1001, 0b0110, 0b1010, 0b1100};

enum class Platform : std::uint8_t { l4, a100, v100 };
constexpr auto enum_names(Platform) {
  using enum Platform;
  return sim::names<Platform>({{"l4", l4}, {"a100-sxm4-40gb", a100}, {"v100-sxm2-32gb", v100}});
}

constexpr std::array<Factors, 3> kPublished{{
    {18.9356, 1.2639, 50.0,   1.6046, 2.0865, 1.0009, 2.393,  2.4146, 1.0869, 2.6637, 1.9381, 3.2653, 1.0,    1.234,
     50.0,    1.6883, 1.1676, 1.0,    1.0152, 1.0005, 1.0179, 1.0022, 1.0,    2.1383, 1.078,  2.438,  2.4327, 1.0974},
    {1.307,  2.6325, 2.4097, 2.5898, 1.2264, 2.8078, 1.466,  1.3202, 2.2295, 1.932,  1.0309, 1.9929, 1.0438, 5.4986,
     1.2915, 1.7303, 1.2856, 1.0393, 1.0081, 1.0099, 1.0125, 1.0251, 1.5508, 1.0972, 1.1336, 1.2723, 1.5186, 1.2665},
    {1.3036, 1.0041, 2.1253, 2.0893, 1.2606, 1.0,    1.4759, 1.3305, 1.012, 1.5031, 1.0064, 1.3207, 1.2788, 1.0,
     1.8277, 1.7078, 1.1698, 1.004,  1.0018, 1.0015, 1.0041, 1.0037, 1.0,   1.2916, 1.0,    1.2694, 1.2495, 1.2598},
}};

struct FactorsParams {
  Platform platform = Platform::l4;
  std::vector<double> factors;
  static constexpr auto fields() {
    using F = FactorsParams;
    return sim::FieldTable{
        sim::field("platform", &F::platform, "Platform whose published factors are used."),
        sim::field("factors", &F::factors, sim::Unit::ratio, sim::between(1, 1e6),
                   "28 factors in place of the platform's; empty: the platform's. With K for kernels, C for the "
                   "collective, D and H for copies to the device and the host: KCDH, KCD, KCH, KDH, CDH, KC, KD, KH, "
                   "CD, CH, DH.")};
  }
};

class MeasuredFactors final : public Interference {
 public:
  explicit MeasuredFactors(const FactorsParams& params) : stated_(params.factors.size()) {
    Factors factors = kPublished[static_cast<std::size_t>(params.platform)];
    if (stated_ == kFactors) std::copy(params.factors.begin(), params.factors.end(), factors.begin());
    slower_.fill({1, 1, 1, 1});
    std::size_t next = 0;
    for (const ActivitySet set : kSets)
      for (std::size_t i = 0; i < kActivities; ++i)
        if (has(set, i)) slower_[set][i] = factors[next++];
  }
  PerActivity slower(ActivitySet running, CollectiveReach /*reach*/) const override { return slower_[running]; }
  std::optional<std::string> fault() const override {
    if (stated_ == 0 || stated_ == kFactors) return std::nullopt;
    return fmt::format("expected {} factors, got {}", kFactors, stated_);
  }

 private:
  std::size_t stated_ = 0;
  std::array<PerActivity, kActivitySets> slower_{};
};

}  // namespace

void register_factors(InterferenceRegistry& registry) {
  registry.add<FactorsParams>("factors", "Measured slowdowns of each set of work: the 28 factors of Mist.",
                              [](const FactorsParams& params) { return std::make_unique<MeasuredFactors>(params); });
}

}  // namespace orrery::hw
