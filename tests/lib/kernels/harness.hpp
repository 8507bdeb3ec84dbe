#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby::test {

/// Memory layouts of a kernel's operands.
enum class Layout {
  packed,
  gapped,     // unused scalars after every channel run and after every row
  time_major  // column by column, as Z (T, n, d)
};

struct Shape {
  Index rows, cols, channels;
};

/// Hands a kernel its operands, each surrounded and interleaved by sentinels, and filled with numbers that
/// depend on their order alone. Outputs start as NaN, which no kernel may leave or read. With a device the
/// operands lie there.
template <class T>
class Rig {
 public:
  explicit Rig(Layout layout, Device* device = nullptr) : layout_(layout), device_(device) {}

  NodeView<T> input(Shape s, double low = -1, double high = 1) { return place<T>(s, layout_, low, high); }
  NodeView<T> output(Shape s) { return place<T>(s, layout_, 0, 0, true); }
  /// Float data, every fourth value NaN.
  NodeView<float> target(Shape s) {
    const NodeView<float> view = place<float>(s, layout_, -1, 1, false, true);
    if constexpr (std::is_same_v<T, float>) fields_.back()->has_missing = true;
    return view;
  }
  MatrixView<T> matrix(Index rows, Index cols, bool is_output = false) {
    const NodeView<T> view = place<T>({rows, 1, cols}, layout_, -1, 1, is_output);
    return {view.data, rows, cols, view.row_stride};
  }
  std::span<T> vector(Index size, double low = -1, double high = 1) {
    return {place<T>({size, 1, 1}, Layout::packed, low, high).data, static_cast<std::size_t>(size)};
  }
  T* output_vector(Index size) { return place<T>({size, 1, 1}, Layout::packed, 0, 0, true).data; }
  /// Sums, which are double for every T; they are outputs.
  double* sums(Index size) { return place<double>({size, 1, 1}, Layout::packed, 0, 0, true).data; }
  /// Memory whose contents after the kernel do not matter; NaN at first.
  std::span<T> scratch(Index size) {
    if (device_) return {scratch_.emplace_back(size, *device_).data(), static_cast<std::size_t>(size)};
    Buffer<T>& memory = scratch_.emplace_back(size);
    std::fill(memory.begin(), memory.end(), std::numeric_limits<T>::quiet_NaN());
    return memory.span();
  }
  std::span<std::uint8_t> bytes(Index size) { return bytes_.emplace_back(size, device_).span(); }
  void result(double value) { results_.push_back(value); }

  /// Every operand with its sentinels, then the scalar results.
  [[nodiscard]] std::vector<double> everything() const {
    fetch();
    std::vector<double> values;
    for (const auto& field : fields_) values.insert(values.end(), field->all.begin(), field->all.end());
    for (const auto& field : float_fields_) values.insert(values.end(), field->all.begin(), field->all.end());
    for (const auto& field : double_fields_)
      values.insert(values.end(), field->all.begin(), field->all.end());
    values.insert(values.end(), results_.begin(), results_.end());
    return values;
  }

  /// Sentinels that a kernel overwrote.
  [[nodiscard]] Index damaged() const {
    fetch();
    return count_damage(fields_) + count_damage(float_fields_) + count_damage(double_fields_);
  }
  /// Values that are NaN after the kernel: left unwritten, or made from unwritten ones.
  [[nodiscard]] Index unwritten() const {
    fetch();
    return count_nan(fields_) + count_nan(double_fields_);
  }

 private:
  static constexpr int sentinel = 12345;
  static constexpr Index margin = 32;

  template <class V>
  struct Field {
    std::vector<V> all;
    std::vector<char> used;
    bool has_missing = false;  // NaN is legitimate
    Buffer<V> on_device;
  };

  void fetch() const {
    if (!device_) return;
    for (const auto& field : fields_) device_->download(std::span(field->all), field->on_device.data());
    for (const auto& field : float_fields_) device_->download(std::span(field->all), field->on_device.data());
    for (const auto& field : double_fields_)
      device_->download(std::span(field->all), field->on_device.data());
    device_->wait();
  }

  template <class V>
  static Index count_damage(const std::vector<std::unique_ptr<Field<V>>>& fields) {
    Index count = 0;
    for (const auto& field : fields)
      for (std::size_t k = 0; k < field->all.size(); ++k)
        count += !field->used[k] && field->all[k] != static_cast<V>(sentinel);
    return count;
  }

  template <class V>
  static Index count_nan(const std::vector<std::unique_ptr<Field<V>>>& fields) {
    Index count = 0;
    for (const auto& field : fields)
      for (std::size_t k = 0; !field->has_missing && k < field->all.size(); ++k)
        count += field->used[k] && std::isnan(field->all[k]);
    return count;
  }

  template <class V>
  NodeView<V> place(Shape s, Layout layout, double low, double high, bool is_output = false,
                    bool missing = false) {
    Index col_stride = s.channels;
    Index row_stride = s.cols * s.channels;
    if (layout == Layout::gapped) {
      col_stride = s.channels + 3;
      row_stride = s.cols * col_stride + 5;
    } else if (layout == Layout::time_major && s.cols > 1) {
      row_stride = s.channels;
      col_stride = s.rows * s.channels;
    }
    const auto size = static_cast<std::size_t>(s.rows * row_stride + s.cols * col_stride + 2 * margin);
    auto field = std::make_unique<Field<V>>();
    field->all.assign(size, static_cast<V>(sentinel));
    field->used.assign(size, false);
    const NodeView<V> view(field->all.data() + margin, s.rows, s.cols, s.channels, row_stride, col_stride);
    std::mt19937 random(++operands_);
    Index number = 0;
    for (Index i = 0; i < s.rows; ++i)
      for (Index b = 0; b < s.cols; ++b)
        for (Index c = 0; c < s.channels; ++c) {
          V* at = view.at(i, b) + c;
          *at = is_output ? std::numeric_limits<V>::quiet_NaN()
                          : static_cast<V>(low + (high - low) * static_cast<double>(random()) * 0x1.0p-32);
          if (missing && number++ % 4 == 2) *at = std::numeric_limits<V>::quiet_NaN();
          field->used[static_cast<std::size_t>(at - field->all.data())] = true;
        }
    NodeView<V> there = view;
    if (device_) {
      field->on_device = Buffer<V>(static_cast<Index>(size), *device_);
      there.data = field->on_device.data() + margin;
      device_->upload(field->on_device.data(), std::span<const V>(field->all));
    }
    if constexpr (std::is_same_v<V, T>)
      fields_.push_back(std::move(field));
    else if constexpr (std::is_same_v<V, double>)
      double_fields_.push_back(std::move(field));
    else
      float_fields_.push_back(std::move(field));
    return there;
  }

  Layout layout_;
  Device* device_;
  std::uint32_t operands_ = 0;
  std::vector<std::unique_ptr<Field<T>>> fields_;
  std::vector<std::unique_ptr<Field<float>>> float_fields_;
  std::vector<std::unique_ptr<Field<double>>> double_fields_;
  std::vector<Buffer<T>> scratch_;
  std::vector<Buffer<std::uint8_t>> bytes_;
  std::vector<double> results_;
};

/// Calls one kernel on operands of a shape.
template <class T>
struct Case {
  using Operands = Rig<T>;
  std::string name;
  std::function<void(const Exec&, Rig<T>&, Shape)> run;
};

template <class T>
NodeView<const T> read(NodeView<T> view) {
  return view;
}
template <class T>
MatrixView<const T> read(MatrixView<T> view) {
  return view;
}
template <class T>
std::span<const T> read(std::span<T> values) {
  return values;
}

/// Dense layers with `out` outputs; all_cases contains some of them.
template <class T>
std::vector<Case<T>> linear_cases(Index out);

/// Every kernel. tests/lib/kernels/cases.cpp
template <class T>
std::vector<Case<T>> all_cases();

/// Kernels for the host only, with packed data.
template <class T>
std::vector<Case<T>> host_cases();

/// Kernels that go through runs of contiguous values.
template <class T>
std::vector<Case<T>> run_cases();

}  // namespace rossby::test
