#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "hw/kernel.hpp"

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

TEST_CASE("a prompt decoded token by token does the FLOPs of its prefill", "[prop]") {
  for (const std::int64_t n : {1, 7, 128, 300}) {
    double decoded = 0;
    for (std::int64_t context = 1; context <= n; ++context)
      decoded += work_of({OpClass::attention_decode, DType::fp16, AttentionDecode{1, context, 4, 2, 64}}).flops;
    const AttentionPrefill prefill{1, n, n, n * (n + 1) / 2, (n + 127) / 128, 4, 2, 64};
    CHECK(work_of({OpClass::attention_prefill, DType::fp16, prefill}).flops == decoded);
  }
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
