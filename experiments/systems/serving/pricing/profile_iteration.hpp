// Iterations of a transformer priced by measured tables of its operators (op_profile.hpp).
//
//   iteration = once(t) + layers x (modules(t) + attention + experts + collectives) + head(rows) + sampling
// t: new tokens, padded to the next captured size where the engine runs the batch as a CUDA graph. Times are the
// tables'; FLOPs, bytes and energy are those of the analytic model beside it, so that a run says as much either way.
// Collectives among tensor-parallel ranks, and those of experts that data-parallel ranks share, are closed forms of the
// part's link. Expert-parallel data-parallel ranks step together: the others are taken to have the same batch.
//
// What the tables leave out is a named parameter: random sampling (the tables sample greedily), and decodes of unequal
// context (the tables' are equal; `ragged_decode` lengthens the attention of iterations of decodes alone, whose kernel
// gives whole sequences to thread blocks).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "experiments/systems/serving/pricing/op_profile.hpp"
#include "hw/network/link.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct ProfileParams {
  std::optional<std::string> path;
  std::int64_t graph_tokens = 512;
  double sampling_bytes = 40;
  double ragged_decode = 0;
  double expert_skew = 1.2;
  std::int64_t expert_ranks = 1;

  static constexpr auto fields() {
    using P = ProfileParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("path", &P::path, Unit::path, sim::any_value(),
                   "Folder with measured operator tables (dense.csv, per_sequence.csv, attention.csv, moe.csv) of one "
                   "rank of the model on this part. null: the cost model prices iterations."),
        sim::field("graph_tokens", &P::graph_tokens, Unit::tokens, sim::between(0, 65536),
                   "Largest batch that runs as a CUDA graph, padded to 1, 2, 4, multiples of 8 up to 256 and of 16 "
                   "beyond; 0: none. vLLM: twice max_num_seqs, at most 512."),
        sim::field("sampling_bytes", &P::sampling_bytes, Unit::bytes, sim::between(0, 1000),
                   "Bytes that random sampling moves per logit, in addition to the greedy sampling of the tables. vLLM "
                   "V1 in fp32: temperature 8, softmax 12, exponential noise 4, quotient 12, maximum 4. From the L2 "
                   "cache where the three tensors fit it."),
        sim::field("ragged_decode", &P::ragged_decode, Unit::ratio, sim::between(0, 2),
                   "Factor by which contexts of unequal length lengthen attention in iterations of decodes alone."),
        sim::field("expert_skew", &P::expert_skew, Unit::none, sim::between(0, 5),
                   "Zipf exponent of the experts' popularity, which decides how many a batch activates; 0: all equally "
                   "popular."),
        sim::field("expert_ranks", &P::expert_ranks, Unit::count, sim::between(1, 1024),
                   "Data-parallel ranks that divide the experts among them and run in lock step.")};
  }
};

/// Of the model and the part, as far as tables do not say it.
struct ProfileFacts {
  std::int64_t layers = 0, hidden = 0, vocab_rows = 0;
  std::int64_t tensor_parallel = 1;
  std::int64_t activation_bytes = 2;
  double memory_bandwidth = 0, l2_bandwidth = 0;
  double l2_bytes = 0;
  hw::LinkParams link;
};

class ProfileIteration final : public IterationModel {
 public:
  /// `counts` gives FLOPs, bytes and energy; null: none are counted. It must outlive this.
  ProfileIteration(OpProfile profile, const ProfileParams& params, const ProfileFacts& facts, IterationModel* counts);
  void cost(const BatchShape& shape, IterationCost& out) override;

  /// Tokens that a batch of `tokens` is run as.
  std::int64_t padded(std::int64_t tokens) const;
  /// Experts of one rank that a batch of `tokens` on each rank reaches, in expectation.
  double activated_experts(std::int64_t tokens) const;

 private:
  struct Timed {
    std::int64_t time_ps = 0;
    std::array<std::int64_t, hw::kOpClasses> class_ps{};
    void add(hw::OpClass op, double us);
    void add_to(IterationCost& out, std::int64_t times) const;
  };
  const Timed& layer(std::int64_t tokens);
  const Timed& once(std::int64_t tokens);
  const Timed& head(std::int64_t rows);
  Timed attention(const Segment& segment) const;
  Timed layer_of(std::int64_t tokens) const;

  OpProfile profile_;
  ProfileParams params_;
  ProfileFacts facts_;
  IterationModel* counts_;
  std::vector<std::optional<Timed>> layers_, onces_, heads_;
};

}  // namespace orrery::experiments
