#include "experiments/systems/serving/pricing/decoder_kernels.hpp"

namespace orrery::experiments {
namespace {

class ModelKernels final : public DecoderKernels {
 public:
  explicit ModelKernels(models::Transformer transformer) : t_(std::move(transformer)) {}
  const std::vector<std::int32_t>& kind_of() const override { return t_.kind_of; }
  bool by_mix(std::size_t kind) const override { return t_.kinds[kind].experts; }
  std::int64_t ranks() const override { return t_.ranks(); }
  std::int64_t tensor_parallel() const override { return t_.tp; }
  void dense(std::size_t kind, const models::TokenMix& mix, models::Launches& out) const override {
    models::lower_dense(t_, kind, mix, out);
  }
  void beside_experts(std::size_t kind, std::int64_t tokens, models::Launches& out) const override {
    models::lower_beside_experts(t_, kind, tokens, out);
  }
  void experts(std::size_t kind, std::int64_t tokens, const models::RoutedRows& rows,
               models::Launches& out) const override {
    models::lower_experts(t_, kind, tokens, rows, out);
  }
  void attention(std::size_t kind, const models::PrefillSums& prefill, const models::DecodeSums& decode,
                 models::Launches& out) const override {
    models::lower_attention(t_, kind, prefill, decode, out);
  }
  void embedding(std::int64_t tokens, models::Launches& out) const override {
    models::lower_embedding(t_, tokens, out);
  }
  void head(std::int64_t rows, models::Launches& out) const override { models::lower_head(t_, rows, out); }

 private:
  models::Transformer t_;
};

}  // namespace

std::unique_ptr<DecoderKernels> model_kernels(models::Transformer transformer) {
  return std::make_unique<ModelKernels>(std::move(transformer));
}

}  // namespace orrery::experiments
