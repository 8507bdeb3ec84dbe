#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rossby/autograd/late_updates.hpp"
#include "rossby/base/error.hpp"
#include "rossby/base/index.hpp"
#include "rossby/kernels/relate_dense.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/chunk_stream.hpp"

namespace rossby {

namespace detail {
/// Advice in out-of-memory messages, besides more ranks: makes values, gradients and moments fit a device.
inline constexpr std::string_view values_fit_where = "relation.memory = \"streamed\" for a dense relation";
}  // namespace detail

/// Which rank holds a parameter.
enum class Placement {
  replicated,  // every rank, bitwise equal; the step's one allreduce sums the gradients
  rows,        // (outer, owned rows, inner): the rank's row block of a (outer, n, inner) array
  entries      // one value per entry of the rank's row block of a sparse relation, in GlobalEdges order
};

/// Target of a parameter's gradient. The op that computes the gradient does not know which sink it feeds.
template <class T>
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// The buffer to add to, with the layout of the value.
  [[nodiscard]] virtual T* accumulate() = 0;
  /// An update that a fused backward applies tile by tile, instead of filling a buffer. Null if there is
  /// none. Only one op per step gets it.
  [[nodiscard]] virtual DenseUpdate<T>* update() { return nullptr; }
};

/// The rows of a (rows, columns) gradient that a step has added to: all rows, unless every contributor listed
/// its rows.
class ReachedRows {
 public:
  void add(std::span<const Index> rows, Index of) {
    listed_ = true;
    if (std::ssize(reached_) != of) reached_.assign(static_cast<std::size_t>(of), 0);
    for (const Index row : rows)
      if (!std::exchange(reached_[static_cast<std::size_t>(row)], char{1})) list_.push_back(row);
  }
  void add_all() { all_ = true; }
  void clear() {
    for (const Index row : list_) reached_[static_cast<std::size_t>(row)] = 0;
    list_.clear();
    listed_ = all_ = false;
  }
  /// True if unlisted rows may have been reached.
  [[nodiscard]] bool all() const { return all_ || !listed_; }
  /// Each row once.
  [[nodiscard]] std::span<const Index> list() const { return list_; }

 private:
  bool listed_ = false, all_ = false;
  std::vector<Index> list_;
  std::vector<char> reached_;
};

/// Properties of a parameter that do not depend on its storage or its optimiser.
struct ParameterShape {
  std::string name;  // as in checkpoints and golden files: factors, decoder_weight, dynamics0_weight, …
  Placement placement = Placement::replicated;
  std::vector<Index> shape;  // local shape; rows: {outer, owned, inner}; entries: {entries}
  /// rows: this time group holds the outer extents [outer_first, outer_first + shape[0]) of outer_all.
  /// outer_all = −1: not split, every group holds the whole parameter.
  Index outer_first = 0;
  Index outer_all = -1;
  int relation_term = -1;  // entries: the term of the relation bank that they belong to

  [[nodiscard]] bool split() const { return outer_all >= 0; }
};

/// How an optimiser updates a parameter.
struct UpdateRule {
  double decay = 0;     // weight decay
  double lr_scale = 1;  // factor on the common learning rate
  bool trained = true;
  bool fusable = false;  // its op can update it in backward, so it needs no gradient (dense, low rank)
  /// Fusable on another process grid, but not here. It is still clipped one step late, so that trainings
  /// agree.
  bool clips_late = false;
  /// A table (T, n, d) that steps read by rows of T only. An optimiser may keep gradients for those rows
  /// only.
  bool by_rows = false;
};

/// Storage of a parameter's values: host memory, bf16, or a stream (files, or host memory in front of a
/// device). Also holds the copy on the device that trains it.
template <class T>
struct ParameterStorage {
  Buffer<T> value;
  Buffer<Bf16> bf16;     // replaces `value` if in_bf16
  bool in_bf16 = false;  // a dense relation that its op updates; arithmetic is float
  Index first_row = 0;   // in_bf16: global index of the first owned row; keys the rounding
  /// Set if value (or bf16) and moments are in files, or in host memory in front of a device. The op then
  /// works on chunks of rows of the {1, owned, n} relation and updates it. Null: values are where kernels
  /// work on them.
  std::unique_ptr<ChunkStream> stream;
  Memory memory = Memory::host;  // of value (or bf16) and moments, if not streamed; nowhere: traced only
  Device* device = nullptr;      // trains it
  Buffer<T> there;               // values on `device`, unless streamed
  Buffer<Bf16> there_bf16;       // the same, if in_bf16

  /// An array that streams with the value (moments).
  template <class S>
  [[nodiscard]] Buffer<S> make_array(Index size) {
    return stream ? stream->template add<S>() : Buffer<S>(size, memory);
  }
  /// A moment: an array that streams, or stays on the host if the host updates.
  template <class S>
  [[nodiscard]] Buffer<S> make_moment(Index size) {
    return updated_on_host() ? Buffer<S>(size, memory) : make_array<S>(size);
  }
  /// Another array in the same kind of memory, which the op never sees (copies).
  template <class S>
  [[nodiscard]] Buffer<S> make_spare(Index size) const {
    return stream && size > 0 ? stream->template spare<S>() : Buffer<S>(size);
  }
  /// Call before anything but the op reads or writes value, bf16 or moments.
  void settle_stream() {
    if (stream) stream->settle();
  }

  /// True if the weights stream to a device and the host updates them with the device's gradients.
  [[nodiscard]] bool updated_on_host() const { return stream && stream->options().host_updates; }
  [[nodiscard]] Index size() const { return in_bf16 ? bf16.size() : value.size(); }

  /// Value i, in either precision.
  [[nodiscard]] T stored(Index i) const {
    if constexpr (std::is_same_v<T, float>)
      if (in_bf16) return widen(bf16[i]);
    return value[i];
  }

  /// The values for kernels of `on` (null: the host). On a device, they must have been sent. Null if they are
  /// in bf16. Streamed values always return the host's array.
  [[nodiscard]] T* data(const Device* on) {
    if (!on || stream) return value.data();
    require(on == device && there.size() == value.size(), "a parameter is on the device");
    return there.data();
  }
  [[nodiscard]] Bf16* bf16_data(const Device* on) {
    if (!on || stream) return bf16.data();
    require(on == device && there_bf16.size() == bf16.size(), "a parameter is on the device");
    return there_bf16.data();
  }
};

/// State of a parameter within a step: its gradient, a sink that replaces it, and postponed updates.
template <class T>
struct StepState {
  Buffer<T> gradient;               // empty if fixed, or fusable and not needed so far; on its device
  GradientSink<T>* sink = nullptr;  // replaces `gradient`
  LateUpdates<T>* late = nullptr;   // must be applied before a step reads the value
  /// True once a loss has depended on it. Optimisers skip it until then.
  bool live = false;
  /// True while the losses of the current step depend on it.
  bool in_step = false;
  ReachedRows reached;  // rows of the gradient, in the current step

  /// Replaces `gradient` for a table that steps read by rows; null otherwise.
  [[nodiscard]] TableRows<T>* table_rows() const { return late ? late->rows() : nullptr; }
};

/// A trained or fixed array: its shape, storage, update rule and state in the current step.
template <class T>
struct Parameter : ParameterShape, ParameterStorage<T>, UpdateRule, StepState<T> {
  using ParameterStorage<T>::value, ParameterStorage<T>::bf16, ParameterStorage<T>::in_bf16,
      ParameterStorage<T>::stream, ParameterStorage<T>::device, ParameterStorage<T>::there,
      ParameterStorage<T>::there_bf16, ParameterStorage<T>::size;
  using StepState<T>::gradient, StepState<T>::sink, StepState<T>::late, StepState<T>::live,
      StepState<T>::in_step, StepState<T>::reached, StepState<T>::table_rows;

  Parameter() = default;
  Parameter(std::string n, Placement p, std::vector<Index> s, bool can_fuse = false, bool narrow = false,
            std::unique_ptr<ChunkStream> in_files = nullptr, Memory where = Memory::host) {
    this->name = std::move(n);
    this->placement = p;
    this->shape = std::move(s);
    this->memory = where;
    this->fusable = can_fuse;
    in_bf16 = narrow;
    stream = std::move(in_files);
    require(!in_bf16 || (fusable && std::is_same_v<T, float>), "bf16 is for floats that their op updates");
    require(!stream || (fusable && shape.size() == 3 && shape[0] == 1),
            "streams are for one relation, updated by its op");
    Index length = 1;
    for (const Index extent : shape) length *= extent;
    if (in_bf16)
      bf16 = this->template make_array<Bf16>(length);
    else
      value = this->template make_array<T>(length);
    if (!fusable) gradient = Buffer<T>(length);
  }

  /// Trains the parameter on a device from now on. The gradient moves there, and the values are sent. `fetch`
  /// copies the values back, `send` copies them there again. Both are only enqueued; Device::wait completes
  /// them.
  void move_to(Device& to) {
    require(!stream || stream->device() == &to, "a parameter streams to the device that trains it");
    device = &to;
    const Device::For purpose(device, "the gradient of " + name, detail::values_fit_where);
    if (gradient.size() > 0) gradient = Buffer<T>(gradient.size(), to);
    send();
  }
  void send() {
    if (!device || stream) return;
    const Device::For purpose(device, name, detail::values_fit_where);
    if (there.size() != value.size()) there = Buffer<T>(value.size(), *device);
    if (there_bf16.size() != bf16.size()) there_bf16 = Buffer<Bf16>(bf16.size(), *device);
    device->upload(there.data(), std::span<const T>(value.span()));
    device->upload(there_bf16.data(), std::span<const Bf16>(bf16.span()));
  }
  void fetch() {
    if (!device) return;
    if (stream) return this->settle_stream();
    device->download(value.span(), there.data());
    device->download(bf16.span(), there_bf16.data());
  }

  /// Where backward adds this parameter's gradient; null if it is not trained. A recording op must call this
  /// (or dense_target) before it reads the value, because the call applies postponed updates.
  [[nodiscard]] T* gradient_target() {
    reached.add_all();
    return gradient_array();
  }
  /// As above, for an op that adds to these rows of (outer·rows, inner) only.
  [[nodiscard]] T* gradient_target(std::span<const Index> rows) {
    reached.add(rows, shape.back() > 0 ? size() / shape.back() : 0);
    return gradient_array();
  }

  /// As above, for ops that can update instead.
  [[nodiscard]] DenseGradient<T> dense_target() {
    DenseUpdate<T>* update = trained && sink ? sink->update() : nullptr;
    if (!update) return gradient_target();
    if (late) late->make_up();
    live = in_step = true;
    return update;
  }

 private:
  [[nodiscard]] T* gradient_array() {
    if (!trained) return nullptr;
    require(!in_bf16 || sink, "a parameter in bf16 has no gradient");
    require(!table_rows(), "a table kept by rows has no gradient as a whole");
    require(!stream, "a streamed parameter has no gradient");
    if (late) late->make_up();
    live = in_step = true;
    if (!sink && gradient.size() != size()) {
      const Device::For purpose(device, "the gradient of " + name, detail::values_fit_where);
      gradient = Buffer<T>(size(), device);
    }
    return sink ? sink->accumulate() : gradient.data();
  }
};

}  // namespace rossby
