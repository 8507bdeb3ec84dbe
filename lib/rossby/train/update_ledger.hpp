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

/// The optimiser's arrays of a bf16 parameter, and its number of updates, which seeds the rounding.
struct Bf16Books {
  Twin<Bf16> first;
  Twin<Bf16> second;
  Random random;

  /// Returns the arrays for kernels of `device` (null: the host), to be rounded in update number `count`.
  template <class T>
  [[nodiscard]] Bf16Arrays arrays(Parameter<T>& parameter, Index count, const Device* device) {
    const Device* where = parameter.stream ? nullptr : device;
    return {parameter.bf16_data(where),
            first.data(where),
            second.data(where),
            {random.at(static_cast<std::uint64_t>(count)).bits(0), parameter.first_row}};
  }
};

/// The arrays that a ledger updates; all of them must outlive the ledger.
template <class T>
struct LedgerArrays {
  Parameter<T>* parameter = nullptr;
  Twin<T>* first = nullptr;      // m; empty if beta1 = 0
  Twin<T>* second = nullptr;     // v
  Bf16Books* bf16 = nullptr;     // replaces both for a bf16 parameter; else null
  const Index* count = nullptr;  // updates of the parameter so far, including late ones
};

/// Adam's or AdamW's updates of one parameter, some of them late. A step that does not read a value leaves it
/// alone; the next step that reads it makes the missed updates. The values equal those of an optimiser that
/// updates everything in each step (Absent::zero):
///
///   beta1 = 0 and no decay   in closed form: the value stays, v is multiplied by beta2^missed
///   otherwise                in one pass over memory that replays the updates in registers: doubles
///                            have equal bits, floats of a host take several updates at once
///                            (adam_replay), bf16 rounds once for all of them
///
/// One kind of ledger keeps a parameter as a whole and the rows that its gradient reaches. Another kind keeps
/// each row of a table (Parameter::by_rows) separately. Between two steps, books and arrays are the complete
/// state.
template <class T>
class UpdateLedger : public LateUpdates<T> {
 public:
  /// Postpones the update of a step whose losses did not depend on the parameter.
  virtual void put_off(const Exec& exec, const AdamStep& step) = 0;
  /// Makes the update of a step for the part that its gradient reached; the gradient is zero afterwards.
  /// Returns the cost.
  virtual Cost update(const Exec& exec, const AdamStep& step) = 0;

  /// Returns AdamStep::missed of the next update. Call `made` after an op has made it in backward.
  [[nodiscard]] virtual Index missed() const { return 0; }
  virtual void made() {}

  /// Makes all late updates. Call before any code outside a step reads the parameter or its moments.
  virtual Cost settle(const Exec& exec) = 0;
  /// Makes late updates of moments in rows that no gradient reached. Call before any code outside a step
  /// reads them. Their bits do not depend on the time of the call.
  virtual void settle_rows(const Exec&) {}

  /// Writes the late updates between two steps. `restore` reads them back (the caller restores the arrays)
  /// and forgets a step that was begun. The books of a split table hold all groups' rows. Throws UserError if
  /// the books cannot belong to this parameter.
  virtual void write(ParameterBooks& books) const = 0;
  virtual void restore(const Exec& exec, const ParameterBooks& books) = 0;
};

/// Returns the cost of one update: values and moments are read and written, the gradient is read and cleared.
template <class T>
[[nodiscard]] Cost update_cost(const Parameter<T>& parameter, const Twin<T>& first, const Twin<T>& second) {
  const Index arrays = 1 + (first.size() > 0 ? 1 : 0) + (second.size() > 0 ? 1 : 0);
  return {adam_flops * static_cast<double>(parameter.size()),
          static_cast<double>((2 * arrays + 2) * parameter.size()) * sizeof(T)};
}

/// Makes the ledger of a parameter and sets Parameter::late while the ledger lives. `decoupled`: AdamW.
template <class T>
[[nodiscard]] std::unique_ptr<UpdateLedger<T>> make_ledger(const LedgerArrays<T>& of, bool decoupled);

}  // namespace rossby
