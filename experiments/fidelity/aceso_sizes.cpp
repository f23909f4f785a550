#include "experiments/fidelity/aceso_sizes.hpp"

#include <algorithm>
#include <span>

namespace orrery::experiments {
namespace {

// Tensors of no whole MiB, ascending.
/// a100-sxm4-40gb: sequences of 4,096 tokens, models from 1.3B.
constexpr double kSequence4096[]{17.5,    27.5,    37.5,    38.002,  44.004,  46.004,  47.502, 55.005,  56.008,
                                 57.505,  70.01,   76.002,  80.016,  88.004,  92.004,  95.002, 100.051, 110.005,
                                 112.008, 114.006, 115.005, 132.012, 138.012, 140.01,  150.5,  152.004, 176.008,
                                 184.008, 190.005, 200.051, 220.01,  224.016, 228.006, 230.01, 264.012, 280.02,
                                 304.008, 368.016, 400.051, 448.031, 800.051, 1600.1};
/// The same, models from 2.6B.
constexpr double kSequence4096Larger[]{2.5,     7.5,     17.5,    22.5,    27.5,   37.5,    47.502,  55.005,  57.505,
                                       70.01,   76.004,  88.008,  92.008,  95.002, 100.02,  110.005, 112.016, 114.006,
                                       115.005, 132.012, 138.012, 140.01,  150.5,  152.004, 176.008, 184.008, 190.005,
                                       200.051, 220.01,  224.016, 228.006, 230.01, 264.012, 276.012, 280.02,  304.008,
                                       368.016, 400.051, 448.031, 800.051, 1600.1};
/// The other clusters: sequences of 2,048 tokens, models from 1.3B.
constexpr double kSequence2048[]{
    13.75,   17.5,    19.002,  22.004,  23.004,  27.505,  28.008,  35.01,   37.5,    38.002,  40.016,  43.25,
    44.004,  46.004,  47.502,  50.025,  55.005,  56.008,  57.505,  62.5,    66.012,  69.012,  70.01,   76.002,
    86.5,    88.004,  92.004,  95.002,  100.025, 110.005, 112.008, 114.006, 115.005, 132.012, 138.012, 152.002,
    176.004, 184.004, 190.002, 200.025, 220.005, 224.008, 228.006, 230.005, 264.012, 352.008, 368.008, 400.025,
    440.01,  448.016, 456.006, 460.01,  528.012, 800.051, 1600.1,  3200.2};

std::span<const double> fractions_of(std::string_view cluster) {
  if (!cluster.starts_with("a100")) return kSequence2048;
  if (cluster.ends_with("larger-model")) return kSequence4096Larger;
  return kSequence4096;
}

}  // namespace

std::int64_t aceso_tensor_bytes(std::string_view cluster, std::int64_t mebibytes) {
  const std::span<const double> sizes = fractions_of(cluster);
  double size = static_cast<double>(mebibytes);
  const auto found = std::lower_bound(sizes.begin(), sizes.end(), size);
  if (found != sizes.end() && *found < size + 1) size = *found;
  return 2 * static_cast<std::int64_t>(size * 524288.0);
}

}  // namespace orrery::experiments
