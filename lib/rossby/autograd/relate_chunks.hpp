#pragma once

#include <cstring>

#include "rossby/autograd/relation_bank.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/relate_dense.hpp"

// Internal to lib/rossby/autograd: dense relations processed in chunks of rows, in memory or from files. Both
// give bitwise the same result for the same chunks.

namespace rossby::detail {

/// Rows [first, first + rows) of one dense relation in memory.
template <class T>
DenseRelate<T> dense_rows(const DenseRelate<T>& relate, Index first, Index rows, Index width) {
  DenseRelate<T> part = relate;
  const Index at = first * relate.columns;
  part.rows = rows;
  part.weight = relate.weight ? relate.weight + at : nullptr;
  part.bf16 = relate.bf16 ? relate.bf16 + at : nullptr;
  part.pattern = relate.pattern ? relate.pattern + at : nullptr;
  part.context = relate.context ? relate.context + first * width : nullptr;
  return part;
}

template <class V>
NodeView<V> row_range(NodeView<V> view, Index first, Index rows) {
  if (view.data) view.data += first * view.row_stride;
  view.rows = rows;
  return view;
}

/// Points `part` to the weights of a chunk that a stream has loaded.
template <class T>
void take_weights(DenseRelate<T>& part, ChunkStream& stream) {
  if (part.bf16)
    part.bf16 = reinterpret_cast<const Bf16*>(stream.array(0));
  else
    part.weight = reinterpret_cast<const T*>(stream.array(0));
}

/// Rows per chunk; all rows if there is only one chunk.
template <class T>
Index chunk_rows_of(const DenseRelate<T>& relate, const ChunkStream* stream, Index chunk_rows) {
  if (stream) return stream->options().chunk_rows;
  return chunk_rows > 0 && relate.relations == 1 ? chunk_rows : std::max<Index>(relate.rows, 1);
}

/// relate_dense_forward, chunk by chunk.
template <class T>
void chunked_dense_forward(const Exec& exec, NodeView<T> h, const DenseRelate<T>& relate, NodeView<const T> z,
                           std::span<T> workspace, ChunkStream* stream, Index chunk_rows) {
  const Index step = chunk_rows_of(relate, stream, chunk_rows);
  if (!stream && step >= relate.rows) return relate_dense_forward<T>(exec, h, relate, z, workspace);
  if (stream) stream->start(1, false, false);
  double sum = 0;
  for (Index first = 0; first < relate.rows; first += step) {
    const Index rows = std::min(step, relate.rows - first);
    DenseRelate<T> part = dense_rows(relate, first, rows, z.width());
    if (stream) {
      (void)stream->take();
      take_weights(part, *stream);
    }
    double part_sum = 0;
    // A device adds to it at the end of the step, after everything here.
    if (relate.weight_sum && !exec.device) part.weight_sum = &part_sum;
    relate_dense_forward<T>(exec, row_range(h, first, rows), part, z, workspace);
    sum += part_sum;
    if (stream) stream->give_back();
  }
  if (relate.weight_sum && !exec.device) *relate.weight_sum = sum;
}

/// The update of a chunk, whose arrays come from a stream if there is one.
template <class T>
DenseUpdate<T> update_of_rows(DenseUpdate<T>& whole, const DenseRelate<T>& part, Index first, Index columns,
                              ChunkStream* stream) {
  DenseUpdate<T> update = whole;
  update.whole = &whole;
  const Index at = first * columns;
  const bool moment = whole.m || whole.bf16.m;
  update.applied = false;
  if (part.bf16) {
    const auto array = [&](Bf16* base, int number) {
      return stream ? reinterpret_cast<Bf16*>(stream->array(number)) : base + at;
    };
    update.bf16.theta = const_cast<Bf16*>(part.bf16);
    update.bf16.m = moment ? array(whole.bf16.m, 1) : nullptr;
    update.bf16.v = array(whole.bf16.v, moment ? 2 : 1);
    update.bf16.rounding.first_row += first;
  } else {
    const auto array = [&](T* base, int number) {
      return stream ? reinterpret_cast<T*>(stream->array(number)) : base + at;
    };
    update.theta = const_cast<T*>(part.weight);
    update.m = moment ? array(whole.m, 1) : nullptr;
    update.v = array(whole.v, moment ? 2 : 1);
  }
  return update;
}

/// Updates on the host the rows whose gradient left the device first.
template <class T>
void update_with_arrived(const Exec& exec, DenseUpdate<T>& whole, const DenseRelate<T>& relate, Index width,
                         ChunkStream& stream) {
  const auto [chunk, gradient] = stream.arrived();
  const Index first = stream.first(chunk);
  const DenseRelate<T> part = dense_rows(relate, first, stream.rows(chunk), width);
  DenseUpdate<T> update = update_of_rows<T>(whole, part, first, relate.columns, nullptr);
  // Traced arrays hold no values.
  if (!stream.device()->driver().only_addresses())
    relate_dense_update<T>(on_host(exec), update, part, reinterpret_cast<const T*>(gradient));
  stream.changed(chunk);
}

/// relate_dense_backward, chunk by chunk from the last to the first, because a stream still holds the last
/// chunks of the forward sweep. The da of a streamed relation needs the context that forward kept. If the
/// host updates, chunks send it their gradients. The update is complete on return, and later reads of W load
/// it again.
template <class T>
void chunked_dense_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, DenseGradient<T> dm,
                            const DenseRelate<T>& relate, NodeView<const T> delta, NodeView<const T> z,
                            std::span<T> workspace, ChunkStream* stream, Index chunk_rows) {
  const Index step = chunk_rows_of(relate, stream, chunk_rows);
  if (!stream && step >= relate.rows)
    return relate_dense_backward<T>(exec, dz, da, dm, relate, delta, z, workspace);
  require(!stream || !dm.buffer, "a streamed relation is updated in backward");
  require(!dm.update || !dm.update->applied, "relate: an update is applied once a step");
  if (da.data) {
    require(relate.context || !stream, "a streamed relation keeps its contexts");
    relate_dense_backward<T>(exec, {}, da, nullptr, relate, delta, z, workspace);
  }
  if (dm.update) dm.update->applied = true;
  if (!dz.data && !dm.buffer && !dm.update) return;
  const bool at_home = stream && dm.update && stream->options().host_updates;
  if (stream) {
    const int arrays = !dm.update || at_home ? 1 : dm.update->m || dm.update->bf16.m ? 3 : 2;
    stream->start(arrays, true, dm.update && !at_home);
  }
  const Index chunks = (relate.rows + step - 1) / step;
  for (Index chunk = chunks - 1; chunk >= 0; --chunk) {
    const Index first = chunk * step, rows = std::min(step, relate.rows - first);
    DenseRelate<T> part = dense_rows(relate, first, rows, z.width());
    part.context = nullptr;
    part.weight_sum = nullptr;
    if (stream) {
      (void)stream->take();
      take_weights(part, *stream);
    }
    DenseUpdate<T> update;
    DenseGradient<T> sink;
    if (dm.buffer) sink.buffer = dm.buffer + first * relate.columns;
    if (at_home) {
      sink.buffer = reinterpret_cast<T*>(stream->outgoing());
      clear(exec, sink.buffer, rows * relate.columns);
    } else if (dm.update) {
      update = update_of_rows(*dm.update, part, first, relate.columns, stream);
      sink.update = &update;
    }
    relate_dense_backward<T>(exec, dz, {}, sink, part, row_range(delta, first, rows), z, workspace);
    if (stream) stream->give_back();
    // The device works on this chunk while the host updates the previous one.
    if (at_home && stream->leaving() > 1) update_with_arrived(exec, *dm.update, relate, z.width(), *stream);
  }
  while (at_home && stream->leaving() > 0) update_with_arrived(exec, *dm.update, relate, z.width(), *stream);
}

}  // namespace rossby::detail
