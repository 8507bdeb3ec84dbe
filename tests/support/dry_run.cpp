#include "tests/support/dry_run.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>

#include "rossby/base/error.hpp"
#include "rossby/exchange/packing.hpp"

namespace rossby::test {
namespace {

enum class Direction { gather, scatter };

/// Ghosts that one rank has of one owner, consecutive in its ghost space.
struct Segment {
  int owner = 0;
  int needer = 0;
  Index ghost_begin = 0;
  std::vector<LocalColumn> rows;  // the owner's local rows
  Index sent_before = 0;          // rows that the owner sends to needers before this one
};

/// One collective operation under way: what each rank put in, how many have begun and ended.
struct Operation {
  Direction direction = Direction::gather;
  std::size_t scalar_bytes = 0;
  Index cols = 0;
  Index channels = 0;
  std::vector<std::vector<std::byte>> payload;  // of each part
  int begun = 0;
  int ended = 0;
};

}  // namespace

/// What the pretended ranks share.
class DryRunWorld::State {
 public:
  State(const RowPartition& partition, std::vector<Index> ghosts, std::vector<Segment> segments)
      : partition_(partition),
        ghosts_(std::move(ghosts)),
        segments_(std::move(segments)),
        begun_(static_cast<std::size_t>(partition.parts())),
        sent_rows_(static_cast<std::size_t>(partition.parts())) {
    // Segments arrive by needer; each owner's send buffer is grouped by needer in that same order.
    for (Segment& segment : segments_) {
      Index& sent = sent_rows_[static_cast<std::size_t>(segment.owner)];
      segment.sent_before = sent;
      sent += static_cast<Index>(segment.rows.size());
    }
  }

  [[nodiscard]] const RowPartition& partition() const { return partition_; }
  [[nodiscard]] Index ghosts(int part) const { return ghosts_[static_cast<std::size_t>(part)]; }
  [[nodiscard]] Traffic cost(int part, Direction direction, Index row_bytes) const {
    Traffic cost;
    if (row_bytes == 0) return cost;
    for (const Segment& segment : segments_)
      if (segment.owner != segment.needer &&
          part == (direction == Direction::gather ? segment.owner : segment.needer))
        cost += {1, static_cast<Index>(segment.rows.size()) * row_bytes};
    return cost;
  }

  /// Registers part `part`'s share and returns the number of the operation.
  template <class T>
  Index begin(int part, Direction direction, NodeView<const T> from) {
    const Index number = begun_[static_cast<std::size_t>(part)]++;
    if (number == first_ + static_cast<Index>(operations_.size()))
      operations_.push_back(
          {direction, sizeof(T), from.cols, from.channels,
           std::vector<std::vector<std::byte>>(static_cast<std::size_t>(partition_.parts())), 0, 0});
    Operation& operation = operations_[static_cast<std::size_t>(number - first_)];
    require(operation.direction == direction && operation.scalar_bytes == sizeof(T) &&
                operation.cols == from.cols && operation.channels == from.channels,
            "all ranks begin the same exchange with the same columns");
    auto& payload = operation.payload[static_cast<std::size_t>(part)];
    const Index rows =
        direction == Direction::gather ? sent_rows_[static_cast<std::size_t>(part)] : from.rows;
    payload.resize(static_cast<std::size_t>(rows * from.width()) * sizeof(T));
    auto* out = reinterpret_cast<T*>(payload.data());
    if (direction == Direction::scatter) {
      std::copy_n(from.data, from.size(), out);
    } else {
      for (const Segment& segment : segments_)
        if (segment.owner == part) pack_rows(from, segment.rows, out + segment.sent_before * from.width());
    }
    ++operation.begun;
    return number;
  }

  template <class T>
  void end_gather(int part, Index number, NodeView<T> ghost) {
    const Operation& operation = ready(number);
    for (const Segment& segment : segments_) {
      if (segment.needer != part) continue;
      const T* sent = payload<T>(operation, segment.owner) + segment.sent_before * ghost.width();
      std::copy_n(sent, static_cast<Index>(segment.rows.size()) * ghost.width(),
                  ghost.data + segment.ghost_begin * ghost.width());
    }
    done(number);
  }

  template <class T>
  void end_scatter(int part, Index number, NodeView<T> owned) {
    const Operation& operation = ready(number);
    for (const Segment& segment : segments_)
      if (segment.owner == part)
        add_rows(payload<T>(operation, segment.needer) + segment.ghost_begin * owned.width(), owned,
                 segment.rows);
    done(number);
  }

 private:
  template <class T>
  static const T* payload(const Operation& operation, int part) {
    return reinterpret_cast<const T*>(operation.payload[static_cast<std::size_t>(part)].data());
  }

  const Operation& ready(Index number) const {
    const Operation& operation = operations_[static_cast<std::size_t>(number - first_)];
    require(operation.begun == partition_.parts(),
            "an exchange of pretended ranks ends before all have begun");
    return operation;
  }

  void done(Index number) {
    ++operations_[static_cast<std::size_t>(number - first_)].ended;
    while (!operations_.empty() && operations_.front().ended == partition_.parts()) {
      operations_.pop_front();
      ++first_;
    }
  }

  RowPartition partition_;
  std::vector<Index> ghosts_;         // of each part
  std::vector<Segment> segments_;     // by needer, then owner
  std::vector<Index> begun_;          // operations that each part has begun
  std::vector<Index> sent_rows_;      // rows in each part's send buffer
  std::deque<Operation> operations_;  // those not ended everywhere
  Index first_ = 0;                   // number of the first of them
};

/// One pretended rank.
class DryRunWorld::Port final : public Exchange {
 public:
  Port(State& state, int part) : state_(state), part_(part) {}

  [[nodiscard]] Index owned() const override { return state_.partition().size(part_); }
  [[nodiscard]] Index ghosts() const override { return state_.ghosts(part_); }

  void gather_begin(NodeView<const float> owned, NodeView<float> ghost) override {
    begin<float>(Direction::gather, owned, ghost, owned, ghost, into_float_);
  }
  void gather_begin(NodeView<const double> owned, NodeView<double> ghost) override {
    begin<double>(Direction::gather, owned, ghost, owned, ghost, into_double_);
  }
  void scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) override {
    begin<float>(Direction::scatter, owned, ghost, ghost, owned, into_float_);
  }
  void scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) override {
    begin<double>(Direction::scatter, owned, ghost, ghost, owned, into_double_);
  }
  void gather_end() override {
    expect(Direction::gather);
    is_double_ ? state_.end_gather(part_, number_, into_double_)
               : state_.end_gather(part_, number_, into_float_);
    open_ = false;
  }
  void scatter_add_end() override {
    expect(Direction::scatter);
    is_double_ ? state_.end_scatter(part_, number_, into_double_)
               : state_.end_scatter(part_, number_, into_float_);
    open_ = false;
  }

  [[nodiscard]] Traffic sent() const override { return sent_; }
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override {
    return state_.cost(part_, Direction::gather, row_bytes);
  }
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override {
    return state_.cost(part_, Direction::scatter, row_bytes);
  }

 private:
  template <class T>
  void begin(Direction direction, NodeView<const T> owned_view, NodeView<const T> ghost_view,
             NodeView<const T> from, NodeView<T> into, NodeView<T>& kept) {
    require(!open_, "an exchange begins before the last one has ended");
    require(owned_view.rows == owned() && ghost_view.rows == ghosts() && owned_view.cols == ghost_view.cols &&
                owned_view.channels == ghost_view.channels && ghost_view.packed(),
            "an exchange needs the owned rows and packed ghosts of the same columns");
    number_ = state_.begin(part_, direction, from);
    kept = into;
    direction_ = direction;
    is_double_ = sizeof(T) == sizeof(double);
    open_ = true;
    sent_ += state_.cost(part_, direction, from.width() * static_cast<Index>(sizeof(T)));
  }

  void expect(Direction direction) const {
    require(open_ && direction_ == direction, "an exchange ends that has not begun");
  }

  State& state_;
  int part_;
  bool open_ = false;
  bool is_double_ = false;
  Direction direction_ = Direction::gather;
  Index number_ = 0;
  NodeView<float> into_float_;
  NodeView<double> into_double_;
  Traffic sent_;
};

namespace {

std::vector<Segment> halo_segments(const RowPartition& partition, const std::vector<GhostList>& ghosts) {
  require(static_cast<int>(ghosts.size()) == partition.parts(), "one ghost list for each part");
  std::vector<Segment> segments;
  for (int p = 0; p < partition.parts(); ++p) {
    const GhostList& mine = ghosts[static_cast<std::size_t>(p)];
    for (std::size_t g = 0; g < mine.size(); ++g) {
      const int owner = partition.owner(mine[g]);
      require(owner != p && (g == 0 || mine[g - 1] < mine[g]),
              "ghosts are owned elsewhere, ascend and are named once");
      if (segments.empty() || segments.back().needer != p || segments.back().owner != owner)
        segments.push_back({owner, p, static_cast<Index>(g), {}, 0});
      segments.back().rows.push_back(static_cast<LocalColumn>(mine[g].value - partition.begin(owner)));
    }
  }
  return segments;
}

std::vector<Segment> dense_segments(const RowPartition& partition) {
  std::vector<Segment> segments;
  for (int p = 0; p < partition.parts(); ++p)
    for (int q = 0; q < partition.parts(); ++q) {
      if (partition.size(q) == 0) continue;
      Segment segment{q, p, partition.begin(q), {}, 0};
      for (Index i = 0; i < partition.size(q); ++i) segment.rows.push_back(static_cast<LocalColumn>(i));
      segments.push_back(std::move(segment));
    }
  return segments;
}

std::vector<Index> sizes(const std::vector<GhostList>& ghosts) {
  std::vector<Index> result;
  for (const GhostList& list : ghosts) result.push_back(static_cast<Index>(list.size()));
  return result;
}

}  // namespace

DryRunWorld::DryRunWorld(std::unique_ptr<State> state) : state_(std::move(state)) {
  for (int p = 0; p < state_->partition().parts(); ++p) ports_.push_back(std::make_unique<Port>(*state_, p));
}

DryRunWorld::DryRunWorld(const RowPartition& partition, std::vector<GhostList> ghosts)
    : DryRunWorld(std::make_unique<State>(partition, sizes(ghosts), halo_segments(partition, ghosts))) {}

DryRunWorld DryRunWorld::dense(const RowPartition& partition) {
  std::vector<Index> all(static_cast<std::size_t>(partition.parts()), partition.rows());
  return DryRunWorld(std::make_unique<State>(partition, std::move(all), dense_segments(partition)));
}

DryRunWorld::DryRunWorld(DryRunWorld&&) noexcept = default;
DryRunWorld& DryRunWorld::operator=(DryRunWorld&&) noexcept = default;
DryRunWorld::~DryRunWorld() = default;

int DryRunWorld::parts() const {
  return state_->partition().parts();
}

Exchange& DryRunWorld::exchange(int part) {
  require(part >= 0 && part < parts(), "a pretended rank that does not exist");
  return *ports_[static_cast<std::size_t>(part)];
}

}  // namespace rossby::test
