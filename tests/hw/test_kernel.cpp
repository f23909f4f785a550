#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "hw/base/kernel.hpp"

namespace test_kernel {

using namespace orrery::hw;

TEST_CASE("work of a matrix product", "[unit]") {
  // C[2,3] = A[2,4] B[4,3] in fp16: 2*2*3*4 = 48 FLOPs; reads (2*4 + 4*3) * 2 = 40 bytes, writes 2*3*2 = 12 bytes.
  const Work work = work_of({OpClass::qkv_proj, DType::fp16, Gemm{.m = 2, .n = 3, .k = 4}});
  CHECK(work.flops == 48);
  CHECK(work.read_bytes == 40);
  CHECK(work.write_bytes == 12);

  SECTION("a batch multiplies everything") {
    const Work five = work_of({OpClass::qkv_proj, DType::fp16, Gemm{.m = 2, .n = 3, .k = 4, .batch = 5}});
    CHECK(five.flops == 240);
    CHECK(five.read_bytes == 200);
    CHECK(five.write_bytes == 60);
  }
  SECTION("bytes follow the format, FLOPs do not") {
    const Work fp8 = work_of({OpClass::qkv_proj, DType::fp8, Gemm{.m = 2, .n = 3, .k = 4}});
    const Work fp32 = work_of({OpClass::qkv_proj, DType::fp32, Gemm{.m = 2, .n = 3, .k = 4}});
    CHECK(fp8.flops == 48);
    CHECK(fp8.read_bytes == 20);
    CHECK(fp32.read_bytes == 80);
  }
}

TEST_CASE("work of prefill attention", "[unit]") {
  // Chunks of 3 new tokens over 2 cached and of 2 over none, 4 query heads on 2 key heads of dimension 8, fp16.
  // pairs = 3*2 + 3*4/2 + 2*3/2 = 6 + 6 + 3 = 15; FLOPs = 4*4*8*15 = 1920.
  // queries 5*4*8*2 = 320 bytes, keys and values 2 * (5+2)*2*8*2 = 448 bytes, outputs 320 bytes.
  const AttentionPrefill shape{.sequences = 2,
                               .q_tokens = 5,
                               .kv_tokens = 7,
                               .pairs = 15,
                               .q_tiles = 2,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 8};
  const Work work = work_of({OpClass::attention_prefill, DType::fp16, shape});
  CHECK(work.flops == 1920);
  CHECK(work.read_bytes == 768);
  CHECK(work.write_bytes == 320);
}

TEST_CASE("work of decode attention", "[unit]") {
  // Contexts of 10 and 6, 4 query heads on 2 key heads of dimension 8, fp16. FLOPs = 4*4*8*16 = 2048.
  // queries 2*4*8*2 = 128 bytes, keys and values 2*16*2*8*2 = 1024 bytes, outputs 128 bytes.
  const AttentionDecode shape{.sequences = 2, .context_tokens = 16, .heads = 4, .kv_heads = 2, .head_dim = 8};
  const Work work = work_of({OpClass::attention_decode, DType::fp16, shape});
  CHECK(work.flops == 2048);
  CHECK(work.read_bytes == 1152);
  CHECK(work.write_bytes == 128);
}

TEST_CASE("work of attention with a full mask, values of their own width and pages", "[unit]") {
  // One sequence of 3 new tokens over 2 cached, full mask: 3 * 5 = 15 pairs. 2 heads, one key head, keys of 6, values
  // of 4 elements, fp16: FLOPs 2*2*(6+4)*15 = 600; queries 3*2*6*2 = 72 bytes, keys and values 5*(6+4)*2 = 100, outputs
  // 3*2*4*2 = 48. Pages of 4 tokens: ceil(5 / 4) = 2 entries of 4 bytes.
  AttentionPrefill shape{.sequences = 1,
                         .q_tokens = 3,
                         .kv_tokens = 5,
                         .pairs = 15,
                         .q_tiles = 1,
                         .heads = 2,
                         .kv_heads = 1,
                         .head_dim = 6,
                         .value_dim = 4,
                         .causal = false};
  const Work work = work_of({OpClass::attention_prefill, DType::fp16, shape});
  CHECK(work.flops == 600);
  CHECK(work.read_bytes == 172);
  CHECK(work.write_bytes == 48);
  shape.page_tokens = 4;
  CHECK(work_of({OpClass::attention_prefill, DType::fp16, shape}).read_bytes == 180);
}

TEST_CASE("work of latent attention", "[unit]") {
  // DeepSeek's decode (MLA): 128 heads on one latent of 576 elements of which the first 512 are the values; 2
  // sequences, 16 tokens of context. FLOPs 2*128*(576+512)*16 = 4,456,448; queries 2*128*576*2 = 294,912 bytes, the
  // latent once: 16*576*2 = 18,432, outputs 2*128*512*2 = 262,144.
  AttentionDecode shape{.sequences = 2,
                        .context_tokens = 16,
                        .heads = 128,
                        .kv_heads = 1,
                        .head_dim = 576,
                        .value_dim = 512,
                        .latent = true};
  const Work work = work_of({OpClass::attention_decode, DType::bf16, shape});
  CHECK(work.flops == 4456448);
  CHECK(work.read_bytes == 294912 + 18432);
  CHECK(work.write_bytes == 262144);
  shape.latent = false;  // values of their own: 16*512*2 = 16,384 bytes more
  CHECK(work_of({OpClass::attention_decode, DType::bf16, shape}).read_bytes == 294912 + 18432 + 16384);
  shape.page_tokens = 64;  // 16 tokens in all: one entry
  CHECK(work_of({OpClass::attention_decode, DType::bf16, shape}).read_bytes == 294912 + 18432 + 16384 + 4);
}

TEST_CASE("chunks of a prompt do the FLOPs of the whole", "[prop]") {
  for (const std::int64_t chunk : {1, 16, 100, 512}) {
    const std::int64_t tokens = 1000;
    double flops = 0;
    for (std::int64_t past = 0; past < tokens; past += chunk) {
      const std::int64_t n = std::min(chunk, tokens - past);
      const AttentionPrefill part{1, n, past + n, n * past + n * (n + 1) / 2, (n + 127) / 128, 8, 2, 64};
      flops += work_of({OpClass::attention_prefill, DType::fp16, part}).flops;
    }
    const AttentionPrefill whole{1, tokens, tokens, tokens * (tokens + 1) / 2, (tokens + 127) / 128, 8, 2, 64};
    CHECK(flops == work_of({OpClass::attention_prefill, DType::fp16, whole}).flops);
  }
}

TEST_CASE("a prompt decoded token by token does the FLOPs of its prefill", "[prop]") {
  for (const std::int64_t n : {1, 7, 128, 300}) {
    double decoded = 0;
    for (std::int64_t context = 1; context <= n; ++context)
      decoded += work_of({OpClass::attention_decode, DType::fp16, AttentionDecode{1, context, 4, 2, 64}}).flops;
    const AttentionPrefill prefill{1, n, n, n * (n + 1) / 2, (n + 127) / 128, 4, 2, 64};
    CHECK(work_of({OpClass::attention_prefill, DType::fp16, prefill}).flops == decoded);
  }
}

TEST_CASE("a convolution without stride or groups is one of stride 1 and one group", "[unit]") {
  const Conv plain{.batch = 1, .in_channels = 4, .out_channels = 8, .height = 8, .width = 8};
  Conv none = plain;
  none.stride = none.groups = 0;
  const Work a = work_of({OpClass::conv, DType::fp16, plain}), b = work_of({OpClass::conv, DType::fp16, none});
  CHECK(a.flops == 2.0 * 8 * 8 * 8 * 4);
  CHECK(b.flops == a.flops);
  CHECK(b.read_bytes == a.read_bytes);
  // A kernel that reaches further than 32 bits count fits no image.
  none.kernel_height = none.dilation = std::numeric_limits<std::int32_t>::max();
  CHECK(none.out_height() == 0);
}

TEST_CASE("empty shapes have no work", "[unit]") {
  for (const Kernel& kernel : {Kernel{OpClass::ffn_up, DType::fp16, Gemm{.m = 0, .n = 3, .k = 4}},
                               Kernel{OpClass::attention_prefill, DType::fp16, AttentionPrefill{}},
                               Kernel{OpClass::attention_decode, DType::fp16, AttentionDecode{}},
                               Kernel{OpClass::norm, DType::fp16, Streaming{}}}) {
    const Work work = work_of(kernel);
    CHECK(work.flops == 0);
    CHECK(work.read_bytes == 0);
    CHECK(work.write_bytes == 0);
  }
}

TEST_CASE("every class has a name of its own", "[unit]") {
  std::vector<std::string> names;
  for (int i = 0; i < kOpClasses; ++i) names.emplace_back(to_string(static_cast<OpClass>(i)));
  std::sort(names.begin(), names.end());
  CHECK(std::unique(names.begin(), names.end()) == names.end());
  CHECK(std::find(names.begin(), names.end(), "unknown") == names.end());
  CHECK(to_string(OpClass::attention_decode) == "attention_decode");
  CHECK(to_string(Bound::memory) == "memory");
}

}  // namespace test_kernel
