#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/pipeline.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/base/error.hpp"
#include "rossby/data/calendar_phases.hpp"
#include "rossby/model/learned_relations.hpp"

namespace rossby {

/// The input of a window model: a batch of B windows. Each window has `inputs` steps of input channels and,
/// in training, the truth of the next `outputs` steps. Values are scaled. Ranks that share windows give the
/// same windows, each of its own rows.
template <class T>
class WindowSource {
 public:
  virtual ~WindowSource() = default;
  [[nodiscard]] virtual Index rows() const = 0;      // owned nodes
  [[nodiscard]] virtual Index windows() const = 0;   // B
  [[nodiscard]] virtual Index channels() const = 0;  // of an input step, the features first
  [[nodiscard]] virtual Index features() const = 0;  // of an output, for all levels (WindowParts)

  /// Returns input step t = 0, 1, … of every window: (rows, B, channels), a constant in the tape's arena.
  [[nodiscard]] virtual Var<T> input(Tape<T>& tape, Index t) const = 0;

  /// Returns the inputs known ahead of output step h = 0, 1, …: (rows, B, known_channels), a constant. Call
  /// only if there are such channels; a model reads them if its descriptor says so.
  [[nodiscard]] virtual Index known_channels() const { return 0; }
  [[nodiscard]] virtual Var<T> known(Tape<T>&, Index) const { bug("nothing is known ahead"); }

  /// True if step h + 1 reads the truth of output step h instead of the model's own output: scheduled
  /// sampling (Bengio, Vinyals, Jaitly, Shazeer, NeurIPS 2015). The same on every rank.
  [[nodiscard]] virtual bool feeds_truth(Index h) const = 0;
  /// Returns the scaled truth of output step h = 0, 1, …: (rows, B, features of one level), a constant. Call
  /// only if feeds_truth(h).
  [[nodiscard]] virtual Var<T> truth(Tape<T>& tape, Index h) const = 0;

  /// Returns the row that step t of every window reads in one of the model's calendar tables. t < inputs is
  /// an input step, inputs + h an output step. Valid for the tape's step.
  [[nodiscard]] virtual std::span<const Index> phases(Tape<T>&, CalendarTable, Index) const {
    bug("windows have no such table");
  }

  /// Seeds of a training step's random draws, the same on every process grid: the number of the optimiser
  /// step, and the unique number of window b.
  [[nodiscard]] virtual Index step() const { return 0; }
  [[nodiscard]] virtual Index key(Index b) const { return b; }
};

/// The parts of the forward pass that backward computes again instead of keeping them.
enum class Recompute {
  none,
  cell,  // every recurrent cell: only its state is kept; every layer of a convolutional network
  step   // every time step, all layers together
};

/// A window model: maps `inputs` steps to `outputs` steps. Parameters are replicated or held by the owners of
/// their rows.
template <class T>
class WindowModel {
 public:
  virtual ~WindowModel() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::span<Parameter<T>* const> parameters() const = 0;
  /// Sets every parameter's start value as a function of the seed.
  virtual void start(std::uint64_t seed) = 0;
  /// Sets the last layer, the parameters named projection…, to 0, and so all outputs. Returns false if this
  /// rank has no such parameters.
  bool clear_last_layer() const {
    bool any = false;
    for (Parameter<T>* parameter : parameters())
      if (parameter->name.starts_with("projection")) {
        std::fill(parameter->value.begin(), parameter->value.end(), T{0});
        any = true;
      }
    return any;
  }

  /// Fills `outputs` with one scaled value (rows, B, features) per output step, for each of the sources,
  /// which are micro-batches of one batch. If the tape records, it is a training step; with a pipeline, only
  /// its last stage then has outputs. Collective over the row blocks.
  virtual void predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
                       std::span<Var<T>> outputs) = 0;
  void predict(Tape<T>& tape, const WindowSource<T>& source, std::span<Var<T>> outputs) {
    const WindowSource<T>* const one = &source;
    predict(tape, std::span<const WindowSource<T>* const>(&one, 1), outputs);
  }
  /// Returns this rank's place among the stages that train the model; none if it trains all layers. Every
  /// rank forecasts with all layers.
  [[nodiscard]] virtual Pipeline pipeline() const { return {}; }

  /// True if a training step is also collective over the time groups before its gradients are summed. A group
  /// without windows then takes part with none.
  [[nodiscard]] virtual bool meets_groups() const { return false; }
  /// Returns the learned relations between nodes, read from the host's values.
  [[nodiscard]] virtual std::vector<LearnedRelation> learned_relations() const { return {}; }
  /// Copies lists that its steps read to a device, where they stay as long as the handles live.
  [[nodiscard]] virtual std::vector<Device::Copy> keep_on(Device& device) const {
    (void)device;
    return {};
  }
};

}  // namespace rossby
