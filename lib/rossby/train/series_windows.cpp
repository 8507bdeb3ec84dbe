#include "rossby/autograd/block.hpp"
#include "rossby/train/window_task.hpp"

namespace rossby {

template <class T>
void SeriesWindows<T>::set(std::span<const Index> starts, std::vector<bool> feeds, Index step) {
  starts_.assign(starts.begin(), starts.end());
  feeds_ = std::move(feeds);
  step_ = step;
}

template <class T>
std::span<const Index> SeriesWindows<T>::steps(Tape<T>& tape, Index offset) const {
  const auto steps = tape.arena().template take<Index>(windows());
  for (std::size_t b = 0; b < steps.size(); ++b) steps[b] = starts_[b] + offset;
  return steps;
}

template <class T>
Var<T> SeriesWindows<T>::input(Tape<T>& tape, Index t) const {
  const Block<T> block(tape, "window");
  const Var<T> x = tape.make(rows(), windows(), channels(), false);
  reader_->read(tape.exec(), x.value, steps(tape, t));
  return block.hands_on(x);
}

template <class T>
Var<T> SeriesWindows<T>::known(Tape<T>& tape, Index h) const {
  const Block<T> block(tape, "window");
  const Var<T> x = tape.make(rows(), windows(), known_channels(), false);
  reader_->read_known(tape.exec(), x.value, steps(tape, shape_.inputs + h));
  return block.hands_on(x);
}

template <class T>
Var<T> SeriesWindows<T>::truth(Tape<T>& tape, Index h) const {
  const Block<T> block(tape, "window");
  const Var<T> x = tape.make(rows(), windows(), reader_->features(), false);
  if (reader_->corrects())
    reader_->read_rest(tape.exec(), x.value, steps(tape, shape_.inputs - 1), h);
  else
    reader_->read(tape.exec(), x.value, steps(tape, shape_.inputs + h));
  return block.hands_on(x);
}

template <class T>
Var<T> SeriesWindows<T>::base(Tape<T>& tape, Index h) const {
  const Block<T> block(tape, "window");
  const Var<T> x = tape.make(rows(), windows(), reader_->features(), false);
  reader_->read_base(tape.exec(), x.value, steps(tape, shape_.inputs - 1), h);
  return block.hands_on(x);
}

template <class T>
std::span<const Index> SeriesWindows<T>::phases(Tape<T>& tape, CalendarTable table, Index t) const {
  const auto phases = tape.arena().template take<Index>(windows());
  for (std::size_t b = 0; b < phases.size(); ++b) phases[b] = reader_->phase(table, starts_[b] + t);
  return phases;
}

template <class T>
NodeView<const float> SeriesWindows<T>::target(Tape<T>& tape, Index h, bool scaled) const {
  const Index m = reader_->features(), size = rows() * windows() * m;
  const NodeView<float> x(tape.memory().template take<float>(size).data(), rows(), windows(), m);
  const std::span<const Index> places = steps(tape, shape_.inputs + (reader_->corrects() ? -1 : h));
  if (reader_->corrects())
    reader_->read_rest(tape.exec(), x, places, h, scaled);
  else if (scaled)
    reader_->read_scaled_truth(tape.exec(), x, places);
  else
    reader_->read_truth(tape.exec(), x, places);
  return x;
}

template class SeriesWindows<float>;
template class SeriesWindows<double>;

}  // namespace rossby
