#include "hw/fpga/fpga.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace orrery::hw {

void FpgaParams::check(const FpgaParams& fpga, const sim::Node& fields, sim::Faults& faults) {
  if (fpga.idle_w >= fpga.tdp_w)
    faults.add(fields.origin(), fmt::format("idle power {} W is not below the board's {} W", fpga.idle_w, fpga.tdp_w));
  const double on_chip = static_cast<double>(fpga.bram18) * kBram18Bytes + static_cast<double>(fpga.uram) * kUramBytes;
  if (static_cast<double>(fpga.memory_bytes) <= on_chip)
    faults.add(fields.origin(),
               fmt::format("memory of {} bytes is not larger than the {} bytes on chip: a unit is wrong",
                           fpga.memory_bytes, on_chip));
}

std::int64_t bytes_of(FpgaFormat format) {
  switch (format) {
    case FpgaFormat::int8:
      return 1;
    case FpgaFormat::int16:
    case FpgaFormat::fp16:
      return 2;
    case FpgaFormat::fp32:
      return 4;
  }
  return 0;
}

double macs_per_dsp(const FpgaParams& fpga, FpgaFormat format) {
  switch (format) {
    case FpgaFormat::int8:
      return fpga.macs_per_dsp.int8;
    case FpgaFormat::int16:
      return fpga.macs_per_dsp.int16;
    case FpgaFormat::fp16:
      return fpga.macs_per_dsp.fp16;
    case FpgaFormat::fp32:
      return fpga.macs_per_dsp.fp32;
  }
  return 1;
}

FpgaFormat fpga_format(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return FpgaFormat::int8;
    case DType::fp32:
      return FpgaFormat::fp32;
    case DType::fp16:
    case DType::bf16:
    case DType::fp8:
      break;
  }
  return FpgaFormat::fp16;
}

double macs_per_cycle(const FpgaParams& fpga, FpgaFormat format) {
  const double free = 1 - fpga.shell_share;
  const double by_dsp = free * static_cast<double>(fpga.dsp) * macs_per_dsp(fpga, format);
  return fpga.luts_per_mac > 0 ? std::min(by_dsp, free * static_cast<double>(fpga.lut) / fpga.luts_per_mac) : by_dsp;
}

FpgaTask dense_task(std::string name, std::int64_t inputs, std::int64_t outputs, FpgaFormat format) {
  return {std::move(name), inputs * outputs, inputs * outputs * bytes_of(format), outputs * bytes_of(format), false};
}

FpgaTask convolution_task(std::string name, std::int64_t channels_in, std::int64_t channels_out, std::int64_t kernel,
                          std::int64_t rows, std::int64_t columns, FpgaFormat format) {
  const std::int64_t weights = channels_in * channels_out * kernel * kernel, pixels = rows * columns;
  return {std::move(name), weights * pixels, weights * bytes_of(format), channels_out * pixels * bytes_of(format),
          true};
}

FpgaResources resources_of(const FpgaParams& fpga, const FpgaDesign& design, const std::vector<FpgaTask>& tasks,
                           FpgaMode mode) {
  const double macs = static_cast<double>(design.cores) * static_cast<double>(design.macs_per_core);
  FpgaResources used;
  used.dsp = macs / macs_per_dsp(fpga, design.format);
  used.lut = macs * fpga.luts_per_mac;
  double bytes = static_cast<double>(design.stage_buffer_bytes);
  if (mode == FpgaMode::dataflow) {  // every edge has a buffer for a whole output, of which windows need a part only
    bytes = 0;
    for (std::size_t i = 0; i + 1 < tasks.size(); ++i)
      if (!tasks[i + 1].windowed) bytes += static_cast<double>(tasks[i].output_bytes);
  }
  used.bram18 = bytes / kBram18Bytes;
  return used;
}

sim::FieldRows<MacsPerDsp> MacsPerDsp::fields() {
  using sim::Unit;
  constexpr sim::Range kRate = sim::between(0.01, 8);
  static const sim::FieldTable table{
      sim::field("int8", &MacsPerDsp::int8, Unit::none, kRate,
                 "Multiply-adds of 8-bit integers per DSP slice and cycle."),
      sim::field("int16", &MacsPerDsp::int16, Unit::none, kRate,
                 "Multiply-adds of 16-bit integers per DSP slice and cycle."),
      sim::field("fp16", &MacsPerDsp::fp16, Unit::none, kRate,
                 "Multiply-adds of 16-bit floating-point numbers per DSP slice and cycle."),
      sim::field("fp32", &MacsPerDsp::fp32, Unit::none, kRate,
                 "Multiply-adds of 32-bit floating-point numbers per DSP slice and cycle."),
  };
  return table;
}

sim::FieldRows<FpgaParams> FpgaParams::fields() {
  using sim::Unit;
  constexpr sim::Range kSome = sim::at_least(1);
  static const sim::FieldTable table{
      sim::required(sim::field("dsp", &FpgaParams::dsp, Unit::count, kSome, "Number of DSP slices.")),
      sim::required(sim::field("bram18", &FpgaParams::bram18, Unit::count, kSome, "Number of block RAMs of 18 Kbit.")),
      sim::field("uram", &FpgaParams::uram, Unit::count, sim::at_least(0), "Number of Ultra RAMs of 288 Kbit."),
      sim::required(sim::field("lut", &FpgaParams::lut, Unit::count, kSome, "Number of look-up tables (LUTs).")),
      sim::field("shell_share", &FpgaParams::shell_share, Unit::ratio, sim::between(0, 0.9),
                 "Share of all resources that the platform's shell occupies."),
      sim::required(sim::field("clock", &FpgaParams::clock_hz, Unit::hertz, sim::between(10e6, 2e9),
                               "Clock that designs reach.")),
      sim::required(sim::field("memory_bandwidth", &FpgaParams::memory_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Bandwidth of the HBM or DRAM.")),
      sim::required(sim::field("memory", &FpgaParams::memory_bytes, Unit::bytes, kSome, "Size of the HBM or DRAM.")),
      sim::field("memory_ports", &FpgaParams::memory_ports, Unit::count, kSome,
                 "Number of ports that share the memory bandwidth."),
      sim::field("macs_per_dsp", &FpgaParams::macs_per_dsp,
                 "Multiply-adds of a DSP slice per cycle, by number format."),
      sim::field("luts_per_mac", &FpgaParams::luts_per_mac, Unit::none, sim::at_least(0),
                 "LUTs for control and data movement, per multiply-add per cycle."),
      sim::required(sim::field("idle", &FpgaParams::idle_w, Unit::watts, sim::at_least(0), "Power while idle.")),
      sim::required(sim::field("tdp", &FpgaParams::tdp_w, Unit::watts, sim::positive(), "Highest power of the board.")),
  };
  return table;
}

}  // namespace orrery::hw
