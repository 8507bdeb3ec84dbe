#include "rossby/train/settings.hpp"

namespace rossby {

std::span<const Key<OptimiserSettings>> optimiser_keys() {
  static constexpr Key<OptimiserSettings> table[] = {
      key<&OptimiserSettings::name>(
          "optimiser.name", "\"adam\"", "",
          "adam: decay inside the gradient, as the reference; adamw: decoupled; sgd: Nesterov")
          .one_of("adam|adamw|sgd"),
      key<&OptimiserSettings::lr>("optimiser.lr", "0.003", "", "learning rate")
          .range(0, 1000000)
          .may_change(),
      key<&OptimiserSettings::lr_scaling>("optimiser.lr_scaling", "\"none\"", "",
                                          "factor on the rates for batches of other sizes, window.batch / "
                                          "optimiser.reference_batch or its root")
          .one_of("none|linear|sqrt")
          .read_by("windows"),
      key<&OptimiserSettings::reference_batch>("optimiser.reference_batch", "64", "",
                                               "the batch that the rates are for")
          .range(1, 1000000)
          .read_by("windows"),
      key<&OptimiserSettings::lr_z>(
          "optimiser.lr_z", "-1", "",
          "learning rate of Z, which follows the schedule as optimiser.lr does; -1: optimiser.lr")
          .range(-1, 1000000)
          .may_change()
          .read_by("stnn"),
      key<&OptimiserSettings::lr_relation>("optimiser.lr_relation", "-1", "",
                                           "learning rate of relation weights, likewise; -1: optimiser.lr")
          .range(-1, 1000000)
          .may_change()
          .read_by("stnn"),
      key<&OptimiserSettings::beta1>(
          "optimiser.beta1", "0", "",
          "decay of the first moment (Adam); if not set 0.9 for forecasters of windows")
          .range(0, 0.999999),
      key<&OptimiserSettings::beta2>("optimiser.beta2", "0.999", "", "decay of the second moment (Adam)")
          .range(0, 0.9999999),
      key<&OptimiserSettings::epsilon>("optimiser.epsilon", "1e-9", "",
                                       "added to the root of the second moment (Adam)")
          .at_least(0),
      key<&OptimiserSettings::momentum>("optimiser.momentum", "0.9", "", "momentum (sgd)").range(0, 0.999999),
      key<&OptimiserSettings::decay>(
          "optimiser.decay", "1e-6", "",
          "weight decay of decoder and dynamics; of all parameters of a forecaster of windows")
          .at_least(0),
      key<&OptimiserSettings::decay_z>("optimiser.decay_z", "1e-7", "", "weight decay of Z")
          .at_least(0)
          .read_by("stnn"),
      key<&OptimiserSettings::decay_relation>(
          "optimiser.decay_relation", "0", "",
          "weight decay of relation weights (refine, dense discover, self)")
          .at_least(0)
          .read_by("stnn"),
      key<&OptimiserSettings::decay_low_rank>("optimiser.decay_low_rank", "1e-6", "",
                                              "weight decay of U and V")
          .at_least(0)
          .read_by("stnn"),
      key<&OptimiserSettings::clip>("optimiser.clip", "0", "", "largest global gradient norm; 0: no clipping")
          .at_least(0),
  };
  return table;
}

std::span<const Key<ScheduleSettings>> schedule_keys() {
  static constexpr Key<ScheduleSettings> table[] = {
      key<&ScheduleSettings::name>("schedule.name", "\"constant\"", "", "learning rate over epochs")
          .one_of("constant|plateau|cosine|linear|step"),
      key<&ScheduleSettings::metric>("schedule.metric", "\"validation\"", "",
                                     "what plateau and early stopping watch")
          .one_of("validation|train"),
      key<&ScheduleSettings::patience>("schedule.patience", "10", "epochs",
                                       "plateau: epochs without better before the rate falls")
          .at_least(0),
      key<&ScheduleSettings::ratio>("schedule.ratio", "0.1", "", "plateau, step: factor on the rate")
          .range(1e-06, 0.999999),
      key<&ScheduleSettings::milestones>("schedule.milestones", "[20, 30, 40, 50]", "epochs",
                                         "step: epochs, counted from 0, at which the rate falls; ascending")
          .at_least(1),
      key<&ScheduleSettings::threshold>("schedule.threshold", "1e-4", "",
                                        "plateau: relative gain that counts as better")
          .range(0, 1),
      key<&ScheduleSettings::min_lr>(
          "schedule.min_lr", "1e-5", "",
          "plateau: training ends when the rate falls to this; step: it falls no further")
          .at_least(0),
      key<&ScheduleSettings::hold>("schedule.hold", "0.6", "", "linear: share of the epochs at the full rate")
          .range(0, 1),
      key<&ScheduleSettings::final>("schedule.final", "0.1", "",
                                    "cosine, linear: share of the rate at the end")
          .range(0, 1),
      key<&ScheduleSettings::warmup>("schedule.warmup", "0", "epochs", "linear rise to the full rate first")
          .at_least(0),
      key<&ScheduleSettings::length>("schedule.length", "0", "epochs",
                                     "cosine, linear: the rate is that of the end from here on, whatever "
                                     "train.epochs; 0: train.epochs")
          .range(0, 1000000000.0)
          .may_change()
          .added(),
  };
  return table;
}

std::span<const Key<TrainSettings>> train_keys() {
  static constexpr Key<TrainSettings> table[] = {
      key<&TrainSettings::sampling>(
          "train.sampling", "\"slabs\"", "",
          "pairs: random (time, node) pairs, as the reference; slabs: all nodes of some steps")
          .one_of("pairs|slabs")
          .read_by("stnn"),
      key<&TrainSettings::pairs>("train.pairs", "1000", "", "pairs a batch").at_least(1).read_by("stnn"),
      key<&TrainSettings::slab_steps>("train.slab_steps", "8", "steps", "time steps a slab; 0: all of them")
          .at_least(0)
          .read_by("stnn"),
      key<&TrainSettings::lanes>("train.lanes", "0", "",
                                 "slabs: contiguous parts of the training part that every slab takes as many "
                                 "steps from, a multiple of the time groups; 0: as many")
          .range(0, 65536)
          .read_by("stnn"),
      key<&TrainSettings::joint>(
          "train.joint", "false", "",
          "decoder and dynamics loss in one step (slabs), instead of one pass after the other")
          .read_by("stnn"),
      key<&TrainSettings::epochs>("train.epochs", "100", "", "passes over the training part")
          .range(0, 1000000000.0)
          .may_change(),
      key<&TrainSettings::seed>("train.seed", "1", "", "seed of starts, batch order and dropout").at_least(0),
      key<&TrainSettings::early_stop>("train.early_stop", "0", "epochs",
                                      "end after so many epochs without better; 0: never")
          .range(0, 1000000000.0)
          .may_change(),
      key<&TrainSettings::max_seconds>("train.max_seconds", "0", "s",
                                       "end after so much wall-clock time; 0: never")
          .range(0, 1000000000.0)
          .may_change(),
      key<&TrainSettings::keep>(
          "train.keep", "\"auto\"", "",
          "state that is kept: best (by schedule.metric), last; auto: best where there is validation")
          .one_of("auto|best|last"),
      key<&TrainSettings::absent>("train.absent", "\"zero\"", "",
                                  "parameters the present loss does not depend on: updated with gradient "
                                  "zero (as the reference) or skipped")
          .one_of("zero|skip"),
      key<&TrainSettings::loss>(
          "train.loss", "\"mae\"", "",
          "error that is trained on: mae (aims at the median), mse (the mean), huber, pinball (a quantile)")
          .one_of("mae|mse|huber|pinball")
          .read_by("windows")
          .added(),
      key<&TrainSettings::huber_delta>("train.huber_delta", "1", "units of the data",
                                       "huber: errors up to this are squared, larger ones count linearly")
          .range(1e-30, 1e30)
          .read_by("windows")
          .added(),
      key<&TrainSettings::quantile>("train.quantile", "0.5", "", "pinball: the quantile that is forecast")
          .range(1e-6, 0.999999)
          .read_by("windows")
          .added(),
      key<&TrainSettings::from>(
          "train.from", "\"\"", "",
          "run directory (or state file) whose weights training starts from; empty: none")
          .added(),
      key<&TrainSettings::refit>("train.refit", "false", "",
                                 "train twice: first to choose the epochs by the validation part, in "
                                 "<run>/chosen, then as many epochs "
                                 "on training and validation part together")
          .added(),
      key<&TrainSettings::recompute>("train.recompute", "\"none\"", "",
                                     "what backward computes again instead of keeping it: nothing, recurrent "
                                     "cells (graph_wavenet: layers), whole time steps")
          .one_of("none|cell|step")
          .may_change()
          .read_by("windows"),
      key<&TrainSettings::stop_after>("train.stop_after", "\"\"", "",
                                      "write a checkpoint and leave with exit code 75 after so much "
                                      "wall-clock time of this start, for example 1h50m; empty: never")
          .may_change(),
      key<&TrainSettings::on_nan>("train.on_nan", "\"stop\"", "",
                                  "a loss or gradient that is not finite: stop, or roll back to the last "
                                  "checkpoint with a lower rate")
          .one_of("stop|rollback")
          .may_change(),
      key<&TrainSettings::check>("train.check", "\"none\"", "",
                                 "look for values that are not finite in what every op computes, forward and "
                                 "backward: the message names op, block of the model, rank and row; the same "
                                 "bits, but slower")
          .one_of("none|ops")
          .may_change(),
      key<&TrainSettings::rollbacks>("train.rollbacks", "3", "", "most rollbacks of a training")
          .range(0, 1000)
          .may_change(),
      key<&TrainSettings::rollback_lr>("train.rollback_lr", "0.5", "",
                                       "factor on the learning rate for each rollback")
          .range(1e-06, 1)
          .may_change(),
      key<&TrainSettings::updates>("train.updates", "\"synchronous\"", "",
                                   "asynchronous: time groups do not wait for each other; an update takes "
                                   "the gradients that are there")
          .one_of("synchronous|asynchronous")
          .read_by("windows")
          .added(),
      key<&TrainSettings::max_staleness>(
          "train.max_staleness", "0", "updates",
          "asynchronous: most updates between the weights that a gradient is of "
          "and the update that takes it; 0: no limit")
          .range(0, 1000000)
          .read_by("windows")
          .added(),
      key<&TrainSettings::stale>("train.stale", "\"drop\"", "",
                                 "asynchronous: a gradient beyond train.max_staleness is dropped, or updates "
                                 "and the faster groups wait for it")
          .one_of("drop|wait")
          .read_by("windows")
          .added(),
      key<&TrainSettings::uneven>("train.uneven", "\"wait\"", "",
                                  "asynchronous: a time group that has done its batches waits for the slower "
                                  "ones at the end of an epoch, or "
                                  "repeats them until all groups together have done as many as the epoch has")
          .one_of("wait|repeat")
          .read_by("windows")
          .added(),
      key<&TrainSettings::staleness_lr>(
          "train.staleness_lr", "\"none\"", "",
          "asynchronous: factor on a gradient of staleness s: 1 (none), 1 / max(1, s) (inverse), "
          "1 / sqrt(1 + s) (power)")
          .one_of("none|inverse|power")
          .read_by("windows")
          .added(),
  };
  return table;
}

std::span<const Key<CheckpointSettings>> checkpoint_keys() {
  static constexpr Key<CheckpointSettings> table[] = {
      key<&CheckpointSettings::every_minutes>(
          "checkpoint.every_minutes", "10", "min",
          "time between checkpoints, where not set at least 50 times what one takes; 0: not by time")
          .range(0, 1000000)
          .may_change(),
      key<&CheckpointSettings::every_steps>("checkpoint.every_steps", "0", "steps",
                                            "optimiser steps between checkpoints; 0: not by steps")
          .range(0, 1000000000000000.0)
          .may_change(),
      key<&CheckpointSettings::keep>("checkpoint.keep", "3", "",
                                     "newest checkpoints that are kept; 0: none is written, and signals and "
                                     "the end of a Slurm job end the training without one")
          .range(0, 1000000)
          .may_change(),
  };
  return table;
}

std::span<const Key<ValidationSettings>> validation_keys() {
  static constexpr Key<ValidationSettings> table[] = {
      key<&ValidationSettings::every>("validation.every", "1", "epochs", "epochs between validations")
          .range(1, 1000000000.0)
          .may_change(),
      key<&ValidationSettings::kind>("validation.kind", "\"origins\"", "",
                                     "origins: forecasts from every validation step, filtered; rollout: one "
                                     "forecast over the whole part")
          .one_of("origins|rollout")
          .read_by("stnn"),
      key<&ValidationSettings::metric>("validation.metric", "\"mae\"", "",
                                       "error of the validation part that schedule, early stopping and the "
                                       "best state go by: the mean over "
                                       "horizons of mae or rmse, or the mean loss")
          .one_of("mae|rmse|loss")
          .read_by("windows")
          .added(),
  };
  return table;
}

std::span<const Key<EvaluateSettings>> evaluate_keys() {
  static constexpr Key<EvaluateSettings> table[] = {
      key<&EvaluateSettings::horizons>("evaluate.horizons", "5", "steps",
                                       "forecast steps that are scored: by evaluate, and by an stnn's "
                                       "validation of kind origins, whose error is the mean of theirs")
          .range(1, 100000)
          .may_change(),
      key<&EvaluateSettings::report>("evaluate.report", "[]", "",
                                     "horizons that are printed, as steps (\"3\") or times (\"15 min\"); "
                                     "empty: all of up to six, of more the first, the last and the quarters")
          .may_change(),
      key<&EvaluateSettings::kind>("evaluate.kind", "\"origins\"", "",
                                   "test errors: from every test origin (evaluate.horizons), or of one "
                                   "rollout over the whole test part from the last step before it")
          .one_of("origins|rollout")
          .may_change(),
      key<&EvaluateSettings::first_origin>(
          "evaluate.first_origin", "-1", "steps",
          "first test origin, counted from 0 at data.first_step; -1: the last step before the test part")
          .range(-1, 1000000000.0)
          .may_change(),
      key<&EvaluateSettings::last_origin>("evaluate.last_origin", "-1", "steps",
                                          "last test origin; -1: the last with all horizons inside the test "
                                          "part, or, with a first_origin, inside the data")
          .range(-1, 1000000000.0)
          .may_change(),
      key<&EvaluateSettings::filter_lambda>(
          "evaluate.filter_lambda", "0", "",
          "weight of the prediction in min |Dz − x|² + λ|z − p|² when latents are filtered")
          .range(0, 1000000000000.0)
          .may_change()
          .read_by("stnn"),
      key<&EvaluateSettings::baselines>("evaluate.baselines", "true", "",
                                        "persistence, climatology, annual cycle or time of week, AR(1), "
                                        "linear inverse model, ridge VAR beside the model")
          .may_change(),
      key<&EvaluateSettings::lim_modes>("evaluate.lim_modes", "20", "", "EOFs of the linear inverse model")
          .range(1, 10000)
          .may_change(),
      key<&EvaluateSettings::var_solver>(
          "evaluate.var_solver", "\"auto\"", "",
          "ridge VAR: dense (Cholesky), iterative (conjugate gradients by PETSc); auto: by size")
          .one_of("auto|dense|iterative")
          .may_change(),
      key<&EvaluateSettings::ridge>("evaluate.ridge", "3", "",
                                    "ridge VAR: regularisation over the mean eigenvalue of the Gram matrix")
          .range(0, 1000000000000.0)
          .may_change(),
  };
  return table;
}

std::span<const Key<ParallelSettings>> parallel_keys() {
  static constexpr Key<ParallelSettings> table[] = {
      key<&ParallelSettings::partition>("parallel.partition", "\"auto\"", "",
                                        "row blocks: contiguous and of equal rows, contiguous and of equal "
                                        "cost, grid tiles, by graph (PT-Scotch); auto: the fitting one")
          .one_of("auto|blocks|weighted|tiles|graph")
          .may_change(),
      key<&ParallelSettings::entry_cost>(
          "parallel.entry_cost", "0", "row",
          "what an entry of a sparse relation costs beside a row, where row blocks are of equal cost; 0: by "
          "their multiplications ('rossby plan' says what a machine takes)")
          .range(0, 1000000)
          .may_change(),
      key<&ParallelSettings::row_order>(
          "parallel.row_order", "\"auto\"", "",
          "rows inside a rank: as in the file, or neighbours close together (reverse Cuthill-McKee); auto: "
          "the latter where it halves the distance in memory of neighbours in a graph of 4096 rows a rank or "
          "more")
          .one_of("auto|file|rcm")
          .may_change(),
      key<&ParallelSettings::time_groups>("parallel.time_groups", "1", "",
                                          "groups of ranks that hold different times and train on different "
                                          "windows or steps; divides the ranks")
          .range(1, 1048576)
          .may_change(),
      key<&ParallelSettings::stages>("parallel.stages", "1", "",
                                     "stages of a pipeline that hold different layers of a dcrnn, gru or "
                                     "graph_wavenet; ranks = row blocks x stages x time groups")
          .range(1, 1000)
          .may_change(),
      key<&ParallelSettings::stage_layers>(
          "parallel.stage_layers", "[]", "",
          "layers of each stage: of the encoder and the decoder alike where they sum up to model.layers, "
          "first of the encoder, then of the decoder where they sum up to twice as many; of a graph_wavenet "
          "all layers; empty: in equal parts")
          .range(1, 1000)
          .may_change(),
      key<&ParallelSettings::threads>("parallel.threads", "0", "",
                                      "OpenMP threads a rank; 0: OMP_NUM_THREADS or the cores a rank has")
          .range(0, 4096)
          .may_change(),
      key<&ParallelSettings::device>(
          "parallel.device", "\"cpu\"", "",
          "what trains and forecasts: the cores (cpu), a GPU a rank (cuda), a simulated device (slow, for "
          "tests); auto: GPUs where every rank finds one and the settings allow it")
          .one_of("auto|cpu|cuda|simulated")
          .may_change(),
      key<&ParallelSettings::device_memory>(
          "parallel.device_memory", "\"\"", "",
          "most memory of a device that a rank takes, for example 4GiB; empty: its share of what there is. "
          "Without a device it bounds chunks of streamed relations alone")
          .may_change(),
      key<&ParallelSettings::transport>("parallel.transport", "\"auto\"", "",
                                        "between GPUs: nccl, or through the memory of the host; auto: nccl "
                                        "where every rank has a GPU of its own")
          .one_of("auto|nccl|host")
          .may_change(),
      key<&ParallelSettings::products>(
          "parallel.products", "\"model\"", "",
          "what GPUs take operands of products for: model: as model.precision; tf32, bf16: floats rounded to "
          "10 or 7 bits of fraction, several times as fast")
          .one_of("model|tf32|bf16")
          .may_change(),
      key<&ParallelSettings::cuda_graphs>(
          "parallel.cuda_graphs", "false", "",
          "GPUs are given a step at once, as a CUDA graph, where the host need not wait within it")
          .may_change(),
      key<&ParallelSettings::isa>(
          "parallel.isa", "\"auto\"", "",
          "vector instructions of the kernels, the same on all ranks; auto: the widest that every rank has; "
          "model.precision = \"double\" always uses portable")
          .one_of("auto|portable|avx2|avx512")
          .may_change(),
      key<&ParallelSettings::dense_kernel>("parallel.dense_kernel", "\"auto\"", "",
                                           "products of dense relations: own kernels, BLAS; auto: tried at "
                                           "the start on rank 0, BLAS where it saves 15 %")
          .one_of("auto|own|blas")
          .may_change()
          .read_by("stnn"),
      key<&ParallelSettings::sparse_products>(
          "parallel.sparse_products", "\"auto\"", "",
          "products of graphs on GPUs, where a rank has all nodes of its group: own kernels, cuSPARSE; auto: "
          "tried at the start, cuSPARSE where it saves a tenth")
          .one_of("auto|own|cusparse")
          .may_change()
          .read_by("windows"),
      key<&ParallelSettings::watchdog_seconds>(
          "parallel.watchdog_seconds", "300", "s",
          "longest wait for other ranks, ten times as long around files, before the job counts as hung and "
          "ends with exit code 76; more than the longest step; 0: never")
          .range(0, 1000000000.0)
          .may_change(),
  };
  return table;
}

std::span<const Key<LogSettings>> log_keys() {
  static constexpr Key<LogSettings> table[] = {
      key<&LogSettings::seconds>("log.seconds", "1", "s", "least time between progress lines")
          .range(0, 86400)
          .may_change(),
  };
  return table;
}

}  // namespace rossby
