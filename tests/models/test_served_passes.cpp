// What serving adds to a model's operators: scales of activations in 8 and 4 bits, and the passes of a draw.
#include <catch2/catch.hpp>

#include "models/transformer/lowering.hpp"
#include "tests/models/support.hpp"

namespace orrery::models::test_served_passes {
namespace {

std::vector<std::string> names(const std::vector<Op>& ops) {
  std::vector<std::string> all;
  for (const Op& op : ops) all.push_back(op.name);
  return all;
}

/// Names of the operators of class quantise, in their order.
std::vector<std::string> scales(const Transformer& t) {
  std::vector<std::string> all;
  for (const Op& op : t.kinds.back().ops)
    if (op.op == hw::OpClass::quantise) all.push_back(op.name);
  return all;
}

NumberFormats in(hw::WeightFormat format, ActivationScales activations) {
  return {.dtype = hw::DType::bf16,
          .attention = format,
          .ffn = format,
          .experts = format,
          .cache = {},
          .activations = activations};
}

}  // namespace

TEST_CASE("one scale for all activations takes three kernels before each product", "[unit]") {
  using enum ActivationScales;
  const ModelConfig llama = test::model("llama-2-7b");
  const Transformer t = build_transformer(llama, in(hw::WeightFormat::fp8, tensor), {});
  CHECK(scales(t) == std::vector<std::string>{"qkv_proj_zero", "qkv_proj_largest", "qkv_proj_convert", "out_proj_zero",
                                              "out_proj_largest", "out_proj_convert", "ffn_up_zero", "ffn_up_largest",
                                              "ffn_up_convert", "ffn_down_zero", "ffn_down_largest",
                                              "ffn_down_convert"});
  // They stand right before their product.
  const std::vector<std::string> all = names(t.kinds[0].ops);
  CHECK(*(std::find(all.begin(), all.end(), "ffn_down_convert") + 1) == "ffn_down");
  // Ten tokens of 11,008 elements of 2 bytes are read by two of them; one writes 8 bits of each, two a scale of 4
  // bytes.
  Launches out;
  lower_layer(t, 0, {.tokens = 10, .decode = {10, 1000}}, out);
  double read = 0, written = 0;
  std::int64_t kernels = 0;
  for (const hw::Kernel& kernel : out.kernels) {
    if (kernel.op != hw::OpClass::quantise) continue;
    const hw::Work work = hw::work_of(kernel);
    read += work.read_bytes, written += work.write_bytes, ++kernels;
  }
  CHECK(kernels == 12);
  CHECK(read == 10.0 * 2 * 2 * (3 * 4096 + 11008));
  CHECK(written == 10.0 * (3 * 4096 + 11008) + 4 * 2 * 4);
  // The layer does the same products with them as without.
  CHECK(totals(t).matrix_flops == totals(build_transformer(llama, in(hw::WeightFormat::fp8, fused), {})).matrix_flops);
  CHECK(rank_parameters(t) == rank_parameters(build_transformer(llama, in(hw::WeightFormat::fp8, fused), {})));
}

TEST_CASE("scales by block take a pass where the weights have them", "[unit]") {
  using enum ActivationScales;
  const ModelConfig llama = test::model("llama-2-7b"), deepseek = test::model("deepseek-v3");
  CHECK(scales(build_transformer(llama, in(hw::WeightFormat::nvfp4, block), {})) ==
        std::vector<std::string>{"qkv_proj_scales", "out_proj_scales", "ffn_up_scales", "ffn_down_scales"});
  // A model published in 16 bits and served in 8 has one scale a tensor, which is known beforehand.
  CHECK(scales(build_transformer(llama, in(hw::WeightFormat::fp8, block), {})).empty());
  CHECK_FALSE(scales(build_transformer(deepseek, in(hw::WeightFormat::fp8, block), {})).empty());
  for (const hw::WeightFormat format : {hw::WeightFormat::as_dtype, hw::WeightFormat::int4, hw::WeightFormat::mxfp4})
    for (const ActivationScales how : {block, tensor})
      CHECK(scales(build_transformer(llama, in(format, how), {})).empty());
  CHECK(scales(build_transformer(llama, in(hw::WeightFormat::nvfp4, fused), {})).empty());
  // Blocks of 16: 4,096 elements of a token become 8 bits each and 256 scales of 4 bytes.
  const Transformer t = build_transformer(llama, in(hw::WeightFormat::nvfp4, block), {});
  Launches out;
  lower_dense(t, 1, out);
  for (const hw::Kernel& kernel : out.kernels)
    if (kernel.op == hw::OpClass::quantise) {
      CHECK(hw::work_of(kernel).write_bytes == 4096 + 256 * 4);
      break;
    }
}

TEST_CASE("a draw takes forty bytes a logit more than the largest one", "[unit]") {
  const ModelConfig llama = test::model("llama-2-7b");
  const NumberFormats formats{.dtype = hw::DType::bf16, .cache = {}};
  const Transformer greedy = build_transformer(llama, formats, {});
  const Transformer random = build_transformer(llama, formats, {}, {}, Sampler::random);
  CHECK(names(random.head) == std::vector<std::string>{"final_norm", "lm_head", "temperature", "probabilities", "noise",
                                                       "quotient", "draw", "sampling"});
  const auto moved = [](const Transformer& t) {
    Launches out;
    lower_head(t, 3, out);
    double sum = 0;
    for (const hw::Kernel& kernel : out.kernels) {
      const hw::Work work = hw::work_of(kernel);
      sum += work.read_bytes + work.write_bytes;
    }
    return sum;
  };
  // 8 + 12 + 4 + 12 + 4, and an id of 4 bytes.
  CHECK(moved(random) - moved(greedy) == 3 * 32000 * 40.0 + 4);
}

}  // namespace orrery::models::test_served_passes
