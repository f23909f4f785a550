// A measured table: the stem of its file names a part and a measuring library ("h100_sxm" of
// "attention/h100_sxm.context.csv"); the catalog says which part stands for it (`tables` of an entry).
#pragma once

#include "sim/csv_table.hpp"

namespace orrery::experiments {

using MeasuredTable = sim::CsvTable;

}  // namespace orrery::experiments
