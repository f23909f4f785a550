// Layers with linear attention (Qwen3-Next, Qwen3.5): published totals, states of sequences, what a config may say.
#include <catch2/catch.hpp>

#include "models/transformer/lowering.hpp"
#include "tests/models/support.hpp"

namespace orrery::models::test_linear_attention {
namespace {

Transformer served(const std::string& name, std::int64_t tp = 1) {
  return build_transformer(test::model(name), hw::DType::bf16, tp);
}

const LayerKind& kind(const Transformer& t, bool linear) {
  for (const LayerKind& k : t.kinds)
    if (k.linear == linear) return k;
  throw std::logic_error("no such kind");
}

std::string fault_of(const std::string& key, const std::string& value) {
  sim::Node node = sim::read_json(std::string(ORRERY_SOURCE_DIR) + "/models/catalog/qwen3-next-80b-a3b.json");
  node.set(key, sim::parse_json(value, "m.json"));
  sim::Faults faults;
  parse_hf_config(node, faults);
  return faults.empty() ? "" : faults.all().front().message;
}

}  // namespace

TEST_CASE("parameters of models with linear attention are the published ones", "[golden]") {
  // Model cards: 80B with 3B activated (3.9B with embedding and head), 397B with 17B activated.
  CHECK(parameters(test::model("qwen3-next-80b-a3b")) == 79'674'391'296);
  CHECK(static_cast<double>(active_parameters(test::model("qwen3-next-80b-a3b"))) * 1e-9 == Approx(3.9).epsilon(0.02));
  CHECK(static_cast<double>(parameters(test::model("qwen3.5-397b-a17b"))) * 1e-9 == Approx(397).epsilon(0.005));
  CHECK(static_cast<double>(active_parameters(test::model("qwen3.5-397b-a17b"))) * 1e-9 == Approx(17).epsilon(0.03));
}

TEST_CASE("three linear layers to one of full attention, which alone has a cache", "[unit]") {
  const Transformer t = served("qwen3.5-397b-a17b");
  CHECK(kind(t, true).count == 45);
  CHECK(kind(t, false).count == 15);
  CHECK(t.kind_of[0] == t.kind_of[2]);
  CHECK(t.kind_of[2] != t.kind_of[3]);
  CHECK(kv_bytes_per_token(t) == 15 * 2 * 2 * 256 * 2);  // layers, keys and values, 2 heads of 256 in 16 bits
  // 64 heads of 128 x 128 in fp32; three tokens of 12,288 channels (2 x 16 x 128 + 64 x 128) in 16 bits.
  CHECK(state_bytes_per_sequence(t) == 45 * (64 * 128 * 128 * 4 + 3 * 12288 * 2));
  CHECK(state_bytes_per_sequence(served("qwen3.5-397b-a17b", 4)) * 4 == state_bytes_per_sequence(t));
  CHECK(state_bytes_per_sequence(served("llama-2-7b")) == 0);
}

TEST_CASE("a decode reads and writes its states, whatever its context", "[unit]") {
  const Transformer t = served("qwen3.5-397b-a17b");
  const auto linear_kind = static_cast<std::size_t>(&kind(t, true) - t.kinds.data());
  const auto state_traffic = [&](std::int64_t sequences, std::int64_t context) {
    Launches out;
    lower_attention(t, linear_kind, {}, {sequences, sequences * context}, out);
    double sum = 0;
    for (const hw::Kernel& kernel : out.kernels) {
      const hw::Work work = hw::work_of(kernel);
      sum += work.read_bytes + work.write_bytes;
    }
    return sum;
  };
  CHECK(state_traffic(1, 100) == 2.0 * 64 * 128 * 128 * 4);
  CHECK(state_traffic(8, 100) == 8 * state_traffic(1, 100));
  CHECK(state_traffic(8, 100'000) == state_traffic(8, 100));
}

TEST_CASE("a prompt's work in linear layers grows with its tokens, in chunks", "[unit]") {
  const Transformer t = served("qwen3.5-397b-a17b");
  const auto linear_kind = static_cast<std::size_t>(&kind(t, true) - t.kinds.data());
  const auto flops = [&](std::int64_t tokens) {
    PrefillSums prompt;
    prompt.add(tokens, 0);
    Launches out;
    lower_attention(t, linear_kind, prompt, {}, out);
    double sum = 0;
    for (const hw::Kernel& kernel : out.kernels) sum += hw::work_of(kernel).flops;
    return sum;
  };
  // A token and head of 128 x 128, chunks of 64: keys and queries with keys 2 x 128 x 128, the triangle 64 x 64, what
  // it makes 2 x 64 x 256, states 2 x 256 x 128, outputs 2 x 192 x 128.
  CHECK(flops(1000) == 1000.0 * 64 * (2 * 128 * 128 + 64 * 64 + 2 * 64 * 256 + 2 * 256 * 128 + 2 * 192 * 128));
  CHECK(flops(32'000) == 32 * flops(1000));
}

TEST_CASE("full attention of these models has a gate as wide as its queries", "[unit]") {
  const Transformer t = served("qwen3.5-397b-a17b");
  for (const Op& op : kind(t, false).ops)
    if (op.name == "qkv_proj") CHECK(op.parameters == 4096 * (2 * 32 * 256 + 2 * 2 * 256));
  CHECK_THROWS_WITH(served("qwen3.5-397b-a17b", 32),
                    Catch::Contains("divide the 16 key heads of linear attention, got 32"));
}

TEST_CASE("faults of a config with linear layers", "[unit][errors]") {
  CHECK(fault_of("full_attention_interval", "4").empty());
  CHECK(fault_of("linear_num_value_heads", "24") == "expected a multiple of linear_num_key_heads (16), got 24");
  CHECK(fault_of("layer_types", "[]") == "expected an array of 48 layers' types");
  std::string types = "[";
  for (int i = 0; i < 48; ++i) types += i == 0 ? "\"full_attention\"" : ", \"linear_attention\"";
  CHECK(fault_of("layer_types", types + "]") ==
        "expected \"linear_attention\" by full_attention_interval, got \"full_attention\"");
  CHECK(fault_of("shared_expert_intermediate_size", "0").find("expected a whole number") != std::string::npos);
}

}  // namespace orrery::models::test_linear_attention
