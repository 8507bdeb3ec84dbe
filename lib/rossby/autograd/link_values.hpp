#pragma once

#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/row_link.hpp"

// Internal to lib/rossby/autograd: sends packed values from one rank to another. Values on a device go
// through the host.

namespace rossby::detail {

template <class T>
void send_values(Tape<T>& tape, RowLink& link, int to, const NodeView<const T>& values) {
  const auto size = static_cast<std::size_t>(values.size());
  Device* device = tape.exec().device;
  if (!device) return link.send(to, std::as_bytes(std::span<const T>(values.data, size)));
  const Arena::Mark mark = tape.arena().mark();
  const std::span<T> host = tape.arena().template take<T>(values.size());
  device->download(host, values.data);
  device->wait();
  link.send(to, std::as_bytes(std::span<const T>(host)));
  tape.arena().rewind(mark);
}

template <class T>
void receive_values(Tape<T>& tape, RowLink& link, int from, const NodeView<T>& values) {
  const auto size = static_cast<std::size_t>(values.size());
  Device* device = tape.exec().device;
  if (!device) return link.receive(from, std::as_writable_bytes(std::span<T>(values.data, size)));
  const Arena::Mark mark = tape.arena().mark();
  const std::span<T> host = tape.arena().template take<T>(values.size());
  link.receive(from, std::as_writable_bytes(host));
  device->upload(values.data, std::span<const T>(host));
  device->wait();
  tape.arena().rewind(mark);
}

}  // namespace rossby::detail
