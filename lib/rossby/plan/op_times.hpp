#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rossby/autograd/block_trace.hpp"
#include "rossby/plan/machine_profile.hpp"

namespace rossby {

/// The time of an op as a polynomial of its size: a + b·flops + c·bytes, none of them negative, by least
/// squares of relative errors (the layer-time models of the literature: Qi et al., "Paleo", ICLR 2017; Cai et
/// al., "NeuralPower", ACML 2017).
struct OpModel {
  double constant = 0;  // s
  double per_flop = 0;  // s
  double per_byte = 0;  // s
  double error = 0;     // mean absolute relative error over its samples
  [[nodiscard]] double seconds(const Cost& cost) const {
    return constant + per_flop * cost.flops + per_byte * cost.bytes;
  }
};

/// Fits one to samples of one op and direction; zero for none.
[[nodiscard]] OpModel fit(const std::vector<const OpSample*>& samples);

/// An op and its direction.
using OpKey = std::pair<std::string, bool>;

/// What of a call is timed: what the host takes to compute it; what a device takes; what the host takes to
/// enqueue it for a device.
enum class Timed { host, device, launches };

/// What was measured of the ops of trainings of one precision under `ranks` ranks of `threads` threads on a
/// host, and what is fitted to it. Whatever the threads, of a device.
class OpFits {
 public:
  OpFits(const MachineProfile& profile, const std::string& precision, int ranks, int threads,
         Timed what = Timed::host);
  OpFits(const OpFits&) = delete;
  OpFits& operator=(const OpFits&) = delete;

  /// A call, in lengths over which calls stop being alike.
  using Point = std::array<double, 9>;
  struct OfOp {
    std::vector<const OpSample*> samples;
    OpModel model;
    std::vector<Point> points;
    std::vector<double> rest;  // logarithms of time over model
    /// Seconds by the model, never 0.
    [[nodiscard]] double expected(const Cost& cost) const;
  };
  /// Null for what was never measured.
  [[nodiscard]] const OfOp* of(const OpKey& key) const;
  /// What an op's bytes take at the machine's bandwidth, or its flops at its rate of products, whichever is
  /// longer; to enqueue it, what the median call takes.
  [[nodiscard]] double unmeasured_seconds(const Cost& cost) const {
    return std::max({bandwidth_ > 0 ? cost.bytes / bandwidth_ : 0,
                     product_rate_ > 0 ? cost.flops / product_rate_ : 0, usual_});
  }
  /// Whether that says anything.
  [[nodiscard]] bool knows_unmeasured() const { return bandwidth_ > 0 || product_rate_ > 0 || usual_ > 0; }
  /// What a call of `seconds` takes on the machine that is asked about (MachineProfile::faster).
  [[nodiscard]] double projected(double seconds, const Cost& cost) const;
  [[nodiscard]] std::size_t size() const { return samples_.size(); }

 private:
  double bandwidth_ = 0;     // bytes/s of a rank, of the machine that is asked about
  double product_rate_ = 0;  // flop/s of a rank
  double usual_ = 0;         // seconds to enqueue a call
  FasterBy faster_;
  std::vector<OpSample> samples_;
  std::map<OpKey, OfOp> by_op_;
};

/// By precision, ranks on a host, threads and what is timed, for predictions of one profile to share.
using OpFitsOfMachine = std::map<std::tuple<std::string, int, int, Timed>, std::shared_ptr<OpFits>>;

/// A machine's measurements, and what predictions from them have fitted so far.
struct MeasuredMachine {
  MachineProfile profile;
  mutable OpFitsOfMachine fits = {};
};

/// What calls of ops take where `ranks` of `threads` threads run on a host. A call that was measured is
/// answered with its measurement. Others take what the op's polynomial says (OpModel), times by how much the
/// nearest measured calls are off it: the mean of logarithms, weighted by the inverse fourth power of their
/// distance (Shepard, "A two-dimensional interpolation function for irregularly-spaced data", ACM 1968). A
/// call is a point: its flops and bytes for each value that it makes (all of them where it makes none), the
/// bytes that the step around it touches (which cache holds its operands), rows and widths of the value, and
/// how those widths and the inner one of a product fill vectors; all as powers of two.
class OpTimes {
 public:
  /// `shared`: where fits are kept that others may have made already; null: this makes its own.
  OpTimes(const MachineProfile& profile, const std::string& precision, int ranks, int threads,
          OpFitsOfMachine* shared = nullptr, Timed what = Timed::host);

  struct Answer {
    double seconds = 0;
    double distance = 0;  // to the nearest sample; from 1 on they say little; infinite: never measured
    double doubt = 0;     // standard deviation of the logarithm of `seconds`
    bool moves = true;    // chunks of streamed relations, in the samples as in the call
    bool known = true;    // false: no rate says what a call takes that was never measured
  };
  /// Of one call.
  [[nodiscard]] Answer seconds(const TracedOp& op) const;
  /// How far the nearest sample is of those of its number of ranks; 0: its training was measured.
  [[nodiscard]] double distance(const TracedOp& op) const;

  /// Ranks and threads of the samples that answer: those asked for where they were measured, else the most
  /// that were measured below, or the fewest above.
  [[nodiscard]] int ranks() const { return ranks_; }
  /// Factor on all samples: ranks asked for over those that were measured, where all cores (of a device's
  /// times, all devices) were taken then.
  [[nodiscard]] double crowding() const { return crowding_; }

 private:
  /// Samples of one number of ranks.
  struct Source {
    std::shared_ptr<const OpFits> fits;
    double crowding = 1;
  };
  [[nodiscard]] static Answer answer_of(const Source& source, const TracedOp& op);

  int ranks_ = 1;
  double crowding_ = 1;
  Source source_;
  Source
      fuller_;  // of other ranks, with many more samples, for calls that `source_` has nothing near; or null
};

}  // namespace rossby
