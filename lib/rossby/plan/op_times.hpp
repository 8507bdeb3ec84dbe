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

/// The time of an op as a polynomial of its size: a + b·flops + c·bytes with coefficients ≥ 0, fitted by
/// least squares of relative errors (Qi et al., "Paleo", ICLR 2017; Cai et al., "NeuralPower", ACML 2017).
struct OpModel {
  double constant = 0;  // s
  double per_flop = 0;  // s
  double per_byte = 0;  // s
  [[nodiscard]] double seconds(const Cost& cost) const {
    return constant + per_flop * cost.flops + per_byte * cost.bytes;
  }
};

/// Fits a model to samples of one op and direction; returns zero if there are none.
[[nodiscard]] OpModel fit(const std::vector<const OpSample*>& samples);

/// An op and its direction.
using OpKey = std::pair<std::string, bool>;

/// The timed part of a call: the host's computation, a device's computation, or the host's time to enqueue it
/// for a device.
enum class Timed { host, device, launches };

/// Measurements of ops in trainings of one precision with `ranks` ranks of `threads` threads on a host, and
/// the models fitted to them. The threads do not matter for a device.
class OpFits {
 public:
  OpFits(const MachineProfile& profile, const std::string& precision, int ranks, int threads,
         Timed what = Timed::host);
  OpFits(const OpFits&) = delete;
  OpFits& operator=(const OpFits&) = delete;

  /// A call, in units of length beyond which calls are no longer similar.
  using Point = std::array<double, 9>;
  struct OfOp {
    std::vector<const OpSample*> samples;
    OpModel model;
    std::vector<Point> points;
    std::vector<double> rest;  // log(time / model)
    /// Returns the model's seconds, never 0.
    [[nodiscard]] double expected(const Cost& cost) const;
  };
  /// Returns null if the op was never measured.
  [[nodiscard]] const OfOp* of(const OpKey& key) const;
  /// Returns the longer of the op's bytes at the machine's bandwidth and its flops at its rate of products;
  /// for enqueuing, the time of the median call.
  [[nodiscard]] double unmeasured_seconds(const Cost& cost) const {
    return std::max({bandwidth_ > 0 ? cost.bytes / bandwidth_ : 0,
                     product_rate_ > 0 ? cost.flops / product_rate_ : 0, usual_});
  }
  /// True if unmeasured_seconds has a rate to use.
  [[nodiscard]] bool knows_unmeasured() const { return bandwidth_ > 0 || product_rate_ > 0 || usual_ > 0; }
  /// Returns the time of a call of `seconds` on the projected machine (MachineProfile::faster).
  [[nodiscard]] double projected(double seconds, const Cost& cost) const;

 private:
  double bandwidth_ = 0;     // bytes/s of a rank, on the projected machine
  double product_rate_ = 0;  // flop/s of a rank
  double usual_ = 0;         // seconds to enqueue a call
  FasterBy faster_;
  std::vector<OpSample> samples_;
  std::map<OpKey, OfOp> by_op_;
};

/// Fits by precision, ranks on a host, threads and timed part. Predictions from one profile share them.
using OpFitsOfMachine = std::map<std::tuple<std::string, int, int, Timed>, std::shared_ptr<OpFits>>;

/// A machine's measurements, and the fits that predictions have made from them so far.
struct MeasuredMachine {
  MachineProfile profile;
  mutable OpFitsOfMachine fits = {};
};

/// Predicts the time of calls of ops if `ranks` of `threads` threads run on a host. A measured call returns
/// its measurement. For another call, the op's polynomial (OpModel) is multiplied by a correction: the ratio
/// of measurement to polynomial at the nearest measured calls. It is the mean of logarithms, weighted by the
/// inverse fourth power of distance (Shepard, "A two-dimensional interpolation function for
/// irregularly-spaced data", ACM 1968).
///
/// The coordinates of a call are base-2 logarithms of these values: its flops and bytes per output value (in
/// total if it has no output), the bytes that the surrounding step touches (which cache holds its operands),
/// rows and widths of the output, and how well the widths and the inner one of a product fill vectors.
class OpTimes {
 public:
  /// `shared`: fits that other objects may have made already; null: this object makes its own.
  OpTimes(const MachineProfile& profile, const std::string& precision, int ranks, int threads,
          OpFitsOfMachine* shared = nullptr, Timed what = Timed::host);

  struct Answer {
    double seconds = 0;
    double distance = 0;  // to the nearest sample; from 1 on, samples say little; infinite: never measured
    double doubt = 0;     // standard deviation of the logarithm of `seconds`
    bool moves = true;    // the samples move chunks of streamed relations as the call does
    bool known = true;    // false: no rate predicts a call that was never measured
  };
  /// Returns the time of one call.
  [[nodiscard]] Answer seconds(const TracedOp& op) const;
  /// Returns the distance of the nearest sample with the same number of ranks; 0: its training was measured.
  [[nodiscard]] double distance(const TracedOp& op) const;

  /// Return the ranks and threads of the samples in use: the requested ones if measured, else the largest
  /// measured number below, else the smallest above.
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  /// Samples of one number of ranks.
  struct Source {
    std::shared_ptr<const OpFits> fits;
    double crowding = 1;  // requested over measured ranks, if the measured ones used all cores or devices
  };
  [[nodiscard]] static Answer answer_of(const Source& source, const TracedOp& op);

  int ranks_ = 1;
  Source source_;
  Source fuller_;  // of other ranks, with many more samples, for calls far from all of `source_`; or null
};

}  // namespace rossby
