#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/tensor/twin.hpp"
#include "rossby/train/training_state.hpp"

namespace rossby {

/// How an optimiser keeps a parameter in bf16: its arrays, and the updates that it has had, which key the
/// rounding.
struct Bf16Books {
  Twin<Bf16> first;
  Twin<Bf16> second;
  Random random;

  /// The arrays for kernels of `device` (null: of the host), as they are to be rounded in update number
  /// `count`.
  template <class T>
  [[nodiscard]] Bf16Arrays arrays(Parameter<T>& parameter, Index count, const Device* device) {
    const Device* where = parameter.stream ? nullptr : device;
    return {parameter.bf16_data(where),
            first.data(where),
            second.data(where),
            {random.at(static_cast<std::uint64_t>(count)).bits(0), parameter.first_row}};
  }
};

/// What a ledger updates; all of it outlives the ledger.
template <class T>
struct LedgerArrays {
  Parameter<T>* parameter = nullptr;
  Twin<T>* first = nullptr;      // m; empty where beta1 = 0
  Twin<T>* second = nullptr;     // v
  Bf16Books* bf16 = nullptr;     // in place of both, of a parameter in bf16; else null
  const Index* count = nullptr;  // updates of the parameter so far, the late ones included
};

/// Adam's or AdamW's updates of one parameter, of which some are made later than in their step: a step that
/// does not read a value leaves it alone, and the next one that does makes up for what was missed. The values
/// are those of an optimiser that updates everything in each step (Absent::zero):
///
///   beta1 = 0 and no decay   in closed form: the value stands still, v is multiplied by beta2^missed
///   otherwise                in one pass over memory that replays them in registers: doubles equal to the
///                            bit, floats of a host in hops of several updates (adam_replay), bf16 to one
///                            rounding of them all
///
/// One ledger keeps a parameter as a whole, with the rows that its gradient reaches; another keeps each row
/// of a table (Parameter::by_rows) by itself. Between two steps books and arrays are all there is to know.
template <class T>
class UpdateLedger : public LateUpdates<T> {
 public:
  /// An update in a step whose losses did not depend on the parameter, for later.
  virtual void put_off(const Exec& exec, const AdamStep& step) = 0;
  /// The update of a step: of what its gradient has reached, which is zero afterwards. Returns what it cost.
  virtual Cost update(const Exec& exec, const AdamStep& step) = 0;

  /// AdamStep::missed of the next update; `made` after an op has made it in backward.
  [[nodiscard]] virtual Index missed() const { return 0; }
  virtual void made() {}

  /// Makes up for everything: before anything but a step reads the parameter or its moments.
  virtual Cost settle(const Exec& exec) = 0;
  /// For moments of rows that gradients did not reach alone: before anything but a step reads them. Their
  /// bits do not depend on when it is done.
  virtual void settle_rows(const Exec&) {}

  /// Between two steps: what is late. `restore` takes it back (the arrays are the caller's), of a table with
  /// all groups' rows where it is split, and forgets a step that was begun. Throws UserError where the books
  /// cannot be of this parameter.
  virtual void write(ParameterBooks& books) const = 0;
  virtual void restore(const Exec& exec, const ParameterBooks& books) = 0;
};

/// Of one update: values and moments are read and written, the gradient is read, then cleared.
template <class T>
[[nodiscard]] Cost update_cost(const Parameter<T>& parameter, const Twin<T>& first, const Twin<T>& second) {
  const Index arrays = 1 + (first.size() > 0 ? 1 : 0) + (second.size() > 0 ? 1 : 0);
  return {adam_flops * static_cast<double>(parameter.size()),
          static_cast<double>((2 * arrays + 2) * parameter.size()) * sizeof(T)};
}

/// The ledger for a parameter; it takes the place of Parameter::late while it lives. `decoupled`: AdamW.
template <class T>
[[nodiscard]] std::unique_ptr<UpdateLedger<T>> make_ledger(const LedgerArrays<T>& of, bool decoupled);

}  // namespace rossby
