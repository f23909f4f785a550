#include <catch2/catch.hpp>
#include <fstream>

#include "tests/models/support.hpp"

namespace orrery::models::test_hf_config {
namespace {

using Catch::Matchers::Contains;

/// A small valid config with one member replaced (or, for an empty value, removed).
sim::Node config_with(const std::string& key, const std::string& value,
                      const std::string& architecture = "LlamaForCausalLM") {
  sim::Node node = sim::parse_json(R"({"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2,
      "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 8192})",
                                   "m.json");
  sim::Node architectures = sim::parse_json("[\"" + architecture + "\"]", "m.json");
  architectures.set_origin({"m.json", "/architectures"});
  architectures.items()[0].set_origin({"m.json", "/architectures/0"});
  node.set("architectures", architectures);
  if (architecture == "MistralForCausalLM") node.set("sliding_window", sim::Node{});
  if (key.empty()) return node;
  node.erase(key);
  if (!value.empty()) {
    const sim::Node holder = sim::parse_json("{\"" + key + "\": " + value + "}", "m.json");
    node.set(key, *holder.find(key));
  }
  return node;
}

ModelConfig parse(const sim::Node& node) {
  sim::Faults faults;
  ModelConfig config = parse_hf_config(node, faults);
  faults.throw_if_any();
  return config;
}

/// Faults of a config, as text.
std::vector<std::string> faults_of(const sim::Node& node) {
  sim::Faults faults;
  parse_hf_config(node, faults);
  std::vector<std::string> texts;
  for (const sim::Fault& fault : faults.all()) texts.push_back(fault.text());
  return texts;
}

const std::string kSupported =
    "(supported: DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, FalconForCausalLM, GptOssForCausalLM, LlamaForCausalLM, "
    "MiniMaxM2ForCausalLM, MistralForCausalLM, MixtralForCausalLM, OPTForCausalLM, Qwen2ForCausalLM, "
    "Qwen2MoeForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, Qwen3NextForCausalLM, Qwen3_5MoeForCausalLM)";

TEST_CASE("every fault names its pointer and what was expected", "[unit]") {
  struct Case {
    const char* architecture;
    const char* key;
    const char* value;
    std::string text;
  };
  const Case cases[] = {
      {"LlamaForCausalLM", "hidden_size", "",
       "m.json:/hidden_size: missing: expected a whole number from 1 to 1048576"},
      {"LlamaForCausalLM", "hidden_size", "null",
       "m.json:/hidden_size: missing: expected a whole number from 1 to 1048576"},
      {"LlamaForCausalLM", "hidden_size", "0", "m.json:/hidden_size: expected a whole number from 1 to 1048576, got 0"},
      {"LlamaForCausalLM", "intermediate_size", "-4",
       "m.json:/intermediate_size: expected a whole number from 1 to 4194304, got -4"},
      {"LlamaForCausalLM", "num_hidden_layers", "2.5",
       "m.json:/num_hidden_layers: expected a whole number from 1 to 4096, got 2.5"},
      {"LlamaForCausalLM", "vocab_size", "\"1000\"",
       "m.json:/vocab_size: expected a whole number from 1 to 16777216, got \"1000\""},
      {"LlamaForCausalLM", "max_position_embeddings", "4294967296",
       "m.json:/max_position_embeddings: expected a whole number from 1 to 1073741824, got 4294967296"},
      {"LlamaForCausalLM", "num_key_value_heads", "3",
       "m.json:/num_key_value_heads: expected a divisor of num_attention_heads (8), got 3"},
      {"LlamaForCausalLM", "num_key_value_heads", "16",
       "m.json:/num_key_value_heads: expected a divisor of num_attention_heads (8), got 16"},
      {"Qwen2ForCausalLM", "num_key_value_heads", "",
       "m.json:/num_key_value_heads: missing: expected a whole number >= 1"},
      {"LlamaForCausalLM", "hidden_size", "500",
       "m.json:/hidden_size: expected a multiple of num_attention_heads (8), got 500 (or give head_dim)"},
      {"LlamaForCausalLM", "hidden_size", "65536",
       "m.json:/hidden_size: expected heads of at most 4096 elements, got 8192"},
      {"LlamaForCausalLM", "head_dim", "0", "m.json:/head_dim: expected a whole number from 1 to 4096, got 0"},
      {"LlamaForCausalLM", "attention_bias", "1", "m.json:/attention_bias: expected true or false, got 1"},
      {"LlamaForCausalLM", "hidden_act", "\"gelu\"",
       "m.json:/hidden_act: expected \"silu\", got \"gelu\" (other activations are not supported)"},
      {"LlamaForCausalLM", "torch_dtype", "\"bfloat15\"",
       "m.json:/torch_dtype: expected a number format, got \"bfloat15\" (did you mean 'bfloat16'?)"},
      {"LlamaForCausalLM", "dtype", "16",
       "m.json:/dtype: expected a number format, got 16 (known: bfloat16, float16, float32, float8_e4m3fn, "
       "float8_e5m2, int8)"},
      {"LlamaForCausalLM", "architectures", "",
       "m.json:/architectures: missing: the model's architecture is required " + kSupported},
      {"LlamaForCausalLM", "architectures", "[]",
       "m.json:/architectures: expected an array of one architecture, got [] " + kSupported},
      {"Gemma3ForCausalLM", "", "",
       "m.json:/architectures/0: unsupported architecture \"Gemma3ForCausalLM\" " + kSupported},
      {"MixtralForCausalLM", "num_experts_per_tok", "2",
       "m.json:/num_local_experts: missing: expected a whole number from 1 to 4096"},
      {"Qwen2ForCausalLM", "model_type", "\"qwen3\"",
       "m.json:/model_type: expected \"qwen2\", the type of Qwen2ForCausalLM, got \"qwen3\""},
      {"LlamaForCausalLM", "num_local_experts", "8",
       "m.json:/num_local_experts: unsupported: mixture of experts, got 8 " + kSupported},
      {"LlamaForCausalLM", "quantization_config", "{\"bits\": 4}",
       "m.json:/quantization_config: unsupported: quantised weights, got an object " + kSupported},
      {"LlamaForCausalLM", "kv_lora_rank", "512",
       "m.json:/kv_lora_rank: unsupported: latent attention, got 512 " + kSupported},
      {"LlamaForCausalLM", "partial_rotary_factor", "0.5",
       "m.json:/partial_rotary_factor: expected 1, got 0.5 (partial rotary positions are not supported)"},
      {"LlamaForCausalLM", "rope_parameters", "{\"partial_rotary_factor\": 0.25}",
       "m.json:/rope_parameters/partial_rotary_factor: expected 1, got 0.25 (partial rotary positions are not "
       "supported)"},
      {"Qwen3ForCausalLM", "layer_types", "[\"full_attention\", \"sliding_attention\"]",
       "m.json:/layer_types/1: expected \"full_attention\", got \"sliding_attention\" (other layers are not "
       "supported)"},
      {"LlamaForCausalLM", "sliding_window", "1024",
       "m.json:/sliding_window: expected null or a window of at least max_position_embeddings (8192), got 1024 "
       "(LlamaForCausalLM has no windows)"},
      {"MistralForCausalLM", "sliding_window", "-1",
       "m.json:/sliding_window: expected a whole number from 1 to 1099511627776, got -1"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.architecture, c.key, c.value);
    CHECK(faults_of(config_with(c.key, c.value, c.architecture)) == std::vector<std::string>{c.text});
  }
  CHECK(faults_of(sim::parse_json("[]", "m.json")) ==
        std::vector<std::string>{"m.json: expected a model config (an object), got an array"});
}

TEST_CASE("all faults of a config are reported at once", "[unit]") {
  sim::Node node = config_with("hidden_size", "0");
  node.set("vocab_size", sim::Node::integer(-1));
  node.erase("intermediate_size");
  CHECK(faults_of(node).size() == 3);
}

TEST_CASE("what is switched off or has no influence is accepted", "[unit]") {
  CHECK_NOTHROW(parse(config_with("num_experts", "0")));
  CHECK_NOTHROW(parse(config_with("quantization_config", "null")));
  CHECK_NOTHROW(parse(config_with("is_encoder_decoder", "false")));
  CHECK_NOTHROW(parse(config_with("rope_scaling", "{\"rope_type\": \"llama3\", \"factor\": 8.0}")));
  CHECK_NOTHROW(parse(config_with("partial_rotary_factor", "1.0")));
  CHECK_NOTHROW(parse(config_with("layer_types", "[\"full_attention\", \"full_attention\"]", "Qwen3ForCausalLM")));
  // The window is never reached, or is not switched on.
  CHECK_NOTHROW(parse(config_with("sliding_window", "8192", "MistralForCausalLM")));
  CHECK_NOTHROW(parse(config_with("sliding_window", "1024", "Qwen2ForCausalLM")));
}

TEST_CASE("windows of Mistral, Mixtral and Qwen are those of the library's layers", "[unit]") {
  const auto windows = [](const sim::Node& node) {
    const ModelConfig config = parse(node);
    std::vector<std::int64_t> all;
    for (std::int64_t layer = 0; layer < config.layers; ++layer)
      all.push_back(config.has_window(layer) ? config.sliding_window : 0);
    return all;
  };
  using All = std::vector<std::int64_t>;
  CHECK(windows(config_with("sliding_window", "1024", "MistralForCausalLM")) == All{1024, 1024});
  CHECK(windows(config_with("sliding_window", "", "MistralForCausalLM")) == All{4096, 4096});  // the default
  CHECK(windows(config_with("sliding_window", "8192", "MistralForCausalLM")) == All{0, 0});    // never reached
  CHECK(windows(config_with("sliding_window", "null", "MistralForCausalLM")) == All{0, 0});
  sim::Node qwen = config_with("sliding_window", "1024", "Qwen2ForCausalLM");
  CHECK(windows(qwen) == All{0, 0});
  qwen.set("use_sliding_window", sim::Node::boolean(true));
  CHECK(windows(qwen) == All{0, 0});  // from layer 28 on
  qwen.set("max_window_layers", sim::Node::integer(1));
  CHECK(windows(qwen) == All{0, 1024});
  qwen.set("layer_types", sim::parse_json(R"(["sliding_attention", "full_attention"])", "m.json"));
  CHECK(windows(qwen) == All{1024, 0});
  sim::Node unsaid = config_with("use_sliding_window", "true", "Qwen3ForCausalLM");
  unsaid.set("max_window_layers", sim::Node::integer(0));
  CHECK(windows(unsaid) == All{4096, 4096});  // the default
  unsaid.set("sliding_window", sim::Node{});
  CHECK(windows(unsaid) == All{0, 0});
  // Mixtral has one where it is given; experts of Qwen2 in layers 0, 2 …, of Qwen3 in all.
  const auto experts = [&](const char* architecture, const char* keys) {
    sim::Node node = config_with("sliding_window", "1024", architecture);
    node.set("use_sliding_window", sim::Node::boolean(true));
    const sim::Node more = sim::parse_json(keys, "m.json");
    for (const auto& [key, value] : more.members()) node.set(key, value);
    return windows(node);
  };
  CHECK(experts("MixtralForCausalLM", R"({"num_local_experts": 8, "num_experts_per_tok": 2})") == All{1024, 1024});
  const char* const qwen3 =
      R"({"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "head_dim": 64})";
  CHECK(experts("Qwen3MoeForCausalLM", qwen3) == All{1024, 1024});
  const char* const qwen2 = R"({"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
                                "shared_expert_intermediate_size": 128})";
  CHECK(experts("Qwen2MoeForCausalLM", qwen2) == All{1024, 0});
  qwen.set("layer_types", sim::parse_json(R"(["sliding_attention", "chunked"])", "m.json"));
  CHECK(faults_of(qwen).size() == 1);
}

TEST_CASE("unknown keys are collected, metadata and known ones are not", "[unit]") {
  sim::Node node = config_with("rope_theta", "10000.0");
  node.set("_name_or_path", sim::Node::string("x"));
  node.set("zebra", sim::Node::integer(1));
  node.set("auto_map", sim::Node::object());
  CHECK(parse(node).ignored_keys == std::vector<std::string>{"zebra", "auto_map"});
}

TEST_CASE("absent keys mean what they mean to the library", "[unit]") {
  const ModelConfig llama = parse(config_with("num_key_value_heads", ""));
  CHECK(llama.kv_heads == 8);
  CHECK(llama.head_dim == 64);  // 512 / 8
  CHECK_FALSE(llama.qkv_bias);
  CHECK_FALSE(llama.tie_word_embeddings);
  CHECK_FALSE(llama.dtype.has_value());
  CHECK(parse(config_with("", "", "Qwen3ForCausalLM")).head_dim == 128);
  CHECK(parse(config_with("", "", "Qwen3ForCausalLM")).qk_norm);
  CHECK(parse(config_with("head_dim", "null")).head_dim == 64);
  CHECK(parse(config_with("head_dim", "96")).head_dim == 96);
  const ModelConfig qwen2 = parse(config_with("", "", "Qwen2ForCausalLM"));
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.out_bias);
  const ModelConfig biased = parse(config_with("attention_bias", "true"));
  CHECK(biased.qkv_bias);
  CHECK(biased.out_bias);
  CHECK_FALSE(parse(config_with("attention_bias", "true", "MistralForCausalLM")).qkv_bias);  // not read there
  CHECK(parse(config_with("mlp_bias", "true")).mlp_bias);
  CHECK(parse(config_with("tie_word_embeddings", "true")).tie_word_embeddings);
  CHECK(parse(config_with("torch_dtype", "\"bfloat16\"")).dtype == hw::DType::bf16);
  sim::Node by_type = config_with("model_type", "\"qwen3\"");
  by_type.erase("architectures");
  CHECK(parse(by_type).architecture == "Qwen3ForCausalLM");
}

TEST_CASE("a reference is a catalog name, a file or a folder", "[unit]") {
  const ModelConfig named = load_model("catalog:llama-2-7b", test::catalog());
  CHECK(named.name == "llama-2-7b");
  CHECK(named.hidden_size == 4096);
  CHECK_THAT(named.source, Contains("meta-llama/Llama-2-7b-hf"));
  const std::string file = (test::catalog() / "llama-3-8b.json").string();
  CHECK(load_model(file, {}).name == file);
  CHECK(load_model(file, {}).kv_heads == 8);

  const auto folder = std::filesystem::current_path() / "reference_to_a_folder";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(file, folder / "config.json", std::filesystem::copy_options::overwrite_existing);
  CHECK(load_model(folder.string(), {}).intermediate_size == 14336);
  std::filesystem::remove_all(folder);

  const sim::Origin where{"run.json", "/model/config"};
  CHECK_THROWS_WITH(
      load_model("catalog:llama-2-7", test::catalog(), where),
      "run.json:/model/config: no model 'llama-2-7' in the catalog (did you mean 'llama-2-7b' or 'llama-2-70b'?)");
  CHECK_THROWS_WITH(
      load_model("nowhere.json", {}, where),
      "run.json:/model/config: expected a model config, found no file 'nowhere.json' (a path or catalog:NAME)");
}

TEST_CASE("every catalog entry is valid, understood in full and names its source", "[unit]") {
  const std::vector<std::string> names = catalog_models(test::catalog());
  CHECK(names ==
        std::vector<std::string>{"codellama-34b",     "deepseek-r1",    "deepseek-v2-lite",   "deepseek-v3",
                                 "duo-llm",           "falcon-180b",    "gpt-oss-120b",       "gpt-oss-20b",
                                 "kimi-k2",           "llama-13b",      "llama-2-13b",        "llama-2-70b",
                                 "llama-2-7b",        "llama-3-70b",    "llama-3-8b",         "llama-3.1-405b",
                                 "llama-3.1-70b",     "llama-3.1-8b",   "llama-3.2-1b",       "llama-30b",
                                 "llama-7b",          "llama-moe-3.5b", "llama3-15b",         "minimax-m2.5",
                                 "mistral-7b",        "mistral-large",  "mixtral-8x22b",      "mixtral-8x7b",
                                 "opt-125m",          "opt-13b",        "opt-175b",           "opt-6.7b",
                                 "opt-66b",           "qwen-32b",       "qwen2-57b-a14b",     "qwen3-235b-a22b",
                                 "qwen3-30b-a3b",     "qwen3-32b",      "qwen3-8b",           "qwen3-next-80b-a3b",
                                 "qwen3.5-397b-a17b", "read-me-7b",     "switch-128-decoder", "switch-32-decoder",
                                 "switch-64-decoder", "yi-34b",         "yi-34b-200k"});
  for (const std::string& name : names) {
    CAPTURE(name);
    const ModelConfig c = test::model(name);
    CHECK(c.ignored_keys.empty());
    CHECK((c.source.find("config.json") != std::string::npos || c.source.find("arXiv") != std::string::npos));
    CHECK(c.dtype.has_value());
    CHECK_FALSE(tp_obstacle(c, c.heads % 8 == 0 ? 8 : 4).has_value());
  }
  CHECK(test::model("llama-2-7b").max_position_embeddings == 4096);
  CHECK(test::model("llama-3-8b").max_position_embeddings == 8192);
  CHECK(test::model("llama-3.1-8b").max_position_embeddings == 131072);
}

TEST_CASE("catalog entries agree with the published facts", "[unit]") {
  const std::filesystem::path file = std::filesystem::path(ORRERY_SHARED_DIR) / "data" / "models" / "model_facts.json";
  if (!std::filesystem::exists(file)) {
    WARN("no model_facts.json: comparison left out");
    return;
  }
  const sim::Node facts = sim::read_json(file);
  const std::pair<const char*, const char*> pairs[] = {{"llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B"},
                                                       {"llama-3.1-70b", "meta-llama/Meta-Llama-3.1-70B"},
                                                       {"qwen3-8b", "Qwen/Qwen3-8B"},
                                                       {"qwen3-32b", "Qwen/Qwen3-32B"},
                                                       {"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"},
                                                       {"qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B"},
                                                       {"mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"},
                                                       {"deepseek-v3", "deepseek-ai/DeepSeek-V3"},
                                                       {"deepseek-r1", "deepseek-ai/DeepSeek-R1"},
                                                       {"gpt-oss-120b", "openai/gpt-oss-120b"},
                                                       {"gpt-oss-20b", "openai/gpt-oss-20b"}};
  for (const auto& [ours, theirs] : pairs) {
    CAPTURE(ours);
    const sim::Node entry = sim::read_json(test::catalog() / (std::string(ours) + ".json"));
    for (const auto& [key, value] : facts.find("models")->find(theirs)->members()) {
      CAPTURE(key);
      REQUIRE(entry.find(key) != nullptr);
      CHECK(entry.find(key)->dump() == value.dump());
    }
  }
}

}  // namespace
}  // namespace orrery::models::test_hf_config
