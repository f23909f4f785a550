// Tables of measurements and profiles.
#include <algorithm>
#include <array>
#include <string>

#include "experiments/systems/serving/pricing/op_profile.hpp"
#include "sim/csv_table.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace orrery::fuzz {

void fuzz_csv_table(std::string_view input) {
  const sim::CsvTable table = sim::CsvTable::parse(input, "input.csv", sim::Ragged::leave_out);
  for (const char* column : {"a", "time_us"}) {
    if (!table.has(column)) continue;
    for (std::size_t row = 0; row < table.rows(); ++row) (void)table.text(row, column);
    (void)table.numbers(column);
  }
}

/// Four tables one after the other, each behind a line "=".
void fuzz_profile(std::string_view input) {
  std::filesystem::path folder;
  for (const char* name : {"dense.csv", "per_sequence.csv", "attention.csv", "moe.csv"}) {
    const std::size_t end = std::min(input.find("=\n"), input.size());
    const std::filesystem::path file = as_file(input.substr(0, end), std::string("profile/") + name);
    folder = file.parent_path();
    if (end == 0) std::filesystem::remove(file);
    input.remove_prefix(std::min(end + 2, input.size()));
  }
  const auto profile = experiments::OpProfile::read(folder);
  for (const double tokens : {1.0, 17.0, 1e6}) {
    (void)profile.attention_us(tokens, tokens, tokens, tokens);
    if (profile.has_experts()) (void)profile.experts_us(tokens, 3);
    for (const auto& module : profile.layer()) (void)module.curve(tokens);
  }
}

}  // namespace orrery::fuzz
