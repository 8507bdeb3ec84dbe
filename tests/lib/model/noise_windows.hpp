#pragma once

#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/model/window_model.hpp"

namespace rossby {

/// Windows of values that are functions of step and place.
class NoiseWindows final : public WindowSource<double> {
 public:
  NoiseWindows(Index rows, Index windows, Index channels, Index features)
      : rows_(rows), windows_(windows), channels_(channels), features_(features) {}

  [[nodiscard]] Index rows() const override { return rows_; }
  [[nodiscard]] Index windows() const override { return windows_; }
  [[nodiscard]] Index channels() const override { return channels_; }
  [[nodiscard]] Index features() const override { return features_; }
  [[nodiscard]] bool feeds_truth(Index) const override { return false; }
  [[nodiscard]] Var<double> truth(Tape<double>&, Index) const override { bug("nothing is fed"); }
  [[nodiscard]] Var<double> input(Tape<double>& tape, Index t) const override {
    const Var<double> x = tape.make(rows_, windows_, channels_, false);
    for (Index k = 0; k < x.value.size(); ++k) x.value.data[k] = value(t, k);
    return x;
  }
  [[nodiscard]] Index step() const override { return 6; }
  [[nodiscard]] Index key(Index b) const override { return 10 * b + 3; }

  /// Input step t, place k of (rows, windows, channels).
  static double value(Index t, Index k) {
    return std::sin(1.7 * static_cast<double>(k) + 0.9 * static_cast<double>(t));
  }

 private:
  Index rows_, windows_, channels_, features_;
};

/// The same, at steps of a calendar.
class DatedNoise final : public WindowSource<double> {
 public:
  DatedNoise(Index rows, Index windows, Index channels, Index features)
      : noise_(rows, windows, channels, features) {}
  [[nodiscard]] Index rows() const override { return noise_.rows(); }
  [[nodiscard]] Index windows() const override { return noise_.windows(); }
  [[nodiscard]] Index channels() const override { return noise_.channels(); }
  [[nodiscard]] Index features() const override { return noise_.features(); }
  [[nodiscard]] bool feeds_truth(Index) const override { return false; }
  [[nodiscard]] Var<double> truth(Tape<double>&, Index) const override { bug("nothing is fed"); }
  [[nodiscard]] Var<double> input(Tape<double>& tape, Index t) const override {
    return noise_.input(tape, t);
  }
  [[nodiscard]] std::span<const Index> phases(Tape<double>& tape, CalendarTable table,
                                              Index t) const override {
    const auto phases = tape.arena().take<Index>(windows());
    for (Index b = 0; b < windows(); ++b) phases[static_cast<std::size_t>(b)] = phase(table, b, t);
    return phases;
  }
  [[nodiscard]] Index step() const override { return noise_.step(); }
  [[nodiscard]] Index key(Index b) const override { return noise_.key(b); }

  /// Both windows share a time of day, but not the day.
  static Index phase(CalendarTable table, Index b, Index t) {
    if (table == CalendarTable::time_of_day) return (t + b % 2) % 6;
    return (2 * b + t) % (table == CalendarTable::day_of_week ? 7 : 12);
  }

 private:
  NoiseWindows noise_;
};

}  // namespace rossby
