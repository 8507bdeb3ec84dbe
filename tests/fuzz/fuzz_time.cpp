// Units, calendar, stamps and dates → TimeAxis, Period.
//
//     units "days since 1970-01-01"     calendar standard
//     at 0 1 2.5 nan                    stamps
//     ramp FIRST STEP COUNT             more stamps
//     date 1986-08                      looked up on the axis; all dates also make a time axis of text
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rossby/io/attribute_text.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/io/dated_numbers.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/statements.hpp"

using namespace rossby;

namespace {

void ask(const TimeAxis& axis, const std::string& date) {
  if (const auto period = Period::parse(date))
    fuzz::check(period->begin < period->end, "a period has a length");
  if (const auto step = axis.find(date))
    fuzz::check(*step >= 0 && *step < axis.size(), "a found step is on the axis");
  fuzz::survives([&] { (void)axis.step_of(date); });
  fuzz::survives([&] {
    const Index before = axis.steps_before(date);
    fuzz::check(before >= 0 && before <= axis.size(), "steps before a date are steps of the axis");
  });
}

void use(const TimeAxis& axis) {
  (void)axis.step_text();
  (void)axis.unit();
  Index missing = 0;
  for (const auto& gap : axis.gaps()) {
    fuzz::check(gap.missing > 0 && gap.after >= 0 && gap.after + 1 < axis.size(), "a gap lies on the axis");
    missing += gap.missing;
  }
  fuzz::check(missing >= 0, "missing steps can be counted");
  for (const Index step : {Index{0}, axis.size() / 2, axis.size() - 1}) {
    if (step < 0 || step >= axis.size()) continue;
    (void)axis.text(step);
    (void)axis.lead(step, 0);
    (void)axis.slice(step, axis.size() - step);
    for (const Index count : {1, 40})
      fuzz::survives([&] {
        const TimeAxis later = axis.after(step, count);
        fuzz::check(later.size() == count, "a continued axis has as many steps as were asked for");
        (void)later.text(count - 1);
      });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string units, calendar;
  std::vector<double> values;
  std::vector<std::string> dates;
  for (const auto& statement : fuzz::read_statements({reinterpret_cast<const char*>(data), size})) {
    const std::string& kind = statement.words[0];
    if (kind == "units") units = statement.word(1);
    if (kind == "calendar") calendar = statement.word(1);
    if (kind == "date") dates.push_back(statement.word(1));
    if (kind == "at")
      for (std::size_t i = 1; i < statement.words.size(); ++i) values.push_back(statement.real(i));
    if (kind == "ramp")
      for (Index i = 0; i < std::min<Index>(statement.integer(3), 2000); ++i)
        values.push_back(statement.real(1) + static_cast<double>(i) * statement.real(2));
  }
  fuzz::survives([&] {
    const TimeAxis axis = TimeAxis::parse(values, units, calendar, "input");
    use(axis);
    for (const std::string& date : dates) ask(axis, date);
  });
  const auto use_dated = [](const detail::DatedNumbers& dated) {
    use(TimeAxis::parse(dated.values, dated.units, dated.calendar, "input"));
  };
  fuzz::survives([&] {
    std::string remark;
    if (const auto dated = detail::dates_in_numbers(values, units, calendar, "input", remark))
      use_dated(*dated);
  });
  fuzz::survives([&] {
    if (!dates.empty()) use_dated(detail::dates_in_texts(dates, calendar, "input"));
  });
  for (const std::string& text : {units, calendar}) {
    const std::string clean = clean_text(text);
    fuzz::check(clean_text(clean) == clean && utf8_text(clean) == clean, "clean text stays as it is");
    (void)numbers_in_text(text);
  }
  for (const std::string& date : dates) fuzz::survives([&] { (void)TimeAxis::monthly(3, date); });
  return 0;
}
