// A learned residual: how measured times of a part differ from the model's, as a sum of small regression trees.
//
// `hw/catalog/residuals/<part>.json`, which `orrery calibrate PART --residual` writes (experiments/fidelity/
// residual_fit.hpp has the fit). A block corrects one kind of kernel as one library runs it:
//   {"kernels": "gemm", "library": "vllm_hot_cache", "tables": ["gemm/h100_sxm.csv"], "rows": 5878,
//    "mape": 0.021, "held_out": 0.043, "seen": [[1, 16384], …],
//    "trees": [{"splits": [["k", 3072], ["fill_128x128", 0.87]], "leaves": [100, -213, 12, 0]}]}
// A tree asks the same question on each level (it is oblivious): the answers, `input > threshold`, are the bits of the
// leaf's number, the first question's the highest. The time is the model's times exp(sum of the leaves / 10,000). Every
// input is computed from the kernel and the part by + - * / alone. Outside the sizes that were `seen` a residual says
// nothing, and so it does on a part whose constants are no longer those that it was fitted beside (`model`, a
// fingerprint).
//
// Source of the method: Friedman, Greedy Function Approximation: A Gradient Boosting Machine (2001); oblivious trees as
// in Prokhorenkova et al., CatBoost (2018).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hw/base/kernel.hpp"
#include "hw/gpu/gpu.hpp"
#include "hw/network/library_collective.hpp"
#include "sim/base/document.hpp"

namespace orrery::hw {

/// What a block corrects. Prefill attention: causal, over new tokens alone; decodes: keys and values in the cache;
/// collectives: among the ranks of a node.
enum class ResidualKind : std::uint8_t { gemm, attention_prefill, attention_decode, collective };
constexpr auto enum_names(ResidualKind) {
  using enum ResidualKind;
  return sim::names<ResidualKind>({{"gemm", gemm},
                                   {"attention_prefill", attention_prefill},
                                   {"attention_decode", attention_decode},
                                   {"collective", collective}});
}

/// A kernel or a collective as trees see it. The first `sizes` inputs are its own sizes, of which `seen` has ranges;
/// the others follow from them and from the part.
struct ResidualQuery {
  static constexpr std::size_t kMostInputs = 48;
  ResidualKind kind = ResidualKind::gemm;
  std::size_t sizes = 0, count = 0;
  std::array<double, kMostInputs> inputs{};
  std::span<const double> all() const { return {inputs.data(), count}; }
};

/// Names of the inputs of a kind, sizes first.
std::span<const std::string_view> residual_inputs(ResidualKind kind);
/// How many of them are sizes.
std::size_t residual_sizes(ResidualKind kind);

/// The query of a kernel on a part of `sms` cores; nothing for one that no block corrects: batched products, weights in
/// another format than their kernel's, gradients, prompts over a cache, full masks, latents.
std::optional<ResidualQuery> residual_query(const Kernel& kernel, std::int64_t sms);
/// The query of a collective: `bytes` as library_collective() takes them.
ResidualQuery residual_query(LibraryCall call, std::int64_t ranks, std::int64_t bytes);

/// A sum of oblivious trees.
struct TreeEnsemble {
  struct Split {
    std::int32_t input = 0;
    double threshold = 0;
  };
  struct Tree {
    std::vector<Split> splits;
    std::vector<std::int32_t> leaves;  ///< 2^splits of them, in ten thousandths of a natural logarithm
  };
  static constexpr std::size_t kMostTrees = 400, kMostSplits = 6;
  std::vector<Tree> trees;

  /// The sum, a natural logarithm.
  double at(std::span<const double> inputs) const;
};

struct ResidualBlock {
  ResidualKind kind = ResidualKind::gemm;
  std::string library;                          ///< as `tables` of a catalog entry names it
  std::vector<std::string> tables;              ///< files whose rows it was fitted to
  std::int64_t rows = 0;                        ///< of them
  double mape = 0, held_out = 0;                ///< mean |error| of these rows, and of groups that were held out
  std::vector<std::pair<double, double>> seen;  ///< least and largest of each size
  TreeEnsemble trees;

  /// What the model's time is to be multiplied by; nothing outside the sizes that were seen.
  std::optional<double> factor(const ResidualQuery& query) const;
};

struct Residual {
  std::string part, doc;
  std::string model;  ///< model_fingerprint() of the part as it was fitted
  std::vector<ResidualBlock> blocks;

  /// The block of a kind for a library; an empty name is the first block's of that kind. Null where there is none.
  const ResidualBlock* block(ResidualKind kind, std::string_view library) const;
};

/// Sixteen hexadecimal digits that change where the tiled model's answers for a part do, launches left out: a hash of
/// the times of a few kernels and collectives.
std::string model_fingerprint(const GpuParams& gpu);

/// Reads a file's document; every fault goes to `faults` with its place.
Residual parse_residual(const sim::Node& node, sim::Faults& faults);
/// As parse_residual reads it. Thresholds keep seven digits.
sim::Node residual_node(const Residual& residual);

}  // namespace orrery::hw
