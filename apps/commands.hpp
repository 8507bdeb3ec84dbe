#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/train/config.hpp"

// One function a subcommand of the program. Each is called on every rank, throws the same UserError on every
// rank where something is wrong, and returns the exit code.

namespace rossby::commands {

/// Exit code of a training that was asked to leave: started again, it goes on.
constexpr int exit_resume = 75;

struct Train {
  std::string config;             // TOML file
  std::string run;                // --run DIR
  std::string resume = "auto";    // --resume auto|never|FILE
  std::string stop_after;         // --stop-after 1h50m; empty: as configured
  std::string device;             // --device auto|cpu|cuda; empty: as configured
  std::string device_memory;      // --device-memory 4GiB; empty: as configured
  std::string machine;            // --machine FILE: predicts the training; empty: does not
  std::string plan = "given";     // --plan given|auto: as configured, or the fastest candidate
  std::vector<std::string> sets;  // --set key=value
};
int train(const Communicator& comm, const Train& arguments);

struct StateFile {
  std::string file;
  bool json = false;
};
int checkpoint_inspect(const Communicator& comm, const StateFile& arguments);
int checkpoint_verify(const Communicator& comm, const StateFile& arguments);

struct Evaluate {
  std::string run;
  std::string output;             // file; empty: evaluation.json in the run directory
  std::string device;             // --device auto|cpu|cuda; empty: as trained, without a GPU the cores
  std::vector<std::string> sets;  // harmless keys and data.file only
};
int evaluate(const Communicator& comm, const Evaluate& arguments);
/// Throws UserError where settings that evaluate will use fit neither each other nor the data. Returns a line
/// of warning, or nothing, of what evaluate will not find.
std::string check_evaluation(const Config& config, const Domain& domain);

struct Forecast {
  std::string run;
  Index steps = 0;
  std::string origin;             // date or step; empty: the last step of the data
  std::string output;             // empty: DIR/forecast.nc
  std::string device;             // as of Evaluate
  std::vector<std::string> sets;  // harmless keys only
};
int forecast(const Communicator& comm, const Forecast& arguments);

struct Inspect {
  std::string file;
  std::vector<std::string> variables;
  std::string null_value;  // empty: none
};
int inspect(const Communicator& comm, const Inspect& arguments);

struct Synth {
  std::string kind = "pacific";  // pacific | heat
  Index lat = 30;
  Index lon = 84;
  Index steps = 240;
  Index seed = 1;
  double noise = -1;  // −1: the kind's own
  std::string output;
};
int synth(const Communicator& comm, const Synth& arguments);

struct Graph {
  std::string file;  // the series whose nodes are joined
  std::string output;
  std::string from;        // distances | coordinates | correlation | edges | matrix
  std::string table;       // comma-separated values; empty: none
  std::string ids;         // variable with the names that the table uses; empty: node numbers
  std::string kernel;      // of coordinates: none | gaussian; empty: none
  std::string variable;    // empty: the only one that fits
  std::string null_value;  // empty: none
  std::string train;       // as split.train; empty: its default
  double threshold = -1;   // −1: the kind's own
  double sigma = -1;       // −1: standard deviation of the distances
  Index neighbours = 0;    // 0: the kind's own
  Index overlap = 0;       // 0: its default
  Index first_step = 0;    // as data.first_step and data.last_step
  Index last_step = -1;
  bool skip_unknown = false;
  bool symmetric = false;
};
int graph(const Communicator& comm, const Graph& arguments);

struct StepGraphFile {
  std::string config;
  std::string output;             // .txt, .json, .dot, .svg; empty: text to the console
  bool measure = false;           // compute the steps on the host, and time them
  std::vector<std::string> sets;  // --set key=value
};
int step_graph(const Communicator& comm, const StepGraphFile& arguments);

struct Calibrate {
  std::string output;
  std::vector<std::string> configs;  // trainings that are measured beside the small ones
  std::string precision = "float";   // of the built-in trainings
  std::string device = "auto";       // measured beside the host: auto, none, cuda, simulated
  bool quick = false;
  std::vector<std::string> only;  // of ops, messages, rates, device; empty: all of them
  bool replace = false;           // what the file holds, instead of adding to it
};
int calibrate(const Communicator& comm, const Calibrate& arguments);

struct PlanTraining {
  std::string config;
  std::string machine;
  std::string output;              // .json; empty: text to the console
  bool candidates = false;         // every grid of the ranks, instead of the configuration's
  std::string ranks;               // of jobs that are not there: 1,2,6 or 1..1024; empty: the ranks that ask
  int ranks_per_host = 0;          // of those; 0: the most that were measured
  std::vector<std::string> vary;   // key=a,b: candidates with each of them
  double target_batch = 0;         // of candidates; 0: any
  double tolerance = 0.5;          // as a share of the target
  std::string what_if;             // network=2x,memory=2x,precision=bf16,gpu=FILE; empty: nothing
  std::vector<std::string> check;  // run directories
  bool regions = false;            // of those, by region of the step
  bool residuals = false;          // how the machine's ops are told, instead of a plan
  std::vector<std::string> sets;
};
int plan(const Communicator& comm, const PlanTraining& arguments);

struct ReportScaling {
  std::string folder;           // that the run directories lie in
  std::string output;           // folder for table.md, scaling.json and plots; empty: table to the console
  std::string kind = "strong";  // strong | weak: of runs without study.json
  double band = -1;             // per cent, around predictions; −1: their mean error
};
int report_scaling(const Communicator& comm, const ReportScaling& arguments);

struct PrintConfig {
  std::string config;  // empty: the table of keys; a file: its resolved configuration
  std::vector<std::string> sets;
};
int print_config(const Communicator& comm, const PrintConfig& arguments);

}  // namespace rossby::commands
