// Denoising U-Net of a latent diffusion model (Rombach et al., 2022), as the diffusers library has it: residual blocks
// with group norms and the time's embedding, transformer blocks with self and cross attention and a gated GELU, steps
// down by strided convolutions and up by nearest neighbours. Defaults are Stable Diffusion 1.5: four levels, attention
// in all but the last. One call is one denoising step; guidance doubles the batch. Left out: the sampler's arithmetic.
#include <fmt/format.h>

#include "models/builders/images.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

struct UnetParams {
  std::int64_t latent = 64, latent_channels = 4, heads = 8, context_tokens = 77, context_width = 768, groups = 32;
  std::vector<std::int64_t> channels{320, 640, 1280, 1280};
  std::int64_t blocks = 2, attention_levels = 3;
  FloatType dtype = FloatType::fp16;
  AttentionForm attention = AttentionForm::sdpa;
  bool loss = false;

  static constexpr auto fields() {
    using U = UnetParams;
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 24);
    return sim::FieldTable{
        sim::field("latent", &U::latent, Unit::count, kSize, "Height and width of the latent image."),
        sim::field("latent_channels", &U::latent_channels, Unit::count, kSize,
                   "Number of channels of the latent image."),
        sim::field("channels", &U::channels, Unit::count, kSize, "Number of channels of each level."),
        sim::field("blocks", &U::blocks, Unit::count, kSize, "Number of residual blocks per level on the way down."),
        sim::field("attention_levels", &U::attention_levels, Unit::count, sim::between(0, 64),
                   "Number of levels, counted from the first, that have attention."),
        sim::field("heads", &U::heads, Unit::count, kSize, "Number of attention heads, a divisor of the channels."),
        sim::field("context_tokens", &U::context_tokens, Unit::tokens, kSize, "Number of tokens of the prompt."),
        sim::field("context_width", &U::context_width, Unit::count, kSize, "Width of a token of the prompt."),
        sim::field("groups", &U::groups, Unit::count, kSize,
                   "Number of groups of a group norm, a divisor of the channels."),
        sim::field("dtype", &U::dtype, "Type of weights and activations."),
        sim::field("attention", &U::attention,
                   "How attention runs: as one kernel (sdpa), or as separate products and passes (eager)."),
        sim::field("loss", &U::loss, "Whether the graph ends in the squared error of the predicted noise."),
    };
  }
};

class UnetWriter {
 public:
  explicit UnetWriter(const UnetParams& p) : p_(p), net_("unet", element_type(p.dtype)) {}

  OpGraph write() {
    OpGraph& graph = net_.graph();
    graph.facts.in_range(Symbol("batch"), {1, {}});
    TensorId x = graph.input("latent", {batch_, p_.latent_channels, p_.latent, p_.latent}, element_type(p_.dtype));
    context_ = graph.input("context", {batch_, p_.context_tokens, p_.context_width}, element_type(p_.dtype));
    embed_time();
    net_.scope("in");
    x = net_.conv(x, p_.channels.front(), {.kernel = 3, .pad = 1, .bias = true}, "conv");
    std::vector<TensorId> skips{x};
    x = down(x, skips);
    net_.scope("middle.0");
    x = residual(x, p_.channels.back());
    net_.scope("middle.1");
    x = transformer(x);
    net_.scope("middle.2");
    x = residual(x, p_.channels.back());
    x = up(x, skips);
    net_.scope("out");
    x = net_.activate(net_.group_norm(x, p_.groups, "norm"), OpKind::silu);
    x = net_.conv(x, p_.latent_channels, {.kernel = 3, .pad = 1, .bias = true}, "conv");
    if (!p_.loss) return net_.finish({x});
    return net_.finish({net_.squared_error(x, graph.input("noise", net_.shape(x), element_type(p_.dtype)))});
  }

 private:
  /// Sines and cosines of the time (an input) through two layers.
  void embed_time() {
    net_.scope("time");
    const std::int64_t width = p_.channels.front();
    const TensorId waves = net_.graph().input("time", {batch_, width}, element_type(p_.dtype));
    const TensorId wide = net_.linear(waves, 4 * width, true, OpClass::embedding, "linear1");
    time_ = net_.linear(net_.activate(wide, OpKind::silu), 4 * width, true, OpClass::embedding, "linear2");
  }

  TensorId residual(TensorId x, std::int64_t out) {
    const ConvSpec three{.kernel = 3, .pad = 1, .bias = true};
    TensorId y = net_.activate(net_.group_norm(x, p_.groups, "norm1"), OpKind::silu);
    y = net_.conv(y, out, three, "conv1");
    const TensorId shift = net_.linear(net_.activate(time_, OpKind::silu), out, true, OpClass::embedding, "time");
    y = net_.add(y, net_.reshape(shift, {batch_, out, 1, 1}));
    y = net_.activate(net_.group_norm(y, p_.groups, "norm2"), OpKind::silu);
    y = net_.conv(y, out, three, "conv2");
    if (net_.channels(x) != out) x = net_.conv(x, out, {.bias = true}, "shortcut");
    return net_.add(x, y);
  }

  TensorId attention(TensorId x, TensorId source, const std::string& name) {
    const std::int64_t width = *net_.size(x, -1).constant();
    const auto heads = [&](TensorId from, const char* part) {
      return net_.split_heads(net_.linear(from, width, false, OpClass::qkv_proj, name + part), p_.heads);
    };
    const TensorId q = heads(x, ".q"), k = heads(source, ".k"), v = heads(source, ".v");
    return net_.linear(attend(net_, q, k, v, {.form = p_.attention}), width, true, OpClass::out_proj, name + ".out");
  }

  /// Self attention, attention to the prompt, and a gated feed-forward, between two 1x1 convolutions.
  TensorId transformer(TensorId image) {
    const std::int64_t width = net_.channels(image);
    const Shape from = net_.shape(image);
    TensorId x = net_.conv(net_.group_norm(image, p_.groups, "norm"), width, {.bias = true}, "proj_in");
    // Channels last: a copy, since the norms want dense rows.
    x = net_.copy(net_.permute(net_.reshape(x, {batch_, width, from[2] * from[3]}), {0, 2, 1}));
    const TensorId own = net_.layer_norm(x, "norm1");
    x = net_.add(x, attention(own, own, "self"));
    x = net_.add(x, attention(net_.layer_norm(x, "norm2"), context_, "cross"));
    const TensorId both = net_.linear(net_.layer_norm(x, "norm3"), 8 * width, true, OpClass::ffn_up, "ff1");
    const TensorId gate = net_.activate(net_.slice(both, -1, 4 * width, 4 * width), OpKind::gelu);
    const TensorId gated = net_.mul(net_.slice(both, -1, 0, 4 * width), gate);
    x = net_.add(x, net_.linear(gated, width, true, OpClass::ffn_down, "ff2"));
    x = net_.reshape(net_.copy(net_.permute(x, {0, 2, 1})), from);
    return net_.add(image, net_.conv(x, width, {.bias = true}, "proj_out"));
  }

  bool attends(std::size_t level) const { return static_cast<std::int64_t>(level) < p_.attention_levels; }

  TensorId down(TensorId x, std::vector<TensorId>& skips) {
    for (std::size_t level = 0; level < p_.channels.size(); ++level) {
      for (std::int64_t block = 0; block < p_.blocks; ++block) {
        net_.scope(fmt::format("down.{}.block.{}", level, block));
        x = residual(x, p_.channels[level]);
        net_.scope(fmt::format("down.{}.attention.{}", level, block));
        if (attends(level)) x = transformer(x);
        skips.push_back(x);
      }
      if (level + 1 == p_.channels.size()) break;
      net_.scope(fmt::format("down.{}.step", level));
      x = net_.conv(x, p_.channels[level], {.kernel = 3, .stride = 2, .pad = 1, .bias = true}, "conv");
      skips.push_back(x);
    }
    return x;
  }

  TensorId up(TensorId x, std::vector<TensorId>& skips) {
    for (std::size_t level = p_.channels.size(); level-- > 0;) {
      for (std::int64_t block = 0; block <= p_.blocks; ++block) {
        net_.scope(fmt::format("up.{}.block.{}", level, block));
        x = net_.concat({x, skips.back()}, 1);
        skips.pop_back();
        x = residual(x, p_.channels[level]);
        net_.scope(fmt::format("up.{}.attention.{}", level, block));
        if (attends(level)) x = transformer(x);
      }
      if (level == 0) break;
      net_.scope(fmt::format("up.{}.step", level));
      const Shape small = net_.shape(x);
      x = net_.emit(OpKind::upsample, {x}, {small[0], small[1], small[2] * 2, small[3] * 2}, element_type(p_.dtype),
                    OpClass::copy, {{"factor", SymExpr(2)}});
      x = net_.conv(x, p_.channels[level], {.kernel = 3, .pad = 1, .bias = true}, "conv");
    }
    return x;
  }

  const UnetParams& p_;
  ImageNet net_;
  SymExpr batch_ = SymExpr::dim("batch");
  TensorId context_{}, time_{};
};

class Unet final : public GraphBuilder {
 public:
  explicit Unet(UnetParams params) : p_(std::move(params)) {}
  OpGraph build() const override {
    sim::Faults faults;
    if (p_.channels.empty()) faults.add(builder_origin("unet", "channels"), "expected at least one level");
    for (const std::int64_t channels : p_.channels) {
      if (channels % p_.groups != 0 || channels % p_.heads != 0)
        faults.add(
            builder_origin("unet", "channels"),
            fmt::format("expected channels that {} groups and {} heads divide, got {}", p_.groups, p_.heads, channels));
    }
    const std::int64_t steps = static_cast<std::int64_t>(p_.channels.size()) - 1;
    if (steps > 30 || (steps > 0 && p_.latent % (std::int64_t{1} << steps) != 0))
      faults.add(builder_origin("unet", "latent"),
                 fmt::format("expected a size that halves {} times, got {}", steps, p_.latent));
    faults.throw_if_any();
    return UnetWriter(p_).write();
  }

 private:
  UnetParams p_;
};

}  // namespace

void add_unet(BuilderRegistry& registry) {
  registry.add<UnetParams>("unet", "U-Net of a latent diffusion model, for one denoising step.",
                           [](const UnetParams& params) { return std::make_unique<Unet>(params); });
}

}  // namespace orrery::models
