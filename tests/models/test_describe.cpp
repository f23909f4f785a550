#include <catch2/catch.hpp>
#include <sstream>

#include "models/transformer/describe.hpp"
#include "tests/models/support.hpp"

namespace orrery::models::test_describe {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("the description of Llama-2-7B states its facts", "[unit]") {
  const Transformer t = build_transformer(test::model("llama-2-7b"), hw::DType::fp16, 1);
  const std::string text = describe_model(t);
  for (const char* part : {"llama-2-7b", "LlamaForCausalLM", "6738415616", "13476831232 B", "524288 B",
                           "12952010752*T + 262144000*R + 524288*P + 524288*C", "[T, 4096] x [4096, 12288]",
                           "100663296*T", "[R, 4096] x [4096, 32000]", "each of 32 layers", "32 heads / 32 kv x 128"})
    CHECK_THAT(text, Contains(part));
  CHECK_THAT(text, !Contains("all_reduce"));
  CHECK_THAT(text, !Contains("ignored"));
}

TEST_CASE("collectives and ignored keys show where there are any", "[unit]") {
  ModelConfig c = test::model("qwen3-8b");
  c.ignored_keys = {"zebra", "lion"};
  const std::string text = describe_model(build_transformer(c, hw::DType::bf16, 4));
  CHECK_THAT(text, Contains("all_reduce 8192*T B, 4 ranks"));
  CHECK_THAT(text, Contains("all_gather 303872*R B, 4 ranks"));  // 151936 * 2 B
  CHECK_THAT(text, Contains("zebra, lion"));
  CHECK_THAT(text, Contains("norm of q and k"));
}

TEST_CASE("columns are aligned and lines have no trailing blanks", "[unit]") {
  std::istringstream table(op_table(build_transformer(test::model("llama-3-70b"), hw::DType::fp16, 8)));
  std::string line;
  REQUIRE(std::getline(table, line));
  const std::size_t flops = line.find("FLOPs"), weights = line.find("weight bytes"), kv = line.find("KV bytes");
  REQUIRE(kv != std::string::npos);
  int rows = 0;
  while (std::getline(table, line)) {
    CAPTURE(line);
    CHECK(line.back() != ' ');
    if (!line.starts_with("  ")) continue;
    ++rows;
    for (const std::size_t column : {flops, weights, kv}) {
      CHECK(line.at(column) != ' ');
      CHECK(line.substr(column - 2, 2) == "  ");
    }
  }
  CHECK(rows == 2 + 15 + 4);
}

}  // namespace
}  // namespace orrery::models::test_describe
