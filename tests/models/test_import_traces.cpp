// Chakra and profiler traces: nodes to ops, dependencies to edges, launches in order, bad files; real samples where the
// shared data is there.
#include <catch2/catch.hpp>

#include <chakra_trace.pb.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "models/graph/graph_lowering.hpp"
#include "models/graph/op_work.hpp"
#include "models/import/file_bytes.hpp"
#include "models/import/importer.hpp"
#include "sim/base/fault.hpp"
#include "tests/models/onnx_writer.hpp"

namespace test_import_traces {

using namespace orrery;
using namespace orrery::models;
using namespace orrery::models::test;
using Catch::Contains;

namespace {

namespace chakra = orrery::chakra_file;

void append(std::string& bytes, const std::string& message) {
  std::size_t size = message.size();
  for (; size >= 128; size >>= 7) bytes += static_cast<char>(size & 127 | 128);
  bytes += static_cast<char>(size);
  bytes += message;
}

chakra::Node trace_node(std::uint64_t id, const std::string& name, int type, std::vector<std::uint64_t> data = {},
                        std::vector<std::uint64_t> control = {}) {
  chakra::Node node;
  node.set_id(id);
  node.set_name(name);
  node.set_type(type);
  for (const std::uint64_t dep : data) node.add_data_deps(dep);
  for (const std::uint64_t dep : control) node.add_ctrl_deps(dep);
  return node;
}

void set(chakra::Node& node, const std::string& name, std::int64_t value) {
  chakra::Attribute* attribute = node.add_attr();
  attribute->set_name(name);
  attribute->set_int64_val(value);
}

std::string trace_of(const std::vector<chakra::Node>& nodes) {
  std::string bytes;
  chakra::Metadata metadata;
  metadata.set_version("0.0.4");
  append(bytes, metadata.SerializeAsString());
  for (const chakra::Node& node : nodes) append(bytes, node.SerializeAsString());
  return bytes;
}

/// Messages of the faults of importing such a file.
template <class Import>
std::string fault_of(const std::string& name, const std::string& bytes, Import import) {
  const TemporaryFile file(name, bytes);
  try {
    static_cast<void>(import(file.path()));
  } catch (const sim::ConfigError& error) {
    CHECK(error.faults().size() == 1);
    return error.faults().front().where.pointer + "|" + error.faults().front().message;
  }
  return "no fault";
}

/// The file of a tar.gz whose name ends so.
std::string from_tar(const std::filesystem::path& archive, const std::string& name) {
  const std::string tar = read_bytes(archive);
  for (std::size_t at = 0; at + 512 <= tar.size();) {  // a header of 512 bytes: name, then at 124 the size in octal
    const std::string entry(tar.c_str() + at);
    const std::size_t size = std::strtoul(tar.substr(at + 124, 11).c_str(), nullptr, 8);
    if (entry.ends_with(name)) return tar.substr(at + 512, size);
    at += 512 + (size + 511) / 512 * 512;
  }
  return {};
}

const std::filesystem::path kSamples = std::filesystem::path(ORRERY_SHARED_DIR) / "data" / "chakra";

}  // namespace

TEST_CASE("chakra: nodes become ops, dependencies edges", "[unit]") {
  chakra::Node gemm = trace_node(7, "gemm", 4), reduce = trace_node(9, "reduce", 7, {7}),
               late = trace_node(3, "late", 4, {}, {7, 9});
  set(gemm, "num_ops", 1000);
  set(gemm, "tensor_size", 4096);
  gemm.set_duration_micros(50);
  set(reduce, "comm_size", 4096);
  set(reduce, "comm_type", 0);
  chakra::Node load = trace_node(4, "load", 2), barrier = trace_node(5, "barrier", 7),
               meta = trace_node(6, "info", 1, {3});
  set(load, "tensor_size", 64);
  set(barrier, "comm_type", 9);
  chakra::Node end = trace_node(8, "end", 4, {6, 4});
  const TemporaryFile file("t.et", trace_of({late, gemm, reduce, load, barrier, meta, end}));
  const Imported imported = import_chakra(file.path());
  const OpGraph& graph = imported.graph;
  CHECK(verify(graph).empty());
  REQUIRE(graph.op_count() == 6);  // the metadata node runs nothing
  CHECK(graph.op(OpId{0}).name == "gemm");
  CHECK(graph.op(OpId{0}).integer("flops", 0) == 1000);
  CHECK(graph.op(OpId{0}).number("runtime_s", 0) == Approx(50e-6));
  CHECK(graph.op(OpId{1}).kind == OpKind::all_reduce);
  // The reduction's payload is what the product made: no further input.
  CHECK(graph.op(OpId{1}).inputs == std::vector<TensorId>{graph.op(OpId{0}).outputs.front()});
  CHECK(graph.op(OpId{2}).name == "late");
  CHECK(graph.op(OpId{2}).inputs.size() == 2);
  for (const TensorId input : graph.op(OpId{2}).inputs) CHECK(graph.tensor(input).elements() == SymExpr(0));
  CHECK(graph.op(OpId{3}).kind == OpKind::to_device);
  CHECK(imported.unmapped == std::vector<std::pair<std::string, std::int64_t>>{{"barrier", 1}});
  // `end` waits through the metadata node for `late`.
  CHECK(graph.producer(graph.op(OpId{5}).inputs.front()) == OpId{2});
  const GraphLaunches launches = lower(graph, {});
  REQUIRE(launches.transfers.size() == 2);
  CHECK(launches.transfers[0].bytes == 4096);
  CHECK(work(graph, OpId{1}).read_bytes == SymExpr(4096));
}

TEST_CASE("chakra: the JSON form", "[unit]") {
  const TemporaryFile file("t.json", R"({"workload_graph": [
    {"Id": 2, "Name": "b", "NodeType": 5, "comm_size": 16, "data_deps": [1], "runtime": 3, "is_cpu_op": false},
    {"Id": 1, "Name": "a", "NodeType": 4, "data_deps": [], "ctrlDeps": [99], "tensor_size": 16}]})");
  const Imported imported = import_graph(file.path(), "");
  CHECK(imported.graph.op_count() == 2);
  CHECK(imported.graph.op(OpId{1}).kind == OpKind::send);
  CHECK(imported.graph.op(OpId{1}).target == "gpu");
  CHECK(imported.notes ==
        std::vector<std::string>{"1 dependencies name nodes that are not in the file and were left out"});
}

TEST_CASE("chakra: bad files are one clear line", "[unit]") {
  const std::string whole = trace_of({trace_node(1, "a", 4), trace_node(2, "b", 4, {1})});
  CHECK(fault_of("t.et", whole, import_chakra) == "no fault");
  int whole_messages = 0;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const std::string fault = fault_of("t.et", whole.substr(0, size), import_chakra);
    CAPTURE(size, fault);
    // A cut between two nodes is a shorter trace.
    if (fault == "no fault")
      ++whole_messages;
    else
      CHECK_THAT(fault, Contains("damaged or cut off after") || Contains("at least one node"));
  }
  CHECK(whole_messages == 1);
  CHECK_THAT(fault_of("t.et", "", import_chakra), Contains("expected a Chakra trace with at least one node"));
  CHECK(fault_of("t.et", trace_of({trace_node(1, "a", 4, {2}), trace_node(2, "b", 4, {1})}), import_chakra) ==
        "|the nodes are in a cycle: 1 'a' -> 2 'b' -> 1");
  CHECK(fault_of("t.et", trace_of({trace_node(1, "a", 4), trace_node(1, "b", 4)}), import_chakra) ==
        "|two nodes have the id 1");
  CHECK_THAT(fault_of("t.json", R"({"schema": "1.0", "nodes": []})", import_chakra),
             Contains("got one that PyTorch wrote"));
  CHECK_THAT(fault_of("t.json", R"({"workload_graph": [{"Id": 1, "runtime": "x"}]})", import_chakra),
             Contains("/workload_graph/0/runtime|expected a number, got \"x\""));
}

TEST_CASE("chakra: real samples of four producers", "[golden]") {
  if (!std::filesystem::exists(kSamples)) {
    WARN("left out: no " << kSamples);
    return;
  }
  // ASTRA-sim's generator of collectives: one node of 1 MiB.
  const Imported gather =
      import_chakra(kSamples / "astra-sim/examples/workload/microbenchmarks/all_gather/8npus_1MB/all_gather.3.et");
  REQUIRE(gather.graph.op_count() == 1);
  CHECK(gather.graph.op(OpId{0}).kind == OpKind::all_gather);
  CHECK(bytes_of(gather.graph, gather.graph.op(OpId{0}).inputs.front(), {}) == 1 << 20);
  // A collective written as sends, receives and sums (MSCCL's XML converted): a ring of 8, 14 steps of 128 KiB.
  const Imported ring = import_chakra(
      kSamples / "astra-sim/examples/system/custom_collectives/custom_ring_allreduce_8npus_1MB/custom_allreduce.0.et");
  CHECK(verify(ring.graph).empty());
  CHECK(ring.unmapped.empty());
  std::map<OpKind, int> kinds;
  for (const OpId id : ring.graph.ops()) ++kinds[ring.graph.op(id).kind];
  CHECK(kinds == std::map<OpKind, int>{{OpKind::send, 14}, {OpKind::recv, 14}, {OpKind::custom, 7}});
  for (const GraphTransfer& transfer : lower(ring.graph, {}).transfers) CHECK(transfer.bytes == 131072);
  // A training step of ResNet-50 as PyTorch recorded it, converted: 3,664 nodes.
  const auto count = [](const Imported& imported, OpKind kind) {
    return std::ranges::count_if(imported.graph.ops(), [&](OpId id) { return imported.graph.op(id).kind == kind; });
  };
  const TemporaryFile binary("resnet.et",
                             from_tar(kSamples / "mlcommons-chakra/feeder_tests_trace.tar.gz", "chakra.0.et"));
  const Imported step = import_chakra(binary.path());
  CHECK(step.graph.op_count() == 3664);
  CHECK(verify(step.graph).empty());
  CHECK(count(step, OpKind::all_reduce) == 5);
  CHECK(step.unmapped ==
        std::vector<std::pair<std::string, std::int64_t>>{{"broadcast", 2}, {"collective of no type", 14}});
  // The same in the JSON form, which leaves out what collectives do.
  const TemporaryFile json("resnet.json", from_tar(kSamples / "mlcommons-chakra/json_trace.tar.gz", "/chakra.0.json"));
  const Imported text = import_graph(json.path(), "");
  CHECK(text.graph.op_count() == 3664);
  CHECK(text.unmapped == std::vector<std::pair<std::string, std::int64_t>>{{"collective of no type", 21}});
}

TEST_CASE("kineto: kernels in the order of launches, with kinds where operators have shapes", "[unit]") {
  const std::string text = R"({"schemaVersion": 1, "traceEvents": [
    {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "ts": 100, "dur": 20, "tid": 1,
     "args": {"External id": 5, "Input Dims": [[256], [32, 128], [128, 256], [], []],
              "Input type": ["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar"], "Concrete Inputs": ["", "", "", "1", "1"]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 105, "dur": 4, "args": {"correlation": 11, "External id": 5}},
    {"ph": "X", "cat": "kernel", "name": "sgemm_128x64", "ts": 130.5, "dur": 10.25, "args": {"stream": 7, "correlation": 11, "External id": 5}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 107, "dur": 4, "args": {"correlation": 12, "External id": 5}},
    {"ph": "X", "cat": "kernel", "name": "splitKreduce", "ts": 141, "dur": 2, "args": {"stream": 7, "correlation": 12, "External id": 5}},
    {"ph": "X", "cat": "kernel", "name": "softmax_warp", "ts": 160, "dur": 3, "args": {"stream": 7, "correlation": 14, "External id": 6}},
    {"ph": "X", "cat": "kernel", "name": "mystery", "ts": 150, "dur": 1, "args": {"stream": 7, "correlation": 13, "External id": 8}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 112, "dur": 4, "args": {"correlation": 13}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": 120, "dur": 40, "args": {"correlation": 99}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::_softmax", "ts": 165, "dur": 8,
     "args": {"External id": 6, "Input Dims": [[32, 256], [], []], "Input type": ["float", "Scalar", "Scalar"]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 170, "dur": 4, "args": {"correlation": 14}},
    {"ph": "X", "cat": "cpu_op", "name": "acme::warp", "ts": 111, "dur": 8, "args": {"External id": 8, "Input Dims": [[3]]}}
  ]})";
  const TemporaryFile file("t.json", text);
  const Imported imported = import_graph(file.path(), "");
  const OpGraph& graph = imported.graph;
  CHECK(verify(graph).empty());
  REQUIRE(graph.op_count() == 4);
  std::vector<std::string> kernels, kinds;
  for (const OpId id : graph.ops()) {
    kernels.emplace_back(graph.op(id).text("kernel"));
    kinds.emplace_back(to_string(graph.op(id).kind));
  }
  CHECK(kernels == std::vector<std::string>{"sgemm_128x64", "splitKreduce", "mystery", "softmax_warp"});
  CHECK(kinds == std::vector<std::string>{"matmul", "custom", "custom", "softmax"});
  CHECK(work(graph, OpId{0}).flops() == SymExpr(2 * 32 * 128 * 256 + 32 * 256));  // with its bias
  CHECK(graph.op(OpId{0}).number("runtime_s", 0) == Approx(10.25e-6));
  // Launched 5 us into the trace's first operator, started 25.5 us later.
  CHECK(graph.op(OpId{0}).number("start_s", 0) - graph.op(OpId{0}).number("launch_s", 0) == Approx(25.5e-6));
  CHECK(graph.op(OpId{2}).integer("sync_before", 0) == 0);
  CHECK(graph.op(OpId{3}).integer("sync_before", 0) == 1);
  CHECK(graph.op(OpId{3}).integer("stream", 0) == 7);
  // The two custom ops of the stream are in order.
  CHECK(graph.producer(graph.op(OpId{2}).inputs.front()) == OpId{1});
  CHECK(imported.unmapped == std::vector<std::pair<std::string, std::int64_t>>{{"acme::warp", 1}});
  CHECK(imported.notes == std::vector<std::string>{"2 kernels were given the kind of the operator that launched them",
                                                   "1 further kernels of those operators stay custom ops"});
  // The same through gzip.
  const TemporaryFile packed("t.json.gz", "");
  gzFile out = gzopen(packed.path().string().c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  const Imported again = import_graph(packed.path(), "");
  CHECK(again.graph.op_count() == 4);
  CHECK(again.unmapped == imported.unmapped);
}

TEST_CASE("kineto: operators with shapes", "[unit]") {
  const auto kind = [](const std::string& op, const std::string& dims, const std::string& concrete = "[]") {
    const TemporaryFile file("t.json", R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::)" + op +
                                           R"(", "ts": 1, "dur": 1, "args": {"External id": 1, "Input Dims": )" + dims +
                                           R"(, "Input type": ["float", "float", "float"], "Concrete Inputs": )" +
                                           concrete +
                                           R"(}}, {"ph": "X", "cat": "kernel", "name": "k", "ts": 2, "dur": 1, "args":
                                           {"stream": 7, "correlation": 1, "External id": 1}}]})");
    const Imported imported = import_kineto(file.path());
    const OpGraph& graph = imported.graph;
    CHECK(verify(graph).empty());
    const OpNode& node = graph.op(OpId{0});
    return std::string(to_string(node.kind)) + " " + shape_string(graph.tensor(node.outputs.front()));
  };
  CHECK(kind("mm", "[[4, 8], [8, 16]]") == "matmul fp32[4, 16]");
  CHECK(kind("linear", "[[2, 4, 8], [16, 8], [16]]") == "matmul fp32[2, 4, 16]");
  CHECK(kind("bmm", "[[3, 4, 8], [3, 8, 2]]") == "matmul fp32[3, 4, 2]");
  CHECK(kind("add", "[[4, 8], [8], []]") == "add fp32[4, 8]");
  CHECK(kind("mul", "[[4, 8], []]") == "scale fp32[4, 8]");
  CHECK(kind("gelu", "[[4, 8], []]") == "gelu fp32[4, 8]");
  CHECK(kind("copy_", "[[4], [4], []]") == "copy fp32[4]");
  CHECK(kind("native_layer_norm", "[[4, 8], [], [8], [8], []]") == "layer_norm fp32[4, 8]");
  CHECK(kind("conv2d", "[[1, 3, 8, 8], [6, 3, 3, 3], [], [], [], [], []]",
             R"(["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "1"])") == "conv2d fp32[1, 6, 4, 4]");
  CHECK(kind("mean", "[[4, 8, 3], [], []]", R"(["", "[-1]", "True"])") == "reduce_mean fp32[4, 8, 1]");
  CHECK(kind("embedding", "[[100, 8], [2, 5]]") == "embedding fp32[2, 5, 8]");
  CHECK(kind("cat", "[[[2, 3], [4, 3]], []]", R"(["", "0"])") == "concat fp32[6, 3]");
  CHECK(kind("_scaled_dot_product_flash_attention", "[[1, 8, 16, 64], [1, 8, 16, 64], [1, 8, 16, 64], [], []]",
             R"(["", "", "", "0.", "True"])") == "attention fp32[1, 8, 16, 64]");
  CHECK(kind("max_pool2d_with_indices", "[[1, 3, 8, 8], [], [], []]", R"(["", "[2, 2]", "[2, 2]", "[0, 0]"])") ==
        "max_pool2d fp32[1, 3, 4, 4]");
  // Shapes that do not fit leave the kernel as it is.
  CHECK(kind("mm", "[[4, 8], [9, 16]]") == "custom int8[0]");
  CHECK(kind("flip", "[[4, 8]]") == "custom int8[0]");
}

TEST_CASE("kineto: bad files are one clear line", "[unit]") {
  const std::string good =
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 2, "dur": 1, "args": {}}]})";
  CHECK(fault_of("t.json", good, import_kineto) == "no fault");
  CHECK_THAT(fault_of("t.json", R"({"traceEvents": []})", import_kineto),
             Contains("/traceEvents|expected kernels, got 0 events"));
  CHECK_THAT(fault_of("t.json", R"({"events": []})", import_kineto), Contains("with an array 'traceEvents'"));
  CHECK_THAT(fault_of("t.json", R"({"traceEvents": [{"ph": "X"}, {"ph")", import_kineto),
             Contains("expected a whole profiler trace"));
  CHECK_THAT(fault_of("t.json", R"({"traceEvents": [{"ph": "X"}, 3]})", import_kineto),
             Contains("/traceEvents/1|expected a whole"));
  CHECK_THAT(fault_of("t.json", "", import_kineto), Contains("expected a whole profiler trace"));
  CHECK_THAT(fault_of("t.json.gz", std::string("\x1f\x8b\x08\x00\x00", 5), import_kineto),
             Contains("damaged or cut off"));
}

TEST_CASE("import: formats by name, by file name, by contents", "[unit]") {
  CHECK(import_formats() == std::vector<std::string>{"chakra", "hf", "json", "kineto", "onnx"});
  const auto with = [](const char* format) {
    return [format](const std::filesystem::path& p) { return import_graph(p, format); };
  };
  CHECK_THAT(fault_of("t.bin", "x", with("")), Contains("its name does not say what it is"));
  CHECK_THAT(fault_of("t.bin", "x", with("onxx")), Contains("unknown format 'onxx'"));
  CHECK_THAT(fault_of("t.json", R"({"graph": "g"})", with("")), Contains("at least one op"));
  CHECK_THAT(fault_of("config.json", R"({"architectures": ["WarpModel"]})", with("")), Contains("/architectures"));
  const std::filesystem::path llama = std::filesystem::path(ORRERY_SOURCE_DIR) / "models/catalog/llama-3-8b.json";
  const Imported imported = import_graph(llama, "hf");
  CHECK(verify(imported.graph).empty());
  SymExpr parameters = 0;
  for (const TensorId id : imported.graph.with_role(TensorRole::parameter))
    parameters += imported.graph.tensor(id).elements();
  CHECK(parameters == SymExpr(std::int64_t{8030261248}));  // as the model card of Llama 3 8B has it: 8.03 billion
}

}  // namespace test_import_traces
