#include "models/eager_model.hpp"

#include <fmt/format.h>

namespace orrery::models {
namespace {

using hw::OpClass;

/// Writes the kernels of a forward pass down.
class Writer {
 public:
  Writer(const EagerModel& model, EagerAttention attention, hw::DType dtype, std::int64_t batch, std::int64_t tokens)
      : m_(model),
        sdpa_(attention == EagerAttention::sdpa),
        dtype_(dtype),
        element_(hw::bytes_of(dtype)),
        batch_(batch),
        tokens_(tokens),
        rows_(batch * tokens) {}

  std::vector<hw::LaunchedKernel> write() {
    switch (m_.family) {
      case EagerFamily::bert:
        write_bert();
        break;
      case EagerFamily::gpt2:
        write_gpt2();
        break;
      case EagerFamily::llama:
        write_llama();
        break;
    }
    return std::move(kernels_);
  }

 private:
  void views(std::int64_t count) { views_ += count; }

  void launch(std::string_view name, hw::Kernel kernel, bool starts_operator = true) {
    kernels_.push_back({name, kernel, starts_operator, starts_operator ? views_ : 0});
    if (starts_operator) views_ = 0;
  }

  void product(std::string_view name, OpClass op, std::int64_t m, std::int64_t n, std::int64_t k,
               std::int64_t batch = 1, bool starts_operator = true) {
    launch(name, {op, dtype_, hw::Gemm{m, n, k, batch}}, starts_operator);
  }

  /// A pass over `elements`: bytes read and written of each, and FLOPs.
  void pass(std::string_view name, OpClass op, std::int64_t elements, std::int64_t read, std::int64_t written,
            std::int64_t flops = 1, bool starts_operator = true) {
    launch(name, {op, dtype_, hw::Streaming{elements * read, elements * written, elements * flops}}, starts_operator);
  }
  void add(std::string_view name, std::int64_t elements) {
    pass(name, OpClass::residual, elements, 2 * element_, element_);
  }
  void copy(std::string_view name, std::int64_t elements, bool starts_operator = false) {
    pass(name, OpClass::residual, elements, element_, element_, 0, starts_operator);
  }
  void layer_norm() { pass("layer_norm", OpClass::norm, rows_ * m_.hidden, element_, element_, 8); }

  void embedding(std::string_view name) { pass(name, OpClass::embedding, rows_ * m_.hidden, element_, element_, 0); }

  /// softmax(q k') v over all prompts; q, k and v lie token by token.
  void attention(bool causal, bool grouped) {
    const std::int64_t q = rows_ * m_.heads * m_.head_dim;
    if (sdpa_) {
      const std::int64_t pairs = causal ? tokens_ * (tokens_ + 1) / 2 : tokens_ * tokens_;
      hw::AttentionPrefill shape{batch_,   rows_,    rows_,      batch_ * pairs, batch_ * ((tokens_ + 127) / 128),
                                 m_.heads, m_.heads, m_.head_dim};
      shape.causal = causal;
      launch("attention", {OpClass::attention_prefill, dtype_, shape});
      views(2);
      return;
    }
    const std::int64_t scores = batch_ * m_.heads * tokens_ * tokens_;
    const std::int64_t bmm = batch_ * m_.heads;
    views(3);
    copy("copy q", q, true);
    if (!grouped) copy("copy k", q);
    product("q k'", OpClass::attention_prefill, tokens_, tokens_, m_.head_dim, bmm, false);
    pass("scale", OpClass::residual, scores, element_, element_);
    add("mask", scores);
    const bool wide = m_.family == EagerFamily::llama;  // softmax in fp32, and back
    pass("softmax", OpClass::residual, scores, element_, wide ? 4 : element_, 5);
    if (wide) pass("to half", OpClass::residual, scores, 4, element_, 0);
    views(3);
    if (!grouped) copy("copy v", q, true);
    product("scores v", OpClass::attention_prefill, tokens_, m_.head_dim, tokens_, bmm, grouped);
    views(1);
    copy("contiguous", q, true);
    views(1);
  }

  void write_bert() {
    const std::int64_t h = m_.hidden;
    if (m_.positions_from_ids)
      for (const std::string_view name : {"ne", "to int", "cumsum", "type_as", "add", "mul", "to long", "add pad"})
        pass(name, OpClass::residual, rows_, 8, 8);
    for (const std::string_view name : {"embed words", "embed types", "embed positions"}) embedding(name);
    add("add types", rows_ * h);
    add("add positions", rows_ * h);
    layer_norm();
    for (std::int64_t layer = 0; layer < m_.layers; ++layer) {
      for (const std::string_view name : {"query", "key", "value"}) {
        product(name, OpClass::qkv_proj, rows_, h, h);
        views(2);
      }
      attention(false, false);
      product("attention output", OpClass::out_proj, rows_, h, h);
      add("residual", rows_ * h);
      layer_norm();
      product("intermediate", OpClass::ffn_up, rows_, m_.intermediate, h);
      pass("gelu", OpClass::activation, rows_ * m_.intermediate, element_, element_, 8);
      product("output", OpClass::ffn_down, rows_, h, m_.intermediate);
      add("residual", rows_ * h);
      layer_norm();
    }
    views(1);
    product("pooler", OpClass::lm_head, batch_, h, h);
    pass("tanh", OpClass::activation, batch_ * h, element_, element_, 8);
  }

  void write_gpt2() {
    const std::int64_t h = m_.hidden;
    embedding("embed words");
    embedding("embed positions");
    add("add positions", rows_ * h);
    for (std::int64_t layer = 0; layer < m_.layers; ++layer) {
      layer_norm();
      views(1);
      product("c_attn", OpClass::qkv_proj, rows_, 3 * h, h);
      views(7);  // split, then view and permute of q, k and v
      attention(true, false);
      product("c_proj", OpClass::out_proj, rows_, h, h);
      views(1);
      add("residual", rows_ * h);
      layer_norm();
      views(1);
      product("c_fc", OpClass::ffn_up, rows_, m_.intermediate, h);
      views(1);
      const std::int64_t inner = rows_ * m_.intermediate;
      for (const std::string_view name : {"pow", "mul", "tanh arg"})
        pass(name, OpClass::residual, inner, element_, element_);
      add("add cube", inner);
      for (const std::string_view name : {"tanh", "add one", "half"})
        pass(name, OpClass::residual, inner, element_, element_);
      add("gate", inner);  // reads two tensors, writes one
      views(1);
      product("c_proj", OpClass::ffn_down, rows_, h, m_.intermediate);
      views(1);
      add("residual", rows_ * h);
    }
    layer_norm();
    views(2);
    product("lm_head", OpClass::lm_head, batch_, m_.vocab, h);
  }

  /// x / rms(x) in fp32, times a weight: eight passes.
  void rms_norm() {
    const std::int64_t x = rows_ * m_.hidden;
    pass("to float", OpClass::residual, x, element_, 4, 0);
    pass("pow", OpClass::residual, x, 4, 4);
    pass("mean", OpClass::residual, x, 4, 0);
    pass("add eps", OpClass::residual, rows_, 4, 4);
    pass("rsqrt", OpClass::residual, rows_, 4, 4);
    pass("mul rms", OpClass::residual, x, 4, 4);
    pass("to half", OpClass::residual, x, 4, element_, 0);
    pass("mul weight", OpClass::residual, x, element_, element_);
  }

  /// x cos + rotate_half(x) sin: five passes.
  void rotate(std::int64_t elements) {
    pass("mul cos", OpClass::residual, elements, element_, element_);
    views(2);
    pass("neg", OpClass::residual, elements / 2, element_, element_);
    copy("cat", elements, true);
    pass("mul sin", OpClass::residual, elements, element_, element_);
    add("add", elements);
  }

  void write_llama() {
    const std::int64_t h = m_.hidden;
    const std::int64_t q = m_.heads * m_.head_dim;
    const std::int64_t kv = m_.kv_heads * m_.head_dim;
    embedding("embed words");
    product("angles", OpClass::rope, m_.head_dim / 2, tokens_, 1);
    for (const std::string_view name : {"cat angles", "cos", "scale cos", "sin", "scale sin", "to half", "to half"})
      pass(name, OpClass::residual, tokens_ * m_.head_dim, 4, 4);
    for (std::int64_t layer = 0; layer < m_.layers; ++layer) {
      rms_norm();
      product("q_proj", OpClass::qkv_proj, rows_, q, h);
      views(2);
      product("k_proj", OpClass::qkv_proj, rows_, kv, h);
      views(2);
      product("v_proj", OpClass::qkv_proj, rows_, kv, h);
      views(4);
      rotate(rows_ * q);
      rotate(rows_ * kv);
      if (m_.kv_heads != m_.heads)
        for (const std::string_view name : {"repeat k", "repeat v"}) {
          views(3);
          pass(name, OpClass::residual, rows_ * kv, element_, element_ * (m_.heads / m_.kv_heads), 0);
        }
      attention(true, true);
      product("o_proj", OpClass::out_proj, rows_, h, q);
      add("residual", rows_ * h);
      rms_norm();
      product("gate_proj", OpClass::ffn_up, rows_, m_.intermediate, h);
      pass("silu", OpClass::activation, rows_ * m_.intermediate, element_, element_, 5);
      product("up_proj", OpClass::ffn_up, rows_, m_.intermediate, h);
      add("gate", rows_ * m_.intermediate);
      product("down_proj", OpClass::ffn_down, rows_, h, m_.intermediate);
      add("residual", rows_ * h);
    }
    rms_norm();
    views(1);
    product("lm_head", OpClass::lm_head, batch_, m_.vocab, h);
  }

  const EagerModel& m_;
  bool sdpa_;
  hw::DType dtype_;
  std::int64_t element_, batch_, tokens_, rows_;
  std::int64_t views_ = 0;
  std::vector<hw::LaunchedKernel> kernels_;
};

}  // namespace

void EagerModel::check(const EagerModel& model, const sim::Node& fields, sim::Faults& faults) {
  if (model.heads % model.kv_heads != 0)
    faults.add(fields.origin_at("kv_heads"),
               fmt::format("expected a divisor of {} heads, got {}", model.heads, model.kv_heads));
}

std::vector<hw::LaunchedKernel> eager_kernels(const EagerModel& model, EagerAttention attention, hw::DType dtype,
                                              std::int64_t batch, std::int64_t tokens) {
  return Writer(model, attention, dtype, batch, tokens).write();
}

}  // namespace orrery::models
