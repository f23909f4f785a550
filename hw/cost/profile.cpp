// `profile`: times as they were measured on this part, interpolated.
//
// Tables are CSV files with the columns that tools/profile_gpu.py writes: products `dtype,m,n,k,time_us`, prefill
// attention `batch,tokens,num_heads,num_kv_heads,head_dim,time_us`, decode attention `batch,num_heads,num_kv_heads,
// head_dim,context,time_us`, passes over memory `op,bytes,time_us` (`op` is a class of kernels: norm, activation …).
// Inside the measured points a time is interpolated (hw/cost/profile_table.hpp). What lies outside, or was not measured
// at all, is an error that names kernel and range, or, with `"outside": "scale"`, the nearest measured time times what
// the `tiled` model says of the ratio between the two (where a class has no table at all, the `tiled` time itself).
// Prefill over a cache or with a full mask, latents, and products in a batch lie outside. Measured times include the
// launch. FLOPs, traffic, dynamic energy and what bounds a kernel are those of `tiled`; the power of a busy device goes
// with the time.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "hw/base/real.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/cost/profile_table.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/csv_table.hpp"

namespace orrery::hw {
namespace {

enum class Outside : std::uint8_t { error, scale };
constexpr auto enum_names(Outside) {
  using enum Outside;
  return sim::names<Outside>({{"error", error}, {"scale", scale}});
}

struct ProfileParams {
  std::string gemm, attention_prefill, attention_decode, stream;
  Outside outside = Outside::error;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("gemm", &ProfileParams::gemm, Unit::path, sim::any_value(), "Table of matrix products."),
        sim::field("attention_prefill", &ProfileParams::attention_prefill, Unit::path, sim::any_value(),
                   "Table of prefill attention."),
        sim::field("attention_decode", &ProfileParams::attention_decode, Unit::path, sim::any_value(),
                   "Table of decode attention."),
        sim::field("stream", &ProfileParams::stream, Unit::path, sim::any_value(),
                   "Table of passes over memory, by kernel class and bytes."),
        sim::field("outside", &ProfileParams::outside,
                   "How kernels outside the tables are treated: an error, or the nearest measured time scaled by the "
                   "tiled model."),
    };
  }
};

/// Where a kernel lies in its table.
struct Place {
  const ProfileTable* table = nullptr;
  ProfileTable::Group group{};
  double x = 1, y = 1;
  const char* what = "";
};

double mean(std::int64_t tokens, std::int64_t sequences) {
  return d(tokens) / d(std::max<std::int64_t>(1, sequences));
}

class Profile final : public CostModel {
 public:
  Profile(const ProfileParams& params, const GpuParams& gpu)
      : outside_(params.outside), active_w_(gpu.power.active_w), tiled_(make_tiled(gpu)) {
    load(params.gemm, gemm_, [](const sim::CsvTable& t, std::size_t row) {
      const auto dtype = sim::value_named<DType>(t.text(row, "dtype"));
      const std::int64_t bytes = dtype ? bytes_of(*dtype) : 0;
      return ProfileTable::Point{{t.integer(row, "n"), t.integer(row, "k"), bytes}, 1, t.number(row, "m")};
    });
    load(params.attention_prefill, prefill_, [](const sim::CsvTable& t, std::size_t row) {
      return ProfileTable::Point{heads(t, row), t.number(row, "batch"), t.number(row, "tokens")};
    });
    load(params.attention_decode, decode_, [](const sim::CsvTable& t, std::size_t row) {
      return ProfileTable::Point{heads(t, row), t.number(row, "batch"), t.number(row, "context")};
    });
    load(params.stream, stream_, [](const sim::CsvTable& t, std::size_t row) {
      return ProfileTable::Point{{op_of(t, row), 0, 0}, 1, t.number(row, "bytes")};
    });
  }

  Cost cost(const Kernel& kernel) const override {
    Cost cost = tiled_->cost(kernel);
    if (cost.time_s == 0) return cost;
    const double tiled_s = cost.time_s;
    set_time(kernel, cost);
    cost.compute_energy_j += active_w_ * (cost.time_s - tiled_s);
    return cost;
  }

 private:
  /// Puts the measured time in the place of the one that `cost` comes with, which is the tiled model's.
  void set_time(const Kernel& kernel, Cost& cost) const {
    const Place place = place_of(kernel);
    if (place.table == nullptr || place.table->empty()) {
      if (outside_ == Outside::error) refuse(place, "no table was given for it");
      return;
    }
    if (const auto time = place.table->at(place.group, place.x, place.y)) {
      cost.time_s = *time;
      return;
    }
    if (outside_ == Outside::error) refuse(place, "it lies outside the measured points");
    const auto near = place.table->nearest(place.group, place.x, place.y);
    if (!near) return;
    const double near_tiled_s = tiled_->cost(moved(kernel, *near)).time_s;
    if (near_tiled_s > 0) cost.time_s *= near->time_s / near_tiled_s;
  }

  template <class Read>
  static void load(const std::string& path, ProfileTable& table, Read read) {
    if (path.empty()) return;
    const std::filesystem::path file(path);
    const sim::CsvTable csv = sim::CsvTable::read(file.parent_path(), file.filename().string());
    sim::Faults faults;
    for (std::size_t row = 0; row < csv.rows(); ++row) {
      ProfileTable::Point point = read(csv, row);
      point.time_s = csv.number(row, "time_us") * 1e-6;
      if (point.x > 0 && point.y > 0 && point.time_s > 0) {
        table.add(point);
      } else {
        faults.add({path, ""}, fmt::format("row {}: expected sizes and a time above 0", row + 1));
      }
    }
    faults.throw_if_any();
  }

  static ProfileTable::Group heads(const sim::CsvTable& t, std::size_t row) {
    return {t.integer(row, "num_heads"), t.integer(row, "num_kv_heads"), t.integer(row, "head_dim")};
  }

  static std::int64_t op_of(const sim::CsvTable& t, std::size_t row) {
    std::vector<std::string> known;
    for (int op = 0; op < kOpClasses; ++op) {
      known.emplace_back(to_string(static_cast<OpClass>(op)));
      if (known.back() == t.text(row, "op")) return op;
    }
    sim::throw_fault({t.name(), ""}, fmt::format("row {}: unknown class of kernels '{}'", row + 1, t.text(row, "op")),
                     sim::name_hint(t.text(row, "op"), std::move(known)));
  }

  Place place_of(const Kernel& kernel) const {
    if (const auto* g = std::get_if<Gemm>(&kernel.shape))
      return {&gemm_, {g->n, g->k, bytes_of(kernel.dtype)}, d(g->batch), d(g->m), "a matrix product"};
    if (const auto* p = std::get_if<AttentionPrefill>(&kernel.shape)) {
      const bool measured = p->kv_tokens == p->q_tokens && p->causal && !p->backward && p->values() == p->head_dim;
      return {
          measured ? &prefill_ : nullptr,
          {p->heads, p->kv_heads, p->head_dim},
          d(p->sequences),
          mean(p->q_tokens, p->sequences),
          measured ? "prefill attention" : "prefill attention with a cache, a full mask or values of their own size"};
    }
    if (const auto* a = std::get_if<AttentionDecode>(&kernel.shape)) {
      const bool measured = !a->latent && a->values() == a->head_dim;
      return {measured ? &decode_ : nullptr,
              {a->heads, a->kv_heads, a->head_dim},
              d(a->sequences),
              mean(a->context_tokens, a->sequences),
              measured ? "decode attention" : "decode attention over latents or with values of their own size"};
    }
    if (const auto* s = std::get_if<Streaming>(&kernel.shape))
      return {&stream_,
              {static_cast<std::int64_t>(kernel.op), 0, 0},
              1,
              d(s->read_bytes) + d(s->write_bytes),
              "a pass over memory"};
    return {nullptr, {}, 1, 1, "a kernel of this shape"};
  }

  /// The kernel at a measured point's coordinates.
  static Kernel moved(Kernel kernel, const ProfileTable::Point& to) {
    const auto x = static_cast<std::int64_t>(to.x + 0.5), y = static_cast<std::int64_t>(to.y + 0.5);
    if (auto* g = std::get_if<Gemm>(&kernel.shape)) {
      *g = {.m = y, .n = to.group[0], .k = to.group[1], .batch = x};
    } else if (auto* p = std::get_if<AttentionPrefill>(&kernel.shape)) {
      p->heads = to.group[0], p->kv_heads = to.group[1], p->head_dim = to.group[2];
      p->sequences = x, p->q_tokens = p->kv_tokens = x * y;
      p->pairs = x * y * (y + 1) / 2, p->q_tiles = x * ((y + 127) / 128);
    } else if (auto* a = std::get_if<AttentionDecode>(&kernel.shape)) {
      a->heads = to.group[0], a->kv_heads = to.group[1], a->head_dim = to.group[2];
      a->sequences = x, a->context_tokens = x * y, a->longest = 0;
    } else if (auto* s = std::get_if<Streaming>(&kernel.shape)) {
      const double ratio = to.y / (d(s->read_bytes) + d(s->write_bytes));
      for (std::int64_t* part : {&s->read_bytes, &s->write_bytes, &s->flops, &s->rows}) {
        const bool some = *part > 0;
        *part = static_cast<std::int64_t>(d(*part) * ratio + 0.5);
        if (some) *part = std::max<std::int64_t>(1, *part);  // a kernel of rows stays one
      }
    }
    return kernel;
  }

  [[noreturn]] static void refuse(const Place& place, const char* why) {
    sim::throw_fault({"profile", ""},
                     fmt::format("{} ({}, {}, {}) at {:.6g} x {:.6g}: {}", place.what, place.group[0], place.group[1],
                                 place.group[2], place.x, place.y, why),
                     "measure it, or set \"outside\": \"scale\"");
  }

  Outside outside_;
  double active_w_;
  std::unique_ptr<CostModel> tiled_;
  ProfileTable gemm_, prefill_, decode_, stream_;
};

}  // namespace

void register_profile(CostModelRegistry& registry) {
  registry.add<ProfileParams>("profile", "Interpolates measured tables of this GPU; outside them, it fails or scales.",
                              [](const ProfileParams& params, const Device& device) -> std::unique_ptr<CostModel> {
                                const auto* gpu = device.as<GpuParams>();
                                return gpu != nullptr ? std::make_unique<Profile>(params, *gpu) : nullptr;
                              });
}

}  // namespace orrery::hw
