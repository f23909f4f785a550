// Writes small ONNX models for tests.
#pragma once

#include <onnx_model.pb.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "models/import/importer.hpp"

namespace orrery::models::test {

namespace pb = orrery::onnx_file;

/// A size: a number, or the name of a dimension.
using Size = std::variant<std::int64_t, std::string>;
using Sizes = std::vector<Size>;

enum OnnxType : std::int32_t { kFloat = 1, kInt32 = 6, kInt64 = 7, kBool = 9, kHalf = 10 };

inline void describe(pb::ValueInfo& value, const std::string& name, const Sizes& sizes, int type) {
  value.set_name(name);
  value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  pb::Shape* shape = value.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const Size& size : sizes) {
    pb::Shape::Dim* dim = shape->add_dim();
    if (const auto* number = std::get_if<std::int64_t>(&size))
      dim->set_dim_value(*number);
    else
      dim->set_dim_param(std::get<std::string>(size));
  }
}

/// A node in the making: node("Gemm", {"x", "w"}, {"y"}).set("transB", 1).
class NodeWriter {
 public:
  explicit NodeWriter(pb::Node* node) : node_(node) {}
  NodeWriter& set(const std::string& name, std::int64_t value) {
    add(name)->set_i(value);
    return *this;
  }
  NodeWriter& set(const std::string& name, const std::vector<std::int64_t>& values) {
    pb::Attribute* attribute = add(name);
    for (const std::int64_t value : values) attribute->add_ints(value);
    return *this;
  }
  NodeWriter& number(const std::string& name, float value) {
    add(name)->set_f(value);
    return *this;
  }
  NodeWriter& text(const std::string& name, const std::string& value) {
    add(name)->set_s(value);
    return *this;
  }
  pb::Graph* graph(const std::string& name) { return add(name)->mutable_g(); }
  NodeWriter& named(const std::string& name) {
    node_->set_name(name);
    return *this;
  }
  NodeWriter& domain(const std::string& name) {
    node_->set_domain(name);
    return *this;
  }

 private:
  pb::Attribute* add(const std::string& name) {
    pb::Attribute* attribute = node_->add_attribute();
    attribute->set_name(name);
    return attribute;
  }
  pb::Node* node_;
};

/// Adds to one graph, the model's or a branch's.
class GraphWriter {
 public:
  explicit GraphWriter(pb::Graph* graph) : graph_(graph) {}
  GraphWriter& input(const std::string& name, const Sizes& sizes, int type = kFloat) {
    describe(*graph_->add_input(), name, sizes, type);
    return *this;
  }
  /// An output of which the file says no shape.
  GraphWriter& output(const std::string& name) {
    graph_->add_output()->set_name(name);
    return *this;
  }
  GraphWriter& output(const std::string& name, const Sizes& sizes, int type = kFloat) {
    describe(*graph_->add_output(), name, sizes, type);
    return *this;
  }
  GraphWriter& value(const std::string& name, const Sizes& sizes, int type = kFloat) {
    describe(*graph_->add_value_info(), name, sizes, type);
    return *this;
  }
  /// A weight without contents that matter.
  GraphWriter& weight(const std::string& name, const std::vector<std::int64_t>& dims, int type = kFloat) {
    pb::Tensor* tensor = graph_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) {
      tensor->add_dims(dim);
      count *= dim;
    }
    tensor->set_raw_data(std::string(static_cast<std::size_t>(count * (type == kHalf ? 2 : 4)), '\0'));
    return *this;
  }
  /// A list of integers; one integer where `scalar`.
  GraphWriter& integers(const std::string& name, const std::vector<std::int64_t>& values, bool scalar = false) {
    pb::Tensor* tensor = graph_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(kInt64);
    if (!scalar) tensor->add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) tensor->add_int64_data(value);
    return *this;
  }
  GraphWriter& scalar(const std::string& name, float value) {
    pb::Tensor* tensor = graph_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(kFloat);
    tensor->add_float_data(value);
    return *this;
  }
  NodeWriter node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs) {
    pb::Node* node = graph_->add_node();
    node->set_op_type(op);
    for (const std::string& input : inputs) node->add_input(input);
    for (const std::string& output : outputs) node->add_output(output);
    return NodeWriter(node);
  }

 private:
  pb::Graph* graph_;
};

/// A file of its own that goes away with it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name, const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() / ("orrery_" + std::to_string(++count()) + "_" + name)) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  /// Process and number keep files of tests that run beside each other apart.
  static std::uint64_t& count() {
    static std::uint64_t n = static_cast<std::uint64_t>(std::filesystem::hash_value(std::to_string(::getpid()))) << 8;
    return n;
  }
  std::filesystem::path path_;
};

class ModelWriter : public GraphWriter {
 public:
  explicit ModelWriter(std::int64_t opset = 17) : ModelWriter(std::make_shared<pb::Model>(), opset) {}
  std::string bytes() const { return model_->SerializeAsString(); }
  Imported import() const {
    const TemporaryFile file("m.onnx", bytes());
    return import_onnx(file.path());
  }

 private:
  ModelWriter(std::shared_ptr<pb::Model> model, std::int64_t opset)
      : GraphWriter(model->mutable_graph()), model_(std::move(model)) {
    model_->set_ir_version(8);
    model_->mutable_graph()->set_name("m");
    model_->add_opset_import()->set_version(opset);
  }
  std::shared_ptr<pb::Model> model_;
};

}  // namespace orrery::models::test
