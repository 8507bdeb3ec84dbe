#include "rossby/run/plan_check.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/run/asynchronous_check.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

/// Reads the plan of a training that has ended.
TrainingPlan read_measured(const std::string& run) {
  const std::string file = plan_file_of(run);
  std::error_code code;
  if (!std::filesystem::exists(file, code))
    user_error(
        "{}: this file is missing. Only runs of 'rossby train' with --machine have this file: repeat the "
        "training with this option",
        file);
  const Json json = Json::parse(read_text(file), nullptr, false);
  if (json.is_discarded())
    user_error("{}: the file is damaged: not JSON. Repeat the training with --machine", file);
  TrainingPlan plan = plan_of(json, file);
  if (plan.measured.empty())
    user_error("{}: the training of this plan has not ended. Finish this training with 'rossby train'", file);
  return plan;
}

/// Seconds of waiting for other ranks.
double waiting_of(const Prediction& p) {
  return p.messages + p.reduction + p.pipeline + p.straggler;
}

/// Returns "exact" if predicted messages and bytes match (by epoch if known), else the relative errors.
std::string sent_text(const TrainingPlan& plan) {
  const TrainingPlan::Measured& m = plan.measured.front();
  const Prediction& p = plan.interpolated;
  if (p.sent_ranks != plan.place.ranks) return "-";
  const auto off = [](double messages, double bytes, double sent_messages, double sent_bytes) {
    return fmt::format("{:+.2f} % messages, {:+.2f} % bytes", error_of(messages, sent_messages),
                       error_of(bytes, sent_bytes));
  };
  bool equal = true, told = false;
  Traffic predicted, sent;
  for (const auto& [epoch, traffic] : m.sent_epochs)
    if (static_cast<std::size_t>(epoch) < p.sent_epochs.size()) {
      const Traffic& expected = p.sent_epochs[static_cast<std::size_t>(epoch)].sent;
      told = true;
      equal = equal && expected == traffic;
      predicted += expected;
      sent += traffic;
    }
  if (told && equal) return "exact";
  if (told)
    return off(static_cast<double>(predicted.messages), static_cast<double>(predicted.bytes),
               static_cast<double>(sent.messages), static_cast<double>(sent.bytes));
  const auto same = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); };
  if (same(p.sent_messages, m.sent_messages) && same(p.sent_bytes, m.sent_bytes)) return "exact";
  return off(p.sent_messages, p.sent_bytes, m.sent_messages, m.sent_bytes);
}

std::string text_of(const Errors& errors, const char* of) {
  return fmt::format("{}{} run{}: mean error {:.1f} %, worst {:.1f} %", of, errors.count,
                     errors.count == 1 ? "" : "s", errors.sum / errors.count, errors.worst);
}

}  // namespace

double error_of(double predicted, double measured) {
  return measured > 0 ? 100 * (predicted / measured - 1) : 0;
}

void Errors::add(double error) {
  sum += std::abs(error);
  worst = std::max(worst, std::abs(error));
  ++count;
}

CheckedRuns read_checked_runs(const std::vector<std::string>& runs) {
  CheckedRuns all;
  for (const std::string& run : runs) try {
      all.plans.push_back(read_measured(run));
      all.runs.push_back(run);
    } catch (const UserError& error) {
      all.faults.emplace_back(error.what());
    }
  return all;
}

std::string check_table(const CheckedRuns& all) {
  std::string table = asynchronous_table(all), caveats_of_runs;
  Errors steps, validations;
  int inside = 0;
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    const std::string& run = all.runs[i];
    const TrainingPlan& plan = all.plans[i];
    if (plan.asynchronous) continue;
    if (steps.count == 0)
      table += fmt::format("{:<28}{:>6}{:>8}{:>12}{:>12}{:>9}{:>13}{:>11}{:>11}{:>9}  {}\n", "run", "ranks",
                           "threads", "measured ms", "predicted", "error %", "expected", "waiting ms",
                           "predicted", "memory %", "sent");
    const TrainingPlan::Measured& m = plan.measured.front();
    const Prediction& p = plan.interpolated;
    const double error = error_of(p.step(), m.step);
    const auto [low, high] = interval_of(p.step(), p.doubt);
    const bool expected = low <= m.step && m.step <= high;
    const std::string memory = p.device_bytes > 0 && m.device_bytes > 0
                                   ? fmt::format("{:.1f}", error_of(p.device_bytes, m.device_bytes))
                               : p.memory_bytes > 0
                                   ? fmt::format("{:.1f}", error_of(p.memory_bytes, m.memory_bytes))
                                   : "-";
    table +=
        fmt::format("{:<28}{:>6}{:>8}{:>12.3f}{:>12.3f}{:>9.1f}{:>13}{:>11.3f}{:>11.3f}{:>9}  {}\n", run,
                    plan.place.ranks, plan.place.threads, 1e3 * m.step, 1e3 * p.step(), error,
                    expected ? "yes" : "no", 1e3 * m.waiting, 1e3 * waiting_of(p), memory, sent_text(plan));
    steps.add(error);
    inside += expected;
    if (p.validation > 0 && m.validation > 0) validations.add(error_of(p.validation, m.validation));
    if (const std::string text = caveats(p); !text.empty())
      caveats_of_runs += fmt::format("{}:\n{}", run, text);
  }
  if (steps.count == 0) return table;
  table += fmt::format("{}; in the expected interval {}\n", text_of(steps, ""), inside);
  if (validations.count > 0) table += text_of(validations, "validations of ") + "\n";
  return table + caveats_of_runs;
}

std::string region_table(const CheckedRuns& all) {
  std::string table = fmt::format("{:<28}{:<12}{:>12}{:>12}{:>9}{:>9}\n", "run", "region", "measured ms",
                                  "predicted", "error %", "% step");
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    if (all.plans[i].asynchronous) continue;
    const TrainingPlan::Measured& m = all.plans[i].measured.front();
    const Prediction& p = all.plans[i].interpolated;
    // Waiting is part of other regions: mostly forward, backward and the reduction; for chunks, of forward
    // and backward.
    const double regions = m.forward + m.backward + m.optimiser + m.reduction;
    const auto line = [&](const char* region, double measured, double predicted) {
      table += fmt::format("{:<28}{:<12}{:>12.4f}{:>12.4f}{:>9}{:>9.1f}\n", all.runs[i], region,
                           1e3 * measured, 1e3 * predicted,
                           measured > 0 ? fmt::format("{:.1f}", error_of(predicted, measured)) : "-",
                           100 * measured / m.step);
    };
    line("computing", std::max(0.0, regions - m.optimiser - m.waiting - m.transfer),
         p.forward + p.backward + p.launches);
    line("chunks", m.transfer, p.transfer);
    line("optimiser", m.optimiser, p.optimiser);
    line("waiting", m.waiting, waiting_of(p));
    line("other", std::max(0.0, m.step - regions), 0);
  }
  return table;
}

}  // namespace rossby
