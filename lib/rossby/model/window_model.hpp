#pragma once

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

/// What a windowed forecaster sees of a batch of B windows: for each of them `inputs` steps of input channels
/// and, while training, the truth of the `outputs` steps that follow. Values are scaled. Every rank gives the
/// same windows of its own rows.
template <class T>
class WindowSource {
 public:
  virtual ~WindowSource() = default;
  [[nodiscard]] virtual Index rows() const = 0;      // owned nodes
  [[nodiscard]] virtual Index windows() const = 0;   // B
  [[nodiscard]] virtual Index channels() const = 0;  // of an input step, the features first
  [[nodiscard]] virtual Index features() const = 0;  // of an output, for all levels (WindowParts)

  /// Input step t = 0, 1, … of every window: (rows, B, channels), a constant in the tape's arena.
  [[nodiscard]] virtual Var<T> input(Tape<T>& tape, Index t) const = 0;

  /// What is known ahead of output step h = 0, 1, …: (rows, B, known_channels), a constant. Only if there are
  /// such channels, which a model reads if its descriptor says so.
  [[nodiscard]] virtual Index known_channels() const { return 0; }
  [[nodiscard]] virtual Var<T> known(Tape<T>&, Index) const { bug("nothing is known ahead"); }

  /// Whether the truth of output step h is fed to step h + 1 instead of the model's own output: scheduled
  /// sampling (Bengio, Vinyals, Jaitly, Shazeer, NeurIPS 2015). The same on every rank.
  [[nodiscard]] virtual bool feeds_truth(Index h) const = 0;
  /// Scaled truth of output step h = 0, 1, …: (rows, B, features of one level), a constant. Only where it is
  /// fed.
  [[nodiscard]] virtual Var<T> truth(Tape<T>& tape, Index h) const = 0;

  /// The row that step t of every window reads in a table of the calendar, of those that the model has: t <
  /// inputs is an input step, inputs + h an output step. Lives as long as the tape's step.
  [[nodiscard]] virtual std::span<const Index> phases(Tape<T>&, CalendarTable, Index) const {
    bug("windows have no such table");
  }

  /// What keys the random draws of a training step, so that they are the same on every grid: the number of
  /// the optimiser step, and a number of window b that no other window has.
  [[nodiscard]] virtual Index step() const { return 0; }
  [[nodiscard]] virtual Index key(Index b) const { return b; }
};

/// Which parts of the forward are computed again in backward instead of being kept.
enum class Recompute {
  none,
  cell,  // every recurrent cell: its state is kept, its gates and diffusion terms are not; every layer of a
         // convolutional network
  step   // every time step, all layers together
};

/// A forecaster of windows: maps `inputs` steps to `outputs` steps. Its parameters are replicated, or lie
/// with the owners of their rows.
template <class T>
class WindowModel {
 public:
  virtual ~WindowModel() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::span<Parameter<T>* const> parameters() const = 0;
  /// Sets every parameter's start as a function of the seed.
  virtual void start(std::uint64_t seed) = 0;

  /// Fills `outputs`, one (rows, B, features) value an output step, scaled, for each of the sources, which
  /// are micro-batches of one batch. Collective over the row blocks. Where the tape records it is a training
  /// step; with a pipeline only its last stage has outputs then.
  virtual void predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
                       std::span<Var<T>> outputs) = 0;
  void predict(Tape<T>& tape, const WindowSource<T>& source, std::span<Var<T>> outputs) {
    const WindowSource<T>* const one = &source;
    predict(tape, std::span<const WindowSource<T>* const>(&one, 1), outputs);
  }
  /// This rank's place among the stages that train the model; none where it trains all layers. Forecasts are
  /// made by all layers on every rank.
  [[nodiscard]] virtual Pipeline pipeline() const { return {}; }

  /// Whether a training step is collective over the time groups too, before its gradients are summed: a group
  /// that has no windows left then takes part with none of them.
  [[nodiscard]] virtual bool meets_groups() const { return false; }
  /// Relations between nodes that it has learned, from the host's values.
  [[nodiscard]] virtual std::vector<LearnedRelation> learned_relations() const { return {}; }
  /// Lists that its steps read, on a device for as long as the handles live.
  [[nodiscard]] virtual std::vector<Device::Copy> keep_on(Device& device) const {
    (void)device;
    return {};
  }
};

}  // namespace rossby
