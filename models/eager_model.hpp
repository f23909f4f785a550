// Transformers as PyTorch runs them eagerly: the list of operators of a forward pass over prompts, and their kernels.
//
// Families, after the modules of the Hugging Face library (transformers 4.4x): `bert` (post-norm encoder, exact GELU,
// pooler; XLM-R counts its positions from the ids), `gpt2` (pre-norm decoder, one product for q, k and v, tanh GELU out
// of eight passes), `llama` (RMS norm out of eight passes, rotary positions out of five a tensor, gated SiLU, grouped
// heads that are copied). Attention is one kernel (`sdpa`) or the chain of products and passes (`eager`). Decoders give
// the logits of the last position, as the prefill of a generation does. Operators that only make views are counted,
// because they cost CPU time. Work per kernel: products and attention exact, passes by what they read and write.
// Left out: dropout modules (idle in inference), attention masks of unpadded batches, sampling, caches kept by views.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hw/coupling/launch_program.hpp"
#include "sim/base/params.hpp"

namespace orrery::models {

enum class EagerFamily : std::uint8_t { bert, gpt2, llama };
constexpr auto enum_names(EagerFamily) {
  using enum EagerFamily;
  return sim::names<EagerFamily>({{"bert", bert}, {"gpt2", gpt2}, {"llama", llama}});
}

enum class EagerAttention : std::uint8_t { sdpa, eager };
constexpr auto enum_names(EagerAttention) {
  using enum EagerAttention;
  return sim::names<EagerAttention>({{"sdpa", sdpa}, {"eager", eager}});
}

/// Shape of a model; an entry of models/catalog/eager.
struct EagerModel {
  static constexpr std::string_view kKind = "eager_model";
  EagerFamily family = EagerFamily::bert;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, vocab = 0;
  bool positions_from_ids = false;

  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 24);
    using M = EagerModel;
    return sim::FieldTable{
        sim::required(sim::field("family", &M::family, "Model family whose operators are run.")),
        sim::required(sim::field("layers", &M::layers, Unit::count, kSize, "Number of layers.")),
        sim::required(sim::field("hidden", &M::hidden, Unit::count, kSize, "Hidden size: width of a token.")),
        sim::required(sim::field("heads", &M::heads, Unit::count, kSize, "Number of query heads.")),
        sim::required(sim::field("kv_heads", &M::kv_heads, Unit::count, kSize, "Number of heads of keys and values.")),
        sim::required(sim::field("head_dim", &M::head_dim, Unit::count, kSize, "Width of an attention head.")),
        sim::required(
            sim::field("intermediate", &M::intermediate, Unit::count, kSize, "Width of the feed-forward network.")),
        sim::required(sim::field("vocab", &M::vocab, Unit::count, kSize, "Size of the vocabulary, in tokens.")),
        sim::field("positions_from_ids", &M::positions_from_ids,
                   "Whether positions are counted from the token ids (XLM-R)."),
    };
  }

  /// Faults that no single field shows: heads that do not divide.
  static void check(const EagerModel& model, const sim::Node& fields, sim::Faults& faults);
};

/// Kernels of one forward pass over `batch` prompts of `tokens`, in order.
std::vector<hw::LaunchedKernel> eager_kernels(const EagerModel& model, EagerAttention attention, hw::DType dtype,
                                              std::int64_t batch, std::int64_t tokens);

}  // namespace orrery::models
