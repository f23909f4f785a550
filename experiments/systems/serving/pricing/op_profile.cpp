#include "experiments/systems/serving/pricing/op_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/fault.hpp"
#include "sim/csv_table.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;
using hw::OpClass;

/// Where a value stands among growing knots: a share of the upper and the rest of the lower of two.
struct KnotPlace {
  std::size_t low = 0, high = 0;
  double share = 0;  // of the upper; above 1 past the last knot
};

KnotPlace knot_place(const std::vector<std::int64_t>& at, double value) {
  if (at.size() == 1 || value <= static_cast<double>(at.front())) return {};
  std::size_t high = 1;
  {
    std::size_t low = 0;
    std::size_t last = at.size() - 1;  // the least knot not below the value, or the last
    while (low < last) {
      const std::size_t middle = (low + last) / 2;
      if (static_cast<double>(at[middle]) < value) {
        low = middle + 1;
      } else {
        last = middle;
      }
    }
    high = std::max<std::size_t>(1, low);
  }
  const auto a = static_cast<double>(at[high - 1]), b = static_cast<double>(at[high]);
  return {high - 1, high, (value - a) / (b - a)};
}

template <class Value>
double between(const KnotPlace& place, Value value) {
  if (place.share == 0) return value(place.low);
  const double low = value(place.low), high = value(place.high);
  return std::max(0.0, low + (high - low) * place.share);
}

struct Known {
  const char* name;
  OpClass op;
  double times;
};
constexpr std::array kLayer{Known{"layernorm", OpClass::norm, 2},    Known{"qkv_proj", OpClass::qkv_proj, 1},
                            Known{"qk_norm", OpClass::norm, 2},      Known{"rotary_emb", OpClass::rope, 1},
                            Known{"o_proj", OpClass::out_proj, 1},   Known{"gate_up_proj", OpClass::ffn_up, 1},
                            Known{"act_fn", OpClass::activation, 1}, Known{"down_proj", OpClass::ffn_down, 1}};
constexpr std::array kOnce{Known{"embedding", OpClass::embedding, 1}, Known{"final_layernorm", OpClass::norm, 1}};
constexpr std::array kHead{Known{"lm_head", OpClass::lm_head, 1}, Known{"sampler", OpClass::sampling, 1}};

using Curves = std::map<std::string, std::map<std::int64_t, double>>;

Curves read_curves(const fs::path& folder, const char* file, const char* size) {
  const sim::CsvTable table = sim::CsvTable::read(folder, file);
  Curves curves;
  for (std::size_t row = 0; row < table.rows(); ++row)
    curves[table.text(row, "layer")][table.count(row, size)] = table.number(row, "time_us");
  return curves;
}

template <std::size_t N>
std::vector<OpProfile::Module> modules_of(const std::array<Known, N>& known, Curves& curves) {
  std::vector<OpProfile::Module> modules;
  for (const Known& one : known) {
    const auto found = curves.find(one.name);
    if (found == curves.end()) continue;
    OpProfile::Module module{one.name, one.op, one.times, {}};
    for (const auto& [at, us] : found->second) {
      module.curve.at.push_back(at);
      module.curve.us.push_back(us);
    }
    modules.push_back(std::move(module));
    curves.erase(found);
  }
  return modules;
}

void require(const std::vector<OpProfile::Module>& modules, std::initializer_list<const char*> names,
             const fs::path& file) {
  for (const char* name : names) {
    const bool there =
        std::any_of(modules.begin(), modules.end(), [&](const OpProfile::Module& m) { return m.name == name; });
    if (!there) sim::throw_fault({file.string(), ""}, fmt::format("expected rows of '{}', found none", name));
  }
}

/// What is left in a table after the known modules is somebody's new module: its time must not be lost unseen.
void refuse_rest(const Curves& curves, const fs::path& file) {
  if (!curves.empty())
    sim::throw_fault({file.string(), ""}, fmt::format("module '{}' is not known", curves.begin()->first));
}

}  // namespace

double OpProfile::Curve::operator()(double size) const {
  return between(knot_place(at, size), [&](std::size_t i) { return us[i]; });
}

OpProfile OpProfile::read(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    sim::throw_fault({folder.string(), ""}, "expected a folder with dense.csv, per_sequence.csv and attention.csv");
  OpProfile profile;
  profile.read_experts(folder);
  profile.read_modules(folder);
  profile.read_attention(folder);
  return profile;
}

void OpProfile::read_modules(const fs::path& folder) {
  Curves dense = read_curves(folder, "dense.csv", "tokens");
  layer_ = modules_of(kLayer, dense);
  once_ = modules_of(kOnce, dense);
  refuse_rest(dense, folder / "dense.csv");
  require(layer_, {"layernorm", "qkv_proj", "rotary_emb", "o_proj"}, folder / "dense.csv");
  if (!has_experts()) require(layer_, {"gate_up_proj", "act_fn", "down_proj"}, folder / "dense.csv");
  Curves rows = read_curves(folder, "per_sequence.csv", "sequences");
  head_ = modules_of(kHead, rows);
  refuse_rest(rows, folder / "per_sequence.csv");
  require(head_, {"lm_head"}, folder / "per_sequence.csv");
}

void OpProfile::read_attention(const fs::path& folder) {
  const sim::CsvTable table = sim::CsvTable::read(folder, "attention.csv");
  std::map<std::int64_t, std::map<std::int64_t, std::map<std::int64_t, std::map<std::int64_t, double>>>> sorted;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto size = [&](const char* column) { return table.count(row, column, 0); };
    sorted[size("prefill_chunk")][size("kv_prefill")][size("n_decode")][size("kv_decode")] =
        table.number(row, "time_us");
  }
  for (auto& [chunk, pasts] : sorted) {
    Pasts by_past;
    for (auto& [past, decodes] : pasts) {
      Decodes by_decodes;
      for (auto& [n, contexts] : decodes) {
        Contexts by_context;
        for (const auto& [context, us] : contexts) {
          by_context.at.push_back(context);
          by_context.next.push_back(us);
        }
        by_decodes.at.push_back(n);
        by_decodes.next.push_back(std::move(by_context));
      }
      by_past.at.push_back(past);
      by_past.next.push_back(std::move(by_decodes));
    }
    if (chunk == 0) {
      decodes_alone_ = std::move(by_past.next.front());
    } else {
      chunks_.at.push_back(chunk);
      chunks_.next.push_back(std::move(by_past));
    }
  }
  if (chunks_.at.empty() || decodes_alone_.at.empty())
    sim::throw_fault({(folder / "attention.csv").string(), ""},
                     "expected rows without a prompt chunk (prefill_chunk 0) and rows with one");
}

void OpProfile::read_experts(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(folder / "moe.csv", error)) return;
  const sim::CsvTable table = sim::CsvTable::read(folder, "moe.csv");
  std::map<std::int64_t, std::map<std::int64_t, double>> sorted;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::int64_t activated = table.count(row, "activated_experts");
    experts_per_token_ = row == 0 ? activated : std::min(experts_per_token_, activated);
    experts_ = std::max(experts_, activated);
    sorted[table.count(row, "tokens")][activated] = table.number(row, "time_us");
  }
  for (const auto& [tokens, activated] : sorted) {
    Curve curve;
    for (const auto& [experts, us] : activated) {
      curve.at.push_back(experts);
      curve.us.push_back(us);
    }
    experts_by_tokens_.at.push_back(tokens);
    experts_by_tokens_.next.push_back(std::move(curve));
  }
}

double OpProfile::experts_us(double tokens, double activated) const {
  return between(knot_place(experts_by_tokens_.at, tokens),
                 [&](std::size_t i) { return experts_by_tokens_.next[i](activated); });
}

double OpProfile::over_decodes(const Decodes& table, double decodes, double context) const {
  // What a launch without decodes takes is also what it takes with decodes of no context.
  const bool with_none = table.at.front() == 0;
  const double none = with_none ? table.next.front().next.front() : 0;
  return between(knot_place(table.at, decodes), [&](std::size_t i) {
    if (table.at[i] == 0) return none;
    const Contexts& row = table.next[i];
    const auto first = static_cast<double>(row.at.front());
    if (with_none && context < first) return none + (row.next.front() - none) * (context / first);
    return between(knot_place(row.at, context), [&](std::size_t j) { return row.next[j]; });
  });
}

double OpProfile::over_pasts(const Pasts& table, double past, double decodes, double context) const {
  return between(knot_place(table.at, past),
                 [&](std::size_t i) { return over_decodes(table.next[i], decodes, context); });
}

double OpProfile::attention_us(double chunk, double past, double decodes, double context) const {
  if (chunk <= 0) return over_decodes(decodes_alone_, decodes, context);
  return between(knot_place(chunks_.at, chunk),
                 [&](std::size_t i) { return over_pasts(chunks_.next[i], past, decodes, context); });
}

double OpProfile::attention_us(const models::PrefillSums& prefill, std::int64_t decodes, double context) const {
  const auto n = static_cast<double>(decodes);
  if (prefill.q_tokens == 0) return decodes > 0 ? attention_us(0, 0, n, context) : 0;
  const auto chunk = static_cast<double>(prefill.q_tokens), pairs = static_cast<double>(prefill.pairs);
  const double own = chunk * (chunk + 1) / 2;
  if (pairs >= own) return attention_us(chunk, (pairs - own) / chunk, n, context);
  const double least = attention_us(1, 0, 0, 0);
  const double above = std::max(0.0, attention_us(chunk, 0, 0, 0) - least);
  return attention_us(chunk, 0, n, context) - above * (1 - pairs / own);
}

}  // namespace orrery::experiments
