#include "rossby/autograd/sparse_trial.hpp"

#include "rossby/exchange/one_rank.hpp"
#include "rossby/kernels/queue_clock.hpp"

namespace rossby {
namespace {

constexpr int repeats = 5;        // of a trial, after one warm-up
constexpr double ahead = 200e-6;  // seconds to hold the device, so that launches queue up behind

/// One product per direction, as in a step.
template <class T>
void there_and_back(Tape<T>& tape, const Diffusion<T>& diffusion, const SparseTrial& trial,
                    const NodeView<T>& x, const NodeView<T>& dx) {
  const auto mark = tape.mark();
  const Exec& exec = tape.exec();
  if (trial.steps > 0) {
    // The terms of zeros are zeros, and serve as gradients too.
    const NodeView<T> z = diffusion_terms<T>(tape, diffusion, x);
    diffusion_adjoint(tape, diffusion, z, dx);
  } else {
    const SparseMatrix<T> support = diffusion.support(exec.device, 0);
    spmm_forward<T>(exec, dx, support, T{1}, {}, diffusion.block->interior, x, {});
    spmm_adjoint<T>(exec, x, support, T{1}, Index{0}, dx);
  }
  tape.rewind(mark);
}

template <class T>
double seconds_of(Tape<T>& tape, const Diffusion<T>& diffusion, const SparseTrial& trial,
                  const NodeView<T>& x, const NodeView<T>& dx) {
  QueueClock clock(tape.exec());
  return least_seconds(repeats, [&] {
    clock.start_anew();
    const std::size_t begin = clock.hold(ahead);
    there_and_back(tape, diffusion, trial, x, dx);
    const std::size_t end = clock.mark();
    tape.exec().device->wait();
    return clock.seconds(begin, end);
  });
}

}  // namespace

template <class T>
SparseChoice try_sparse_products(const Exec& exec, SparseLibrary<T>& library, const CsrBlock& block,
                                 const SparseTrial& trial) {
  SparseChoice choice;
  const Index columns = trial.columns, channels = trial.channels;
  if (block.entries() == 0 || columns * channels == 0) return choice;
  Device& device = *exec.device;
  OneRankExchange exchange(block.rows);
  Diffusion<T> diffusion(block, exchange, trial.steps, trial.variant);
  diffusion.alone = true;
  // Operands of the products: neighbouring terms, or packed values.
  const Index terms = diffusion.plan.terms, apart = terms * channels;
  const NodeView<const T> like(nullptr, block.rows, columns, channels, columns * apart, apart);
  const Index room = static_cast<Index>(device.free_bytes() / 4);
  const Index size = block.rows * columns * channels;
  const Index directions = trial.steps > 0 ? 2 * Index{block.relations} : 2;
  if (!library.takes(like, like) || directions * library.index_bytes(like, like) > room ||
      (terms + 2) * size > room / static_cast<Index>(sizeof(T)))
    return choice;
  // As in training: no transfers within a step.
  const std::vector<Device::Copy> kept = diffusion.keep_on(device);
  Buffer<T> values(2 * size, device);  // zeros
  const NodeView<T> x(values.data(), block.rows, columns, channels),
      dx(values.data() + size, block.rows, columns, channels);
  Tape<T> tape(exec);
  choice.seconds[0] = seconds_of(tape, diffusion, trial, x, dx);
  diffusion.sparse_library =
      std::shared_ptr<SparseLibrary<T>>(std::shared_ptr<void>(), &library);  // not owned
  choice.seconds[1] = seconds_of(tape, diffusion, trial, x, dx);
  return choice;
}

ROSSBY_FOR_SCALARS(try_sparse_products)

}  // namespace rossby
