// Buffers to be planned, as tables: a line a buffer with the columns of MiniMalloc's benchmarks (Moffitt, ASPLOS 2023).
//
//   id,lower,upper,size        lower, upper: the buffer is live during the steps [lower, upper); size in bytes
//   id,lower,upper,size,offset what a plan writes; on reading, offsets are ignored
// An optional column `alignment` (bytes, default 1) is read too. The order of columns is free.
#pragma once

#include <string>
#include <vector>

#include "policies/memory/planner.hpp"

namespace orrery::experiments {

struct BufferTable {
  std::vector<std::string> ids;
  std::vector<policies::Buffer> buffers;
};

/// Reads a table, gzip and zstd too. Throws sim::ConfigError with every faulty line (the first 20 of many).
BufferTable read_buffers(const std::string& path);

/// The table with the offsets of a plan, in the order of the lines read.
std::string plan_csv(const BufferTable& table, const policies::Plan& plan);

}  // namespace orrery::experiments
