// Kernel lists of eager forward passes: counts and work by hand.
#include <catch2/catch.hpp>

#include "models/eager_model.hpp"

namespace test_eager_model {

using namespace orrery;
using namespace orrery::models;

namespace {

EagerModel bert() {
  return {.family = EagerFamily::bert,
          .layers = 12,
          .hidden = 768,
          .heads = 12,
          .kv_heads = 12,
          .head_dim = 64,
          .intermediate = 3072,
          .vocab = 30522};
}
EagerModel llama() {
  return {.family = EagerFamily::llama,
          .layers = 16,
          .hidden = 2048,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 64,
          .intermediate = 8192,
          .vocab = 128256};
}

using Kernels = std::vector<hw::LaunchedKernel>;

double product_flops(const Kernels& kernels) {
  double flops = 0;
  for (const hw::LaunchedKernel& kernel : kernels)
    if (std::holds_alternative<hw::Gemm>(kernel.kernel.shape)) flops += hw::work_of(kernel.kernel).flops;
  return flops;
}
std::int64_t operators(const Kernels& kernels) {
  std::int64_t count = 0;
  for (const hw::LaunchedKernel& kernel : kernels) count += kernel.starts_operator ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("eager BERT: kernels and work by hand", "[unit]") {
  // A layer: q, k, v, attention, output, add, norm, up, GELU, down, add, norm = 12; before them 3 lookups, 2 adds and a
  // norm, after them a product and a tanh: 12 x 12 + 8 = 152.
  const Kernels kernels = eager_kernels(bert(), EagerAttention::sdpa, hw::DType::fp16, 2, 512);
  CHECK(kernels.size() == 152);
  CHECK(operators(kernels) == 152);
  // Products: 1,024 tokens x 12 layers x (4 x 768^2 + 2 x 768 x 3072) x 2, and the pooler's 2 x 2 x 768^2.
  const double layers = 2.0 * 1024 * 12 * (4.0 * 768 * 768 + 2.0 * 768 * 3072);
  CHECK(product_flops(kernels) == layers + 2.0 * 2 * 768 * 768);
  // Attention of two prompts of 512, every token over all: 4 x 12 x 64 x 512^2 x 2 FLOPs.
  CHECK(hw::work_of(kernels[9].kernel).flops == 4.0 * 12 * 64 * 512 * 512 * 2);
  CHECK(kernels[9].name == "attention");
  CHECK(kernels[9].views == 2);  // those after `value`
  // GELU of 1,024 x 3,072 two-byte elements reads and writes each.
  CHECK(kernels[14].name == "gelu");
  CHECK(hw::work_of(kernels[14].kernel).read_bytes == 2.0 * 1024 * 3072);
}

TEST_CASE("eager BERT: attention in pieces", "[unit]") {
  // In place of one kernel: copies of q, k and v, two products, scale, mask, softmax, and a copy of the result = 9;
  // q and k are copied within the first product's operator, v within the second's: 6 operators.
  const Kernels kernels = eager_kernels(bert(), EagerAttention::eager, hw::DType::fp16, 1, 512);
  CHECK(kernels.size() == 152 + 12 * 8);
  CHECK(operators(kernels) == 152 + 12 * 5);
  // The two products do what the kernel did: 4 x 12 x 64 x 512^2 a layer.
  const Kernels whole = eager_kernels(bert(), EagerAttention::sdpa, hw::DType::fp16, 1, 512);
  CHECK(product_flops(kernels) - product_flops(whole) == 12 * 4.0 * 12 * 64 * 512 * 512);
}

TEST_CASE("eager XLM-R: positions from ids", "[unit]") {
  EagerModel model = bert();
  model.positions_from_ids = true;
  CHECK(eager_kernels(model, EagerAttention::sdpa, hw::DType::fp16, 1, 512).size() == 160);
}

TEST_CASE("eager GPT-2: one product for q, k and v, eight passes for GELU", "[unit]") {
  EagerModel model = bert();
  model.family = EagerFamily::gpt2;
  // A layer: norm, product, attention, product, add, norm, product, 8 passes, product, add = 17; 3 before, 2 after.
  const Kernels kernels = eager_kernels(model, EagerAttention::sdpa, hw::DType::fp16, 1, 512);
  CHECK(kernels.size() == 12 * 17 + 5);
  const double layers = 2.0 * 512 * 12 * (4.0 * 768 * 768 + 2.0 * 768 * 3072);
  CHECK(product_flops(kernels) == layers + 2.0 * 768 * 30522);
  // Causal: 512 x 513 / 2 pairs.
  CHECK(hw::work_of(kernels[5].kernel).flops == 4.0 * 12 * 64 * 512 * 513 / 2);
}

TEST_CASE("eager Llama: grouped heads are copied, norms and rotations are passes", "[unit]") {
  // A layer: 8 + 3 + 5 + 5 + 2 + 1 + 1 + 1 + 8 + 6 = 40; a lookup and 8 for the angles before, 8 + 1 after.
  const Kernels kernels = eager_kernels(llama(), EagerAttention::sdpa, hw::DType::fp16, 1, 512);
  CHECK(kernels.size() == 16 * 40 + 9 + 9);
  // Products a token and layer: q and o 2048^2 each, k and v 2048 x 512 each, three of 2048 x 8192.
  const double layer = 2.0 * 2048 * 2048 + 2.0 * 2048 * 512 + 3.0 * 2048 * 8192;
  CHECK(product_flops(kernels) == 2.0 * (512 * 16 * layer + 2048.0 * 128256 + 32.0 * 512));
  // Heads that are not grouped are not copied.
  EagerModel alone = llama();
  alone.kv_heads = 32;
  CHECK(eager_kernels(alone, EagerAttention::sdpa, hw::DType::fp16, 1, 512).size() == kernels.size() - 16 * 2);
}

TEST_CASE("eager models: work of all families grows with the batch, kernels do not", "[prop]") {
  for (const EagerFamily family : {EagerFamily::bert, EagerFamily::gpt2, EagerFamily::llama})
    for (const EagerAttention attention : {EagerAttention::sdpa, EagerAttention::eager}) {
      EagerModel model = bert();
      model.family = family;
      const Kernels one = eager_kernels(model, attention, hw::DType::fp16, 1, 128);
      const Kernels four = eager_kernels(model, attention, hw::DType::fp16, 4, 128);
      REQUIRE(one.size() == four.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        CHECK(hw::work_of(four[i].kernel).flops >= hw::work_of(one[i].kernel).flops);
        CHECK(hw::work_of(four[i].kernel).flops <= 4 * hw::work_of(one[i].kernel).flops);
        CHECK(one[i].starts_operator == four[i].starts_operator);
      }
    }
}

}  // namespace test_eager_model
