// How an op's results lie on ranks, from how its operands do: every rule and every refusal.
#include "policies/placement/slapo_states.hpp"

#include <catch2/catch.hpp>

namespace test_slapo_states {

using namespace orrery;
using namespace orrery::models;
using policies::slapo::State;
using policies::slapo::StateRules;
using Shape = std::vector<SymExpr>;
using States = std::vector<State>;

namespace {

constexpr State kAll{}, kPartial{-1, true};
constexpr State along(int axis) {
  return {axis, false};
}

/// An op called `op` of module "ffn" with inputs in0, in1 … of these shapes, and results of shape `out`.
struct OneOp {
  OpKind kind;
  std::vector<Shape> inputs;
  Shape out;
  Attributes attributes = {};
  std::size_t results = 1;
  std::int64_t ranks = 2;

  States outcome(const States& in) const {
    OpGraph graph;
    graph.set_scope("ffn");
    OpNode node;
    node.kind = kind;
    node.name = "op";
    node.attributes = attributes;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      node.inputs.push_back(graph.input("in" + std::to_string(i), inputs[i], ElementType::fp16));
    const OpId id = graph.add(std::move(node), std::vector<Tensor>(results, Tensor{.shape = out}));
    return StateRules(graph, ranks).outcome(graph.op(id), in);
  }
  /// The state of the one result.
  State of(const States& in) const {
    const States all = outcome(in);
    REQUIRE(all.size() == 1);
    return all.front();
  }
  /// What follows the op's name in the reason why it is refused; "none" where it is not.
  std::string why(const States& in) const {
    try {
      static_cast<void>(outcome(in));
    } catch (const GraphError& error) {
      const std::string head = "slapo: " + std::string(to_string(kind)) + " 'op' of \"ffn\": ", text = error.what();
      CHECK(text.substr(0, head.size()) == head);
      return text.substr(std::min(head.size(), text.size()));
    }
    return "none";
  }
};

Attributes list(const char* name, Shape values) {
  return {{name, std::move(values)}};
}

}  // namespace

TEST_CASE("whole operands give whole results, partial ones partial results, whatever the op", "[unit]") {
  for (const OpKind kind : {OpKind::matmul, OpKind::custom, OpKind::add, OpKind::attention}) {
    const OneOp op{kind, {{8, 8}, {8, 8}}, {8, 8}, {}, 2};
    CHECK(op.outcome({kAll, kAll}) == States{kAll, kAll});
    CHECK(op.outcome({kPartial, kPartial}) == States{kPartial, kPartial});
  }
}

TEST_CASE("a product of two matrices: along what it sums over, along its rows, along its columns", "[unit]") {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      CAPTURE(ta, tb);
      const OneOp op{OpKind::matmul,
                     {ta ? Shape{16, 8} : Shape{8, 16}, tb ? Shape{4, 16} : Shape{16, 4}},
                     {8, 4},
                     {{"trans_a", SymExpr(ta ? 1 : 0)}, {"trans_b", SymExpr(tb ? 1 : 0)}}};
      const State rows = along(ta ? 1 : 0), left = along(ta ? 0 : 1), right = along(tb ? 1 : 0),
                  columns = along(tb ? 0 : 1);
      CHECK(op.of({left, right}) == kPartial);
      CHECK(op.of({kAll, columns}) == along(1));
      CHECK(op.of({rows, kAll}) == along(0));
      for (const States& wrong : std::vector<States>{{left, kAll},
                                                     {kAll, right},
                                                     {rows, columns},
                                                     {rows, right},
                                                     {left, columns},
                                                     {kPartial, kAll},
                                                     {kAll, kPartial},
                                                     {kPartial, columns}})
        CHECK_THAT(op.why(wrong), Catch::StartsWith("expected operands divided along the axis that it sums over"));
    }
  CHECK(OneOp{OpKind::matmul, {{8, 16}, {16, 4}}, {8, 4}}.why({along(1), kPartial}) ==
        "expected operands divided along the axis that it sums over, one of them alone along its own, or both along a "
        "batch axis; got axis 1 of fp16[8, 16] and partial sums of fp16[16, 4]");
  CHECK_THAT((OneOp{OpKind::matmul, {{8, 16}, {16, 4}}, {8, 4}}.why({kAll, along(0)})),
             Catch::EndsWith("got all of fp16[8, 16] and axis 0 of fp16[16, 4]"));
}

TEST_CASE("products in batches keep a batch axis that both have, or that a weight lacks", "[unit]") {
  const OneOp both{OpKind::matmul, {{3, 5, 8, 16}, {3, 5, 16, 4}}, {3, 5, 8, 4}};
  CHECK(both.of({along(0), along(0)}) == along(0));
  CHECK(both.of({along(1), along(1)}) == along(1));
  CHECK(both.of({along(2), kAll}) == along(2));
  CHECK(both.of({kAll, along(3)}) == along(3));
  CHECK(both.of({along(3), along(2)}) == kPartial);
  CHECK(both.why({along(0), along(1)}) != "none");
  CHECK(both.why({along(0), kAll}) != "none");
  CHECK(both.why({kAll, along(0)}) != "none");
  CHECK(both.why({along(2), along(2)}) != "none");
  const OneOp weight{OpKind::matmul, {{3, 5, 8, 16}, {16, 4}}, {3, 5, 8, 4}};
  CHECK(weight.of({along(0), kAll}) == along(0));
  CHECK(weight.of({along(1), kAll}) == along(1));
  CHECK(weight.of({along(2), kAll}) == along(2));
  CHECK(weight.of({along(3), along(0)}) == kPartial);
  CHECK(weight.of({kAll, along(1)}) == along(3));
  // Axes are counted from the right where one has fewer.
  const OneOp fewer{OpKind::matmul, {{3, 5, 8, 16}, {5, 16, 4}}, {3, 5, 8, 4}};
  CHECK(fewer.of({along(1), along(0)}) == along(1));
  CHECK(fewer.why({along(0), along(0)}) != "none");
  CHECK(fewer.why({along(1), kAll}) != "none");
  const OneOp more{OpKind::matmul, {{5, 8, 16}, {3, 5, 16, 4}}, {3, 5, 8, 4}};
  CHECK(more.of({along(0), along(1)}) == along(1));
}

TEST_CASE("a product's bias is divided exactly where its columns are", "[unit]") {
  const OneOp op{OpKind::matmul, {{8, 16}, {16, 4}, {4}}, {8, 4}};
  CHECK(op.of({kAll, along(1), along(0)}) == along(1));
  CHECK(op.of({along(1), along(0), kAll}) == kPartial);
  CHECK(op.of({along(0), kAll, kAll}) == along(0));
  CHECK(op.why({kAll, along(1), kAll}) == "its columns are divided, its bias is not; shard 'in2' too");
  const std::string divided =
      "its bias is divided, its result is not; shard the bias with the columns of the weight only";
  CHECK(op.why({along(1), along(0), along(0)}) == divided);
  CHECK(op.why({along(0), kAll, along(0)}) == divided);
}

TEST_CASE("tables are divided by words, which gives partial sums, or by width", "[unit]") {
  const OneOp table{OpKind::embedding, {{100, 32}, {2, 7}}, {2, 7, 32}};
  CHECK(table.of({along(0), kAll}) == kPartial);
  CHECK(table.of({along(1), kAll}) == along(2));
  const OneOp grad{OpKind::embedding_grad, {{2, 7, 32}, {2, 7}}, {100, 32}};
  CHECK(grad.of({along(2), kAll}) == along(1));
  CHECK(grad.why({along(1), kAll}) == "its table is divided along the width or not at all");
}

TEST_CASE("attention is divided by heads, but for what all heads share", "[unit]") {
  const Shape heads{2, 4, 16, 8};
  const OneOp op{OpKind::attention, {heads, heads, heads}, heads, {}, 2};
  CHECK(op.outcome({along(1), along(1), along(1)}) == States{along(1), along(1)});
  CHECK(op.why({along(1), along(1), kAll}) == "'in2' is not divided by heads as others are");
  CHECK(op.why({along(0), along(0), along(0)}) == "'in0' is not divided by heads as others are");
  CHECK(op.why({along(1), along(2), along(1)}) == "'in1' is not divided by heads as others are");
  const auto masked = [&](const Shape& mask, State state) {
    return OneOp{OpKind::attention, {heads, heads, heads, mask}, heads}.why({along(1), along(1), along(1), state});
  };
  CHECK(masked({2, 1, 1, 16}, kAll) == "none");
  CHECK(masked({16}, kAll) == "none");
  CHECK(masked({2, 4, 16, 16}, along(1)) == "none");
  CHECK(masked({2, 1, 1, 16}, along(0)) != "none");
  CHECK(masked({2, 4, 16, 16}, kAll) != "none");
  CHECK(masked({16, 16}, kAll) != "none");
  const OneOp grad{OpKind::attention_grad, {heads, heads, heads, heads}, heads, {}, 3};
  CHECK(grad.outcome(States(4, along(1))) == States(3, along(1)));
}

TEST_CASE("an optimizer step leaves each as its parameter, which lies as its gradient", "[unit]") {
  const OneOp one{OpKind::optimizer_step, {{8, 4}, {8, 4}, {8, 4}}, {8, 4}, list("updates", {0, 2}), 2};
  CHECK(one.outcome({along(0), along(0), along(1)}) == States{along(0), along(1)});
  CHECK(one.why({along(0), kAll, along(0)}) == "'in0' and its gradient lie differently on the ranks");
  CHECK(one.why({along(0), along(1), along(0)}) != "none");
  const OneOp plain{OpKind::optimizer_step, {{8, 4}, {8, 4}}, {8, 4}, {}, 2};
  CHECK(plain.outcome({along(1), along(1)}) == States{along(1), along(1)});
  Attributes two{{"parameters", SymExpr(2)}, {"updates", Shape{0, 1}}};
  const OneOp pair{OpKind::optimizer_step, {{8, 4}, {4, 4}, {8, 4}, {4, 4}}, {8, 4}, two, 2};
  CHECK(pair.outcome({along(0), kAll, along(0), kAll}) == States{along(0), kAll});
  CHECK(pair.why({along(0), kAll, kAll, along(0)}) == "'in0' and its gradient lie differently on the ranks");
  CHECK(pair.why({along(0), along(0), along(0), kAll}) == "'in1' and its gradient lie differently on the ranks");
}

TEST_CASE("rotations keep any axis but that of their pairs, and whole angles", "[unit]") {
  for (const OpKind kind : {OpKind::rope, OpKind::rope_grad}) {
    const OneOp op{kind, {{2, 4, 16, 8}, {16, 8}}, {2, 4, 16, 8}};
    CHECK(op.of({along(1), kAll}) == along(1));
    CHECK(op.of({along(0), kAll}) == along(0));
    CHECK(op.why({along(3), kAll}) == "it rotates pairs along the axis that is divided");
    CHECK(op.why({along(1), along(0)}) == "its angles are divided; leave them whole");
    CHECK(OneOp{kind, {{2, 4, 16, 8}}, {2, 4, 16, 8}}.of({along(1)}) == along(1));
  }
}

TEST_CASE("rows are written into a cache that lies as they do", "[unit]") {
  const OneOp op{OpKind::kv_write, {{2, 4, 99, 8}, {2, 4, 1, 8}, {2, 4, 1, 8}}, {2, 4, 99, 8}};
  CHECK(op.of({along(1), along(1), along(1)}) == along(1));
  CHECK(op.why({along(1), along(1), kAll}) == "its rows lie as all, the cache 'in0' as axis 1; shard both alike");
  CHECK(op.why({kAll, along(0), kAll}) == "its rows lie as axis 0, the cache 'in0' as all; shard both alike");
}

TEST_CASE("a sum over an axis that is divided is partial, other axes move down", "[unit]") {
  const auto sum = [](Shape axes, OpKind kind = OpKind::reduce_sum, bool keep = false) {
    Attributes attributes = list("axes", std::move(axes));
    if (keep) attributes.emplace_back("keep", SymExpr(1));
    return OneOp{kind, {{8, 16, 4}}, {8}, std::move(attributes)};
  };
  CHECK(sum({1}).of({along(1)}) == kPartial);
  CHECK(sum({-2}).of({along(1)}) == kPartial);
  CHECK(sum({-1}).of({along(2)}) == kPartial);
  CHECK(sum({1}).of({along(0)}) == along(0));
  CHECK(sum({1}).of({along(2)}) == along(1));
  CHECK(sum({0, 1}).of({along(2)}) == along(0));
  CHECK(sum({0, 2}).of({along(1)}) == along(0));
  CHECK(sum({0, 2}).of({along(2)}) == kPartial);
  CHECK(sum({0, 1}, OpKind::reduce_sum, true).of({along(2)}) == along(2));
  for (const OpKind kind : {OpKind::reduce_mean, OpKind::reduce_max}) {
    CHECK(sum({0}, kind).of({along(1)}) == along(0));
    CHECK(sum({1}, kind).why({along(1)}) == "only a sum can be taken along an axis that is divided");
  }
}

TEST_CASE("a reshape keeps an axis where as much stands before it, in sizes that ranks divide", "[unit]") {
  const auto view = [](Shape from, Shape to, int axis, std::int64_t ranks = 2) {
    const OneOp op{OpKind::reshape, {std::move(from)}, std::move(to), {}, 1, ranks};
    const std::string why = op.why({along(axis)});
    return why == "none" ? std::to_string(op.of({along(axis)}).axis) : why;
  };
  CHECK(view({8, 16, 4}, {8, 64}, 0) == "0");
  CHECK(view({8, 16, 4}, {8, 64}, 1) == "1");
  const std::string lost = "an axis that is divided is lost in the new shape";
  CHECK(view({8, 16, 4}, {8, 64}, 2) == lost);
  CHECK(view({8, 64}, {8, 16, 4}, 1) == "1");
  CHECK(view({8, 16}, {8, 1, 16}, 1) == "2");  // not the axis of one
  CHECK(view({8, 16}, {128}, 1) == lost);
  CHECK(view({12, 4}, {3, 4, 4}, 0) == "2 ranks do not divide the 3 that axis 0 becomes");
  CHECK(view({12, 4}, {3, 4, 4}, 0, 3) == "0");
  const SymExpr batch = SymExpr::dim("batch");
  CHECK(view({batch, 16}, {batch, 4, 4}, 1) == "1");
  CHECK(view({batch, 16}, {batch, 4, 4}, 0) == "0");
}

TEST_CASE("other views move an axis along", "[unit]") {
  const OneOp turned{OpKind::transpose, {{2, 16, 4}}, {4, 2, 16}, list("perm", {2, 0, 1})};
  CHECK(turned.of({along(0)}) == along(1));
  CHECK(turned.of({along(1)}) == along(2));
  CHECK(turned.of({along(2)}) == along(0));
  CHECK(OneOp{OpKind::transpose, {{2, 4}}, {4, 2}}.why({along(0)}) ==
        "expected attribute 'perm' beside a divided operand");
  CHECK(OneOp{OpKind::slice, {{8, 16}}, {8, 4}}.of({along(1)}) == along(1));
  CHECK(OneOp{OpKind::slice, {{8, 16}}, {8, 4}}.of({along(0)}) == along(0));
  CHECK(OneOp{OpKind::expand, {{4, 16}}, {3, 4, 16}}.of({along(0)}) == along(1));
  CHECK(OneOp{OpKind::expand, {{4, 16}}, {3, 4, 16}}.of({along(1)}) == along(2));
}

TEST_CASE("elementwise operands are divided alike, aligned from the right", "[unit]") {
  const OneOp same{OpKind::add, {{8, 16}, {8, 16}}, {8, 16}};
  CHECK(same.of({along(1), along(1)}) == along(1));
  CHECK(same.of({along(0), along(0)}) == along(0));
  const std::string other = "' is not divided as its other operands are; shard or sync it alike";
  CHECK(same.why({along(1), kAll}) == "'in1" + other);
  CHECK(same.why({kAll, along(1)}) == "'in0" + other);
  CHECK(same.why({along(0), along(1)}) == "'in0" + other);  // by the last one
  const OneOp bias{OpKind::add, {{8, 16}, {16}}, {8, 16}};
  CHECK(bias.of({along(1), along(0)}) == along(1));
  CHECK(bias.of({along(0), kAll}) == along(0));  // it has no such axis
  CHECK(bias.why({along(1), kAll}) == "'in1" + other);
  const OneOp row{OpKind::mul, {{8, 16}, {8, 1}}, {8, 16}};
  CHECK(row.of({along(1), kAll}) == along(1));  // one for all columns
  CHECK(row.of({along(0), along(0)}) == along(0));
  CHECK(row.why({along(0), kAll}) == "'in1" + other);
  const OneOp wider{OpKind::add, {{16}, {8, 16}}, {8, 16}};
  CHECK(wider.of({along(0), along(1)}) == along(1));
  CHECK(OneOp{OpKind::relu, {{8, 16}}, {8, 16}}.of({along(1)}) == along(1));
  CHECK(OneOp{OpKind::copy, {{8, 16}}, {8, 16}}.of({along(0)}) == along(0));
}

TEST_CASE("norms and softmax keep what is divided beside their rows, and other ops are refused", "[unit]") {
  for (const OpKind kind : {OpKind::softmax, OpKind::layer_norm, OpKind::rms_norm}) {
    const OneOp op{kind, {{8, 16}}, {8, 16}, {}, 2};
    CHECK(op.outcome({along(0)}) == States{along(0), along(0)});
    CHECK(op.why({along(1)}) == "its operand is divided along the rows that it reads as a whole; sync it before");
  }
  const OneOp grad{OpKind::softmax_grad, {{8, 16}, {8, 16}}, {8, 16}};
  CHECK(grad.of({along(0), along(0)}) == along(0));
  CHECK(grad.why({along(1), along(1)}) != "none");
  for (const OpKind kind : {OpKind::batch_norm, OpKind::custom, OpKind::all_reduce})
    CHECK(OneOp{kind, {{8, 16}}, {8, 16}}.why({along(0)}) ==
          "cannot be divided among ranks; gather its operands or shard another parameter");
  // The last axis of an elementwise op is one like others.
  CHECK(OneOp{OpKind::gelu, {{8, 16}}, {8, 16}}.of({along(1)}) == along(1));
}

TEST_CASE("what a training step of divided tokens or a divided vocabulary asks of ops", "[unit]") {
  // Parts that lie alike are joined as they lie.
  const OneOp join{OpKind::concat, {{8, 16}, {8, 16}}, {8, 32}};
  CHECK(join.of({along(1), along(1)}) == along(1));
  CHECK(join.why({along(1), kAll}) == "its parts lie differently on the ranks");
  // A norm's gradient over a rank's rows: those rows, and terms of the gradients of weight and bias.
  for (const OpKind kind : {OpKind::layer_norm_grad, OpKind::rms_norm_grad}) {
    const OneOp norm{kind, {{8, 16}, {8, 16}}, {8, 16}, {}, 3};
    CHECK(norm.outcome({along(0), along(0)}) == States{along(0), kPartial, kPartial});
    CHECK(norm.why({along(1), along(1)}) ==
          "its operand is divided along the rows that it reads as a whole; sync it before");
  }
  // Logits by vocabulary: every rank has a term of the loss, and the gradient of its own logits.
  const OneOp loss{OpKind::cross_entropy, {{8, 16}, {8}}, {}};
  CHECK(loss.of({along(1), kAll}) == kPartial);
  CHECK(loss.why({kAll, along(0)}) == "its labels are divided, its logits are not");
  const OneOp gradient{OpKind::cross_entropy_grad, {{8, 16}, {8}, {}}, {8, 16}};
  CHECK(gradient.of({along(1), kAll, kAll}) == along(1));
}

}  // namespace test_slapo_states
