// Tables as others hand them in: rows at fault, links, devices and models that the open tables do not have.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/fidelity.hpp"
#include "hw/npu/npu.hpp"
#include "hw/pim/upmem.hpp"

namespace test_fidelity_rows {

using namespace orrery;
using namespace orrery::experiments;

namespace {

namespace fs = std::filesystem;

const PartShelf& shelf() {
  static const PartShelf parts(home_folder() / "hw/catalog");
  return parts;
}

struct Folder {
  fs::path path = fs::temp_directory_path() / "orrery_test_fidelity_rows";
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

const TableKind& kind_of(const std::string& name) {
  static const std::vector<std::unique_ptr<TableKind>> kinds = table_kinds();
  for (const auto& kind : kinds)
    if (kind->reads(name)) return *kind;
  throw std::logic_error("no kind reads " + name);
}

Predictions::Column first_column(const std::string& name, const std::string& text) {
  Predictions out;
  kind_of(name).predict(MeasuredTable::parse(text, name), shelf(), out);
  REQUIRE_FALSE(out.columns().empty());
  return out.columns()[0];
}

std::string joined(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += cell + ',';
  line.back() = '\n';
  return line;
}

struct Sample {
  std::string name;
  std::vector<std::string> columns, row;
};

/// A row of each kind that the catalog covers.
std::vector<Sample> samples() {
  return {
      {"gemm/b200_sxm.csv", {"dtype", "m", "n", "k", "time_us"}, {"bf16", "16", "4096", "4096", "9"}},
      {"edge/cutlass_thor.csv", {"M", "N", "K", "precision", "min_runtime"}, {"64", "512", "512", "fp8", "0.1"}},
      {"attention/b200_sxm.context.csv",
       {"batch", "tokens", "num_heads", "num_kv_heads", "head_dim", "time_us"},
       {"2", "100", "24", "3", "96", "20"}},
      {"attention/gb200.generation.csv",
       {"batch", "num_heads", "num_kv_heads", "head_dim", "context", "time_us"},
       {"3", "7", "7", "80", "999", "20"}},
      {"edge/flashattn_thor.csv",
       {"seq_len_q", "seq_len_kv", "num_heads_q", "num_heads_kv", "head_dim", "num_splits", "is_causal", "pack_gqa",
        "precision", "min_runtime"},
       {"512", "512", "16", "8", "128", "1", "True", "False", "fp16", "0.06"}},
      {"edge/layernorm_thor.csv", {"M", "N", "min_runtime"}, {"128", "2048", "0.02"}},
      {"elementwise/a40.csv",
       {"model", "op", "tokens", "hidden", "ffn", "tp", "time_us"},
       {"Llama-2-7b-hf", "mlp_act", "64", "4096", "11008", "2", "9"}},
      {"moe/b200_sxm.csv",
       {"num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution",
        "time_us"},
       {"100", "4096", "1536", "3", "60", "4", "5", "power_law_0.8", "200"}},
      {"collectives/nccl_h200_sxm.csv",
       {"collective", "num_gpus", "message_elements", "time_us"},
       {"all_gather", "8", "4096", "20"}},
      {"collectives/nccl_gb200.csv",
       {"collective", "num_gpus", "message_elements", "time_us"},
       {"alltoall", "4", "1048576", "20"}},
      {"collectives/vtrain_allreduce.csv",
       {"gpu", "num_gpus", "size_bytes", "outofplace_ns"},
       {"v100", "4", "1048576", "50000"}},
      {"layers/llmcompass.csv", {"device", "op", "M", "N", "latency_us"}, {"MI210", "softmax", "4096", "512", "20"}},
      {"npu/tpu_other.csv", {"m", "n", "k", "measured_us"}, {"100", "200", "300", "3"}},
      {"pim/upmem_prim.csv", {"benchmark", "num_dpus", "data_prep_param", "hw_kernel"}, {"VA", "4", "1048576", "60"}},
      {"attention/h100_pytorch.backward.csv",
       {"batch", "tokens", "num_heads", "num_kv_heads", "head_dim", "time_us"},
       {"2", "100", "24", "3", "96", "20"}},
      {"grouped/h100_pytorch.csv",
       {"dtype", "experts", "rows", "n", "k", "time_us"},
       {"bf16", "8", "4", "1024", "512", "30"}},
      {"training/h100_pytorch.steps.csv",
       {"hidden", "intermediate", "heads", "kv_heads", "layers", "vocab", "sequence", "iter_s"},
       {"1024", "2048", "8", "4", "2", "8192", "512", "0.01"}},
      {"stream/a100.csv", {"op", "tokens", "width", "time_us"}, {"norm", "64", "4096", "5"}},
  };
}

}  // namespace

TEST_CASE("a row at fault is skipped and counted, its neighbours stand", "[prop][fidelity]") {
  for (Sample sample : samples()) {
    if (sample.name.starts_with("layers/")) {  // told apart by a note
      sample.columns.emplace_back("note");
      sample.row.emplace_back("from G elements/s");
    }
    INFO(sample.name);
    const std::string good = joined(sample.columns) + joined(sample.row);
    const Predictions::Column alone = first_column(sample.name, good);
    REQUIRE(alone.rows.size() == 1);
    for (std::size_t i = 0; i < sample.columns.size(); ++i) {
      for (const char* cell : {"", "x", "0", "-3", "1e30", "0.5", "nan", "99999999"}) {
        INFO(sample.columns[i] << " = '" << cell << "'");
        std::vector<std::string> bad = sample.row;
        bad[i] = cell;
        const Predictions::Column both =
            first_column(sample.name, joined(sample.columns) + joined(bad) + joined(sample.row));
        REQUIRE_FALSE(both.rows.empty());
        CHECK(both.rows.back().row == 1);
        CHECK(both.rows.back().predicted == alone.rows[0].predicted);
        CHECK(both.rows.size() + both.uncovered <= 2);  // PIM: a time of 0 is no row
        for (const Predictions::Row& row : both.rows) {
          CHECK(std::isfinite(row.predicted / row.measured));
          CHECK(row.predicted > 0);
        }
        CHECK(both.reasons.size() == (both.uncovered > 0 ? 1 : 0));
      }
    }
  }
}

TEST_CASE("rows of the report add up, whatever a table holds", "[unit][fidelity]") {
  const Folder folder;
  folder.write("gemm/a100.csv",
               "note,dtype,m,n,k,time_us\n,fp16,16,64,64,3\n,nvfp4,16,64,64,3\n,fp16,16,64,64,0\n,fp16,16\n"
               "\"a,b\",bfloat16,16,64,64,3\n");
  folder.write("gemm/a40.csv", "dtype,m,n,k,time_us\n");
  folder.write("gemm/h100.csv", "");
  folder.write("gemm/l40s.csv", "dtype,m,n,k,latency\nbf16,16,64,64,3\n");
  const auto lines = measure_fidelity(folder.path, shelf());
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].table == "gemm/a100.csv");
  CHECK(lines[0].rows == 5);
  CHECK(lines[0].covered == 2);
  CHECK(lines[0].reason ==
        "number format 'nvfp4' is not modelled; no measurement above zero; other than the header's number of cells");
  CHECK(lines[1].regime == "m <= 64");
  CHECK(lines[2].table == "gemm/a40.csv");
  CHECK(lines[2].reason == "no rows");
  CHECK(lines[3].reason == "expected a header line with column names, found none");
  CHECK(lines[4].rows == 1);
  CHECK(lines[4].covered == 0);
  CHECK(lines[4].reason == "expected a column 'time_us'");
  const sim::Node json = fidelity_json(lines);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.find("tables")->items()[0].members()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"table", "metric", "regime", "rows", "covered", "mape", "median", "p90",
                                         "bias", "reason"});
}

TEST_CASE("links to folders and files are followed under their own names", "[unit][fidelity]") {
  const Folder real;
  real.write("data/somewhere/x.csv", "dtype,m,n,k,time_us\nfp16,16,64,64,3\n");
  real.write("data/moe_of_others/h100_sxm.csv", "a\n1\n");
  fs::create_directories(real.path / "linked/gemm");
  fs::create_symlink(real.path / "data/somewhere/x.csv", real.path / "linked/gemm/a100.csv");
  fs::create_symlink("nowhere", real.path / "linked/gemm/broken.csv");
  fs::create_directory_symlink(real.path / "data/moe_of_others", real.path / "linked/moe");
  fs::create_directory_symlink(real.path / "linked", real.path / "again");
  const std::vector<std::string> expected{"gemm/a100.csv", "moe/h100_sxm.csv"};
  CHECK(measured_files(real.path / "linked") == expected);
  CHECK(measured_files((real.path / "linked").string() + "/") == expected);
  CHECK(measured_files(real.path / "again") == expected);
  CHECK(measure_fidelity(real.path / "again/", shelf())[0].covered == 1);
  fs::create_directory_symlink(real.path / "linked", real.path / "linked/profiles");  // leads back
  CHECK(measured_files(real.path / "linked").size() < 100);
}

TEST_CASE("tables of devices that the open data leaves out find their part", "[unit][fidelity]") {
  const auto gpu = [](const char* stem) {
    const auto found = shelf().for_table<hw::GpuParams>(stem);
    return found ? found.entry->name : std::string("none");
  };
  CHECK(gpu("b200_sxm") == "b200-sxm");
  CHECK(gpu("gb200") == "gb200");
  CHECK(gpu("gb200_sxm") == "gb200");
  CHECK(gpu("llmcompass_mi210") == "mi210");
  CHECK(gpu("nccl_h200_sxm") == "h200-sxm-141gb");
  CHECK(gpu("nccl_b200_sxm") == "b200-sxm");
  CHECK(gpu("nccl_gb200") == "gb200");
  CHECK(gpu("nccl_gb200_sxm") == "gb200");
  for (const char* stem : {"cutlass_thor", "flashattn_thor", "layernorm_thor", "power_log_thor"})
    CHECK(gpu(stem) == "jetson-agx-thor");
}

TEST_CASE("a table whose stem is a part's name is that part's, measured as kernels", "[unit][fidelity]") {
  const auto found = shelf().for_table<hw::GpuParams>("mi300x");
  REQUIRE(found);
  CHECK(found.entry->name == "mi300x");
  CHECK(found.measured_as == "kernel");
  CHECK_FALSE(shelf().for_table<hw::NpuParams>("mi300x"));  // of another kind
  const auto column = first_column("gemm/mi300x.csv", "dtype,m,n,k,time_us\nfp16,4096,4096,4096,300\n");
  REQUIRE(column.rows.size() == 1);
  CHECK(column.uncovered == 0);
  // 2 x 4096^3 FLOPs at 1,307 TFLOP/s take 105 us at least.
  CHECK(column.rows[0].predicted > 105);
  // What an entry says of a stem goes before a name: h100_sxm is measured with operands in the cache.
  CHECK(shelf().for_table<hw::GpuParams>("h100_sxm").measured_as == "vllm_hot_cache");
}

TEST_CASE("iteration times of Sarathi's artifact: figure 2 in s, table 2 and figure 9 in ms", "[unit][fidelity]") {
  const std::string header = "batch_num_decode_tokens,batch_num_prefill_tokens,Batch Id,batch_execution_time\n";
  const auto row = [&](const char* file, const char* cells) {
    const auto column = first_column(std::string("serving/sarathi_osdi24/") + file, header + cells);
    REQUIRE(column.rows.size() == 1);
    return column.rows[0];
  };
  const auto in_s = row("fig2_decode_exec_time.csv", "4,0,8,0.0488\n");
  CHECK(in_s.measured == Approx(0.0488));
  for (const char* file : {"table2_exec_time.csv", "fig9_chunking_overhead.csv"}) {
    const auto in_ms = row(file, "4,0,8,48.8\n");
    CHECK(in_ms.measured == Approx(0.0488));
    CHECK(in_ms.predicted == in_s.predicted);
  }
}

TEST_CASE("a model that is not in the list is taken by its sizes", "[unit][fidelity]") {
  const std::string header = "model,op,tokens,hidden,ffn,tp,time_us\n";
  const auto us = [&](const std::string& row) {
    const Predictions::Column column = first_column("elementwise/a100.csv", header + row + ",9\n");
    REQUIRE(column.rows.size() == 1);
    return column.rows[0].predicted;
  };
  // Sizes of Llama-2-7b under another name, and with the owner before the name: the same kernels.
  for (const char* op : {"add", "mlp_act", "attn_rope", "input_layernorm"}) {
    INFO(op);
    const std::string sizes = std::string(",") + op + ",1000,4096,11008,1";
    CHECK(us("SomeModel-7B" + sizes) == us("Llama-2-7b-hf" + sizes));
    CHECK(us("meta-llama/Llama-2-7b-hf" + sizes) == us("Llama-2-7b-hf" + sizes));
  }
  // An MLP of four times the hidden size has no gate: two tensors pass instead of three.
  CHECK(us("gpt-j,mlp_act,4096,4096,16384,1") < us("gated,mlp_act,4096,4096,16385,1"));
  CHECK(us("odd,attn_rope,64,4096,11008,3") > 0);
  CHECK(us("wide,attn_rope,64,4096,11008,999") > 0);
}

TEST_CASE("number formats by the names of frameworks", "[unit][fidelity]") {
  CHECK(dtype_named("bfloat16") == hw::DType::bf16);
  CHECK(dtype_named("float16") == hw::DType::fp16);
  CHECK(dtype_named("e4m3") == hw::DType::fp8);
  CHECK(dtype_named("int8") == hw::DType::int8);
  CHECK_FALSE(dtype_named("nvfp4"));
  CHECK_FALSE(dtype_named(""));
}

}  // namespace test_fidelity_rows
