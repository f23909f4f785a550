#include "policies/fusion/segments.hpp"

#include <algorithm>
#include <numeric>

#include "policies/fusion/loops.hpp"
#include "policies/fusion/place.hpp"

namespace orrery::policies {

using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::TensorId;

namespace {

bool is_image_op(const OpNode& op) {
  return op.kind == OpKind::conv2d || op.kind == OpKind::max_pool2d || op.kind == OpKind::avg_pool2d;
}

/// Row units whose rows lie along the last size.
bool reduces_last(const OpGraph& graph, const OpNode& op) {
  const models::Attribute* attribute = op.find("axes");
  if (attribute == nullptr) return true;
  const auto* axes = std::get_if<std::vector<models::SymExpr>>(attribute);
  const auto rank = static_cast<std::int64_t>(graph.tensor(op.inputs.front()).shape.size());
  return axes != nullptr && axes->size() == 1 &&
         (axes->front() == models::SymExpr(-1) || axes->front() == models::SymExpr(rank - 1));
}

}  // namespace

Segments::Segments(const OpGraph& graph, const PassContext& context, const SegmentLimits& limits)
    : graph_(graph),
      limits_(limits),
      prices_(context),
      launches_(launch_graph(graph)),
      bytes_(tensor_bytes(graph, context.typical)) {
  for (const TensorId id : graph.tensors()) {
    const models::Tensor& tensor = graph.tensor(id);
    std::vector<std::int64_t> dims;
    for (const models::SymExpr& dim : tensor.shape) dims.push_back(dim.eval(context.typical));
    const std::int64_t element = models::bytes_of(tensor.type);
    const std::int64_t last = dims.empty() ? 1 : dims.back();
    row_bytes_.push_back(last * element);
    matrix_bytes_.push_back(dims.size() < 2 ? last * element : last * element * dims[dims.size() - 2]);
    image_bytes_.push_back(dims.empty() || dims.front() == 0 ? bytes_[index(id)] : bytes_[index(id)] / dims.front());
  }
  leaves_.assign(graph.tensor_count(), false);
  for (const TensorId output : graph.outputs()) leaves_[index(models::storage_of(graph, output))] = true;
  for (std::size_t unit = 0; unit < size(); ++unit) tileable_.push_back(tileable(unit));
}

bool Segments::tileable(std::size_t unit) const {
  const OpNode& op = graph_.op(launches_.ops[unit]);
  if (is_image_op(op) || op.kind == OpKind::attention || op.kind == OpKind::matmul) return true;
  const LoopRole role = loop_role(op);
  return role == LoopRole::pointwise || (role == LoopRole::row && reduces_last(graph_, op));
}

bool Segments::kept(std::size_t unit, TensorId made, Segment segment) const {
  if (leaves_[index(made)]) return false;
  for (const std::int32_t edge : launches_.out[unit])
    if (launches_.edges[at(edge)].made == made && !inside(launches_.edges[at(edge)].to, segment)) return false;
  return true;
}

bool Segments::connected(Segment segment) const {
  std::vector<std::size_t> parent(segment.end - segment.begin);
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto find = [&](std::size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  std::vector<std::pair<TensorId, std::size_t>> readers;
  for (std::size_t unit = segment.begin; unit < segment.end; ++unit) {
    for (const LaunchEdge& edge : launches_.in(unit))
      if (inside(edge.from, segment)) parent[find(at(edge.from) - segment.begin)] = find(unit - segment.begin);
    for (const TensorId input : graph_.op(launches_.ops[unit]).inputs)
      readers.emplace_back(input, unit - segment.begin);
  }
  std::sort(readers.begin(), readers.end());
  for (std::size_t i = 1; i < readers.size(); ++i)
    if (readers[i].first == readers[i - 1].first) parent[find(readers[i].second)] = find(readers[i - 1].second);
  for (std::size_t i = 0; i < parent.size(); ++i)
    if (find(i) != find(0)) return false;
  return true;
}

bool Segments::fits(Segment segment) const {
  if (segment.end - segment.begin < 2) return true;
  if (static_cast<std::int64_t>(segment.end - segment.begin) > limits_.max_ops) return false;
  for (std::size_t unit = segment.begin; unit < segment.end; ++unit)
    if (!tileable_[unit] || !same_place(graph_.op(launches_.ops[segment.begin]), graph_.op(launches_.ops[unit])))
      return false;
  return working_set(segment) <= limits_.scratch_bytes && connected(segment);
}

double Segments::gain_s(Segment segment) const {
  if (segment.end - segment.begin < 2) return 0;
  std::int64_t saved = 0;
  std::vector<TensorId> read;
  for (std::size_t unit = segment.begin; unit < segment.end; ++unit) {
    const OpNode& op = graph_.op(launches_.ops[unit]);
    std::vector<TensorId> own;
    for (const TensorId input : op.inputs) {
      if (std::ranges::find(own, input) != own.end()) continue;
      own.push_back(input);
      const TensorId root = models::storage_of(graph_, input);
      const std::optional<OpId> maker = graph_.producer(root);
      const bool made_here =
          maker && launches_.unit_of[index(*maker)] >= 0 && inside(launches_.unit_of[index(*maker)], segment);
      // An expanded operand is read at the size it was expanded from.
      const std::int64_t traffic = std::min(bytes_[index(input)], bytes_[index(root)]);
      if (made_here || std::ranges::find(read, input) != read.end())
        saved += traffic;
      else
        read.push_back(input);
    }
    for (const TensorId output : op.outputs)
      if (kept(unit, output, segment)) saved += bytes_[index(output)];
  }
  return static_cast<double>(saved) * prices_.byte_s +
         static_cast<double>(segment.end - segment.begin - 1) * prices_.launch_s;
}

std::int64_t Segments::tile(TensorId tensor, bool image) const {
  const std::size_t i = index(tensor);
  return std::min(bytes_[i], image ? image_bytes_[i] : row_bytes_[i] * limits_.tile_rows);
}

bool Segments::reads_across(std::size_t unit, std::size_t slot) const {
  const OpNode& op = graph_.op(launches_.ops[unit]);
  return (op.kind == OpKind::matmul && slot == 1) || (op.kind == OpKind::attention && (slot == 1 || slot == 2)) ||
         (op.kind == OpKind::conv2d && slot == 1);
}

/// On chip of an operand from outside.
std::int64_t Segments::operand(std::size_t unit, std::size_t slot, Segment segment) const {
  const OpNode& op = graph_.op(launches_.ops[unit]);
  const TensorId input = op.inputs[slot];
  const std::optional<OpId> maker = graph_.producer(models::storage_of(graph_, input));
  if (maker && launches_.unit_of[index(*maker)] >= 0 && inside(launches_.unit_of[index(*maker)], segment)) return 0;
  if (!reads_across(unit, slot)) return tile(input, is_image_op(op));
  if (op.kind == OpKind::conv2d)
    return std::min(bytes_[index(input)], image_bytes_[index(input)] * limits_.panel_columns);
  // A panel has all rows of the matrix and some of its columns; keys come by rows.
  const std::int64_t whole = matrix_bytes_[index(input)], row = row_bytes_[index(input)];
  const std::int64_t element = models::bytes_of(graph_.tensor(input).type);
  const bool by_rows = op.kind == OpKind::attention || op.integer("trans_b", 0) != 0;
  const std::int64_t rows = row == 0 ? 0 : whole / row;
  return std::min(whole, (by_rows ? row : rows * element) * limits_.panel_columns);
}

/// On chip of a tensor made inside while it waits to be read.
std::int64_t Segments::held_whole(std::size_t unit, std::size_t output, Segment segment) const {
  const OpNode& op = graph_.op(launches_.ops[unit]);
  const TensorId made = op.outputs[output];
  std::int64_t most = 0;
  for (const std::int32_t i : launches_.out[unit]) {
    const LaunchEdge& edge = launches_.edges[at(i)];
    if (edge.made != made || !inside(edge.to, segment)) continue;
    if (edge.made != edge.read && !edge.plain) most = std::max(most, bytes_[index(made)]);
    const std::vector<models::SymExpr>&from = graph_.tensor(made).shape, &to = graph_.tensor(edge.read).shape;
    const bool moved = edge.made != edge.read && (from.empty() || to.empty() || from.back() != to.back());
    if (moved || reads_across(at(edge.to), at(edge.slot))) most = std::max(most, bytes_[index(made)]);
  }
  return std::max(most, tile(made, is_image_op(op)));
}

std::int64_t Segments::working_set(Segment segment) const {
  std::int64_t most = 0;
  for (std::size_t now = segment.begin; now < segment.end; ++now) {
    std::int64_t live = 0;
    for (std::size_t unit = segment.begin; unit <= now; ++unit) {
      const std::vector<TensorId>& outputs = graph_.op(launches_.ops[unit]).outputs;
      for (std::size_t output = 0; output < outputs.size(); ++output) {
        bool waits = unit == now;
        for (const std::int32_t i : launches_.out[unit]) {
          const LaunchEdge& edge = launches_.edges[at(i)];
          waits |= edge.made == outputs[output] && inside(edge.to, segment) && at(edge.to) >= now;
        }
        if (waits) live += held_whole(unit, output, segment);
      }
    }
    for (std::size_t slot = 0; slot < graph_.op(launches_.ops[now]).inputs.size(); ++slot)
      live += operand(now, slot, segment);
    most = std::max(most, live);
  }
  return most;
}

std::vector<Segment> Segments::greedy() const {
  std::vector<Segment> all;
  for (std::size_t begin = 0; begin < size();) {
    Segment segment{begin, begin + 1};
    while (segment.end < size()) {
      const Segment longer{segment.begin, segment.end + 1};
      if (!fits(longer) || gain_s(longer) <= gain_s(segment)) break;
      segment = longer;
    }
    all.push_back(segment);
    begin = segment.end;
  }
  return all;
}

std::vector<Segment> Segments::best() const {
  std::vector<double> gain(size() + 1, 0);
  std::vector<std::size_t> begin(size() + 1, 0);
  const auto window = static_cast<std::size_t>(limits_.max_ops);
  for (std::size_t end = 1; end <= size(); ++end) {
    gain[end] = gain[end - 1];
    begin[end] = end - 1;
    for (std::size_t from = end - 1; from-- > 0 && end - from <= window;) {
      if (!tileable_[from] || !tileable_[end - 1]) break;
      const Segment segment{from, end};
      if (!fits(segment)) continue;
      const double total = gain[from] + gain_s(segment);
      if (total <= gain[end]) continue;
      gain[end] = total;
      begin[end] = from;
    }
  }
  std::vector<Segment> all;
  for (std::size_t end = size(); end > 0; end = begin[end]) all.push_back({begin[end], end});
  std::reverse(all.begin(), all.end());
  return all;
}

UnitGroups groups_of(const std::vector<Segment>& segments, std::size_t units) {
  UnitGroups groups(units, -1);
  for (const Segment& segment : segments)
    for (std::size_t unit = segment.begin; unit < segment.end && segment.end - segment.begin > 1; ++unit)
      groups[unit] = static_cast<std::int32_t>(segment.begin);
  return groups;
}

}  // namespace orrery::policies
