#include "rossby/autograd/block_trace.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rossby {

TracedOp& add(std::vector<TracedOp>& ops, const TracedOp& more) {
  auto found = std::find_if(ops.begin(), ops.end(), [&](const TracedOp& op) { return op.like(more); });
  if (found == ops.end()) {
    ops.push_back(more);
    return ops.back();
  }
  const auto had = static_cast<double>(found->calls), come = static_cast<double>(more.calls);
  if (found->beside && had + come > 0) {
    const auto mean = [&](double& a, double b) { a = (a * had + b * come) / (had + come); };
    mean(found->cost.flops, more.cost.flops);
    mean(found->cost.bytes, more.cost.bytes);
    mean(found->cost.messages, more.cost.messages);
    mean(found->cost.message_bytes, more.cost.message_bytes);
  }
  found->calls += more.calls;
  found->seconds += more.seconds;
  found->queue_seconds += more.queue_seconds;
  return *found;
}

void BlockTrace::tick() {
  if (!timed_) return;
  TracedBlock& of = block(current());
  (direction_.backward ? of.backward_seconds : of.forward_seconds) += last_.restart();
}

void BlockTrace::begin_step() {
  makers_.clear();
  legs_.clear();
  since_.clear();
  if (queue_) hold(0);
  if (timed_) last_ = last_op_ = Stopwatch();
}

void BlockTrace::hold(int part) {
  constexpr double longer = 1.3, least = 20e-6, most = 20e-3;
  part_seconds_[part_] = last_op_.since(part_began_);
  part_ = part;
  mark_ = queue_->hold(std::clamp(longer * part_seconds_[part], least, most));
  part_began_.restart();
}

void BlockTrace::waited() {
  ++waits_;
  if (queue_) hold(1);
  if (timed_) last_ = last_op_ = Stopwatch();
}

void BlockTrace::forget_ops() {
  ops_.clear();
  calls_.clear();
  moved_ = {};
  if (queue_) queue_->start_anew();
  if (timed_) last_ = last_op_ = Stopwatch();
}

void BlockTrace::add_op(std::string_view op, bool backward, bool beside, const ValueShape& made,
                        const Cost& cost) {
  double seconds = 0;
  if (timed_) seconds = last_op_.restart();
  const Moved moved = beside ? Moved{} : std::exchange(moved_, {});
  if (blocks_too_) {
    const TracedOp& of = add(ops_, {std::string(op), backward, beside, made, cost, 1, seconds, moved});
    since_.resize(ops_.size());
    ++since_[static_cast<std::size_t>(&of - ops_.data())];
  } else {
    const std::size_t from = mark_;
    if (queue_) mark_ = queue_->mark();
    calls_.push_back({op, backward, beside, made, cost, seconds, moved, queue_ != nullptr, from, mark_});
  }
}

TracedLeg BlockTrace::leg_since() const {
  TracedLeg leg;
  for (std::size_t op = 0; op < since_.size(); ++op)
    if (since_[op] > 0) leg.calls.emplace_back(static_cast<int>(op), since_[op]);
  return leg;
}

void BlockTrace::passes(int peer, bool sends, double bytes) {
  if (!blocks_too_) return;
  TracedLeg& leg = legs_.emplace_back(leg_since());
  leg.peer = peer;
  leg.sends = sends;
  leg.bytes = bytes;
  if (sends) {
    auto to = std::find_if(handed_over_.begin(), handed_over_.end(), [&](const TracedHandOver& other) {
      return other.to == peer && other.backward == direction_.backward;
    });
    if (to == handed_over_.end()) to = handed_over_.insert(to, {peer, direction_.backward, 0, 0});
    ++to->messages;
    to->bytes += bytes;
  }
  std::fill(since_.begin(), since_.end(), Index{0});
}

std::vector<TracedLeg> BlockTrace::legs() const {
  std::vector<TracedLeg> all = legs_;
  if (!all.empty()) all.push_back(leg_since());
  return all;
}

std::vector<TracedOp> BlockTrace::ops() const {
  std::vector<TracedOp> ops = ops_;
  for (const Call& call : calls_)
    add(ops, {std::string(call.op), call.backward, call.beside, call.made, call.cost, 1, call.seconds,
              call.moved, call.queued && queue_ ? queue_->seconds(call.from, call.to) : 0});
  return ops;
}

void BlockTrace::note(std::string_view what, const Cost& cost) {
  if (blocks_too_) tick();
  add_op(what, false, true, {}, cost);
}

BlockTrace::Direction BlockTrace::enter_backward(int block) {
  if (!blocks_too_) return std::exchange(direction_, {block, true});
  tick();
  return std::exchange(direction_, {block, true});
}

void BlockTrace::leave_backward(const Direction& before) {
  if (blocks_too_) tick();
  direction_ = before;
}

int BlockTrace::enter(std::string_view name, std::size_t kept) {
  if (!blocks_too_) return outside;
  tick();
  auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& b) { return b.name == name; });
  if (found == blocks_.end()) {
    blocks_.emplace_back().name = name;
    found = std::prev(blocks_.end());
  }
  const int number = static_cast<int>(found - blocks_.begin());
  if (!direction_.backward) ++found->calls;
  open_.push_back({number, kept});
  return number;
}

void BlockTrace::leave(std::size_t kept, bool recording) {
  if (!blocks_too_) return;
  tick();
  const Open open = open_.back();
  open_.pop_back();
  const std::size_t taken = kept - open.kept;
  if (recording && !direction_.backward)
    block(open.block).activation_bytes += static_cast<double>(taken - open.inside);
  if (!open_.empty()) open_.back().inside += taken;
}

void BlockTrace::count(std::string_view op, const Cost& cost, const ValueShape& made, bool backward) {
  if (!blocks_too_) return add_op(op, backward, false, made, cost);
  tick();
  add_op(op, backward, false, made, cost);
  TracedBlock& of = block(current());
  (direction_.backward ? of.backward : of.forward) += cost;
}

void BlockTrace::add_edge(int from, double bytes) {
  const int to = current();
  const auto edge = std::find_if(edges_.begin(), edges_.end(),
                                 [&](const TracedEdge& e) { return e.from == from && e.to == to; });
  if (edge == edges_.end())
    edges_.push_back({from, to, bytes});
  else
    edge->bytes += bytes;
}

BlockTrace::Makers::const_iterator BlockTrace::first_at(const std::byte* data) const {
  auto it = makers_.upper_bound(data);
  if (it != makers_.begin() && std::prev(it)->first + std::prev(it)->second.extent > data) --it;
  return it;
}

void BlockTrace::reads(const void* data, std::size_t extent, double bytes) {
  if (direction_.backward || open_.empty()) return;
  const auto* at = static_cast<const std::byte*>(data);
  for (auto it = first_at(at); it != makers_.end() && it->first < at + extent; ++it) {
    const auto* begin = std::max(at, it->first);
    const auto* end = std::min(at + extent, it->first + it->second.extent);
    add_edge(it->second.block, std::min(bytes, static_cast<double>(end - begin)));
  }
}

void BlockTrace::hands_on(const void* data, std::size_t extent, Index rows, Index cols, Index channels) {
  if (direction_.backward || open_.empty() || extent == 0) return;
  TracedBlock& made = block(current());
  made.rows = rows;
  made.cols = cols;
  made.channels = channels;
  set_maker(static_cast<const std::byte*>(data), extent, current());
}

/// Recomputation may use memory twice in a step. The last writer is the maker.
void BlockTrace::set_maker(const std::byte* data, std::size_t extent, int maker) {
  for (auto it = first_at(data); it != makers_.end() && it->first < data + extent;) it = makers_.erase(it);
  makers_[data] = {extent, maker};
}

void BlockTrace::same(const void* to, std::size_t extent, const void* from) {
  if (!blocks_too_ || direction_.backward || extent == 0) return;
  const auto* at = static_cast<const std::byte*>(from);
  const auto it = first_at(at);
  if (it == makers_.end() || it->first > at) return;
  const int maker = it->second.block;
  set_maker(static_cast<const std::byte*>(to), extent, maker);
}

void BlockTrace::trains(const void* parameter, Index size, double bytes) {
  if (open_.empty() || !trained_.emplace(parameter, current()).second) return;
  block(current()).parameters += size;
  block(current()).parameter_bytes += bytes;
}

}  // namespace rossby
