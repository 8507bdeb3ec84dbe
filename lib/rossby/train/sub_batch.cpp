#include "rossby/train/sub_batch.hpp"

#include <algorithm>
#include <numeric>

namespace rossby {
template <class T>
void train_sub_batch(Task<T>& task, MasterParameters<T>& masters, Tape<T>& tape, int group,
                     FinishedBatch<T>& batch, StepSeconds& seconds) {
  const Index index = batch.batch % task.batches();  // a group may repeat its batches
  const auto share = task.share(index, group);
  batch.windows = share.windows;
  batch.targets = share.targets;
  for (Parameter<T>* parameter : masters.model()) parameter->reached.clear();
  tape.reset();
  Losses losses;
  const Index parts = task.parts();
  Stopwatch lap;
  for (Index part = 0; part < parts; ++part) {
    const auto before = tape.mark();
    if (part == 0)
      task.record(tape, index, batch.version, losses);
    else
      task.record_part(tape, part);
    seconds.forward += lap.restart();
    tape.backward();
    seconds.backward += lap.restart();
    if (part + 1 < parts) tape.rewind(before);
  }
  batch.in_step.clear();
  for (const Parameter<T>* parameter : masters.trained_of_model())
    batch.in_step.push_back(parameter->in_step ? 1 : 0);
  masters.take_gradients(batch.gradient);
  settle(tape.exec());
  seconds.backward += lap.restart();
  require(losses.terms().size() == 1, "the loss of a sub-batch is one sum");
  batch.loss = losses.terms().front().sum;
  batch.faulty = tape.check() && tape.check()->found();
}

template <class T>
void add_loss(const Task<T>& task, double loss, double targets, TrainingState& now) {
  auto term = std::find_if(now.terms.begin(), now.terms.end(),
                           [&](const TermSum& t) { return t.name == task.loss_name(); });
  if (term == now.terms.end()) term = now.terms.insert(term, {std::string(task.loss_name()), 0, 0});
  term->value += loss;
  term->weight += targets;
  now.node_steps += targets;
}

Index mean_batch(const std::vector<Index>& group_batches, Index batches) {
  const Index groups = std::ssize(group_batches);
  const Index all = std::accumulate(group_batches.begin(), group_batches.end(), Index{0});
  return all >= groups * batches ? batches : std::min(all / groups, batches - 1);
}

#define ROSSBY_INSTANTIATE(T)                                                                     \
  template void train_sub_batch(Task<T>&, MasterParameters<T>&, Tape<T>&, int, FinishedBatch<T>&, \
                                StepSeconds&);                                                    \
  template void add_loss(const Task<T>&, double, double, TrainingState&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
