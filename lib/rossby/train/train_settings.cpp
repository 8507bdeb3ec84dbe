#include "rossby/train/settings.hpp"

namespace rossby {

std::span<const Key<TrainSettings>> train_keys() {
  static constexpr Key<TrainSettings> table[] = {
      key<&TrainSettings::sampling>("train.sampling", "\"slabs\"", "",
                                    "contents of a batch. pairs: random (time, node) pairs, as in the "
                                    "reference code; slabs: all nodes at some time steps")
          .one_of("pairs|slabs")
          .read_by("stnn"),
      key<&TrainSettings::pairs>("train.pairs", "1000", "", "number of pairs in a batch")
          .at_least(1)
          .read_by("stnn"),
      key<&TrainSettings::slab_steps>("train.slab_steps", "8", "steps", "time steps in a slab; 0: all steps")
          .at_least(0)
          .read_by("stnn"),
      key<&TrainSettings::lanes>(
          "train.lanes", "0", "",
          "slabs: contiguous segments of the training part from which every slab takes equally many steps, a "
          "multiple of parallel.time_groups; 0: one per time group")
          .range(0, 65536)
          .read_by("stnn"),
      key<&TrainSettings::joint>(
          "train.joint", "false", "",
          "slabs: train decoder and dynamics loss in one step, instead of in two passes")
          .read_by("stnn"),
      key<&TrainSettings::epochs>("train.epochs", "100", "",
                                  "number of epochs: passes over the training part")
          .range(0, 1000000000.0)
          .may_change(),
      key<&TrainSettings::seed>("train.seed", "1", "",
                                "random seed of initial values, batch order and dropout")
          .at_least(0),
      key<&TrainSettings::early_stop>("train.early_stop", "0", "epochs",
                                      "end after this many epochs without improvement; 0: never")
          .range(0, 1000000000.0)
          .may_change(),
      key<&TrainSettings::max_seconds>("train.max_seconds", "0", "s",
                                       "end after this wall-clock time; 0: never")
          .range(0, 1000000000.0)
          .may_change(),
      key<&TrainSettings::keep>(
          "train.keep", "\"auto\"", "",
          "state that is kept: best (by schedule.metric) or last; auto: best if there is a validation part")
          .one_of("auto|best|last"),
      key<&TrainSettings::absent>(
          "train.absent", "\"zero\"", "",
          "parameters on which the current loss does not depend: zero: update them with a zero gradient, as "
          "in the reference code; skip: leave them unchanged")
          .one_of("zero|skip"),
      key<&TrainSettings::loss>(
          "train.loss", "\"mae\"", "",
          "loss: mae (forecasts the median), mse (the mean), huber, pinball (a quantile)")
          .one_of("mae|mse|huber|pinball")
          .read_by("windows")
          .added(),
      key<&TrainSettings::loss_units>(
          "train.loss_units", "\"data\"", "",
          "errors in the loss. data: in units of the data, or of its transform; scaled: divided by the "
          "spread of data.spread, so that all nodes and variables count alike")
          .one_of("data|scaled")
          .read_by("windows")
          .added(),
      key<&TrainSettings::huber_delta>(
          "train.huber_delta", "1", "units of the loss",
          "huber: errors below this value count quadratically, larger ones linearly")
          .range(1e-30, 1e30)
          .read_by("windows")
          .added(),
      key<&TrainSettings::quantile>("train.quantile", "0.5", "", "pinball: the quantile that is forecast")
          .range(1e-6, 0.999999)
          .read_by("windows")
          .added(),
      key<&TrainSettings::quantiles>(
          "train.quantiles", "[]", "percent",
          "pinball: quantiles that are forecast at once, in ascending order. The list must contain 50, which "
          "is the forecast. empty: only train.quantile")
          .range(1, 99)
          .read_by("windows")
          .added(),
      key<&TrainSettings::from>("train.from", "\"\"", "",
                                "run directory or state file with the initial weights; empty: none")
          .added(),
      key<&TrainSettings::refit>(
          "train.refit", "false", "",
          "train twice. The first training, in <run>/chosen, finds the number of epochs by the validation "
          "part. The second trains as many epochs on training and validation part together")
          .added(),
      key<&TrainSettings::recompute>("train.recompute", "\"none\"", "",
                                     "save memory: the backward pass recomputes nothing (none), recurrent "
                                     "cells or layers (cell), or whole time steps (step)")
          .one_of("none|cell|step")
          .may_change()
          .read_by("windows"),
      key<&TrainSettings::stop_after>("train.stop_after", "\"\"", "",
                                      "write a checkpoint and exit with code 75 after this wall-clock time, "
                                      "for example 1h50m; empty: never")
          .may_change(),
      key<&TrainSettings::on_nan>("train.on_nan", "\"stop\"", "",
                                  "if the loss or a gradient is not finite: stop, or roll back to the last "
                                  "checkpoint and go on with a lower learning rate")
          .one_of("stop|rollback")
          .may_change(),
      key<&TrainSettings::check>(
          "train.check", "\"none\"", "",
          "check the result of every operation for values that are not finite, and name operation, block of "
          "the model, rank and row. Slower; results do not change")
          .one_of("none|ops")
          .may_change(),
      key<&TrainSettings::rollbacks>("train.rollbacks", "3", "", "largest number of rollbacks")
          .range(0, 1000)
          .may_change(),
      key<&TrainSettings::rollback_lr>("train.rollback_lr", "0.5", "",
                                       "factor by which each rollback reduces the learning rate")
          .range(1e-06, 1)
          .may_change(),
      key<&TrainSettings::updates>("train.updates", "\"synchronous\"", "",
                                   "synchronous: all time groups wait for each other in every step; "
                                   "asynchronous: an update uses the gradients that have arrived")
          .one_of("synchronous|asynchronous")
          .read_by("windows")
          .added(),
      key<&TrainSettings::max_staleness>("train.max_staleness", "0", "updates",
                                         "asynchronous: largest staleness of a gradient: number of updates "
                                         "since its weights were read; 0: no limit")
          .range(0, 1000000)
          .read_by("windows")
          .added(),
      key<&TrainSettings::stale>("train.stale", "\"drop\"", "",
                                 "asynchronous: drop a gradient beyond train.max_staleness, or make updates "
                                 "and faster groups wait for it")
          .one_of("drop|wait")
          .read_by("windows")
          .added(),
      key<&TrainSettings::uneven>(
          "train.uneven", "\"wait\"", "",
          "asynchronous: a time group that has finished its batches of an epoch waits for the slower groups, "
          "or repeats batches until all groups together have done those of the epoch")
          .one_of("wait|repeat")
          .read_by("windows")
          .added(),
      key<&TrainSettings::staleness_lr>("train.staleness_lr", "\"none\"", "",
                                        "asynchronous: factor on a gradient with staleness s: none: 1; "
                                        "inverse: 1 / max(1, s); power: 1 / sqrt(1 + s)")
          .one_of("none|inverse|power")
          .read_by("windows")
          .added(),
      key<&TrainSettings::momentum_correction>(
          "train.momentum_correction", "0", "updates",
          "asynchronous: mean staleness, which acts like momentum. optimiser.beta1 (sgd: optimiser.momentum) "
          "is "
          "lowered, so that updates lag behind gradients as in a synchronous training")
          .range(0, 1000000)
          .read_by("windows")
          .added(),
  };
  return table;
}

}  // namespace rossby
