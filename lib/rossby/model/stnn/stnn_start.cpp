#include <cmath>

#include "rossby/base/user_error.hpp"
#include "rossby/model/stnn/stnn.hpp"

namespace rossby {
namespace {

/// Sets uniform values in ±bound, seeded by the element: the same on every rank.
template <class T>
void uniform(Parameter<T>& parameter, std::uint64_t seed, double bound) {
  const Random random(seed, "init." + parameter.name);
  for (Index i = 0; i < parameter.size(); ++i)
    parameter.value[i] = static_cast<T>(random.uniform(static_cast<std::uint64_t>(i), -bound, bound));
}

/// Visits the values of a (outer, rows, inner) parameter with keys made of global indices.
template <class T, class Draw>
void each_row_value(Parameter<T>& parameter, std::span<const GlobalRow> rows, const Draw& draw) {
  const Index outer = parameter.shape[0], n = parameter.shape[1], inner = parameter.shape[2];
  for (Index t = 0; t < outer; ++t)
    for (Index i = 0; i < n; ++i)
      for (Index f = 0; f < inner; ++f)
        parameter.value[(t * n + i) * inner + f] = static_cast<T>(
            draw(t, static_cast<std::uint64_t>(rows[static_cast<std::size_t>(i)].value * inner + f)));
}

/// Makes the dynamics repeat their input: the identity block is 1, and relations start without influence.
/// Low-rank blocks start at 1: U = 0 already removes their influence, and a zero block would leave both
/// without gradient.
template <class T>
void persistence(Parameter<T>& weight, Parameter<T>& bias, const RelationBank<T>& bank, Index d) {
  std::fill(weight.value.begin(), weight.value.end(), T(0));
  std::fill(bias.value.begin(), bias.value.end(), T(0));
  const auto set_block = [&](Index block) {
    for (Index f = 0; f < d; ++f) weight.value[f * weight.shape[1] + block * d + f] = T(1);
  };
  set_block(0);
  Index block = 1;
  for (const auto& term : bank.terms) {
    if (term.kind == RelationTerm<T>::Kind::low_rank) set_block(block);
    block += term.relations;
  }
}

/// Sets Z = x. A missing value becomes the node's last observed value before it, else the first one after it,
/// else 0.
template <class T>
void start_at_data(Parameter<T>& z, const StnnStart& start, Index first) {
  const Index steps = z.shape[0], width = z.shape[1] * z.shape[2];
  const float* values = start.data->at(first);
  const auto known = [](float value) { return !std::isnan(value); };
  const auto known_at = [&](const std::vector<float>& around, Index q) {
    return !around.empty() && known(around[static_cast<std::size_t>(q)]);
  };
  const auto observed = [&](Index t, Index q) {
    return known(values[t * width + q]) &&
           (start.learned.empty() || start.learned[static_cast<std::size_t>(first + t)]);
  };
  for (Index q = 0; q < width; ++q) {
    float last = known_at(start.around.behind, q) ? start.around.behind[static_cast<std::size_t>(q)] : 0;
    for (Index t = steps - 1; t >= 0; --t)
      if (observed(t, q)) last = values[t * width + q];
    if (known_at(start.around.before, q)) last = start.around.before[static_cast<std::size_t>(q)];
    for (Index t = 0; t < steps; ++t) {
      if (observed(t, q)) last = values[t * width + q];
      z.value[t * width + q] = static_cast<T>(last);
    }
  }
}

}  // namespace

template <class T>
void Stnn<T>::start(const StnnStart& start) {
  seed_ = start.seed;
  if (start.data) {
    require(start.data->features == options_.latent && start.data->first <= options_.held.first &&
                options_.held.last <= start.data->first + start.data->steps,
            "Z can start at the data only where latent = features");
    start_at_data(*factors_, start, options_.held.first);
  } else {
    const Random random(start.seed, "init.factors");
    each_row_value(*factors_, rows_, [&](Index t, std::uint64_t key) {
      return random.at(static_cast<std::uint64_t>(options_.held.first + t))
          .uniform(key, -start.z_range, start.z_range);
    });
  }
  if (decoder_) uniform(*decoder_, start.seed, 1 / std::sqrt(static_cast<double>(options_.latent)));
  for (std::size_t layer = 0; layer < weights_.size(); ++layer) {
    const double bound = 1 / std::sqrt(static_cast<double>(weights_[layer]->shape[1]));
    uniform(*weights_[layer], start.seed, bound);
    uniform(*biases_[layer], start.seed, bound);
  }
  if (start.persistence) {
    if (options_.layers != 1)
      user_error(
          "model.dynamics_start = \"persistence\" needs model.layers = 1, but model.layers is {}. Set "
          "model.layers = 1, or choose another model.dynamics_start",
          options_.layers);
    persistence(*weights_[0], *biases_[0], relations_->bank(), options_.latent);
  }
  for (const char* name : {"low_rank_u", "low_rank_v"})
    if (Parameter<T>* parameter = relations_->find(name)) {
      const Random random(start.seed, std::string("init.") + name);
      const double scale = 1 / std::sqrt(static_cast<double>(parameter->shape[2]));
      each_row_value(*parameter, rows_, [&](Index, std::uint64_t key) { return scale * random.normal(key); });
    }
}

template class Stnn<float>;
template class Stnn<double>;

}  // namespace rossby
