#pragma once

#include <string_view>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"

namespace rossby {

/// Assigns everything that the tape records during its lifetime to a named block of the model (a cell, a
/// layer, a loss). It costs nothing if the tape has neither trace nor check.
template <class T>
class Block {
 public:
  Block(Tape<T>& tape, std::string_view name) : tape_(&tape) {
    if (BlockTrace* trace = tape.trace()) trace->enter(name, tape.kept_bytes());
    if (OpCheck<T>* check = tape.check()) check->enter(name);
  }
  ~Block() {
    if (BlockTrace* trace = tape_->trace()) trace->leave(tape_->kept_bytes(), tape_->recording());
    if (OpCheck<T>* check = tape_->check()) check->leave();
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Declares an input from other blocks.
  void reads(const Var<T>& x) const {
    if (BlockTrace* trace = tape_->trace())
      trace->reads(x.value.data, extent(x.value), static_cast<double>(x.value.size()) * sizeof(T));
  }
  /// Declares an output for other blocks, and returns it.
  const Var<T>& hands_on(const Var<T>& y) const {
    if (BlockTrace* trace = tape_->trace())
      trace->hands_on(y.value.data, extent(y.value), y.rows(), y.cols(), y.channels());
    return y;
  }
  /// Declares rows of a table that other blocks read in place: `cols` rows, identified by `source`.
  void hands_on_rows(const Parameter<T>& source, Index cols) const {
    if (BlockTrace* trace = tape_->trace())
      trace->hands_on(&source, 1, source.shape[1], cols, source.shape[2]);
  }
  void reads_rows(const Parameter<T>& source, Index cols) const {
    if (BlockTrace* trace = tape_->trace())
      trace->reads(&source, 1, static_cast<double>(source.shape[1] * cols * source.shape[2]) * sizeof(T));
  }
  /// Declares parameters. Each parameter counts with the first block that names it.
  template <class... Parameters>
  void trains(const Parameters*... parameters) const {
    if (BlockTrace* trace = tape_->trace())
      ((parameters && parameters->trained
            ? trace->trains(parameters, parameters->size(),
                            static_cast<double>(parameters->size()) * (parameters->in_bf16 ? 2 : sizeof(T)))
            : void()),
       ...);
  }

 private:
  /// Bytes from the first value to the end of the last one.
  static std::size_t extent(const NodeView<T>& v) {
    if (v.size() == 0) return 0;
    return sizeof(T) *
           static_cast<std::size_t>((v.rows - 1) * v.row_stride + (v.cols - 1) * v.col_stride + v.channels);
  }

  Tape<T>* tape_;
};

}  // namespace rossby
