#include <utility>

#include "rossby/io/config.hpp"

namespace rossby {
namespace {

using enum KeyType;

constexpr KeySpec keys[] = {
    // data
    {"data.file", text, "\"\"", "", "NetCDF-4/CF file with the series"},
    {"data.variables", text_list, "[]", "",
     "variables to read, one a feature; empty: the only one that fits"},
    {"data.nodes", text, "\"observed\"", "", "observed: drop nodes that are never observed; all: keep them",
     "observed|all"},
    {"data.first_step", integer, "0", "steps", "first time step that is used", "", 0},
    {"data.last_step", integer, "-1", "steps", "one past the last time step that is used; -1: to the end", "",
     -1},
    {"data.null_value", text, "\"\"", "",
     "a number that stands for a missing value, such as \"0\", beside _FillValue and missing_value; empty: "
     "none"},
    {"data.center", text, "\"none\"", "",
     "subtract the mean of the training part: per node, over all nodes, or not", "none|node|global"},
    {"data.spread", text, "\"none\"", "",
     "divide by the standard deviation of the training part: per node, over all nodes, or not",
     "none|node|global"},
    {"data.factor", real, "1", "", "factor on the scaled series, as the model sees it", "", 1e-30, 1e30},

    // split
    {"split.train", text, "\"0.7\"", "",
     "training part: a count of steps, a share of all steps (below 1), the date it ends before, or rest: all "
     "that the "
     "others leave"},
    {"split.validation", text, "\"0\"", "",
     "validation part behind it: a count, a share or the date it ends before"},
    {"split.test", text, "\"rest\"", "", "test part behind that: a count, a share, a date or the rest"},
    {"split.folds", integer, "0", "",
     "blocked cross-validation: folds inside the training part, 2 or more; 0: none", "", 0, 1000},
    {"split.fold", integer, "0", "", "the fold that is held out as validation part", "", 0, 999},

    // relations
    {"relation.graph", text, "\"none\"", "",
     "sparse relations: grid (8 neighbours, one relation), grid8 (one a direction), nearest, edges (of the "
     "file), "
     "none; auto: edges where the file has them, else grid8 or nearest",
     "none|auto|grid|grid8|nearest|edges"},
    {"relation.file", text, "\"\"", "",
     "NetCDF file with the edges for graph = edges, as 'rossby data graph' writes it; empty: data.file"},
    {"relation.mode", text, "\"given\"", "", "their weights: given, or refine (learned on their pattern)",
     "given|refine"},
    {"relation.hops", integer_list, "[1]", "", "powers of each relation that are used, ascending", "", 1, 64},
    {"relation.normalise", flag, "true", "", "divide every row by its sum before taking powers"},
    {"relation.self_loops", flag, "false", "", "add every node to its own neighbours"},
    {"relation.periodic_lon", text, "\"auto\"", "",
     "join the east and west edge of a grid; auto: where longitudes go round", "auto|yes|no"},
    {"relation.neighbours", integer, "8", "", "neighbours a node for graph = nearest", "", 1, 100000},
    {"relation.storage", text, "\"csr\"", "", "csr: non-zeros only; dense: all n columns", "csr|dense"},
    {"relation.precision", text, "\"model\"", "",
     "dense learned relations and their moments: model: as model.precision; bf16: two bytes a value, "
     "arithmetic in float",
     "model|bf16"},
    {"relation.refine_start", real, "0.5", "", "start of refined weights"},
    {"relation.self", flag, "false", "", "a self relation with one learned weight a node, clamp(s, 0, 1)"},
    {"relation.self_start", real, "0.5", "", "start of its weights"},
    {"relation.discover", text, "\"none\"", "",
     "a learned all-to-all relation: dense clamp(M, 0, 1), or low rank U(Vᵀz)/n", "none|dense|low_rank"},
    {"relation.discover_start", text, "\"1/n\"", "", "start of M: 1/n, or a number"},
    {"relation.memory", text, "\"resident\"", "",
     "where the dense relation of relation.discover and its moments are: where kernels work on them, or "
     "streamed there from files, or to a device from the host's memory (one of relation.graph that is dense "
     "stays where kernels are)",
     "resident|streamed", -1e300, 1e300, true},
    {"relation.chunk_mib", real, "0", "MiB",
     "rows of a dense learned relation that are worked on at once, by the size of their weights; the same "
     "chunks "
     "give the same bits streamed or not; 0: 32, less where six do not fit the memory for chunks, or all of "
     "a "
     "relation that lies on a device",
     "", 0, 1e9, true},
    {"relation.stream_gib", real, "1", "GiB",
     "streamed: memory of a rank, or of its device, for chunks, two at least; no more than a third of "
     "parallel.device_memory is taken",
     "", 0, 1e9, true},
    {"relation.transfer", text, "\"pinned-async\"", "",
     "streamed to a device: from memory as it is (pageable) or from pinned memory, while the host waits or "
     "(async) beside the kernels",
     "pageable|pinned|pageable-async|pinned-async", -1e300, 1e300, true},
    {"relation.update", text, "\"auto\"", "",
     "streamed to a device: updated there, moments travelling too (the bits of resident), or on the host, to "
     "which gradients travel; auto: tried at the start, the host where it saves a tenth",
     "auto|device|host", -1e300, 1e300, true},
    {"relation.stream_folder", text, "\"\"", "",
     "streamed: folder of the files, on a disk of the node's own; empty: TMPDIR, or /tmp", "", -1e300, 1e300,
     true},
    {"relation.rank", integer, "20", "", "columns of U and V", "", 1, 4096},
    {"relation.low_rank_start", text, "\"random\"", "",
     "random: U, V normal/√rank; eof: U = 0, V = √n · leading EOFs of the training part", "random|eof"},

    // model
    {"model.name", text, "\"stnn\"", "",
     "the model: stnn; or a forecaster of windows: dcrnn, gru (of every node on its own), tgcn, "
     "graph_wavenet",
     "stnn|dcrnn|gru|tgcn|graph_wavenet"},
    {"model.precision", text, "\"float\"", "", "scalar type of parameters and arithmetic", "float|double"},
    {"model.latent", integer, "1", "", "latent width d", "", 1, 4096},
    {"model.activation", text, "\"identity\"", "", "phi around the dynamics", "identity|tanh"},
    {"model.layers", integer, "1", "",
     "layers: of the dynamics, ReLU between them; of recurrent cells in encoder and decoder", "", 1, 64},
    {"model.hidden", integer, "32", "", "width of its hidden layers", "", 1, 65536},
    {"model.dropout_z", real, "0", "", "dropout on latents", "", 0, 0.999},
    {"model.dropout_dynamics", real, "0", "", "dropout between layers of the dynamics", "", 0, 0.999},
    {"model.lambda", real, "0.1", "", "weight of the dynamics loss", "", 0},
    {"model.l2_z", real, "0", "", "weight of the mean squared step of the latents", "", 0},
    {"model.l1_rel", real, "0", "", "weight of the mean absolute relation weight, identity included", "", 0},
    {"model.decoder", text, "\"learned\"", "", "identity: x = z, needs latent = features",
     "learned|identity"},
    {"model.start", text, "\"uniform\"", "",
     "start of Z: uniform in ±model.z_range, or the data (latent = features)", "uniform|data"},
    {"model.z_range", real, "0.1", "", "half width of the uniform start of Z", "", 0},
    {"model.dynamics_start", text, "\"uniform\"", "",
     "start of the dynamics: uniform in ±1/√inputs, or persistence (identity block 1, the rest 0; one layer)",
     "uniform|persistence"},

    {"model.units", integer, "64", "", "width of a recurrent cell's state", "", 1, 65536},
    {"model.diffusion", text, "\"paper\"", "",
     "how a second support's recursion starts: from the signal (paper), or where the first one was (legacy)",
     "paper|legacy"},
    {"model.diffusion_steps", integer, "2", "",
     "steps K of a diffusion convolution; graph_wavenet: powers of each support", "", 0, 64},
    {"model.supports", text, "\"dual_random_walk\"", "",
     "what it sums over: random walks along the edges (random_walk), and against them too",
     "random_walk|dual_random_walk"},
    {"model.sampling_decay", real, "0", "steps",
     "scheduled sampling: truth is fed to the decoder with probability τ / (τ + exp(step / τ)); 0: never", "",
     0, 1e12},

    {"model.blocks", integer, "4", "", "blocks of layers", "", 1, 64},
    {"model.block_layers", integer, "2", "", "layers a block, dilations 1, 2, 4, …", "", 1, 16},
    {"model.channels", integer, "32", "", "channels of its layers", "", 1, 65536},
    {"model.skip", integer, "256", "", "channels of its skip connections", "", 1, 65536},
    {"model.end", integer, "512", "", "channels of its last hidden layer", "", 1, 65536},
    {"model.dropout", real, "0.3", "", "dropout behind graph convolutions", "", 0, 0.999},
    {"model.adaptive", flag, "true", "",
     "the self-adaptive adjacency, learned between all nodes; memory: owned nodes x nodes"},
    {"model.adaptive_width", integer, "10", "", "columns of its two tables", "", 1, 4096},

    // windows
    {"window.inputs", integer, "12", "steps", "steps that a window's forecast is made from", "", 1, 1000000},
    {"window.outputs", integer, "12", "steps", "steps that are forecast", "", 1, 1000000},
    {"window.stride", integer, "1", "steps", "distance of training windows", "", 1, 1000000},
    {"window.batch", integer, "64", "", "windows a batch", "", 1, 1000000},
    {"window.micro_batches", integer, "1", "",
     "parts of a batch that are computed one after the other and whose gradients add up: they take less "
     "memory, and keep the stages of a pipeline busy; batch normalisation is of one of them, any other model "
     "may go on with another number",
     "", 1, 1000000},
    {"window.sampling", text, "\"local\"", "",
     "windows of a time group: of its own share; any, their steps fetched from other groups; blocks dealt "
     "out "
     "anew each epoch",
     "local|global|blocked"},
    {"window.lanes", integer, "0", "",
     "blocked: queues that make up a batch in equal parts, a multiple of the time groups; 0: as many", "", 0,
     65536},
    {"window.blocks", integer, "8", "", "blocked: blocks a lane", "", 1, 65536},
    {"window.time_of_day", flag, "false", "", "the fraction of the day as a further input channel"},
    {"window.day_of_week", flag, "false", "",
     "the day of the week, Monday 0, over 7 as a further input channel"},
    {"window.fill", text, "\"mean\"", "",
     "what a missing input is read as: data.center's mean (with center none, 0), or 0 in original units",
     "mean|zero"},

    // optimiser
    {"optimiser.name", text, "\"adam\"", "",
     "adam: decay inside the gradient, as the reference; adamw: decoupled; sgd: Nesterov", "adam|adamw|sgd"},
    {"optimiser.lr", real, "0.003", "", "learning rate", "", 0, 1e6, true},
    {"optimiser.lr_scaling", text, "\"none\"", "",
     "factor on the rates for batches of other sizes, window.batch / optimiser.reference_batch or "
     "its root",
     "none|linear|sqrt"},
    {"optimiser.reference_batch", integer, "64", "", "the batch that the rates are for", "", 1, 1000000},
    {"optimiser.lr_z", real, "-1", "",
     "learning rate of Z, which follows the schedule as optimiser.lr does; -1: optimiser.lr", "", -1, 1e6,
     true},
    {"optimiser.lr_relation", real, "-1", "", "learning rate of relation weights, likewise; -1: optimiser.lr",
     "", -1, 1e6, true},
    {"optimiser.beta1", real, "0", "", "decay of the first moment (Adam)", "", 0, 0.999999},
    {"optimiser.beta2", real, "0.999", "", "decay of the second moment (Adam)", "", 0, 0.9999999},
    {"optimiser.epsilon", real, "1e-9", "", "added to the root of the second moment (Adam)", "", 0},
    {"optimiser.momentum", real, "0.9", "", "momentum (sgd)", "", 0, 0.999999},
    {"optimiser.decay", real, "1e-6", "",
     "weight decay of decoder and dynamics; of all parameters of a forecaster of windows", "", 0},
    {"optimiser.decay_z", real, "1e-7", "", "weight decay of Z", "", 0},
    {"optimiser.decay_relation", real, "0", "",
     "weight decay of relation weights (refine, dense discover, self)", "", 0},
    {"optimiser.decay_low_rank", real, "1e-6", "", "weight decay of U and V", "", 0},
    {"optimiser.clip", real, "0", "", "largest global gradient norm; 0: no clipping", "", 0},

    // schedule
    {"schedule.name", text, "\"constant\"", "", "learning rate over epochs",
     "constant|plateau|cosine|linear|step"},
    {"schedule.metric", text, "\"validation\"", "", "what plateau and early stopping watch",
     "validation|train"},
    {"schedule.patience", integer, "10", "epochs", "plateau: epochs without better before the rate falls", "",
     0},
    {"schedule.ratio", real, "0.1", "", "plateau, step: factor on the rate", "", 1e-6, 0.999999},
    {"schedule.milestones", integer_list, "[20, 30, 40, 50]", "epochs",
     "step: epochs, counted from 0, at which the rate falls; ascending", "", 1},
    {"schedule.threshold", real, "1e-4", "", "plateau: relative gain that counts as better", "", 0, 1},
    {"schedule.min_lr", real, "1e-5", "",
     "plateau: training ends when the rate falls to this; step: it falls no further", "", 0},
    {"schedule.hold", real, "0.6", "", "linear: share of the epochs at the full rate", "", 0, 1},
    {"schedule.final", real, "0.1", "", "cosine, linear: share of the rate at the end", "", 0, 1},
    {"schedule.warmup", integer, "0", "epochs", "linear rise to the full rate first", "", 0},

    // training
    {"train.sampling", text, "\"slabs\"", "",
     "pairs: random (time, node) pairs, as the reference; slabs: all nodes of some steps", "pairs|slabs"},
    {"train.pairs", integer, "1000", "", "pairs a batch", "", 1},
    {"train.slab_steps", integer, "8", "steps", "time steps a slab; 0: all of them", "", 0},
    {"train.lanes", integer, "0", "",
     "slabs: contiguous parts of the training part that every slab takes as many steps from, a multiple of "
     "the "
     "time groups; 0: as many",
     "", 0, 65536},
    {"train.joint", flag, "false", "",
     "decoder and dynamics loss in one step (slabs), instead of one pass after the other"},
    {"train.epochs", integer, "100", "", "passes over the training part", "", 0, 1e9, true},
    {"train.seed", integer, "1", "", "seed of starts, batch order and dropout", "", 0},
    {"train.early_stop", integer, "0", "epochs", "end after so many epochs without better; 0: never", "", 0,
     1e9, true},
    {"train.max_seconds", real, "0", "s", "end after so much wall-clock time; 0: never", "", 0, 1e9, true},
    {"train.keep", text, "\"auto\"", "",
     "state that is kept: best (by schedule.metric), last; auto: best where there is validation",
     "auto|best|last"},
    {"train.absent", text, "\"zero\"", "",
     "parameters the present loss does not depend on: updated with gradient zero (as the reference) or "
     "skipped",
     "zero|skip"},

    {"train.recompute", text, "\"none\"", "",
     "what backward computes again instead of keeping it: nothing, recurrent cells (graph_wavenet: layers), "
     "whole time steps",
     "none|cell|step", -1e300, 1e300, true},
    {"train.stop_after", text, "\"\"", "",
     "write a checkpoint and leave with exit code 75 after so much wall-clock time of this start, for "
     "example "
     "1h50m; empty: never",
     "", -1e300, 1e300, true},
    {"train.on_nan", text, "\"stop\"", "",
     "a loss or gradient that is not finite: stop, or roll back to the last checkpoint with a lower rate",
     "stop|rollback", -1e300, 1e300, true},
    {"train.rollbacks", integer, "3", "", "most rollbacks of a training", "", 0, 1000, true},
    {"train.rollback_lr", real, "0.5", "", "factor on the learning rate for each rollback", "", 1e-6, 1,
     true},

    // checkpoints
    {"checkpoint.every_minutes", real, "10", "min",
     "time between checkpoints, where not set at least 50 times what one takes; 0: not by time", "", 0, 1e6,
     true},
    {"checkpoint.every_steps", integer, "0", "steps", "optimiser steps between checkpoints; 0: not by steps",
     "", 0, 1e15, true},
    {"checkpoint.keep", integer, "3", "",
     "newest checkpoints that are kept; 0: none is written, and signals and the end of a Slurm job end the "
     "training without one",
     "", 0, 1e6, true},

    // validation and evaluation
    {"validation.every", integer, "1", "epochs", "epochs between validations", "", 1, 1e9, true},
    {"validation.kind", text, "\"origins\"", "",
     "origins: forecasts from every validation step, filtered; rollout: one forecast over the whole part",
     "origins|rollout"},
    {"evaluate.horizons", integer, "5", "steps",
     "forecast steps that are scored: by evaluate, and by an stnn's validation of kind origins, whose error "
     "is the mean of "
     "theirs",
     "", 1, 100000, true},
    {"evaluate.report", text_list, "[]", "",
     "horizons that are printed, as steps (\"3\") or times (\"15 min\"); empty: all of up to six, of more "
     "the "
     "first, the last and the quarters",
     "", -1e300, 1e300, true},
    {"evaluate.kind", text, "\"origins\"", "",
     "test errors: from every test origin (evaluate.horizons), or of one rollout over the whole test part "
     "from the "
     "last step before it",
     "origins|rollout", -1e300, 1e300, true},
    {"evaluate.first_origin", integer, "-1", "steps",
     "first test origin, counted from 0 at data.first_step; -1: the last step before the test part", "", -1,
     1e9, true},
    {"evaluate.last_origin", integer, "-1", "steps",
     "last test origin; -1: the last with all horizons inside the test part, or, with a first_origin, inside "
     "the data",
     "", -1, 1e9, true},
    {"evaluate.filter_lambda", real, "0", "",
     "weight of the prediction in min |Dz − x|² + λ|z − p|² when latents are filtered", "", 0, 1e12, true},
    {"evaluate.baselines", flag, "true", "",
     "persistence, climatology, annual cycle or time of week, AR(1), linear inverse model, ridge VAR beside "
     "the "
     "model",
     "", -1e300, 1e300, true},
    {"evaluate.lim_modes", integer, "20", "", "EOFs of the linear inverse model", "", 1, 10000, true},
    {"evaluate.var_solver", text, "\"auto\"", "",
     "ridge VAR: dense (Cholesky), iterative (conjugate gradients by PETSc); auto: by size",
     "auto|dense|iterative", -1e300, 1e300, true},
    {"evaluate.ridge", real, "3", "", "ridge VAR: regularisation over the mean eigenvalue of the Gram matrix",
     "", 0, 1e12, true},

    // parallel
    {"parallel.partition", text, "\"auto\"", "",
     "row blocks: contiguous and of equal rows, contiguous and of equal cost, grid tiles, by graph "
     "(PT-Scotch); "
     "auto: the fitting one",
     "auto|blocks|weighted|tiles|graph", -1e300, 1e300, true},
    {"parallel.entry_cost", real, "0", "row",
     "what an entry of a sparse relation costs beside a row, where row blocks are of equal cost; 0: by their "
     "multiplications ('rossby plan' says what a machine takes)",
     "", 0, 1e6, true},
    {"parallel.row_order", text, "\"auto\"", "",
     "rows inside a rank: as in the file, or neighbours close together (reverse Cuthill-McKee); auto: the "
     "latter where it halves the distance in memory of neighbours in a graph of 4096 rows a rank or more",
     "auto|file|rcm", -1e300, 1e300, true},
    {"parallel.time_groups", integer, "1", "",
     "groups of ranks that hold different times and train on different windows or steps; divides the ranks",
     "", 1, 1 << 20, true},
    {"parallel.stages", integer, "1", "",
     "stages of a pipeline that hold different layers of a dcrnn, gru or graph_wavenet; ranks = row blocks x "
     "stages x time groups",
     "", 1, 1000, true},
    {"parallel.stage_layers", integer_list, "[]", "",
     "layers of each stage: of the encoder and the decoder alike where they sum up to model.layers, first of "
     "the "
     "encoder, then of the decoder where they sum up to twice as many; of a graph_wavenet all layers; empty: "
     "in "
     "equal parts",
     "", 1, 1000, true},
    {"parallel.threads", integer, "0", "",
     "OpenMP threads a rank; 0: OMP_NUM_THREADS or the cores a rank has", "", 0, 4096, true},
    {"parallel.device", text, "\"cpu\"", "",
     "what trains and forecasts: the cores (cpu), a GPU a rank (cuda), a simulated device (slow, for tests); "
     "auto: GPUs "
     "where "
     "every "
     "rank finds one and the settings allow it",
     "auto|cpu|cuda|simulated", -1e300, 1e300, true},
    {"parallel.device_memory", text, "\"\"", "",
     "most memory of a device that a rank takes, for example 4GiB; empty: its share of what there is. "
     "Without "
     "a device it bounds chunks of streamed relations alone",
     "", -1e300, 1e300, true},
    {"parallel.transport", text, "\"auto\"", "",
     "between GPUs: nccl, or through the memory of the host; auto: nccl where every rank has a GPU of its "
     "own",
     "auto|nccl|host", -1e300, 1e300, true},
    {"parallel.products", text, "\"model\"", "",
     "what GPUs take operands of products for: model: as model.precision; tf32, bf16: floats rounded to 10 "
     "or "
     "7 bits of fraction, several times as fast",
     "model|tf32|bf16", -1e300, 1e300, true},
    {"parallel.cuda_graphs", flag, "false", "",
     "GPUs are given a step at once, as a CUDA graph, where the host need not wait within it", "", -1e300,
     1e300, true},
    {"parallel.isa", text, "\"auto\"", "",
     "vector instructions of the kernels, the same on all ranks; auto: the widest that every rank has; "
     "model.precision = \"double\" always uses portable",
     "auto|portable|avx2|avx512", -1e300, 1e300, true},
    {"parallel.dense_kernel", text, "\"auto\"", "",
     "products of dense relations: own kernels, BLAS; auto: tried at the start on rank 0, BLAS where it "
     "saves 15 %",
     "auto|own|blas", -1e300, 1e300, true},
    {"parallel.sparse_products", text, "\"auto\"", "",
     "products of graphs on GPUs, where a rank has all nodes of its group: own kernels, cuSPARSE; auto: "
     "tried "
     "at the start, cuSPARSE where it saves a tenth",
     "auto|own|cusparse", -1e300, 1e300, true},
    {"parallel.watchdog_seconds", real, "300", "s",
     "longest wait for other ranks, ten times as long around files, before the job counts as hung and ends "
     "with "
     "exit code 76; more than the longest step; 0: never",
     "", 0, 1e9, true},

    // log
    {"log.seconds", real, "1", "s", "least time between progress lines", "", 0, 86400, true},
};

}  // namespace

std::string_view models_of(const KeySpec& key) {
  // What starts with one of these names is theirs.
  constexpr std::pair<std::string_view, std::string_view> owners[] = {
      {"relation.refine_start", "stnn"},
      {"relation.self_start", "stnn"},
      {"relation.discover_start", "stnn"},
      {"relation.chunk_mib", "stnn"},
      {"relation.stream_gib", "stnn"},
      {"relation.transfer", "stnn"},
      {"relation.update", "stnn"},
      {"relation.stream_folder", "stnn"},
      {"relation.rank", "stnn"},
      {"relation.low_rank_start", "stnn"},
      {"model.latent", "stnn"},
      {"model.activation", "stnn"},
      {"model.hidden", "stnn"},
      {"model.dropout_", "stnn"},
      {"model.lambda", "stnn"},
      {"model.l2_z", "stnn"},
      {"model.l1_rel", "stnn"},
      {"model.decoder", "stnn"},
      {"model.start", "stnn"},
      {"model.z_range", "stnn"},
      {"model.dynamics_start", "stnn"},
      {"optimiser.lr_z", "stnn"},
      {"optimiser.lr_relation", "stnn"},
      {"optimiser.decay_", "stnn"},
      {"train.sampling", "stnn"},
      {"train.pairs", "stnn"},
      {"train.slab_steps", "stnn"},
      {"train.lanes", "stnn"},
      {"train.joint", "stnn"},
      {"validation.kind", "stnn"},
      {"evaluate.filter_lambda", "stnn"},
      {"parallel.dense_kernel", "stnn"},
      {"model.units", "windows"},
      {"model.diffusion", "windows"},
      {"model.supports", "windows"},
      {"model.sampling_decay", "windows"},
      {"window.", "windows"},
      {"optimiser.lr_scaling", "windows"},
      {"optimiser.reference_batch", "windows"},
      {"train.recompute", "windows"},
      {"parallel.sparse_products", "windows"},
      {"model.block", "graph_wavenet"},
      {"model.channels", "graph_wavenet"},
      {"model.skip", "graph_wavenet"},
      {"model.end", "graph_wavenet"},
      {"model.adaptive", "graph_wavenet"}};
  if (key.name == "model.dropout") return "graph_wavenet";
  for (const auto& [start, models] : owners)
    if (key.name.starts_with(start)) return models;
  return "";
}

std::span<const KeySpec> config_keys() {
  return keys;
}

}  // namespace rossby
