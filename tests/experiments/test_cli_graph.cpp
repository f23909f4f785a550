// `orrery graph`: summaries of builders and files, exports, exit codes.
#include <catch2/catch.hpp>

#include "tests/experiments/support.hpp"

namespace test_cli_graph {

using namespace orrery;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

const char* const kMlp = R"({"graph": "small", "dims": {"batch": [1, null]},
  "tensors": [{"name": "x", "type": "fp16", "shape": ["batch", 8]},
              {"name": "w", "role": "parameter", "type": "fp16", "shape": [8, 4]}],
  "ops": [{"name": "up", "op": "matmul", "in": ["x", "w"], "out": ["h"]},
          {"name": "act", "op": "relu", "in": ["h"], "out": ["y"]}],
  "outputs": ["y"]})";

void check_refused(const Scratch& scratch, const std::string& arguments, const std::string& message) {
  const CommandResult result = command(scratch, "graph " + arguments);
  CAPTURE(arguments, result.err, result.out);
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains(message));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
}

}  // namespace

TEST_CASE("graph: the summary of a file, with formulas and numbers", "[cli]") {
  Scratch scratch;
  scratch.write("g.json", kMlp);
  const CommandResult formulas = command(scratch, "graph g.json");
  CAPTURE(formulas.err, formulas.out);
  REQUIRE(formulas.exit_code == 0);
  CHECK_THAT(formulas.out, Contains("graph \"small\": 2 ops, 4 tensors"));
  CHECK_THAT(formulas.out, Contains("FLOPs        68*batch"));  // 2 * 8 * 4 + 4
  CHECK_THAT(formulas.out, Contains("parameters   32"));
  CHECK_THAT(formulas.out, Contains("       1  matmul"));
  const CommandResult bound = command(scratch, "graph g.json --bind batch=10 --json out.json --dot out.dot");
  CHECK(bound.exit_code == 0);
  CHECK_THAT(bound.out, Contains("work at batch = 10: 680 FLOPs (640 of products)"));
  CHECK_THAT(bound.out, Contains("2 kernels, 0 transfers"));
  CHECK_THAT(slurp(scratch / "out.dot"), Contains("digraph \"small\""));
  const CommandResult again = command(scratch, "graph out.json --print");
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out, Contains("%h: fp16[batch, 4] = matmul(%x, %w)"));
}

TEST_CASE("graph: a builder by name", "[cli]") {
  Scratch scratch;
  const CommandResult result = command(scratch, "graph bert --set layers=2 --bind batch=8,tokens=128");
  CAPTURE(result.err, result.out);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("work at batch = 8, tokens = 128:"));
}

TEST_CASE("graph: faults", "[cli]") {
  Scratch scratch;
  scratch.write("g.json", kMlp);
  check_refused(scratch, "bret", "graph: no builder is called 'bret', and it is no file (did you mean 'bert'?)");
  check_refused(scratch, "bert --set layer=2", "--set:/layer: unknown key 'layer' (did you mean 'layers'?)");
  check_refused(scratch, "g.json --set layers=2", "expected the name of a builder: a file has no parameters");
  check_refused(scratch, "none.onnx", "none.onnx: expected a readable file, found none");
  check_refused(scratch, "g.json --format onxx", "unknown format 'onxx' (did you mean 'onnx'?)");
  check_refused(scratch, "g.json --bind bach=2", "the graph has no dimension 'bach' (did you mean 'batch'?)");
  check_refused(scratch, "g.json --bind batch=two", "--bind batch=two: expected dimension=size");
  check_refused(scratch, "bert --bind batch=2", "--bind: no value for dimension 'tokens'");
  scratch.write("cut.onnx", std::string("\x08\x08\x3a\x7f", 4));
  check_refused(scratch, "cut.onnx", "cut.onnx: expected a whole ONNX model, got 4 bytes");
  // Texts that are no UTF-8: what protobuf would say of them by itself is not a line of ours.
  scratch.write("bad.et", std::string("\x05\x0a\x03"
                                      "0.1",
                                      6) +
                              std::string("\x06\x08\x01\x12\x02\xff\xfe", 7));
  check_refused(scratch, "bad.et",
                "bad.et: expected a whole Chakra trace, but it is damaged or cut off after 1 messages");
  scratch.write("bad.onnx", std::string("\x12\x02\xff\xfe", 4));
  check_refused(scratch, "bad.onnx", "bad.onnx: expected a whole ONNX model, got 4 bytes");
}

}  // namespace test_cli_graph
