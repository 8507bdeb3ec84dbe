#include "rossby/train/settings.hpp"

namespace rossby {

std::span<const Key<OptimiserSettings>> optimiser_keys() {
  static constexpr Key<OptimiserSettings> table[] = {
      key<&OptimiserSettings::name>("optimiser.name", "\"adam\"", "",
                                    "adam: weight decay is added to the gradient, as in the reference code; "
                                    "adamw: weight decay is decoupled; sgd: with Nesterov momentum")
          .one_of("adam|adamw|sgd"),
      key<&OptimiserSettings::lr>("optimiser.lr", "0.003", "", "learning rate")
          .range(0, 1000000)
          .may_change(),
      key<&OptimiserSettings::lr_scaling>(
          "optimiser.lr_scaling", "\"none\"", "",
          "scale learning rates by window.batch / optimiser.reference_batch (linear) or by its square root")
          .one_of("none|linear|sqrt")
          .read_by("windows"),
      key<&OptimiserSettings::reference_batch>("optimiser.reference_batch", "64", "",
                                               "batch size for which the learning rates are given")
          .range(1, 1000000)
          .read_by("windows"),
      key<&OptimiserSettings::lr_z>(
          "optimiser.lr_z", "-1", "",
          "initial learning rate of Z, which follows the schedule; -1: optimiser.lr")
          .range(-1, 1000000)
          .may_change()
          .read_by("stnn"),
      key<&OptimiserSettings::lr_relation>(
          "optimiser.lr_relation", "-1", "",
          "initial learning rate of relation weights, which follows the schedule; -1: optimiser.lr")
          .range(-1, 1000000)
          .may_change()
          .read_by("stnn"),
      key<&OptimiserSettings::beta1>(
          "optimiser.beta1", "0", "",
          "decay of the first moment (Adam); 0.9 for window models if it is not set")
          .range(0, 0.999999),
      key<&OptimiserSettings::beta2>("optimiser.beta2", "0.999", "", "decay of the second moment (Adam)")
          .range(0, 0.9999999),
      key<&OptimiserSettings::epsilon>("optimiser.epsilon", "1e-9", "",
                                       "number that is added to the root of the second moment (Adam)")
          .at_least(0),
      key<&OptimiserSettings::momentum>("optimiser.momentum", "0.9", "", "momentum (sgd)").range(0, 0.999999),
      key<&OptimiserSettings::decay>(
          "optimiser.decay", "1e-6", "",
          "weight decay of decoder and dynamics; window models: weight decay of all parameters")
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
      key<&OptimiserSettings::clip>("optimiser.clip", "0", "",
                                    "clip gradients to this global norm; 0: no clipping")
          .at_least(0),
  };
  return table;
}

std::span<const Key<ScheduleSettings>> schedule_keys() {
  static constexpr Key<ScheduleSettings> table[] = {
      key<&ScheduleSettings::name>("schedule.name", "\"constant\"", "",
                                   "how the learning rate changes over epochs")
          .one_of("constant|plateau|cosine|linear|step"),
      key<&ScheduleSettings::metric>("schedule.metric", "\"validation\"", "",
                                     "error that schedule plateau and early stopping watch")
          .one_of("validation|train"),
      key<&ScheduleSettings::patience>(
          "schedule.patience", "10", "epochs",
          "plateau: epochs without improvement before the learning rate is reduced")
          .at_least(0),
      key<&ScheduleSettings::ratio>("schedule.ratio", "0.1", "",
                                    "plateau, step: factor by which the learning rate is reduced")
          .range(1e-06, 0.999999),
      key<&ScheduleSettings::milestones>(
          "schedule.milestones", "[20, 30, 40, 50]", "epochs",
          "step: epochs at which the learning rate is reduced, counted from 0, in ascending order")
          .at_least(1),
      key<&ScheduleSettings::threshold>("schedule.threshold", "1e-4", "",
                                        "plateau: relative decrease of the error that counts as improvement")
          .range(0, 1),
      key<&ScheduleSettings::min_lr>(
          "schedule.min_lr", "1e-5", "",
          "plateau: end the training at this learning rate; step: reduce it no further")
          .at_least(0),
      key<&ScheduleSettings::hold>("schedule.hold", "0.6", "",
                                   "linear: share of the epochs with the full learning rate")
          .range(0, 1),
      key<&ScheduleSettings::final>("schedule.final", "0.1", "",
                                    "cosine, linear: learning rate at the end, as a share of the full rate")
          .range(0, 1),
      key<&ScheduleSettings::warmup>(
          "schedule.warmup", "0", "epochs",
          "warm-up: epochs in which the learning rate rises linearly to its full value")
          .at_least(0),
      key<&ScheduleSettings::length>("schedule.length", "0", "epochs",
                                     "cosine, linear: epochs until the final learning rate is reached, "
                                     "independent of train.epochs; 0: train.epochs")
          .range(0, 1000000000.0)
          .may_change()
          .added(),
  };
  return table;
}

std::span<const Key<CheckpointSettings>> checkpoint_keys() {
  static constexpr Key<CheckpointSettings> table[] = {
      key<&CheckpointSettings::every_minutes>("checkpoint.every_minutes", "10", "min",
                                              "time between checkpoints; if it is not set, at least 50 times "
                                              "the time to write one; 0: not by time")
          .range(0, 1000000)
          .may_change(),
      key<&CheckpointSettings::every_steps>("checkpoint.every_steps", "0", "steps",
                                            "optimiser steps between two checkpoints; 0: not by steps")
          .range(0, 1000000000000000.0)
          .may_change(),
      key<&CheckpointSettings::keep>("checkpoint.keep", "3", "",
                                     "number of checkpoints that are kept; 0: write no checkpoints, not even "
                                     "on signals or at the end of a Slurm job")
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
      key<&ValidationSettings::kind>(
          "validation.kind", "\"origins\"", "",
          "origins: forecast from every step of the validation part, after filtering the latents up to this "
          "step; rollout: one forecast over the whole part")
          .one_of("origins|rollout")
          .read_by("stnn"),
      key<&ValidationSettings::metric>(
          "validation.metric", "\"mae\"", "",
          "validation error by which schedule, early stopping and the best state are decided: mean over "
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
                                       "number of forecast steps that evaluate scores, and that the "
                                       "validation of an stnn scores with validation.kind = origins")
          .range(1, 100000)
          .may_change(),
      key<&EvaluateSettings::report>(
          "evaluate.report", "[]", "",
          "horizons that are printed, as steps (\"3\") or times (\"15 min\"); empty: all if there are at "
          "most six, else the first, the last and the quarters")
          .may_change(),
      key<&EvaluateSettings::kind>("evaluate.kind", "\"origins\"", "",
                                   "origins: score forecasts from every test origin; rollout: score one "
                                   "forecast over the whole test part")
          .one_of("origins|rollout")
          .may_change(),
      key<&EvaluateSettings::first_origin>("evaluate.first_origin", "-1", "steps",
                                           "first forecast origin that is scored, counted from 0 at "
                                           "data.first_step; -1: the last step before the test part")
          .range(-1, 1000000000.0)
          .may_change(),
      key<&EvaluateSettings::last_origin>(
          "evaluate.last_origin", "-1", "steps",
          "last forecast origin that is scored; -1: the last one with all horizons inside the test part, or "
          "inside the data if evaluate.first_origin is set")
          .range(-1, 1000000000.0)
          .may_change(),
      key<&EvaluateSettings::filter_lambda>("evaluate.filter_lambda", "0", "",
                                            "weight λ of the predicted latents p when latents z are filtered "
                                            "with data x and decoder D: min |Dz − x|² + λ|z − p|²")
          .range(0, 1000000000000.0)
          .may_change()
          .read_by("stnn"),
      key<&EvaluateSettings::baselines>("evaluate.baselines", "true", "",
                                        "also score the baselines: persistence, climatology, cycles, AR(1), "
                                        "linear inverse model, ridge VAR and regressions")
          .may_change(),
      key<&EvaluateSettings::lim_modes>("evaluate.lim_modes", "20", "",
                                        "number of EOFs of the linear inverse model")
          .range(1, 10000)
          .may_change(),
      key<&EvaluateSettings::var_solver>("evaluate.var_solver", "\"auto\"", "",
                                         "solver of the ridge VAR: dense (Cholesky) or iterative (conjugate "
                                         "gradients of PETSc); auto: by size")
          .one_of("auto|dense|iterative")
          .may_change(),
      key<&EvaluateSettings::ridge>(
          "evaluate.ridge", "3", "",
          "regularisation of the ridge VAR, relative to the mean eigenvalue of the Gram matrix")
          .range(0, 1000000000000.0)
          .may_change(),
  };
  return table;
}

std::span<const Key<ParallelSettings>> parallel_keys() {
  static constexpr Key<ParallelSettings> table[] = {
      key<&ParallelSettings::partition>("parallel.partition", "\"auto\"", "",
                                        "row blocks. blocks: contiguous, with equal numbers of rows; "
                                        "weighted: contiguous, with equal cost; tiles: of a grid; graph: by "
                                        "PT-Scotch; auto: blocks, tiles or graph, as the relations require")
          .one_of("auto|blocks|weighted|tiles|graph")
          .may_change(),
      key<&ParallelSettings::entry_cost>(
          "parallel.entry_cost", "0", "row",
          "weighted: cost of an entry of a sparse relation, relative to the cost of a row; 0: the ratio of "
          "the numbers of multiplications. 'rossby plan' reports the ratio that a machine needs")
          .range(0, 1000000)
          .may_change(),
      key<&ParallelSettings::row_order>("parallel.row_order", "\"auto\"", "",
                                        "order of the rows on a rank: file: as in the file; rcm: neighbours "
                                        "close together (reverse Cuthill-McKee); auto: rcm if it halves the "
                                        "distance of neighbours in memory, for at least 4096 rows per rank")
          .one_of("auto|file|rcm")
          .may_change(),
      key<&ParallelSettings::time_groups>("parallel.time_groups", "1", "",
                                          "number of groups of ranks that train on different windows or "
                                          "steps; must divide the number of ranks")
          .range(1, 1048576)
          .may_change(),
      key<&ParallelSettings::stages>("parallel.stages", "1", "",
                                     "number of pipeline stages, each with other layers of a dcrnn, gru or "
                                     "graph_wavenet; ranks = row blocks x stages x time groups")
          .range(1, 1000)
          .may_change(),
      key<&ParallelSettings::stage_layers>(
          "parallel.stage_layers", "[]", "",
          "number of layers of each stage. If the sum is model.layers, a stage has this number of encoder "
          "layers and as many decoder layers; if the sum is twice model.layers, encoder layers come first. "
          "empty: equal parts")
          .range(1, 1000)
          .may_change(),
      key<&ParallelSettings::threads>(
          "parallel.threads", "0", "",
          "OpenMP threads of each rank; 0: OMP_NUM_THREADS, or the cores of a rank")
          .range(0, 4096)
          .may_change(),
      key<&ParallelSettings::device>("parallel.device", "\"cpu\"", "",
                                     "device: cpu; cuda: one GPU per rank; simulated: slow, for tests; auto: "
                                     "GPUs if every rank has one and the settings allow it")
          .one_of("auto|cpu|cuda|simulated")
          .may_change(),
      key<&ParallelSettings::device_memory>(
          "parallel.device_memory", "\"\"", "",
          "largest device memory that a rank uses, for example 4GiB; empty: an equal share of the device. On "
          "CPUs, this key only limits chunks of streamed relations")
          .may_change(),
      key<&ParallelSettings::transport>(
          "parallel.transport", "\"auto\"", "",
          "exchange between GPUs: nccl, or through host memory; auto: nccl if every rank has its own GPU")
          .one_of("auto|nccl|host")
          .may_change(),
      key<&ParallelSettings::products>(
          "parallel.products", "\"model\"", "",
          "precision of the operands of matrix products of floats. model: as model.precision; bf16: rounded "
          "to 7 bits of fraction, which is faster on processors with bf16 instructions (CPUs: AVX-512 BF16); "
          "tf32: rounded to 10 bits, only on GPUs; auto: bf16 on CPUs if all ranks have these instructions, "
          "else model")
          .one_of("model|auto|tf32|bf16")
          .may_change(),
      key<&ParallelSettings::cuda_graphs>(
          "parallel.cuda_graphs", "false", "",
          "launch a training step as one CUDA graph if the host need not wait within the step")
          .may_change(),
      key<&ParallelSettings::isa>("parallel.isa", "\"auto\"", "",
                                  "vector instructions of the kernels, equal on all ranks; auto: the widest "
                                  "that every rank has. model.precision = \"double\" always uses portable")
          .one_of("auto|portable|avx2|avx512")
          .may_change(),
      key<&ParallelSettings::dense_kernel>(
          "parallel.dense_kernel", "\"auto\"", "",
          "products of dense relations: own: kernels of Rossby; blas; auto: measure both at the start on "
          "rank 0, and take BLAS if it saves 15 %")
          .one_of("auto|own|blas")
          .may_change()
          .read_by("stnn"),
      key<&ParallelSettings::sparse_products>(
          "parallel.sparse_products", "\"auto\"", "",
          "sparse products on GPUs if a rank has all nodes of its group: own: kernels of Rossby; cusparse; "
          "auto: measure both at the start, and take cuSPARSE if it saves 10 %")
          .one_of("auto|own|cusparse")
          .may_change()
          .read_by("windows"),
      key<&ParallelSettings::watchdog_seconds>(
          "parallel.watchdog_seconds", "300", "s",
          "a rank that waits longer for others ends the job with exit code 76. Around file operations, the "
          "limit is ten times as long. Set this key above the time of the longest step; 0: no limit")
          .range(0, 1000000000.0)
          .may_change(),
  };
  return table;
}

std::span<const Key<LogSettings>> log_keys() {
  static constexpr Key<LogSettings> table[] = {
      key<&LogSettings::seconds>("log.seconds", "1", "s", "shortest time between two progress lines")
          .range(0, 86400)
          .may_change(),
  };
  return table;
}

}  // namespace rossby
