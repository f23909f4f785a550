// Command streams of bank-level units; what they are is told in hw/pim/bank_pim.hpp.
#include "tests/hw/bank_pim_stream.hpp"

#include <algorithm>
#include <bit>

#include "hw/base/arithmetic.hpp"

namespace orrery::hw {
namespace {

class Program {
 public:
  explicit Program(const BankPimParams& pim) : pim_(pim), even_(pim_banks(pim, false)), odd_(pim_banks(pim, true)) {}

  std::vector<PimStep> take() { return std::move(steps_); }

  void step(PimStepKind kind, BankSet banks, std::int64_t row, std::int64_t count) {
    if (count > 0) steps_.push_back({kind, banks, row, count});
  }
  void fence() { steps_.push_back({PimStepKind::fence, 0, 0, 0}); }
  void registers(std::int64_t count) { step(PimStepKind::write_registers, odd_, kRegisterRow, count); }

  /// To all-bank mode, with the program; and back.
  void enter() {
    registers(pim_.mode_commands);
    registers(ceil_div(pim_.program_entries * 4, pim_.dram.access_bytes()));
    fence();
  }
  void leave() { registers(ceil_div(pim_.mode_commands, 2)); }

  // Reads of one side in `chunks` of `registers` commands each; `done` counts the side's commands so far.
  void macs(BankSet banks, std::int64_t& done, std::int64_t chunks) {
    const std::int64_t per_row = pim_.dram.accesses_per_row();
    for (std::int64_t i = 0; i < chunks; ++i) {
      for (std::int64_t left = pim_.registers; left > 0;) {
        const std::int64_t count = std::min(left, per_row - done % per_row);
        step(PimStepKind::read_rows, banks, done / per_row, count);
        done += count;
        left -= count;
      }
      fence();
    }
  }

  void gemv(const PimKernel& k) {
    const std::int64_t r = pim_.registers;
    const auto units = static_cast<std::int64_t>(pim_.units());
    const std::int64_t output_tiles = ceil_div(k.outputs, units * r), input_tiles = ceil_div(k.inputs, pim_.lanes * r);
    const std::int64_t sides = pim_.banks_per_unit;
    enter();
    for (std::int64_t o = 0; o < output_tiles; ++o) {
      for (std::int64_t b = 0; b < k.batch; ++b) {
        registers(1);  // starts the program
        for (std::int64_t side = 0; side < sides; ++side) {
          std::int64_t done = o * ceil_div(input_tiles - side, sides) * r * r;
          for (std::int64_t i = side; i < input_tiles; i += sides) {
            registers(r);
            fence();
            macs(side == 0 ? even_ : odd_, done, r);
          }
        }
        step(PimStepKind::write_rows, odd_, pim_.dram.organisation.rows - 1, r);
        fence();
        registers(1);
      }
    }
    leave();
  }

  void element_wise(const PimKernel& k) {
    const std::int64_t r = pim_.registers, sides = pim_.banks_per_unit;
    const auto units = static_cast<std::int64_t>(pim_.units());
    const std::int64_t chunks = ceil_div(k.elements, units * r * pim_.lanes * sides);
    const std::int64_t per_row = pim_.dram.accesses_per_row(), third = pim_.dram.organisation.rows / 3;
    const bool two = k.op == PimOp::add || k.op == PimOp::mul;
    enter();
    registers(k.op == PimOp::bn ? 2 : 1);
    for (std::int64_t c = 0; c < chunks; ++c) {
      const std::int64_t row = c * r / per_row;
      for (std::int64_t side = 0; side < sides; ++side) {
        const BankSet banks = side == 0 ? even_ : odd_;
        step(PimStepKind::read_rows, banks, row, r);
        fence();
        if (two || k.op == PimOp::bn) {
          step(PimStepKind::read_rows, banks, two ? row + third : row, r);
          fence();
        }
        step(PimStepKind::write_rows, banks, row + 2 * third, r);
        fence();
      }
    }
    registers(1);
    leave();
  }

  void aim_gemv(const PimKernel& k) {
    const std::int64_t access = pim_.dram.access_bytes();
    const std::int64_t slice = std::min(pim_.buffer_bytes, pim_.dram.page_bytes()) / access;  // accesses
    const std::int64_t total = ceil_div(k.inputs, pim_.lanes);
    const auto units = static_cast<std::int64_t>(pim_.units());
    const std::int64_t groups = ceil_div(k.outputs, units);
    const std::int64_t results = ceil_div(pim_.banks_per_command() * 2, access);
    for (std::int64_t b = 0; b < k.batch; ++b) {
      for (std::int64_t at = 0, s = 0; at < total; at += slice, ++s) {
        const std::int64_t n = std::min(slice, total - at);
        step(PimStepKind::write_registers, 0, 0, n);
        fence();
        for (std::int64_t g = 0; g < groups; ++g) {
          step(PimStepKind::read_rows, even_, (s * groups + g) % pim_.dram.organisation.rows, n);
          step(PimStepKind::read_results, 0, 0, results);
          fence();
        }
      }
    }
  }

 private:
  const BankPimParams& pim_;
  BankSet even_, odd_;
  std::vector<PimStep> steps_;
};

/// The memory with the column distance of all-bank commands.
DramParams paced(const BankPimParams& pim) {
  DramParams dram = pim.dram;
  dram.timing.ccd_l = pim.interval();
  dram.timing.ccd_s = std::min(dram.timing.ccd_s, pim.interval());
  return dram;
}

class Player {
 public:
  Player(const BankPimParams& pim, bool refresh)
      : pim_(pim),
        dram_(paced(pim)),
        timer_(dram_, pim.stagger(pim.banks_per_command())),
        refresh_(refresh),
        due_(dram_.timing.refi) {
    counts_.set_banks = pim.banks_per_command();
  }

  PimCounts play(const std::vector<PimStep>& steps) {
    for (const PimStep& step : steps) {
      if (step.kind == PimStepKind::fence) {
        now_ += pim_.fence;
        continue;
      }
      for (std::int64_t i = 0; i < step.count; ++i) column(step);
    }
    counts_.clocks = end_;
    return counts_;
  }

 private:
  void go(DramOp op, BankSet banks, std::int64_t row) {
    now_ = std::max(now_, timer_.earliest_set(op, banks));
    timer_.issue_set(op, banks, now_, row);
  }

  void open(BankSet banks, std::int64_t row) {
    bool right = true, any_open = false;
    for (BankSet rest = banks; rest != 0; rest &= rest - 1) {
      const std::int64_t bank = std::countr_zero(rest);
      right = right && timer_.open_row(bank) == row;
      any_open = any_open || timer_.is_open(bank);
    }
    if (right) return;
    if (any_open) go(DramOp::precharge, banks, 0);
    go(DramOp::activate, banks, row);
    ++counts_.activations;
  }

  void refresh_if_due() {
    if (!refresh_ || now_ < due_) return;
    go(DramOp::precharge, timer_.all_banks(), 0);
    go(DramOp::refresh, timer_.all_banks(), 0);
    due_ += dram_.timing.refi;
  }

  void column(const PimStep& step) {
    refresh_if_due();
    const bool write = step.kind == PimStepKind::write_rows || step.kind == PimStepKind::write_registers;
    if (step.banks == 0) {
      now_ = std::max(now_, timer_.earliest_bankless(write, 0));
      timer_.issue_bankless(write, 0, now_);
    } else {
      open(step.banks, step.row);
      go(write ? DramOp::write : DramOp::read, step.banks, 0);
    }
    end_ = std::max(end_, now_ + (write ? dram_.timing.wl : dram_.timing.rl) + dram_.burst_clocks());
    switch (step.kind) {
      case PimStepKind::read_rows:
        ++counts_.unit_reads;
        break;
      case PimStepKind::write_rows:
        ++counts_.unit_writes;
        break;
      case PimStepKind::write_registers:
        ++counts_.register_writes;
        break;
      default:
        ++counts_.result_reads;
    }
  }

  const BankPimParams& pim_;
  DramParams dram_;
  DramTimer timer_;
  bool refresh_;
  std::int64_t due_, now_ = 0, end_ = 0;
  PimCounts counts_;
};

}  // namespace

BankSet pim_banks(const BankPimParams& pim, bool odd) {
  const std::int64_t banks = pim.dram.banks_per_lane();
  BankSet set = 0;
  for (std::int64_t bank = 0; bank < banks; ++bank)
    if (pim.banks_per_unit == 1 || (bank % 2 == 1) == odd) set |= BankSet{1} << bank;
  return set;
}

std::vector<PimStep> pim_steps(const BankPimParams& pim, const PimKernel& kernel) {
  Program program(pim);
  if (kernel.op == PimOp::gemv) {
    if (kernel.outputs <= 0 || kernel.inputs <= 0 || kernel.batch <= 0) return {};
    pim.style == PimStyle::aim ? program.aim_gemv(kernel) : program.gemv(kernel);
  } else if (kernel.elements > 0 && pim.style == PimStyle::hbm_pim) {
    program.element_wise(kernel);
  }
  return program.take();
}

PimCounts play_steps(const BankPimParams& pim, const std::vector<PimStep>& steps, bool refresh) {
  return Player(pim, refresh).play(steps);
}

}  // namespace orrery::hw
