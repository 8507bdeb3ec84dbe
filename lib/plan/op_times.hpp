#pragma once

#include <map>
#include <string>
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

/// What calls of ops take where `ranks` of `threads` threads run on a host. A call is a point: its flops and
/// bytes, the bytes that the step around it touches (which cache holds its operands), its channels, and how
/// far those are from filling vectors of 16; all as powers of two. The rates, bytes a second, that the
/// samples of its op reached are averaged over all of them, near ones counting most (Shepard, "A
/// two-dimensional interpolation function for irregularly-spaced data", ACM 1968): a call that was measured
/// is answered with its measurement.
class OpTimes {
 public:
  /// How a call is answered.
  enum class Method { interpolated, model };

  OpTimes(const MachineProfile& profile, const std::string& precision, int ranks, int threads,
          Method method = Method::interpolated);

  struct Answer {
    double seconds = 0;
    double distance = 0;  // to the nearest sample, in powers of two; infinite: the op was never measured
  };
  /// Of one call, in a step that touches `footprint` bytes. An op that was never measured takes what its
  /// bytes take at the machine's bandwidth, or its flops at its rate of products, whichever is longer.
  [[nodiscard]] Answer seconds(const TracedOp& op, double footprint) const;

  /// Ranks and threads of the samples that answer: those asked for where they were measured, else the most
  /// that were measured below, or the fewest above.
  [[nodiscard]] int ranks() const { return ranks_; }
  /// Factor on all samples: ranks asked for over those that were measured, where all cores were taken then.
  [[nodiscard]] double crowding() const { return crowding_; }

  using Key = std::pair<std::string, bool>;
  [[nodiscard]] const std::map<Key, OpModel>& models() const { return models_; }

 private:
  void choose_ranks(const MachineProfile& profile, const std::string& precision, int ranks, int threads);

  Method method_;
  int ranks_ = 1;
  double crowding_ = 1;
  double bandwidth_ = 0;     // bytes/s of a rank
  double product_rate_ = 0;  // flop/s of a rank
  std::vector<OpSample> samples_;
  std::map<Key, std::vector<const OpSample*>> by_op_;
  std::map<Key, OpModel> models_;
};

}  // namespace rossby
