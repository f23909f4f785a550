// Fourier neural operator on a square grid (Li et al., 2021), with the mixed-precision variants of Tu et al. (2024): as
// the neuraloperator library runs it (card 24). Defaults are its Navier-Stokes configuration.
//
// A block: y = irfft(W rfft(tanh(x))) + skip(x), GELU, then a channel MLP with a gated skip, GELU. The spectral
// convolution transforms, keeps `modes` x (modes / 2 + 1) frequencies, multiplies each by a complex matrix over
// channels and puts the result into an empty spectrum. `full`: all of that in complex of fp32. `half`: the input is
// cast to fp16 before the transform. `mixed`: the transform runs in fp32, then its result is cast to complex-half. In
// the last two the product runs on halves: operands are viewed as (re, im), one product makes the four real ones (8
// bytes an element of the result), which a difference, a sum and a join make complex-half again; the spectrum and the
// way back are complex-half. Weights stay complex of fp32 and are cast in every pass. With `rank` the weights are a CP
// factorisation, contracted a pair at a time. `amp`: convolutions outside the spectral one run in fp16, sums in the
// wider type. Products want dense operands, so operands are copied into the order of frequencies.
// Left out: domain padding, norms, incremental modes, more than two dimensions.
#include <fmt/format.h>

#include "models/builders/images.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

enum class Spectral : std::uint8_t { full, half, mixed };
constexpr auto enum_names(Spectral) {
  using enum Spectral;
  return sim::names<Spectral>({{"full", full}, {"half", half}, {"mixed", mixed}});
}

enum class Stabiliser : std::uint8_t { none, tanh };
constexpr auto enum_names(Stabiliser) {
  using enum Stabiliser;
  return sim::names<Stabiliser>({{"none", none}, {"tanh", tanh}});
}

struct FnoParams {
  std::int64_t resolution = 128, modes = 64, hidden = 64, layers = 4, in_channels = 1, out_channels = 1;
  std::int64_t lifting = 256, projection = 256, rank = 0;
  double expansion = 0.5;
  Spectral precision = Spectral::full;
  Stabiliser stabiliser = Stabiliser::none;
  bool amp = false, loss = false;

  static constexpr auto fields() {
    using F = FnoParams;
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 20);
    return sim::FieldTable{
        sim::field("resolution", &F::resolution, Unit::count, kSize, "Number of grid points along each axis."),
        sim::field("modes", &F::modes, Unit::count, kSize,
                   "Number of frequencies kept along each axis, of both signs."),
        sim::field("hidden", &F::hidden, Unit::count, kSize, "Number of channels of a block."),
        sim::field("layers", &F::layers, Unit::layers, kSize, "Number of blocks."),
        sim::field("in_channels", &F::in_channels, Unit::count, kSize,
                   "Number of channels of the data; two for the position are added."),
        sim::field("out_channels", &F::out_channels, Unit::count, kSize, "Number of channels of the result."),
        sim::field("lifting", &F::lifting, Unit::count, kSize, "Width of the layer between data and blocks."),
        sim::field("projection", &F::projection, Unit::count, kSize, "Width of the layer between blocks and result."),
        sim::field("rank", &F::rank, Unit::count, sim::between(0, 1 << 20),
                   "Rank of CP-factorised weights; 0: dense weights."),
        sim::field("expansion", &F::expansion, Unit::ratio, sim::between(0, 16),
                   "Width of the channel MLP as a multiple of the channels; 0: no such MLP."),
        sim::field("precision", &F::precision, "Precision of the spectral convolutions: full, half or mixed."),
        sim::field("stabiliser", &F::stabiliser, "Function that bounds the input of a spectral convolution."),
        sim::field("amp", &F::amp, "Whether the convolutions outside the spectral ones run in fp16."),
        sim::field("loss", &F::loss, "Whether the graph ends in the squared error to a target."),
    };
  }
};

class FnoWriter {
 public:
  explicit FnoWriter(const FnoParams& p) : p_(p), net_("fno", ElementType::fp32) {}

  OpGraph write() {
    OpGraph& graph = net_.graph();
    TensorId x = net_.images(p_.in_channels, p_.resolution);
    net_.scope("lifting");
    const TensorId grid = net_.constant("grid", {1, 2, p_.resolution, p_.resolution}, ElementType::fp32);
    x = net_.concat({x, net_.expand(grid, {batch_, 2, p_.resolution, p_.resolution})}, 1);
    x = mlp(x, p_.lifting, p_.hidden);
    for (std::int64_t layer = 0; layer < p_.layers; ++layer) x = block(x, layer);
    net_.scope("projection");
    x = mlp(x, p_.projection, p_.out_channels);
    if (!p_.loss) return net_.finish({x});
    const TensorId target = graph.input("target", net_.shape(x), ElementType::fp32);
    return net_.finish({net_.squared_error(net_.cast(x, ElementType::fp32), target)});
  }

 private:
  ElementType type_of(TensorId x) { return net_.graph().tensor(x).type; }

  /// A 1x1 convolution, in fp16 under AMP.
  TensorId conv(TensorId x, std::int64_t out, bool bias, const std::string& name) {
    const ElementType type = p_.amp ? ElementType::fp16 : ElementType::fp32;
    const TensorId weight = net_.parameter(name + ".weight", {out, net_.channels(x), 1, 1});
    std::vector<TensorId> inputs{net_.cast(x, type), net_.cast(weight, type)};
    if (bias) inputs.push_back(net_.cast(net_.parameter(name + ".bias", {out}), type));
    return net_.emit(OpKind::conv2d, std::move(inputs), OpClass::conv);
  }
  TensorId gelu(TensorId x) { return net_.emit(OpKind::gelu, {x}, OpClass::activation); }
  TensorId mlp(TensorId x, std::int64_t inner, std::int64_t out) {
    return conv(gelu(conv(x, inner, true, "1")), out, true, "2");
  }
  /// Elementwise, in the wider type of the two.
  TensorId join(OpKind kind, TensorId a, TensorId b) {
    if (type_of(a) == ElementType::fp16) std::swap(a, b);
    return net_.emit(kind, {a, b}, OpClass::residual);
  }

  TensorId block(TensorId x, std::int64_t layer) {
    net_.scope(fmt::format("block.{}.skip", layer));
    const TensorId skip = conv(x, p_.hidden, false, "fno");
    const auto inner = static_cast<std::int64_t>(p_.expansion * static_cast<double>(p_.hidden) + 0.5);
    const bool last = layer + 1 == p_.layers;
    TensorId gated = x;
    if (inner > 0) gated = join(OpKind::mul, net_.parameter("gate", {1, p_.hidden, 1, 1}), x);
    net_.scope(fmt::format("block.{}.spectral", layer));
    TensorId y = x;
    if (p_.stabiliser == Stabiliser::tanh) y = net_.emit(OpKind::tanh, {y}, OpClass::activation);
    y = join(OpKind::add, spectral(y), skip);
    net_.scope(fmt::format("block.{}.mlp", layer));
    if (inner > 0 || !last) y = gelu(y);
    if (inner == 0) return y;
    y = join(OpKind::add, mlp(y, inner, p_.hidden), gated);
    return last ? y : gelu(y);
  }

  // ---- the spectral convolution

  bool narrow() const { return p_.precision != Spectral::full; }
  SymExpr frequencies() const { return p_.resolution / 2 + 1; }

  TensorId transform(TensorId x, Shape to, ElementType type, const char* form) {
    return net_.emit(OpKind::fft, {x}, std::move(to), type, OpClass::fft,
                     {{"n0", SymExpr(p_.resolution)},
                      {"n1", SymExpr(p_.resolution)},
                      {"transforms", batch_ * p_.hidden},
                      {"form", std::string(form)}});
  }

  TensorId spectral(TensorId x) {
    const bool half = p_.precision == Spectral::half;
    const std::int64_t r = p_.resolution;
    x = net_.cast(x, half ? ElementType::fp16 : ElementType::fp32);
    TensorId z = transform(x, {batch_, p_.hidden, r, frequencies()},
                           half ? ElementType::complex32 : ElementType::complex64, "to_complex");
    if (narrow()) z = net_.cast(z, ElementType::complex32);
    z = net_.slice(net_.slice(z, 2, (r - p_.modes) / 2, p_.modes), 3, 0, kept());
    z = p_.rank > 0 ? factorised(z) : dense(z);
    const Shape whole{batch_, p_.hidden, r, frequencies()};
    const std::int64_t below = (r - p_.modes) / 2;
    z = net_.emit(OpKind::pad, {z}, whole, type_of(z), OpClass::copy,
                  {{"before", std::vector<SymExpr>{0, 0, below, 0}},
                   {"after", std::vector<SymExpr>{0, 0, r - p_.modes - below, frequencies() - kept()}}});
    const TensorId y =
        transform(z, {batch_, p_.hidden, r, r}, narrow() ? ElementType::fp16 : ElementType::fp32, "to_real");
    return join(OpKind::add, y, net_.parameter("bias", {p_.hidden, 1, 1}));
  }

  SymExpr kept() const { return p_.modes / 2 + 1; }

  /// Views of complex numbers as pairs of halves, and back.
  TensorId as_real(TensorId z) {
    Shape to = net_.shape(z);
    to.emplace_back(2);
    const ElementType part = type_of(z) == ElementType::complex32 ? ElementType::fp16 : ElementType::fp32;
    return net_.emit(OpKind::reshape, {z}, std::move(to), part, OpClass::copy);
  }
  TensorId as_complex(TensorId x) {
    Shape to = net_.shape(x);
    to.pop_back();
    return net_.emit(OpKind::reshape, {x}, std::move(to), ElementType::complex32, OpClass::copy);
  }
  /// Weights as halves.
  TensorId halves(TensorId weight) { return net_.cast(as_real(weight), ElementType::fp16); }

  /// (re, im) of results from the four products, [.., 2, out, 2] or [.., out, 2, 2] with the pairs at `a` and `b`.
  TensorId combine(TensorId products, int a, int b) {
    const auto part = [&](int i, int j) {
      Shape to;
      for (int axis = 0; axis < static_cast<int>(net_.shape(products).size()); ++axis)
        if (axis != a && axis != b) to.push_back(net_.size(products, axis));
      to.emplace_back(1);
      return net_.reshape(net_.slice(net_.slice(products, a, i, 1), b, j, 1), std::move(to));
    };
    const TensorId real = net_.emit(OpKind::sub, {part(0, 0), part(1, 1)}, OpClass::fft);
    const TensorId imaginary = net_.add(part(1, 0), part(0, 1), OpClass::fft);
    return as_complex(net_.concat({real, imaginary}, -1));
  }

  /// [rows.., in] of complex numbers, given as [.., in] in the order of `perm`, times [groups.., in, out].
  TensorId dense(TensorId z) {
    const SymExpr rows = p_.modes, columns = kept(), all = rows * columns;
    const std::int64_t c = p_.hidden;
    const TensorId weight = net_.parameter("weight", {c, c, rows, columns}, ElementType::complex64);
    if (!narrow()) {
      const TensorId a = net_.reshape(net_.copy(net_.permute(z, {2, 3, 0, 1})), {all, batch_, c});
      const TensorId w = net_.reshape(net_.copy(net_.permute(weight, {2, 3, 0, 1})), {all, c, c});
      const TensorId out = net_.emit(OpKind::matmul, {a, w}, OpClass::fft);
      return net_.permute(net_.reshape(out, {rows, columns, batch_, c}), {2, 3, 0, 1});
    }
    const TensorId a = net_.copy(net_.permute(as_real(z), {2, 3, 0, 4, 1}));
    const TensorId w = net_.copy(net_.permute(halves(weight), {2, 3, 0, 1, 4}));
    const TensorId out = net_.emit(
        OpKind::matmul, {net_.reshape(a, {all, batch_ * 2, c}), net_.reshape(w, {all, c, c * 2})}, OpClass::fft);
    const TensorId joined = combine(net_.reshape(out, {rows, columns, batch_, 2, c, 2}), 3, 5);
    return net_.permute(joined, {2, 3, 0, 1});
  }

  /// [.., in] times a factor [in, out].
  TensorId times_factor(TensorId z, TensorId factor) {
    const Shape from = net_.shape(z);
    if (!narrow()) return net_.emit(OpKind::matmul, {z, factor}, OpClass::fft);
    const SymExpr out = net_.size(factor, 1), in = net_.size(factor, 0);
    const TensorId a = net_.copy(net_.permute(as_real(z), {0, 1, 2, 4, 3}));  // [.., 2, in]
    const TensorId w = net_.reshape(halves(factor), {in, out * 2});
    const TensorId products = net_.emit(OpKind::matmul, {a, w}, OpClass::fft);
    return combine(net_.reshape(products, {from[0], from[1], from[2], 2, out, 2}), 3, 5);
  }

  /// Times a factor that broadcasts over it.
  TensorId scaled_by(TensorId z, TensorId factor) {
    if (!narrow()) return net_.mul(z, factor, OpClass::fft);
    Shape a = net_.shape(z), b = net_.shape(factor);
    a.insert(a.end(), {2, 1});
    b.insert(b.end(), {1, 2});
    const TensorId products = net_.mul(net_.reshape(as_real(z), a), net_.reshape(halves(factor), b), OpClass::fft);
    return combine(products, static_cast<int>(a.size()) - 2, static_cast<int>(a.size()) - 1);
  }

  TensorId factorised(TensorId z) {
    const auto factor = [&](const char* name, Shape shape) {
      return net_.parameter(std::string("cp.") + name, std::move(shape), ElementType::complex64);
    };
    const std::int64_t c = p_.hidden;
    z = net_.copy(net_.permute(z, {0, 2, 3, 1}));
    z = times_factor(z, factor("in", {c, p_.rank}));
    z = scaled_by(z, factor("rows", {p_.modes, 1, p_.rank}));
    z = scaled_by(z, factor("columns", {kept(), p_.rank}));
    z = times_factor(z, factor("out", {p_.rank, c}));
    return net_.permute(z, {0, 3, 1, 2});
  }

  const FnoParams& p_;
  ImageNet net_;
  SymExpr batch_ = SymExpr::dim("batch");
};

class Fno final : public GraphBuilder {
 public:
  explicit Fno(const FnoParams& params) : p_(params) {}
  OpGraph build() const override {
    sim::Faults faults;
    const std::int64_t r = p_.resolution;
    if (p_.modes > r)
      faults.add(builder_origin("fno", "modes"),
                 fmt::format("expected at most the resolution {}, got {}", r, p_.modes));
    if (p_.precision != Spectral::full && (r & (r - 1)) != 0)
      faults.add(builder_origin("fno", "resolution"),
                 fmt::format("expected a power of two (half-precision transforms have no others), got {}", r));
    faults.throw_if_any();
    return FnoWriter(p_).write();
  }

 private:
  FnoParams p_;
};

}  // namespace

void add_fno(BuilderRegistry& registry) {
  registry.add<FnoParams>("fno",
                          "Fourier neural operator in 2-D, with full, half or mixed precision and dense or CP weights.",
                          [](const FnoParams& params) { return std::make_unique<Fno>(params); });
}

}  // namespace orrery::models
