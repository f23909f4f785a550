// ONNX files: sizes that stay symbolic, shape arithmetic that is folded, kinds and shapes of operators, control flow,
// what has no counterpart, and bad files.
#include <catch2/catch.hpp>

#include "models/graph/graph_json.hpp"
#include "models/graph/op_work.hpp"
#include "models/import/onnx_reader.hpp"
#include "sim/base/fault.hpp"
#include "tests/models/onnx_writer.hpp"

namespace test_import_onnx {

using namespace orrery;
using namespace orrery::models;
using namespace orrery::models::test;
using Catch::Contains;

namespace {

std::string shape_of(const OpGraph& graph, const std::string& name) {
  const auto found = graph.find_tensor(name);
  return found ? shape_string(graph.tensor(*found)) : "no tensor " + name;
}

std::vector<std::string> kinds_of(const OpGraph& graph) {
  std::vector<std::string> kinds;
  for (const OpId id : graph.ops()) kinds.emplace_back(to_string(graph.op(id).kind));
  return kinds;
}

std::string fault_of(const std::string& bytes) {
  const TemporaryFile file("bad.onnx", bytes);
  try {
    static_cast<void>(import_onnx(file.path()));
  } catch (const sim::ConfigError& error) {
    CHECK(error.faults().size() == 1);
    CHECK(error.faults().front().where.file == file.path().string());
    CHECK(error.faults().front().text().find('\n') == std::string::npos);
    return error.faults().front().message;
  }
  return "no fault";
}

/// A graph of one node over x[batch, 8, 16, 16] (or what `sizes` say).
struct OneNode {
  std::string kinds, shape;
};
OneNode one_node(const std::string& op, const std::function<void(NodeWriter&)>& attributes = {},
                 const std::vector<std::string>& more = {}, const std::function<void(ModelWriter&)>& weights = {},
                 const Sizes& sizes = {std::string("batch"), 8, 16, 16}, std::int64_t opset = 17) {
  ModelWriter model(opset);
  model.input("x", sizes);
  if (weights) weights(model);
  std::vector<std::string> inputs{"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  NodeWriter node = model.node(op, inputs, {"y"});
  if (attributes) attributes(node);
  model.output("y");
  const Imported imported = model.import();
  CAPTURE(op);
  CHECK(verify(imported.graph).empty());
  const TensorId out = imported.graph.outputs().front();
  OneNode result;
  for (const std::string& kind : kinds_of(imported.graph)) result.kinds += (result.kinds.empty() ? "" : " ") + kind;
  result.shape = shape_string(imported.graph.tensor(out));
  return result;
}

}  // namespace

TEST_CASE("onnx: a perceptron with a symbolic batch", "[unit]") {
  ModelWriter model;
  model.input("x", {"batch", 784}).weight("w1", {256, 784}).weight("b1", {256}).weight("w2", {256, 10}).output("y");
  model.node("Gemm", {"x", "w1", "b1"}, {"h"}).set("transB", 1).named("/fc1/Gemm");
  model.node("Relu", {"h"}, {"a"});
  model.node("MatMul", {"a", "w2"}, {"y"});
  const Imported imported = model.import();
  const OpGraph& graph = imported.graph;
  CHECK(verify(graph).empty());
  CHECK(imported.unmapped.empty());
  CHECK(kinds_of(graph) == std::vector<std::string>{"matmul", "relu", "matmul"});
  CHECK(shape_of(graph, "y") == "fp32[batch, 10]");
  CHECK(graph.op(OpId{0}).scope == "fc1");
  CHECK(graph.with_role(TensorRole::parameter).size() == 3);
  // 2 * 784 * 256 + 256 (bias) + 256 (relu) + 2 * 256 * 10 FLOPs a row.
  CHECK(total_work(graph).flops() == SymExpr::dim("batch") * (2 * 784 * 256 + 256 + 256 + 2 * 256 * 10));
}

TEST_CASE("onnx: shape arithmetic leaves no op and keeps dimensions", "[unit]") {
  // Heads of attention as exporters write them: reshape x to [batch, tokens, 12, 64] by Shape, Gather, Concat.
  ModelWriter model;
  model.input("x", {"batch", "tokens", 768}).integers("zero", {0}, true).integers("one", {1}, true);
  model.integers("axis", {0}).integers("heads", {12}).integers("width", {64});
  model.node("Shape", {"x"}, {"s"});
  model.node("Gather", {"s", "zero"}, {"b"});
  model.node("Gather", {"s", "one"}, {"t"});
  model.node("Unsqueeze", {"b", "axis"}, {"b1"});
  model.node("Unsqueeze", {"t", "axis"}, {"t1"});
  model.node("Concat", {"b1", "t1", "heads", "width"}, {"to"}).set("axis", 0);
  model.node("Reshape", {"x", "to"}, {"split"});
  model.node("Transpose", {"split"}, {"q"}).set("perm", {0, 2, 1, 3});
  model.node("Transpose", {"split"}, {"k"}).set("perm", {0, 2, 3, 1});
  model.node("MatMul", {"q", "k"}, {"scores"});
  model.node("Softmax", {"scores"}, {"p"}).set("axis", -1);
  model.integers("flat", {0, -1}).node("Reshape", {"p", "flat"}, {"y"});
  model.output("y");
  const Imported imported = model.import();
  CHECK(kinds_of(imported.graph) ==
        std::vector<std::string>{"reshape", "transpose", "transpose", "matmul", "softmax", "reshape"});
  CHECK(shape_of(imported.graph, "scores") == "fp32[batch, 12, tokens, tokens]");
  CHECK(shape_of(imported.graph, "y") == "fp32[batch, 12*tokens^2]");
  CHECK(imported.notes == std::vector<std::string>{"6 constants and shape computations were folded"});
  CHECK(verify(imported.graph).empty());
}

TEST_CASE("onnx: a comparison of sizes chooses what Expand takes", "[unit]") {
  // Where(shape == -1, ones, shape), as exporters write expand(): no size is -1.
  ModelWriter model;
  model.input("x", {1, 4}).input("like", {"batch", 4}).integers("minus", {-1, -1}).integers("ones", {1, 1});
  model.node("Shape", {"like"}, {"s"});
  model.node("Equal", {"s", "minus"}, {"e"});
  model.node("Where", {"e", "ones", "s"}, {"to"});
  model.node("Expand", {"x", "to"}, {"y"});
  model.output("y");
  CHECK(shape_of(model.import().graph, "y") == "fp32[batch, 4]");
}

TEST_CASE("onnx: a convolutional network", "[unit]") {
  ModelWriter model;
  model.input("image", {"batch", 3, 224, 224}).weight("w", {64, 3, 7, 7}).weight("b", {64});
  for (const char* name : {"scale", "shift", "mean", "var"}) model.weight(name, {64});
  model.weight("fc", {10, 64}).weight("fcb", {10});
  model.node("Conv", {"image", "w", "b"}, {"c"}).set("strides", {2, 2}).set("pads", {3, 3, 3, 3});
  model.node("BatchNormalization", {"c", "scale", "shift", "mean", "var"}, {"n"});
  model.node("Relu", {"n"}, {"r"});
  model.node("MaxPool", {"r"}, {"p"}).set("kernel_shape", {3, 3}).set("strides", {2, 2}).set("pads", {1, 1, 1, 1});
  model.node("GlobalAveragePool", {"p"}, {"g"});
  model.node("Flatten", {"g"}, {"f"});
  model.node("Gemm", {"f", "fc", "fcb"}, {"y"}).set("transB", 1);
  model.output("y");
  const Imported imported = model.import();
  CHECK(kinds_of(imported.graph) ==
        std::vector<std::string>{"conv2d", "batch_norm", "relu", "max_pool2d", "reduce_mean", "reshape", "matmul"});
  CHECK(shape_of(imported.graph, "c") == "fp32[batch, 64, 112, 112]");
  CHECK(shape_of(imported.graph, "p") == "fp32[batch, 64, 56, 56]");
  CHECK(shape_of(imported.graph, "y") == "fp32[batch, 10]");
  // 2 * 3 * 49 FLOPs an output of the convolution and its bias.
  CHECK(work(imported.graph, OpId{0}).flops() == SymExpr::dim("batch") * (64 * 112 * 112 * (2 * 3 * 49 + 1)));
}

TEST_CASE("onnx: kinds and shapes of operators", "[unit]") {
  const auto check = [](const OneNode& got, const std::string& kinds, const std::string& shape) {
    CHECK(got.kinds == kinds);
    CHECK(got.shape == shape);
  };
  const std::string x = "fp32[batch, 8, 16, 16]";
  for (const auto& [op, kind] : std::initializer_list<std::pair<const char*, const char*>>{{"Relu", "relu"},
                                                                                           {"Gelu", "gelu"},
                                                                                           {"Tanh", "tanh"},
                                                                                           {"Sigmoid", "sigmoid"},
                                                                                           {"Erf", "erf"},
                                                                                           {"Exp", "exp"},
                                                                                           {"Log", "log"},
                                                                                           {"Sqrt", "sqrt"},
                                                                                           {"Abs", "abs"},
                                                                                           {"Neg", "neg"},
                                                                                           {"Sin", "sin"},
                                                                                           {"Cos", "sin"},
                                                                                           {"Reciprocal", "rsqrt"},
                                                                                           {"Floor", "scale"},
                                                                                           {"LeakyRelu", "clamp"},
                                                                                           {"HardSwish", "silu"},
                                                                                           {"Softplus", "sigmoid"},
                                                                                           {"Softmax", "softmax"},
                                                                                           {"LogSoftmax", "softmax"}})
    check(one_node(op), kind, x);
  check(one_node("Cast", [](NodeWriter& n) { n.set("to", kHalf); }), "cast", "fp16[batch, 8, 16, 16]");
  check(one_node("Clip", {}, {"lo", "hi"}, [](ModelWriter& m) { m.scalar("lo", 0).scalar("hi", 6); }), "clamp", x);
  check(one_node("Pow", {}, {"two"}, [](ModelWriter& m) { m.scalar("two", 2); }), "pow", x);
  const auto weight = [](std::vector<std::int64_t> dims) { return [dims](ModelWriter& m) { m.weight("w", dims); }; };
  const auto list = [](std::vector<std::int64_t> values) {
    return [values](ModelWriter& m) { m.integers("w", values); };
  };
  for (const auto& [op, kind] : std::initializer_list<std::pair<const char*, const char*>>{
           {"Add", "add"}, {"Sub", "sub"}, {"Mul", "mul"}, {"Div", "div"}})
    check(one_node(op, {}, {"w"}, weight({8, 1, 1})), kind, x);
  check(one_node("Greater", {}, {"w"}, weight({16})), "compare", "boolean[batch, 8, 16, 16]");
  check(one_node("Max", {}, {"w"}, weight({16})), "maximum", x);
  check(one_node("Sum", {}, {"w"}, weight({16})), "add_n", x);
  check(one_node("MatMul", {}, {"w"}, weight({16, 5})), "matmul", "fp32[batch, 8, 16, 5]");
  check(one_node("MatMul", {}, {"w"}, weight({16})), "reshape matmul reshape", "fp32[batch, 8, 16]");
  check(one_node("ReduceMean", [](NodeWriter& n) { n.set("axes", {-1, 1}); }), "reduce_mean", "fp32[batch, 1, 16, 1]");
  check(one_node(
            "ReduceSum", [](NodeWriter& n) { n.set("keepdims", 0); }, {"w"}, list({2, 3})),
        "reduce_sum", "fp32[batch, 8]");
  check(one_node("ReduceL2", [](NodeWriter& n) { n.set("keepdims", 0); }), "reduce_sum", "fp32[]");
  check(one_node("ArgMax", [](NodeWriter& n) { n.set("axis", -1).set("keepdims", 0); }), "sampling",
        "int64[batch, 8, 16]");
  check(one_node("TopK", {}, {"w"}, list({4})), "sampling", "fp32[batch, 8, 16, 4]");
  check(one_node("LayerNormalization", {}, {"w"}, weight({16})), "layer_norm", x);
  check(one_node("Transpose",
                 [](NodeWriter& n) {
                   n.set("perm", {0, 2, 3, 1});
                 }),
        "transpose", "fp32[batch, 16, 16, 8]");
  check(one_node("Flatten", [](NodeWriter& n) { n.set("axis", 2); }), "reshape", "fp32[8*batch, 256]");
  check(one_node("Squeeze", {}, {"w"}, list({1}), {"batch", 1, 5}), "reshape", "fp32[batch, 5]");
  check(one_node("Unsqueeze", {}, {"w"}, list({0, -1}), {"batch", 5}), "reshape", "fp32[1, batch, 5, 1]");
  check(one_node("Reshape", {}, {"w"}, list({0, -1, 4})), "reshape", "fp32[batch, 512, 4]");
  check(one_node(
            "Gather", [](NodeWriter& n) { n.set("axis", 1); }, {"w"}, list({0, 3, 5})),
        "gather", "fp32[batch, 3, 16, 16]");
  check(one_node("Tile", {}, {"w"}, list({1, 2, 1, 3})), "upsample", "fp32[batch, 16, 16, 48]");
  check(one_node("Expand", {}, {"w"}, list({3, 5}), {"batch", 1, 5}), "expand", "fp32[batch, 3, 5]");
  check(one_node("Pad", {}, {"w"}, list({0, 0, 1, 2, 0, 0, 3, 4})), "pad", "fp32[batch, 8, 20, 22]");
  check(one_node("Concat", [](NodeWriter& n) { n.set("axis", 1); }, {"x"}), "concat", "fp32[batch, 16, 16, 16]");
  check(one_node("Upsample", [](NodeWriter& n) { n.text("mode", "nearest"); }, {}, {}, {"batch", 8}), "custom",
        "fp32[y.elements]");
  const auto slice = [](std::vector<std::int64_t> s, std::vector<std::int64_t> e, std::vector<std::int64_t> steps) {
    return [=](ModelWriter& m) { m.integers("s", s).integers("e", e).integers("a", {1, -1}).integers("st", steps); };
  };
  check(one_node("Slice", {}, {"s", "e", "a", "st"}, slice({2, 0}, {1 << 30, -3}, {1, 2})), "slice",
        "fp32[batch, 6, 16, 7]");
  check(one_node("Slice", {}, {"s", "e", "a", "st"},
                 slice({-2, -1}, {std::int64_t{1} << 62, -(std::int64_t{1} << 62)}, {1, -1})),
        "slice", "fp32[batch, 2, 16, 16]");
  const auto conv = [](std::vector<std::int64_t> pads, std::vector<std::int64_t> strides) {
    return [=](NodeWriter& n) { n.set("pads", pads).set("strides", strides); };
  };
  check(one_node("Conv", conv({1, 1, 1, 1}, {2, 2}), {"w"}, weight({4, 8, 3, 3})), "conv2d", "fp32[batch, 4, 8, 8]");
  check(one_node("Conv", conv({0, 0, 1, 1}, {2, 2}), {"w"}, weight({4, 8, 3, 3})), "pad conv2d",
        "fp32[batch, 4, 8, 8]");
  check(one_node("Conv", conv({0, 1, 0, 1}, {1, 1}), {"w"}, weight({4, 8, 3, 3})), "conv2d", "fp32[batch, 4, 14, 16]");
  check(one_node("Conv", conv({0, 0, 0, 0}, {1, 2}), {"w"}, weight({4, 8, 3, 3})), "custom", "fp32[batch, 4, 14, 7]");
  check(one_node(
            "Conv", [](NodeWriter& n) { n.text("auto_pad", "SAME_UPPER"); }, {"w"}, weight({4, 8, 3, 3})),
        "conv2d", "fp32[batch, 4, 16, 16]");
  check(one_node("Conv", conv({2, 2}, {1}), {"w"}, weight({4, 8, 5}), {"batch", 8, "tokens"}),
        "reshape reshape conv2d reshape", "fp32[batch, 4, tokens]");
  check(one_node("ConvTranspose", conv({0, 0, 0, 0}, {2, 2}), {"w"}, weight({8, 4, 2, 2})), "conv2d_grad_input",
        "fp32[batch, 4, 32, 32]");
  check(one_node("AveragePool",
                 [](NodeWriter& n) {
                   n.set("kernel_shape", {2, 2}).set("strides", {2, 2});
                 }),
        "avg_pool2d", "fp32[batch, 8, 8, 8]");
  check(one_node(
            "Einsum", [](NodeWriter& n) { n.text("equation", "bchw,wk->bchk"); }, {"w"}, weight({16, 5})),
        "custom", "fp32[batch, 8, 16, 5]");
  check(one_node("Identity"), "", x);
  CHECK(onnx::handled().size() >= 100);
}

TEST_CASE("onnx: a resize by scales, a split, an embedding, a scatter", "[unit]") {
  ModelWriter model;
  model.input("x", {"batch", 6, 16}).input("ids", {"batch", "tokens"}, kInt64).weight("table", {1000, 64});
  model.integers("parts", {1, 2, 3}).integers("at", {0});
  model.node("Split", {"x", "parts"}, {"a", "b", "c"}).set("axis", 1);
  model.node("Split", {"x"}, {"p", "q"}).set("axis", 2);
  model.node("Gather", {"table", "ids"}, {"e"});
  for (const char* name : {"a", "b", "c", "p", "q", "e"}) model.output(name);
  const Imported imported = model.import();
  CHECK(shape_of(imported.graph, "c") == "fp32[batch, 3, 16]");
  CHECK(shape_of(imported.graph, "q") == "fp32[batch, 6, 8]");
  CHECK(shape_of(imported.graph, "e") == "fp32[batch, tokens, 64]");
  CHECK(kinds_of(imported.graph).back() == "embedding");
  // Rows that are picked, 4 bytes an element, beside 8-byte ids.
  CHECK(work(imported.graph, OpId{5}).read_bytes == SymExpr::dim("batch") * SymExpr::dim("tokens") * (64 * 4 + 8));
}

TEST_CASE("onnx: branches and loops become regions", "[unit]") {
  ModelWriter model;
  model.input("x", {"n", 8}).input("flag", {}, kBool).weight("w", {8, 8}).integers("five", {5}, true);
  NodeWriter choice = model.node("If", {"flag"}, {"y"});
  GraphWriter yes(choice.graph("then_branch"));
  yes.node("MatMul", {"x", "w"}, {"t"});
  yes.output("t");
  GraphWriter no(choice.graph("else_branch"));
  no.node("Relu", {"x"}, {"e"});
  no.output("e");
  NodeWriter loop = model.node("Loop", {"five", "", "y"}, {"z", "all"});
  GraphWriter body(loop.graph("body"));
  body.input("i", {}, kInt64).input("go", {}, kBool).input("state", {"n", 8});
  body.node("Add", {"state", "x"}, {"next"});
  body.node("Identity", {"go"}, {"still"});
  body.node("Tanh", {"next"}, {"scan"});
  body.output("still", {}, kBool).output("next").output("scan");
  model.output("z").output("all");
  const Imported imported = model.import();
  const OpGraph& graph = imported.graph;
  CHECK(verify(graph).empty());
  CHECK(kinds_of(graph) == std::vector<std::string>{"branch", "loop"});
  REQUIRE(graph.op(OpId{0}).regions.size() == 2);
  CHECK(kinds_of(*graph.op(OpId{0}).regions[0]) == std::vector<std::string>{"matmul"});
  CHECK(shape_of(graph, "z") == "fp32[n, 8]");
  CHECK(shape_of(graph, "all") == "fp32[5, n, 8]");
  CHECK(graph.op(OpId{1}).integer("trips", 0) == 5);
  // An addition and a tanh of five FLOPs an element, five times.
  CHECK(work(graph, OpId{1}).flops() == SymExpr::dim("n") * (8 * 6 * 5));
}

TEST_CASE("onnx: what has no counterpart is counted and keeps its shapes", "[unit]") {
  ModelWriter model;
  model.input("boxes", {1, "n", 4}).input("scores", {1, 80, "n"});
  model.node("NonMaxSuppression", {"boxes", "scores"}, {"picked"});
  model.node("NonMaxSuppression", {"boxes", "scores"}, {"unknown"});
  model.node("Warp", {"boxes"}, {"warped"}).domain("acme");
  model.node("Relu", {"unknown"}, {"after"});
  model.value("picked", {"k", 3}, kInt64).value("warped", {1, "n", 4});
  model.output("picked").output("warped").output("after");
  const Imported imported = model.import();
  CHECK(imported.unmapped ==
        std::vector<std::pair<std::string, std::int64_t>>{{"NonMaxSuppression", 2}, {"Relu", 1}, {"acme.Warp", 1}});
  CHECK(shape_of(imported.graph, "picked") == "int64[k, 3]");
  CHECK(shape_of(imported.graph, "unknown") == "fp32[unknown.elements]");
  CHECK(imported.graph.op(OpId{0}).text("op") == "NonMaxSuppression");
  CHECK_THAT(imported.notes.back(), Contains("2 tensors have no shape in the file"));
  CHECK(verify(imported.graph).empty());
}

TEST_CASE("onnx: nodes in any order; names of the file", "[unit]") {
  ModelWriter model;
  model.input("x", {"batch size", "past + tokens"}).output("y");
  model.node("Relu", {"h"}, {"y"});
  model.node("Neg", {"x"}, {"h"});
  const Imported imported = model.import();
  CHECK(kinds_of(imported.graph) == std::vector<std::string>{"neg", "relu"});
  CHECK(shape_of(imported.graph, "y") == "fp32[batch_size, past + tokens]");
  // The graph as JSON comes back the same.
  const OpGraph back = graph_from_json(to_json(imported.graph));
  CHECK(to_string(back) == to_string(imported.graph));
}

TEST_CASE("onnx: bad files are one clear line", "[unit]") {
  ModelWriter model;
  model.input("x", {"batch", 8}).weight("w", {8, 100}).output("y");
  model.node("MatMul", {"x", "w"}, {"y"});
  const std::string whole = model.bytes();
  const std::string cut = "expected a whole ONNX model, got ";
  CHECK(fault_of(whole) == "no fault");
  // Cut anywhere, whether or not the pieces are messages by chance.
  for (std::size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 97) {
    CAPTURE(size);
    CHECK_THAT(fault_of(whole.substr(0, size)),
               Contains(cut + std::to_string(size) + " bytes that are damaged, cut off"));
  }
  CHECK_THAT(fault_of("{\"graph\": 1}"), Contains(cut));
  CHECK_THROWS_WITH(import_onnx("/nowhere/m.onnx"), Contains("/nowhere/m.onnx: expected a readable file, found none"));

  const auto bad = [](const std::function<void(ModelWriter&)>& build) {
    ModelWriter faulty;
    faulty.input("x", {"batch", 8}).weight("w", {9, 4});
    build(faulty);
    return fault_of(faulty.bytes());
  };
  CHECK(bad([](ModelWriter& m) {
          m.node("MatMul", {"x", "w"}, {"y"}).named("head");
        }) == "node 'head' (MatMul): matmul 'head': [batch, 8] times [9, 4]: the inner sizes 8 and 9 differ");
  CHECK(bad([](ModelWriter& m) { m.node("Relu", {"z"}, {"y"}); }) == "node 'y' (Relu): no value is named 'z'");
  CHECK(bad([](ModelWriter& m) { m.node("Add", {"x"}, {"y"}); }) == "node 'y' (Add): expected input 1");
  CHECK(bad([](ModelWriter& m) { m.output("y"); }) == "output 'y': no node makes it");
  CHECK(bad([](ModelWriter& m) {
          m.node("Relu", {"b"}, {"a"});
          m.node("Neg", {"a"}, {"b"});
        }) == "the nodes are in a cycle: node 'a' (Relu) -> node 'b' (Neg) -> node 'a' (Relu)");
  CHECK(bad([](ModelWriter& m) {
          m.node("Relu", {"x"}, {"a"});
          m.node("Neg", {"x"}, {"a"});
        }) == "the name 'a' is given to two values");
  CHECK_THAT(bad([](ModelWriter& m) {
               m.node("Transpose", {"x"}, {"y"}).set("perm", {0, 1, 2});
             }),
             Contains("perm has 3 entries, the input 2 dimensions"));
  CHECK_THAT(bad([](ModelWriter& m) {
               m.node("Concat", {"w", "w2"}, {"y"}).set("axis", 0);
               m.weight("w2", {3, 5});
             }),
             Contains("sizes 4 and 5 of dimension 1 differ"));
  CHECK_THAT(bad([](ModelWriter& m) { m.node("Softmax", {"x"}, {"y"}).set("axis", 4); }),
             Contains("axis 4 of 2 dimensions"));
}

}  // namespace test_import_onnx
