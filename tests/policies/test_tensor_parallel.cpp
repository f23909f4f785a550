// Megatron-LM's tensor parallelism read off a graph: what one rank runs, sends and keeps.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "models/autodiff/autodiff.hpp"
#include "models/builders/builder.hpp"
#include "models/graph/op_work.hpp"
#include "policies/placement/tensor_parallel.hpp"

namespace test_tensor_parallel {

using namespace orrery;
using namespace orrery::models;
using Catch::Contains;

namespace {

constexpr std::int64_t kHidden = 64, kBatch = 2, kTokens = 16;

OpGraph built(const std::string& builder, const std::string& params) {
  BuilderRegistry registry("builder");
  register_builders(registry);
  const sim::Node node = sim::parse_json(params, "model.json");
  sim::Faults faults;
  const BuilderRegistry::Choice choice = registry.prepare(builder, &node, {}, faults);
  faults.throw_if_any();
  return differentiate(choice.make()->build(), {.optimizer = OptimizerKind::adam, .master_weights = true}).graph;
}

/// A GPT of two layers, width 64, four heads, vocabulary 256.
OpGraph gpt(const std::string& attention = "eager") {
  return built("gpt2", R"({"layers": 2, "hidden": 64, "heads": 4, "intermediate": 256, "vocab": 256, "positions": 16,
    "loss": true, "dropout": 0.1, "attention": ")" +
                           attention + R"("})");
}

const Bindings& sizes() {
  static const Bindings all{{"batch", kBatch}, {"tokens", kTokens}};
  return all;
}

double matrix_flops(const OpGraph& graph) {
  double sum = 0;
  for (const OpId id : graph.ops()) sum += static_cast<double>(work(graph, id, sizes()).matrix_flops.eval(sizes()));
  return sum;
}

/// Collectives of layers: how many of a kind in a phase.
std::map<std::pair<OpKind, Phase>, int> collectives(const OpGraph& graph) {
  std::map<std::pair<OpKind, Phase>, int> found;
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (info(op.kind).pattern != Pattern::communication || !op.scope.starts_with("layer.")) continue;
    if (graph.tensor(op.inputs.front()).shape.size() < 3) continue;  // gradients of norms and biases
    ++found[{op.kind, op.phase}];
    // A tensor of activations, whole: batch x tokens x width in fp16. Gathered ones are a rank's share before.
    const std::int64_t bytes =
        graph.tensor(op.kind == OpKind::all_gather ? op.outputs.front() : op.inputs.front()).bytes().eval(sizes());
    CHECK(bytes == kBatch * kTokens * kHidden * 2);
  }
  return found;
}

std::int64_t parameters(const OpGraph& graph) {
  std::int64_t sum = 0;
  for (const TensorId id : graph.with_role(TensorRole::parameter)) sum += graph.tensor(id).elements().eval(sizes());
  return sum;
}

}  // namespace

TEST_CASE("Ranks of tensor parallelism share the products evenly", "[unit][prop]") {
  for (const char* attention : {"eager", "sdpa"}) {
    const OpGraph whole = gpt(attention);
    REQUIRE(verify(whole).empty());
    for (const std::int64_t ranks : {2, 4})
      for (const bool sequence : {false, true}) {
        CAPTURE(attention, ranks, sequence);
        const OpGraph one = policies::tensor_parallel(whole, {.ranks = ranks, .sequence = sequence});
        CHECK(verify(one).empty());
        CHECK(matrix_flops(one) * static_cast<double>(ranks) == Approx(matrix_flops(whole)));
      }
  }
}

TEST_CASE("A rank holds its share of weights and all of what is not divided", "[unit]") {
  // Per layer: 12 h^2 in four products, 3h + 4h biases of columns; whole: h + h biases of rows, 4 h of two norms.
  // Vocabulary 256 h divided; 16 h positions and 2 h of the last norm whole.
  const std::int64_t h = kHidden, divided = 2 * (12 * h * h + 7 * h) + 256 * h,
                     same = 2 * (2 * h + 4 * h) + 16 * h + 2 * h;
  CHECK(parameters(gpt()) == divided + same);
  CHECK(parameters(policies::tensor_parallel(gpt(), {.ranks = 4})) == divided / 4 + same);
  CHECK(parameters(policies::tensor_parallel(gpt(), {.ranks = 4, .vocabulary = false})) ==
        (divided - 256 * h) / 4 + 256 * h + same);
}

TEST_CASE("A layer has two all-reduces forward and two backward, or their halves around the products",
          "[unit][golden]") {
  using enum OpKind;
  const auto plain = collectives(policies::tensor_parallel(gpt(), {.ranks = 2}));
  CHECK(plain.at({all_reduce, Phase::forward}) == 4);  // two layers
  CHECK(plain.at({all_reduce, Phase::backward}) == 4);
  CHECK(plain.size() == 2);
  // Korthikanti et al. 2022, section 4.2: forward an all-gather before and a reduce-scatter after each pair of
  // products; backward the same turned round, and the pair's input gathered once more.
  const auto shared = collectives(policies::tensor_parallel(gpt(), {.ranks = 2, .sequence = true}));
  CHECK(shared.at({all_gather, Phase::forward}) == 4);
  CHECK(shared.at({reduce_scatter, Phase::forward}) == 4);
  CHECK(shared.at({reduce_scatter, Phase::backward}) == 4);
  // The gradient of each pair's output, the pair's input again, and, once, what leaves for the embedding's backward
  // pass.
  CHECK(shared.at({all_gather, Phase::backward}) == 8);
}

TEST_CASE("What lies between embedding, layers and head is summed there, and the head's norm shares tokens", "[unit]") {
  // A decoder whose norms are passes that cast first: sums stay in 16 bits, none waits in a cast or an addition.
  const OpGraph whole = built("decoder", R"({"layers": 1, "hidden": 64, "heads": 4, "kv_heads": 4, "head_dim": 16,
    "intermediate": 256, "vocab": 256, "tied": false, "loss": true, "passes": "eager"})");
  const OpGraph one = policies::tensor_parallel(whole, {.ranks = 4, .sequence = true});
  CHECK(verify(one).empty());
  std::map<std::pair<std::string, OpKind>, int> forward;
  for (const OpId id : one.ops()) {
    const OpNode& op = one.op(id);
    if (op.phase != Phase::forward || info(op.kind).pattern != Pattern::communication) continue;
    const Tensor& tensor = one.tensor(op.inputs.front());
    if (tensor.shape.size() < 3) continue;
    CHECK(bytes_of(tensor.type) == 2);
    ++forward[{op.scope.substr(0, op.scope.find('.')), op.kind}];
  }
  const std::map<std::pair<std::string, OpKind>, int> expected{{{"embed", OpKind::reduce_scatter}, 1},
                                                               {{"head", OpKind::all_gather}, 1},
                                                               {{"layer", OpKind::all_gather}, 2},
                                                               {{"layer", OpKind::reduce_scatter}, 2}};
  CHECK(forward == expected);
}

TEST_CASE("Sequence parallelism divides what norms and dropouts keep", "[unit]") {
  const auto saved = [](const OpGraph& graph) {
    std::int64_t sum = 0;
    for (const TensorId id : graph.tensors())
      if (graph.tensor(id).saved && graph.tensor(id).role == TensorRole::activation && graph.producer(id) &&
          graph.op(*graph.producer(id)).scope.starts_with("layer."))
        sum += graph.tensor(id).bytes().eval(sizes());
    return sum;
  };
  const std::int64_t plain = saved(policies::tensor_parallel(gpt(), {.ranks = 4}));
  const std::int64_t shared = saved(policies::tensor_parallel(gpt(), {.ranks = 4, .sequence = true}));
  const std::int64_t whole = saved(policies::tensor_parallel(gpt(), {.ranks = 1}));
  CHECK(plain < whole);
  CHECK(shared * 4 == Approx(static_cast<double>(whole)).epsilon(0.01));  // all of it is divided
}

TEST_CASE("What ranks do not divide is said", "[unit]") {
  const OpGraph graph = gpt();
  CHECK_FALSE(policies::tensor_parallel_obstacle(graph, {.ranks = 4}));
  CHECK_THAT(*policies::tensor_parallel_obstacle(graph, {.ranks = 3}),
             Contains("3 ranks of tensor parallelism do not divide the 256 of embed.words.weight"));
  CHECK_THAT(*policies::tensor_parallel_obstacle(graph, {.ranks = 3, .vocabulary = false}),
             Contains("do not divide the 192 of") || Contains("do not divide the 64 of"));
}

TEST_CASE("Grouped queries and gated feed-forwards are divided too", "[unit]") {
  const OpGraph whole = built("decoder", R"({"layers": 1, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16,
    "intermediate": 128, "vocab": 256, "loss": true, "tied": false})");
  for (const bool sequence : {false, true}) {
    const OpGraph one = policies::tensor_parallel(whole, {.ranks = 2, .sequence = sequence});
    CHECK(verify(one).empty());
    CHECK(matrix_flops(one) * 2 == Approx(matrix_flops(whole)));
  }
}

namespace {

/// A decoder of one layer over latents of 24 (queries) and 32 + 8, four heads with keys of 12 + 8.
OpGraph over_latents(std::int64_t q_rank = 24) {
  return built("decoder", R"({"layers": 1, "hidden": 64, "heads": 4, "kv_heads": 4, "intermediate": 128, "vocab": 256,
    "loss": true, "tied": false, "kv_rank": 32, "nope_dim": 12, "rope_dim": 8, "value_dim": 16, "q_rank": )" +
                              std::to_string(q_rank) + "}");
}

/// Widths of what layers send, by kind and phase, in order of size; gradients of weights left out.
std::map<std::pair<OpKind, Phase>, std::multiset<std::int64_t>> widths(const OpGraph& graph) {
  std::map<std::pair<OpKind, Phase>, std::multiset<std::int64_t>> found;
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (info(op.kind).pattern != Pattern::communication || !op.scope.starts_with("layer.")) continue;
    const auto& shape = graph.tensor(op.inputs.front()).shape;
    if (shape.size() >= 3) found[{op.kind, op.phase}].insert(shape.back().constant().value_or(0));
  }
  return found;
}

}  // namespace

TEST_CASE("Latents are on every rank, what is projected from them is divided by heads", "[unit][golden]") {
  using enum OpKind;
  using Widths = std::multiset<std::int64_t>;
  for (const std::int64_t q_rank : {24, 0}) {
    const OpGraph whole = over_latents(q_rank);
    // Products into latents, forward and both backward: 3 * 2 * batch * tokens * 64 * (q_rank + 32 + 8).
    const double down = 3.0 * 2 * kBatch * kTokens * kHidden * static_cast<double>(q_rank + 40);
    for (const std::int64_t ranks : {2, 4})
      for (const bool sequence : {false, true}) {
        CAPTURE(q_rank, ranks, sequence);
        const OpGraph one = policies::tensor_parallel(whole, {.ranks = ranks, .sequence = sequence});
        CHECK(verify(one).empty());
        // Without shares of the tokens every rank makes all latents.
        const auto n = static_cast<double>(ranks);
        CHECK(matrix_flops(one) * n == Approx(matrix_flops(whole) + (sequence ? 0 : (n - 1) * down)));
      }
  }
  // Weights of the latents and norms are whole: 64 (24 + 40), 24 + 32, three norms of 64.
  const std::int64_t same = 64 * 64 + 24 + 32 + 3 * 64;
  CHECK(parameters(policies::tensor_parallel(over_latents(), {.ranks = 4})) ==
        (parameters(over_latents()) - same) / 4 + same);
  // Backward, gradients of the latents are summed where they are narrow, and of the one head that all keys share.
  const auto plain = widths(policies::tensor_parallel(over_latents(), {.ranks = 2}));
  CHECK(plain.at({all_reduce, Phase::forward}) == Widths{64, 64});
  CHECK(plain.at({all_reduce, Phase::backward}) == Widths{8, 24, 32, 64});
  // Queries that come straight from the token have the sum of their gradients in the width of the model.
  const auto direct = widths(policies::tensor_parallel(over_latents(0), {.ranks = 2}));
  CHECK(direct.at({all_reduce, Phase::backward}) == Widths{8, 32, 64, 64});
  // With shares of the tokens, the latents are gathered and not the tokens, as Megatron-LM does. Backward they are
  // gathered again for gradients of weights, as is the feed-forward's input, and the gradients of both pairs' outputs.
  const auto shared = widths(policies::tensor_parallel(over_latents(), {.ranks = 2, .sequence = true}));
  CHECK(shared.at({all_gather, Phase::forward}) == Widths{8, 24, 32, 64});
  CHECK(shared.at({reduce_scatter, Phase::forward}) == Widths{64, 64});
  CHECK(shared.at({reduce_scatter, Phase::backward}) == Widths{24, 32, 64});
  CHECK(shared.at({all_reduce, Phase::backward}) == Widths{8});
  CHECK(shared.at({all_gather, Phase::backward}) == Widths{24, 32, 64, 64, 64});
  CHECK_THAT(*policies::tensor_parallel_obstacle(over_latents(), {.ranks = 8}), Contains("8 ranks of tensor parallel"));
}

TEST_CASE("Dense layers counted with the embedding, and modules of further tokens, share tokens as layers do",
          "[unit]") {
  OpGraph whole = built("decoder", R"({"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 4, "head_dim": 16,
    "intermediate": 128, "vocab": 256, "loss": true, "tied": false, "further_tokens": 1})");
  for (const bool sequence : {false, true}) {
    CAPTURE(sequence);
    const OpGraph one = policies::tensor_parallel(whole, {.ranks = 2, .sequence = sequence});
    CHECK(verify(one).empty());
    // The product that joins two tokens of 64 is every rank's, of its share of the tokens or of all.
    const double join = 3.0 * 2 * kBatch * kTokens * 2 * kHidden * kHidden;
    CHECK(matrix_flops(one) * 2 == Approx(matrix_flops(whole) + (sequence ? 0 : join)));
  }
  // The first layer under the name that it has with the embedding: the same collectives.
  const auto sent = [](const OpGraph& graph) {
    std::map<std::pair<OpKind, Phase>, int> found;
    for (const OpId id : graph.ops())
      if (info(graph.op(id).kind).pattern == Pattern::communication) ++found[{graph.op(id).kind, graph.op(id).phase}];
    return found;
  };
  const auto before = sent(policies::tensor_parallel(whole, {.ranks = 2, .sequence = true}));
  for (const OpId id : whole.ops())
    if (whole.op(id).scope.starts_with("layer.0")) whole.annotate(id).scope = "embed." + whole.op(id).scope;
  CHECK(sent(policies::tensor_parallel(whole, {.ranks = 2, .sequence = true})) == before);
}

}  // namespace test_tensor_parallel
